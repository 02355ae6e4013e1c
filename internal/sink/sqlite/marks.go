package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// lower is a table's name as weir's own tables have it: SQLite folds the case of ASCII
// letters, and of no others.
func lower(table string) string {
	t := NewTable(table)
	return t.FoldName(table)
}

// madeMark is the name of the mark of a table that weir made.
func madeMark(table string) string { return sink.MadeMark(lower(table)) }

// columnsMark is the name of the mark with the columns that weir has made in a table. It is
// also how a column is known that was dropped: SQLite forgets it.
func columnsMark(table string) string { return sink.ColumnsMark(lower(table)) }

// readMarks reads what weir's own tables have of a table; ours tells that it reads as one
// that weir made.
func (d *DB) readMarks(t *schema.Table, ours bool) error {
	t.ID, d.marks = "exists", ""
	known, err := d.hasTable("weir_jobs")
	if err != nil || !known {
		return err
	}
	made, columns, versions := "", "", ""
	err = d.c.query("SELECT name, value FROM weir_meta WHERE name IN (?, ?, ?)", func(s *stmt) error {
		switch s.text(0) {
		case madeMark(t.Name):
			made = s.text(1)
		case columnsMark(t.Name):
			columns = s.text(1)
		default:
			versions = s.text(1)
		}
		return nil
	}, madeMark(t.Name), columnsMark(t.Name), versionsMark(t.Name))
	if err != nil {
		return err
	}
	d.marks, t.Versioned = columns, versions != ""
	if t.Made = made != "" && ours; !t.Made {
		return nil
	}
	var marks map[string]string
	if err := json.Unmarshal([]byte(columns), &marks); err != nil {
		return fmt.Errorf("reading the columns that weir made in table %q: %w", t.Name, err)
	}
	t.ID = made
	for i, name := range slices.Sorted(maps.Keys(marks)) {
		if t.Find(name, i) < 0 {
			t.ID += lostMark + name
		}
	}
	return nil
}

// writers returns the jobs that have written to a table.
func (d *DB) writers(table string) (jobs []string, err error) {
	known, err := d.hasTable("weir_jobs")
	if err != nil || !known {
		return nil, err
	}
	err = d.c.query("SELECT job FROM weir_jobs WHERE tbl = ? COLLATE NOCASE ORDER BY job", func(s *stmt) error {
		jobs = append(jobs, s.text(0))
		return nil
	}, table)
	return jobs, err
}

// lostMark stands before each column in a table's ID that was dropped.
const lostMark = "/"

// keepMark writes a mark.
func (c *conn) keepMark(name, value string) error {
	return c.exec("INSERT OR REPLACE INTO weir_meta (name, value) VALUES (?, ?)", name, value)
}

// empty removes what the jobs of a flush's Rebuild have written to the table.
func (d *DB) empty(f *sink.Flush) error {
	have, err := d.readTable(f.Batch.Table.Name, d.key)
	var otherKey sink.KeyError
	if err != nil && !errors.As(err, &otherKey) {
		return err
	}
	if err := f.MayRebuild(&have); err != nil {
		return err
	}
	d.table = have
	name := quote(have.Name)
	for _, table := range []string{"weir_checkpoints", "weir_rejects"} {
		if err := d.c.exec("DELETE FROM "+table+" WHERE job IN (SELECT job FROM weir_jobs WHERE tbl = ? COLLATE NOCASE)", have.Name); err != nil {
			return err
		}
	}
	if _, err := d.dropVersions(have.Name); err != nil {
		return err
	}
	if otherKey.Err != nil {
		return d.c.exec("DROP TABLE " + name)
	}
	if have.Exists {
		return d.c.exec("DELETE FROM " + name)
	}
	return nil
}
