package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// sameColumns adds what demands that the table still have the columns that were
// read, by whose types values were judged and are staged, and that row-level security hide rows from weir
// or not as it did then, and keeps them so until the transaction ends: the statement's own mention of the
// table locks it before it looks. Whoever is going to alter the table needs the stronger lock first, or two
// would wait for each other, and demands that nobody else has widened a column of weir's.
func (d *DB) sameColumns(s *script, t *relation, alters bool) {
	if alters {
		s.add("LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", t.ident)
	}
	read := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		read[i] = c.Name + " " + c.Decl
	}
	same := ""
	if t.marker != "" {
		same = fmt.Sprintf(" AND EXISTS (SELECT FROM %s.weir_unlogged WHERE tbl = %s AND mark = %s)", d.schema, t.oid, literal(t.marker))
	}
	if alters && t.marks != "" {
		s.demand(errStaleTable, "(SELECT max(value) FROM %s.weir_meta WHERE name = %s) IS NOT DISTINCT FROM %s",
			d.schema, literal(sink.ColumnsMark(d.fullName(t))), quote(t.marks))
	}
	s.demand(errStaleTable, "SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ',' ORDER BY attnum) IS NOT DISTINCT FROM %[3]s\n"+
		"    AND %[1]s::regclass::oid = %[4]s AND row_security_active(%[1]s::regclass) = %[5]t%[6]s"+
		"\n  FROM pg_attribute\n  WHERE attrelid = %[1]s::regclass AND attnum > 0 AND NOT attisdropped AND NOT EXISTS (SELECT FROM %[2]s WHERE false)",
		quote(t.ident), t.ident, quote(strings.Join(read, ",")), t.oid, t.hides, same)
}

// A change is a statement that changes the table.
type change struct {
	sql    string
	failed func(*pgconn.PgError) error // what its error means; nil: the server's
}

// fit returns the statements that make the database's table what a batch needs, and the
// table as it then is. above returns the tables that it refers to.
func (d *DB) fit(b *fold.Batch, t *table, above func(*schema.ForeignKey) *schema.Table) (ddl []change, _ relation, err error) {
	have, want := t.relation, &b.Table
	if !have.Exists {
		return d.create(want, t, above)
	}
	have.Table, have.cols = have.Clone(), slices.Clone(have.cols)
	grown, err := sink.Grow(&have.Table, b)
	if err != nil {
		return nil, have, err
	}
	if grown = have.Follow(&b.Limits, above, grown); len(grown) == 0 {
		return nil, have, nil
	}
	for _, g := range grown {
		c := &have.Columns[g.At]
		c.New, c.Decl = false, declare(c)
		switch {
		case g.New:
			ddl = append(ddl, addColumn(have.ident, c, b.Time)...)
			have.cols = append(have.cols, made(c))
		case c.Type != g.From:
			ddl = append(ddl, change{fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %s", have.ident, ident(c.Name), c.Decl, widened(ident(c.Name), g.From, c.Type)),
				func(e *pgconn.PgError) error { return &widenError{&have, c.Name, e} }})
			have.cols[g.At] = made(c)
		}
	}
	return append(ddl, d.mark(&have)), have, nil
}

// addColumn adds a column. The rows that exist have a stamp from then on: without, they
// would be as old as can be.
func addColumn(table string, c *schema.Column, now time.Time) []change {
	add := "ALTER TABLE " + table + " ADD COLUMN " + definition(c)
	if c.Stamp == schema.NoStamp {
		return []change{{sql: add}}
	}
	return []change{{sql: add + " DEFAULT " + quote(now.UTC().Format(stampFormat))},
		{sql: fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT", table, ident(c.Name))}}
}

// create is fit for a table that does not exist.
func (d *DB) create(want *schema.Table, t *table, above func(*schema.ForeignKey) *schema.Table) (ddl []change, have relation, err error) {
	have = t.relation
	if err := sink.MayCreate(want); err != nil {
		return nil, have, err
	}
	have.Table, have.cols = want.Clone(), nil
	have.Columns = slices.DeleteFunc(have.Columns, func(c schema.Column) bool { return waits(&c) })
	have.Follow(&caps.Limits, above, nil)
	for i := range have.Columns {
		c := &have.Columns[i]
		c.New, c.NotNull, c.Decl = false, c.Key, declare(c)
		have.cols = append(have.cols, made(c))
	}
	have.Refs = nil
	key := t.key
	if key == nil { // it was read as any table
		key = want.KeyColumns()
	}
	if have.Key, err = caps.FindKey(&have.Table, key, nil); err != nil {
		return nil, have, err
	}
	have.Exists, have.Made = true, true
	have.triggers = len(want.OnCreate) > 0 // it may get some
	full := d.fullName(&have)
	ddl = []change{{sql: Create(&have.Table)}}
	for _, sql := range want.OnCreate {
		// So it can be several statements, and cannot end the transaction.
		ddl = append(ddl, change{"DO " + literal("BEGIN EXECUTE "+literal(sql)+"; END"), func(e *pgconn.PgError) error { return onCreateError(want.Name, e) }})
	}
	return append(ddl,
		change{sql: d.keepMark(sink.MadeMark(full), sink.NewTableID())},
		// Another table of that name may have left it.
		change{sql: fmt.Sprintf("DELETE FROM %s.weir_meta WHERE name = %s", d.schema, literal(sink.VersionsMark(full)))},
		d.mark(&have),
	), have, nil
}

// onCreateError is what an error of a statement of [schema.Table.OnCreate] means: unless it
// passes, it is not about rows.
func onCreateError(table string, e *pgconn.PgError) error {
	if class, _, _ := classify(e); class != sink.Permanent {
		return e
	}
	return sink.OnCreateError(table, errors.New(words(e)))
}

// mark keeps what the columns of weir's in a table have to hold.
func (d *DB) mark(t *relation) change {
	t.marks = storable(t.Marks())
	return change{sql: d.keepMark(sink.ColumnsMark(d.fullName(t)), t.marks)}
}

// own finds the columns of a table that are weir's.
func (d *DB) own(t *relation) error {
	at := 0
	return t.Own(t.marks, func(c *schema.Column, as schema.Type) bool { return c.Decl == declare(&schema.Column{Type: as}) }, func(c *schema.Column) string {
		at = caps.Find(&t.Table, c.Name, at)
		if why := t.cols[at].held; why != "" {
			return why + " uses it"
		}
		return d.stuck[d.fullName(t)+"\x00"+c.Name]
	})
}

// A widenError says that the server did not let the type of a column be changed.
type widenError struct {
	t      *relation
	column string
	err    *pgconn.PgError
}

func (e *widenError) Error() string { return fmt.Sprintf("widening column %q: %v", e.column, e.err) }
func (e *widenError) Unwrap() error { return e.err }

// unwidened notes a column that something hangs on which the catalogs did not show, if
// this is what err says.
func (d *DB) unwidened(err error) error {
	var e *widenError
	if !errors.As(err, &e) || !isStale(e.err) && !isRefusal(e.err) {
		return nil
	}
	d.stuck[d.fullName(e.t)+"\x00"+e.column] = words(e.err)
	return sink.ErrChanged{Err: &schema.HeldError{Table: e.t.Name, Column: e.column, Why: words(e.err)}}
}
