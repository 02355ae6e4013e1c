package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/sink"
)

// readMarks reads what weir's own tables have of tables, and ends the transaction.
func (d *DB) readMarks(ctx context.Context, facts []tableFacts) error {
	s := &script{}
	var marks, unlogged []string
	for i := range facts {
		full := d.fullName(&facts[i].relation)
		marks = append(marks, literal(sink.MadeMark(full)), literal(sink.ColumnsMark(full)), literal(sink.VersionsMark(full)))
		if facts[i].marked {
			unlogged = append(unlogged, facts[i].oid)
		}
	}
	if d.ready && len(facts) > 0 {
		s.add("SELECT name, value FROM %s.weir_meta WHERE name IN (%s)", d.schema, strings.Join(marks, ", "))
		s.add("%s", d.dialect().WritersSQL())
		if len(unlogged) > 0 {
			s.add("SELECT tbl, mark FROM %s.weir_unlogged WHERE tbl IN (%s)", d.schema, strings.Join(unlogged, ", "))
		}
	}
	s.add("COMMIT")
	r, err := d.run(ctx, s)
	if err != nil || len(r) == 1 {
		return err
	}
	meta, markers := texts(r[0]), map[string]string{}
	if len(unlogged) > 0 {
		markers = texts(r[2])
	}
	for i := range facts {
		t := &facts[i].relation
		full := d.fullName(t)
		if t.Writers = d.dialect().Writers(r[1].rows, full); facts[i].head == nil {
			continue
		}
		_, t.Versioned = meta[storable(sink.VersionsMark(full))]
		t.marks, t.made, t.marker = meta[storable(sink.ColumnsMark(full))], meta[storable(sink.MadeMark(full))], markers[t.oid]
	}
	return nil
}

// texts are the second column of a result by the first one.
func texts(r result) map[string]string {
	m := map[string]string{}
	for _, row := range r.rows {
		m[string(row[0])] = string(row[1])
	}
	return m
}

// tableID is SQL for the ID of a table as it is in a flush's transaction.
func (d *DB) tableID(t *relation) string {
	switch {
	case !t.Exists:
		return "''"
	case t.ID != "":
		return literal(t.ID)
	}
	marker := "''"
	if t.unlogged {
		marker = fmt.Sprintf("coalesce((SELECT '/' || mark FROM %s.weir_unlogged WHERE tbl = c.oid), '')", d.schema)
	}
	return fmt.Sprintf("(SELECT c.oid || coalesce('/' || (SELECT value FROM %s.weir_meta WHERE name = %s)\n"+
		"    || '/' || (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attisdropped), '') || %s\n  FROM pg_class c WHERE c.oid = %s::regclass)",
		d.schema, literal(sink.MadeMark(d.fullName(t))), marker, literal(t.ident))
}

// markUnlogged adds what leaves a marker that shares the fate of an unlogged table.
func (d *DB) markUnlogged(s *script, t *relation) {
	if !t.marked { // even if it exists, this would need the right to make one
		s.add("CREATE UNLOGGED TABLE IF NOT EXISTS %s.weir_unlogged (tbl oid PRIMARY KEY, mark text NOT NULL)", d.schema)
	}
	s.add("INSERT INTO %s.weir_unlogged (tbl, mark) VALUES (%s, %s) ON CONFLICT DO NOTHING", d.schema, t.oid, literal(sink.NewTableID()))
}

// keepMark is SQL that writes a mark.
func (d *DB) keepMark(name, value string) string {
	return fmt.Sprintf("INSERT INTO %s.weir_meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		d.schema, literal(name), literal(value))
}
