package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about the transaction that removes old rows, and those that belong to them.

// An expiring table is one whose rows an expiry removes: those that are old, or those that belong
// to them. It is nil where there are none.
type expiring struct {
	t     *relation
	where string // the condition of a row t that goes with those of the table v
	// versions are the parts of the key of a row t as messages have it, of which keyed makes that of
	// the fold: where no versions are kept, or the key of v is it, there are none.
	versions []string
	keyed    schema.Table
}

// readTables reads what else is to be known of the tables, and returns the columns that indexes of
// the one with old rows begin with.
func (x *expiry) readTables(ctx context.Context) (indexed []string, err error) {
	for i := range x.Below {
		l := &x.Below[i]
		t, err := x.below(ctx, l.Table, l.Key)
		if err != nil && !errors.As(err, new(sink.KeyError)) {
			return nil, err
		}
		var e *expiring
		if err == nil && t.Exists {
			e = &expiring{t: t}
		}
		x.tables = append(x.tables, e)
	}
	x.tables = append(x.tables, &expiring{t: &x.t})
	about := []string{}
	for i, e := range x.tables {
		if e == nil {
			continue
		}
		versioned := "false"
		if x.ready {
			versioned = fmt.Sprintf("EXISTS (SELECT FROM %s.weir_meta WHERE name = %s)", x.schema, x.literal(sink.VersionsMark(x.fullName(e.t))))
		}
		about = append(about, fmt.Sprintf("SELECT %d, to_regclass(%s) IS NOT NULL, %s", i, x.literal(e.t.ident), versioned))
	}
	r, err := x.query(ctx, "SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam"+
		" JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"+
		" WHERE i.indrelid = "+x.t.oid+" AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree'", strings.Join(about, " UNION ALL ")+" ORDER BY 1")
	if err != nil {
		return nil, err
	}
	for _, row := range r[0].rows {
		indexed = append(indexed, string(row[0]))
	}
	for _, row := range r[1].rows {
		i := number(row[0])
		if x.tables[i].t.Versioned = string(row[2]) == "t"; string(row[1]) != "t" && int(i) < len(x.Below) {
			x.tables[i] = nil // it was dropped
		}
	}
	for i := range x.Below {
		if above := x.Below[i].Above; above >= 0 && x.tables[above] == nil {
			x.tables[i] = nil
		}
	}
	return indexed, nil
}

// below returns a copy of what is known of another table, which it reads where that is not known to
// exist.
func (x *expiry) below(ctx context.Context, name string, key []string) (*relation, error) {
	if x.fresh {
		read, err := x.readRelations(ctx, []sink.TableKey{{Name: name, Key: key}})
		return &read[0], err
	}
	if !x.known(name).Exists {
		if _, err := sink.Table(ctx, x.Tables, name, key); err != nil {
			return nil, err
		}
	}
	t := x.known(name).relation
	return &t, nil
}

// tie finds how rows go with those that are old.
func (x *expiry) tie(ctx context.Context) error {
	on := make([]string, len(x.t.Key))
	for i, k := range x.t.Key {
		on[i] = fmt.Sprintf("%s = v.k%d", x.t.compared(k), i)
	}
	old := strings.Join(on, " AND ") + " AND " + x.old
	for i := range x.Below {
		l, e := &x.Below[i], x.tables[i]
		if e == nil {
			continue
		}
		above, from := &x.t, fmt.Sprintf("v JOIN %s t ON %s", x.t.ident, old)
		if l.Above >= 0 {
			above = x.tables[l.Above].t
			from = fmt.Sprintf("%s t WHERE %s", above.ident, x.tables[l.Above].where)
		}
		names, to := make([]string, len(l.Columns)), make([]string, len(l.Columns))
		for part := range l.Columns {
			at, is := caps.Find(&e.t.Table, l.Columns[part], 0), caps.Find(&above.Table, l.To[part], 0)
			if at < 0 || is < 0 {
				return sink.DroppedError{Table: e.t.Name, Column: l.Columns[part]}
			}
			if names[part], to[part] = e.t.compared(at), above.compared(is); e.t.cols[at].staged != above.cols[is].staged {
				names[part], to[part] = "("+names[part]+")::text", "("+to[part]+")::text"
			}
		}
		e.where = fmt.Sprintf("(%s) IN (SELECT %s FROM %s)", strings.Join(names, ", "), strings.Join(to, ", "), from)
		if err := x.keep(ctx, e, l.Key, l.Owner); err != nil {
			return err
		}
	}
	e := x.tables[len(x.Below)]
	if e.where = old; x.Owner == nil {
		return nil
	}
	return x.keep(ctx, e, x.Key, x.Owner)
}

// keep finds the keys by which versions of rows are kept.
func (x *expiry) keep(ctx context.Context, e *expiring, key []string, owner *schema.Lookup) (err error) {
	if !e.t.Versioned {
		return nil
	}
	e.keyed, err = sink.KeyTable(&caps.Limits, &e.t.Table, key, owner, func(l *schema.Lookup) (*schema.Table, error) {
		t, err := x.below(ctx, l.Table, l.Key)
		if err != nil {
			return nil, err
		}
		return &t.Table, nil
	})
	if err != nil {
		return err
	}
	if owner != nil {
		f := &sink.Finder{Table: func(name string) string { return x.known(name).ident }, Quote: ident}
		e.versions = f.Parts(owner, "t."+ident(key[0]))
	}
	for _, c := range e.keyed.Columns[len(e.versions):] {
		e.versions = append(e.versions, e.t.compared(caps.Find(&e.t.Table, c.Name, 0)))
	}
	for i := range e.versions {
		e.versions[i] = "to_json(" + e.versions[i] + ")::text"
	}
	return nil
}

// try deletes those of the rows that still are old, which it locks one after the other, and those
// below them, and counts them by table.
func (x *expiry) try(ctx context.Context, rows []key) (gone []int64, err error) {
	s, counts := x.script(rows)
	late := slices.ContainsFunc(x.tables, func(e *expiring) bool { return e != nil && e.versions != nil })
	if !late {
		s.add("COMMIT")
	}
	r, err := x.run(ctx, s)
	if err != nil {
		return nil, err
	}
	gone = make([]int64, len(x.tables))
	drop := &script{}
	for i, e := range x.tables {
		switch {
		case e == nil:
		case e.versions == nil:
			gone[i] = number(r[counts[i]].rows[0][0])
		default:
			gone[i] = int64(len(r[counts[i]].rows))
			x.dropKept(drop, e, r[counts[i]].rows)
		}
	}
	if late {
		drop.add("COMMIT")
		_, err = x.run(ctx, drop)
	}
	return gone, err
}

// dropKept adds what removes the versions of rows, given by the parts of their keys.
func (x *expiry) dropKept(s *script, e *expiring, rows [][][]byte) {
	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = fmt.Sprintf(`'\x%x'`, fold.AppendKey(nil, &e.keyed, row))
	}
	slices.Sort(keys)
	if len(keys) > 0 {
		s.add("DELETE FROM %s.weir_versions WHERE tbl = %s AND key IN (%s)", x.schema, x.literal(x.fullName(e.t)), strings.Join(keys, ", "))
	}
}

// script begins the transaction; counts are the statements that delete rows, by table.
func (x *expiry) script(rows []key) (s *script, counts []int) {
	s = &script{}
	s.add("BEGIN ISOLATION LEVEL READ COMMITTED")
	s.add("SET LOCAL synchronous_commit = %s", commitLevels[x.opt.Level])
	s.add("SET LOCAL lock_timeout = '2s'")
	s.add("SET LOCAL enable_seqscan = off")
	s.add("SET LOCAL jit = off") // what a scan of a user's table costs then would have each be compiled
	s.add("SET LOCAL extra_float_digits = 1")
	turns := map[int64]bool{}
	for _, e := range x.tables {
		if e != nil && e.t.Versioned {
			turns[x.versionsLock(e.t)] = true
		}
	}
	s.takeTurns(turns)
	v := x.values(rows)
	last := x.tables[len(x.Below)]
	s.add("%s", fmt.Sprintf("WITH %s SELECT count(*) FROM (SELECT FROM v JOIN %s t ON %s ORDER BY v.n FOR UPDATE OF t) x", v, x.t.ident, last.where))
	counts = make([]int, len(x.tables))
	for i := len(x.Below) - 1; i >= 0; i-- { // children before parents
		e := x.tables[i]
		if e == nil {
			continue
		}
		key, is := make([]string, len(e.t.Key)), make([]string, len(e.t.Key))
		for part, k := range e.t.Key {
			key[part] = fmt.Sprintf("%s AS k%d", e.t.compared(k), part)
			is[part] = fmt.Sprintf("%s = g.k%d", e.t.compared(k), part)
		}
		found := fmt.Sprintf("(SELECT %s FROM %s t WHERE %s ORDER BY %s) g", strings.Join(key, ", "), e.t.ident, e.where, ordinals(len(key)))
		counts[i] = x.deleteFrom(s, e, v, found, strings.Join(is, " AND "))
	}
	counts[len(x.Below)] = x.deleteFrom(s, last, v, "v", last.where)
	return s, counts
}

// values are the rows, in their order, as the table v.
func (x *expiry) values(rows []key) string {
	names, keyed := []string{"n"}, x.t.Versioned && x.Owner == nil
	for i := range x.t.Key {
		names = append(names, "k"+strconv.Itoa(i))
	}
	if keyed {
		names = append(names, "key")
	}
	tuples := make([]string, len(rows))
	for n, r := range rows {
		values := append([]string{strconv.Itoa(n)}, x.literals(r.texts)...)
		if keyed {
			values = append(values, fmt.Sprintf(`'\x%x'::bytea`, r.fold))
		}
		tuples[n] = "(" + strings.Join(values, ", ") + ")"
	}
	return fmt.Sprintf("v(%s) AS (VALUES %s)", strings.Join(names, ", "), strings.Join(tuples, ", "))
}

// deleteFrom adds what deletes rows of a table that v, or what is found by it, has.
func (x *expiry) deleteFrom(s *script, e *expiring, v, found, where string) int {
	returning, versions, answer := "1", "", "count(*)"
	switch {
	case e.versions != nil:
		returning, answer = strings.Join(e.versions, ", "), "*"
	case e.t.Versioned:
		returning = "v.n"
		versions = fmt.Sprintf(", w AS (DELETE FROM %s.weir_versions w USING v, gone WHERE w.tbl = %s AND w.key = v.key AND v.n = gone.n)", x.schema, x.literal(x.fullName(e.t)))
	}
	return s.add("%s", fmt.Sprintf("WITH %s, gone AS (DELETE FROM %s t USING %s WHERE %s RETURNING %s)%s SELECT %s FROM gone", v, e.t.ident, found, where, returning, versions, answer))
}
