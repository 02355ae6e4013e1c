package postgres

import (
	"context"
	"fmt"

	"github.com/weirsync/weir/internal/sink"
)

// readMarks reads what weir's own tables have of a table that has lost some columns, and
// reports whether weir made it. filled tells that it has the fill factor of weir's tables:
// the mark outlives a table, and goes with it where it is dumped and restored; so does the
// fill factor.
func (d *DB) readMarks(ctx context.Context, t *relation, lost string, filled bool) (ours bool, err error) {
	t.ID = t.oid
	if !d.ready {
		return false, nil
	}
	full := d.fullName(t)
	statements := []string{
		fmt.Sprintf("SELECT name, value FROM %s.weir_meta WHERE name IN (%s, %s, %s)", d.schema, d.literal(sink.MadeMark(full)), d.literal(sink.ColumnsMark(full)), d.literal(sink.VersionsMark(full)))}
	if t.unlogged {
		statements = append(statements, "SELECT to_regclass("+d.literal(d.schema+".weir_unlogged")+") IS NOT NULL")
	}
	r, err := d.query(ctx, statements...)
	if err != nil {
		return false, err
	}
	for _, row := range r[0].rows {
		switch string(row[0]) {
		case d.storable(sink.VersionsMark(full)):
			t.Versioned = true
		case d.storable(sink.ColumnsMark(full)):
			t.marks = string(row[1])
		default:
			ours = filled
			t.ID += "/" + string(row[1]) + "/" + lost
		}
	}
	t.marked = t.unlogged && string(r[1].rows[0][0]) == "t"
	if t.Writers, err = sink.Query(d.ask).Writers(ctx, full); err != nil || !t.marked {
		return ours, err
	}
	r, err = d.query(ctx, fmt.Sprintf("SELECT mark FROM %s.weir_unlogged WHERE tbl = %s", d.schema, t.oid))
	if err == nil && len(r[0].rows) > 0 {
		t.marker = string(r[0].rows[0][0])
		t.ID += "/" + t.marker
	}
	return ours, err
}

// tableID is SQL for the ID of a table as it is in a flush's transaction.
func (d *DB) tableID(t *relation) string {
	switch {
	case !t.Exists:
		return "''"
	case t.ID != "":
		return d.literal(t.ID)
	}
	marker := "''"
	if t.unlogged {
		marker = fmt.Sprintf("coalesce((SELECT '/' || mark FROM %s.weir_unlogged WHERE tbl = c.oid), '')", d.schema)
	}
	return fmt.Sprintf("(SELECT c.oid || coalesce('/' || (SELECT value FROM %s.weir_meta WHERE name = %s)"+
		" || '/' || (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attisdropped), '') || %s FROM pg_class c WHERE c.oid = %s::regclass)",
		d.schema, d.literal(sink.MadeMark(d.fullName(t))), marker, d.literal(t.ident))
}

// markUnlogged adds what leaves a marker that shares the fate of an unlogged table.
func (d *DB) markUnlogged(s *script, t *relation) {
	if !t.marked { // even where it exists, this would need the right to make one
		s.add("CREATE UNLOGGED TABLE IF NOT EXISTS %s.weir_unlogged (tbl oid PRIMARY KEY, mark text NOT NULL)", d.schema)
	}
	s.add("INSERT INTO %s.weir_unlogged (tbl, mark) VALUES (%s, %s) ON CONFLICT DO NOTHING", d.schema, t.oid, d.literal(sink.NewTableID()))
}

// keepMark is SQL that writes a mark.
func (d *DB) keepMark(name, value string) string {
	return fmt.Sprintf("INSERT INTO %s.weir_meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		d.schema, d.literal(name), d.literal(value))
}
