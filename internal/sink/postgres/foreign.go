package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about the foreign keys that weir makes.

// ownKey is the condition that a constraint k is one of them. One to a table of partitions has
// another one for each partition.
const ownKey = "k.contype = 'f' AND (left(k.conname, 7) = '" + schema.OwnKeys + "'" +
	" OR EXISTS (SELECT FROM pg_constraint u WHERE u.oid = k.conparentid AND u.conrelid = k.conrelid))"

// A keyRow is a row of keysSQL.
type keyRow struct {
	Own     bool     `db:"own"` // of the table; else to it
	Name    string   `db:"conname"`
	Table   string   `db:"tbl"` // the other one
	Cascade bool     `db:"cascades"`
	Columns []string `db:"columns"`
	To      []string `db:"others"`
}

// keysSQL reads the foreign keys of a table, {t}, and those that refer to it.
const keysSQL = `SELECT k.conrelid = {t} AS own, k.conname, quote_ident(n.nspname) || '.' || quote_ident(o.relname) AS tbl, k.confdeltype = 'c' AS cascades,
  (SELECT string_agg(a.attname, E'\x01' ORDER BY u.i)
    FROM unnest(k.conkey) WITH ORDINALITY u (n, i) JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n) AS columns,
  (SELECT string_agg(a.attname, E'\x01' ORDER BY u.i)
    FROM unnest(k.confkey) WITH ORDINALITY u (n, i) JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n) AS others
FROM pg_constraint k
  JOIN pg_class o ON o.oid = CASE WHEN k.conrelid = {t} THEN k.confrelid ELSE k.conrelid END
  JOIN pg_namespace n ON n.oid = o.relnamespace
WHERE (k.conrelid = {t} OR k.confrelid = {t}) AND k.conparentid = 0 AND ` + ownKey + `
ORDER BY length(k.conname), k.conname`

// readKeys takes the answer.
func (t *relation) readKeys(rows []keyRow) {
	for _, k := range rows {
		if k.Own {
			t.ForeignKeys = append(t.ForeignKeys, schema.ForeignKey{Name: k.Name, Columns: k.Columns, Table: k.Table, To: k.To, Cascade: k.Cascade})
		} else {
			t.Referrers = append(t.Referrers, schema.Referrer{Table: k.Table, Columns: k.To})
		}
	}
}

// called returns the part for a table of that name, nil for none.
func (a *attempt) called(name string) *part {
	full := identOf(a.d.schemaOf(name))
	at := slices.IndexFunc(a.parts, func(p *part) bool { return identOf(a.d.schemaOf(p.b.Table.Name)) == full })
	if at < 0 {
		return nil
	}
	return a.parts[at]
}

// above returns the table that a foreign key refers to, as the flush leaves it; nil if it does
// not write to it.
func (a *attempt) above(k *schema.ForeignKey) *schema.Table {
	if p := a.called(k.Table); p != nil {
		return &p.after.Table
	}
	return nil
}

// loosen has foreign keys to columns whose types change dropped before, and made again when the
// columns that refer to them have changed too.
func (p *part) loosen() error {
	changes := func(column string) bool {
		at := caps.Find(&p.t.Table, column, 0)
		return at >= 0 && p.t.Columns[at].Type != p.after.Columns[at].Type
	}
	d, ddl := p.a.d, p.ddl
	p.ddl = nil
	for _, q := range p.a.parts {
		for i := range q.t.ForeignKeys {
			k := &q.t.ForeignKeys[i]
			if q.t.Exists && p.a.called(k.Table) == p && slices.ContainsFunc(k.To, changes) {
				p.ddl = append(p.ddl, change{sql: fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s", q.t.ident, ident(k.Name))})
				q.keys = append(q.keys, change{sql: fmt.Sprintf("ALTER TABLE %s ADD %s", q.t.ident, sink.ForeignKey(k, ident, named))})
			}
		}
	}
	p.ddl = append(p.ddl, ddl...)
	for _, r := range p.t.Referrers {
		if at := slices.IndexFunc(r.Columns, changes); at >= 0 && p.a.called(r.Table) == nil {
			held := sink.ReferredBy(&p.t.Table, &r, at)
			d.stuck[d.fullName(&p.t.relation)+"\x00"+held.Column] = held.Why
			return sink.ErrChanged{Err: held}
		}
	}
	return nil
}

// isOrphaned tells that a row was refused because the one that it belongs to is gone, which the same
// flush had found: what has changed that is seen when it starts again. Where the row's messages
// were kept, they are judged.
func (a *attempt) isOrphaned(e *pgconn.PgError) bool {
	return e != nil && e.Code == "23503" && strings.HasPrefix(e.ConstraintName, schema.OwnKeys) &&
		slices.ContainsFunc(a.parts, func(p *part) bool { return len(p.rows) > 0 && !p.b.Table.HasConstraints })
}
