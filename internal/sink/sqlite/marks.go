package sqlite

import (
	"context"
	"errors"

	"github.com/weirsync/weir/internal/sink"
)

// lower returns a table's name as in weir's own tables. SQLite folds the case of ASCII letters only.
func lower(table string) string { return caps.FoldName(table) }

// madeMark returns the key that marks a table as created by weir.
func madeMark(table string) string { return sink.MadeMark(lower(table)) }

// columnsMark returns the key of the columns that weir added to a table. It also reveals that a column was dropped,
// which SQLite does not record.
func columnsMark(table string) string { return sink.ColumnsMark(lower(table)) }

// readMarks reads a table's entries in weir_meta. ours says that its SQL looks like weir's.
func (d *DB) readMarks(ctx context.Context, t *table, ours bool) error {
	t.ID = "exists"
	values, err := d.Marks(ctx, madeMark(t.Name), columnsMark(t.Name), versionsMark(t.Name))
	if err != nil {
		return err
	}
	made, columns, versions := values[0], values[1], values[2]
	t.marks, t.Versioned = columns, versions != ""
	if t.Made = made != "" && ours; t.Made {
		t.ID = made
	}
	return nil
}

// lostMark precedes, in a table's ID, each column that was dropped.
const lostMark = "/"

// empty removes what the job of a flush has written to its tables, and updates tables.
func (d *DB) empty(ctx context.Context, f *sink.Flush, tables []*table) error {
	drops := make([]bool, len(tables)) // tables with another key
	for i, was := range tables {
		have, err := d.readTable(ctx, f.Batches[i].Table.Name, was.key)
		drops[i] = errors.As(err, new(sink.KeyError))
		if err != nil && !drops[i] {
			return err
		}
		if err := errors.Join(sink.MayRebuild(&have.Table, f.Job), sink.MayEmpty(&have.Table, func(other string) bool { return named(tables, other) != nil })); err != nil {
			return err
		}
		tables[i] = have
	}
	if err := d.c.execAll(dialect.Empty(f)...); err != nil {
		return err
	}
	return d.withoutForeignKeys(func() error { // no remaining row refers to a removed one
		for i, t := range tables {
			if _, err := d.DropVersions(ctx, lower(t.Name)); err != nil {
				return err
			}
			var err error
			switch {
			case drops[i]:
				err = d.c.exec("DROP TABLE " + quote(t.Name))
			case t.Exists:
				err = d.c.exec("DELETE FROM " + quote(t.Name))
				t.Emptied(&caps.Limits, &f.Batches[i].Table)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
