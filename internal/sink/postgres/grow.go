package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// sameFacts adds a check that the table is as it was read, in all that the flush relies on. Until the transaction ends
// nothing can change this: the statement names the table, which locks it before the check. A transaction that will
// alter the table first takes the stronger lock, because two could deadlock otherwise, and checks that no other run has
// widened a column of weir's.
func (d *DB) sameFacts(s *script, t *relation, alters bool) {
	if alters {
		s.add("LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", t.ident)
	}
	if alters && t.marks != "" {
		s.put(demand(errMoved, "(SELECT max(value) FROM %s.weir_meta WHERE name = %s) IS NOT DISTINCT FROM %s",
			d.schema, literal(sink.ColumnsMark(d.fullName(t))), quote(t.marks)))
	}
	s.put(demand(errMoved, "(%s) = %s\n    AND %s::regclass::oid = %s AND NOT EXISTS (SELECT FROM %s WHERE false)",
		strings.ReplaceAll(factsSQL, "r.oid", t.oid), quote(t.facts), quote(t.ident), t.oid, t.ident))
}

// fit returns the statements that adapt the database's table to a batch, and the table afterwards. referred returns the
// tables that it refers to.
func (d *DB) fit(b *fold.Batch, t *table, referred func(*schema.ForeignKey) *schema.Table) (ddl []statement, _ relation, err error) {
	have, want := t.relation, &b.Table
	if !have.Exists {
		return d.create(want, t, referred)
	}
	have.Table, have.cols = have.Clone(), slices.Clone(have.cols)
	grown, err := sink.Grow(&have.Table, b)
	if err != nil {
		return nil, have, err
	}
	if grown = have.Follow(&b.Limits, referred, grown); len(grown) == 0 {
		return nil, have, nil
	}
	for _, g := range grown {
		c := &have.Columns[g.At]
		was := c.Decl
		if !g.New {
			was = t.Columns[g.At].Decl
		}
		c.New, c.Decl = false, declare(c)
		switch {
		case g.New:
			ddl = append(ddl, addColumn(have.ident, c, b.Time)...)
			have.cols = append(have.cols, made(c))
		case c.Decl != was:
			ddl = append(ddl, statement{sql: fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %s", have.ident, ident(c.Name), c.Decl, widened(ident(c.Name), g.From, c.Type)),
				means: func(e *pgconn.PgError) error {
					if !isStale(e) && !isRefusal(e) {
						return e
					}
					// The column has a dependency that the catalogs did not show.
					return d.recordHeld(&have, &schema.HeldError{Table: have.Name, Column: c.Name, Why: words(e)})
				}})
			have.cols[g.At] = made(c)
		}
	}
	return append(ddl, d.mark(&have)), have, nil
}

// addColumn adds a column. A stamp is set in existing rows: without a time, they would count as the oldest.
func addColumn(table string, c *schema.Column, now time.Time) []statement {
	add := "ALTER TABLE " + table + " ADD COLUMN " + definition(c)
	if c.Stamp == schema.NoStamp {
		return []statement{{sql: add}}
	}
	return []statement{{sql: add + " DEFAULT " + quote(now.UTC().Format(stampFormat))},
		{sql: fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT", table, ident(c.Name))}}
}

// create is fit for a table that does not exist.
func (d *DB) create(want *schema.Table, t *table, referred func(*schema.ForeignKey) *schema.Table) (ddl []statement, have relation, err error) {
	have = t.relation
	if err := sink.MayCreate(want); err != nil {
		return nil, have, err
	}
	have.Table, have.cols = want.Clone(), nil
	have.Columns = slices.DeleteFunc(have.Columns, func(c schema.Column) bool { return isPending(&c) })
	have.Follow(&caps.Limits, referred, nil)
	for i := range have.Columns {
		c := &have.Columns[i]
		c.New, c.NotNull, c.Decl = false, c.Key, declare(c)
		have.cols = append(have.cols, made(c))
	}
	have.Refs = nil
	key := t.key
	if key == nil { // it was read without a key
		key = want.KeyColumns()
	}
	if have.Key, err = caps.FindKey(&have.Table, key, nil); err != nil {
		return nil, have, err
	}
	have.Exists, have.Made = true, true
	have.triggers = len(want.OnCreate) > 0 // they may create some
	full := d.fullName(&have)
	ddl = []statement{{sql: Create(&have.Table)}}
	for _, sql := range want.OnCreate {
		ddl = append(ddl, statement{sql: block(sql), means: func(e *pgconn.PgError) error {
			if class, _, _ := classify(e); class != sink.Permanent {
				return e
			}
			return sink.OnCreateError(want.Name, errors.New(words(e))) // it is not about rows
		}})
	}
	return append(ddl,
		statement{sql: d.dialect().SetMark(sink.MadeMark(full), sink.NewTableID())},
		d.mark(&have),
	), have, nil
}

// mark stores what weir's columns in a table must hold.
func (d *DB) mark(t *relation) statement {
	t.marks = storable(t.Marks())
	return statement{sql: d.dialect().SetMark(sink.ColumnsMark(d.fullName(t)), t.marks)}
}

// findOwnColumns finds the columns that weir added to a table.
func (d *DB) findOwnColumns(t *relation) error {
	at := 0
	return t.Own(t.marks, func(c, own *schema.Column) bool { return c.Decl == declare(own) }, func(c *schema.Column) string {
		at = caps.Find(&t.Table, c.Name, at)
		if why := t.cols[at].held; why != "" {
			return why + " uses it"
		}
		return d.stuck[d.fullName(t)+"\x00"+c.Name]
	})
}

// recordHeld records that a column cannot be widened because something depends on it; the next plan for the table
// respects it.
func (d *DB) recordHeld(t *relation, held *schema.HeldError) error {
	d.stuck[d.fullName(t)+"\x00"+held.Column] = held.Why
	return sink.ChangedError{Err: held}
}

// widened returns SQL for a column's values as another type. A double gets the digits of its shortest text; Postgres'
// own cast to numeric keeps 15 of them.
func widened(col string, from, to schema.Type) string {
	switch {
	case from == schema.Any: // the table was emptied
		return "NULL::" + declare(&schema.Column{Type: to})
	case from == schema.Real && to == schema.Number:
		return "CASE WHEN " + bordering(col) + " THEN " + shortest(col) + " ELSE " + col + "::text::numeric END"
	case from == schema.Real && to == schema.Text:
		digits := "rtrim(abs(" + shortest(col) + ")::text, '0')"
		text := "CASE WHEN " + col + " < 0 THEN '-' ELSE '' END || rtrim(left(" + digits + ", 1) || '.' || substr(" + digits + ", 2), '.')" +
			" || 'e+' || length(abs(" + shortest(col) + ")::text) - 1"
		return "CASE WHEN " + bordering(col) + " THEN " + text + " ELSE " + col + "::text END"
	case from == schema.Instant:
		return timeText(col+" AT TIME ZONE 'UTC'", `rtrim(rtrim(to_char(%[1]s, 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z'`)
	case from == schema.Day:
		return timeText(col, "to_char(%[1]s, 'YYYY-MM-DD')")
	}
	return col + "::" + declare(&schema.Column{Type: to})
}

// timeText returns SQL for the text of a time, as a cast writes it: finite is its format if it is not infinite.
func timeText(t, finite string) string {
	return fmt.Sprintf("CASE WHEN isfinite(%[1]s) THEN "+finite+" || CASE WHEN extract(year FROM %[1]s) < 0 THEN ' BC' ELSE '' END ELSE (%[1]s)::text END", t)
}

// bordering returns SQL for whether the shortest decimal of a double may lie on the border between it and the next
// double. Such a decimal reads back as the double whose last bit is 0. Go and SQLite print it (1e23), Postgres the next
// longer one (9.999999999999999e+22). For smaller doubles borders have at least 17 digits, and for larger ones the 54
// bits of a border would have to hold more than 23 factors of 5.
func bordering(col string) string {
	return "abs(" + col + ") BETWEEN 9007199254740992 AND 1e39"
}

// shortest returns SQL for the number with the shortest text of a bordering double. Between the double and its border
// no number has fewer digits than Postgres prints, so the one with a digit less is next to it, above or below.
func shortest(col string) string {
	text := col + "::text" // d.ddde+dd
	number := text + "::numeric"
	// The number of digits before the point that become zeros if a digit less is printed.
	zeros := "(split_part(" + text + ", 'e', 2)::int - length(split_part(split_part(" + text + ", 'e', 1), '.', 2)) + 1)"
	below := "trunc(" + number + ", -" + zeros + ")"
	above := "(" + below + " + sign(" + number + ") * trunc(power(10::numeric, " + zeros + ")))"
	return strings.Join([]string{"CASE " + col, "WHEN " + below + "::float8 THEN " + below, "WHEN " + above + "::float8 THEN " + above, "ELSE " + number + " END"}, " ")
}

// partNamed returns the part for the table with that name, or nil.
func (a *attempt) partNamed(name string) *part {
	full := identOf(a.d.schemaOf(name))
	at := slices.IndexFunc(a.parts, func(p *part) bool { return identOf(a.d.schemaOf(p.b.Table.Name)) == full })
	if at < 0 {
		return nil
	}
	return a.parts[at]
}

// current returns a table as the flush leaves it.
func (a *attempt) current(name string) *relation {
	if p := a.partNamed(name); p != nil {
		return &p.after
	}
	return &a.d.tableOf(name).relation
}

// referredTable returns the table that a foreign key refers to, as the flush leaves it; nil if the flush does not write
// it.
func (a *attempt) referredTable(k *schema.ForeignKey) *schema.Table {
	if p := a.partNamed(k.Table); p != nil {
		return &p.after.Table
	}
	return nil
}

// recreateForeignKeys drops foreign keys to columns whose types change, and recreates them after the referring columns
// have changed, too.
func (p *part) recreateForeignKeys() error {
	changes := func(column string) bool {
		at := caps.Find(&p.t.Table, column, 0)
		return at >= 0 && p.t.Columns[at].Type != p.after.Columns[at].Type
	}
	d, ddl := p.a.d, p.ddl
	p.ddl = nil
	for _, q := range p.a.parts {
		for i := range q.t.ForeignKeys {
			k := &q.t.ForeignKeys[i]
			if q.t.Exists && p.a.partNamed(k.Table) == p && slices.ContainsFunc(k.To, changes) {
				p.ddl = append(p.ddl, statement{sql: fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s", q.t.ident, ident(k.Name))})
				q.keys = append(q.keys, statement{sql: fmt.Sprintf("ALTER TABLE %s ADD %s", q.t.ident, sink.ForeignKey(k, ident, named))})
			}
		}
	}
	p.ddl = append(p.ddl, ddl...)
	for _, r := range p.t.Referrers {
		if at := slices.IndexFunc(r.Columns, changes); at >= 0 && p.a.partNamed(r.Table) == nil {
			return d.recordHeld(&p.t.relation, sink.ReferredBy(&p.t.Table, &r, at))
		}
	}
	return nil
}
