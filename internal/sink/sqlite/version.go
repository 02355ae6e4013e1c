package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// versioned writes the rows of a batch that has versions.
type versioned struct {
	resolver *fold.Resolver
	table    string // in weir_versions
	names    string // JSON of those of the columns, as weir_meta has them
	now      string
	put      *stmt
	putMany  *stmt      // of manyRows states
	single   stored     // for one row
	several  stored     // for manyRows
	together bool       // rows are resolved while others are written
	asked    []int      // the rows of a portion that are looked up
	states   []newState // that wait to be written
	gone     []goneRow
}

// A stored is SQL that finds what the database has of some rows.
type stored struct {
	find string // their states
	look string // the versions of the table's rows, where rows have one; NULL where there is no row
}

// A newState is what is to be kept beside a row that exists.
type newState struct{ key, state []byte }

// A goneRow is deleted when all tables have got their rows; at is its number among those given.
type goneRow struct {
	*fold.Row
	at int
}

func versionsMark(table string) string { return sink.VersionsMark(lower(table)) }

// dropVersions removes the versions of a table, and reports whether it had any.
func (d *DB) dropVersions(ctx context.Context, table string) (had bool, err error) {
	var marks int64
	if err := d.scalar("SELECT count(*) FROM weir_meta WHERE name = ?", &marks, versionsMark(table)); err != nil {
		return false, err
	}
	if known, err := d.hasTable(ctx, "weir_versions"); err != nil || !known {
		return false, err
	}
	return marks > 0, errors.Join(d.c.exec("DELETE FROM weir_versions WHERE tbl = ?", lower(table)),
		d.c.exec("DELETE FROM weir_meta WHERE name IN (?, ?)", versionsMark(table), sink.OrphansMark(lower(table))))
}

// prepareVersions makes the writer one of a batch that has versions.
func (w *writer) prepareVersions(f *sink.Flush) (err error) {
	w.versions = &versioned{table: lower(w.table.Name), now: time.Now().UTC().Format(timeFormat)}
	var names []string
	if w.b.Scope == fold.ColumnScope {
		if names, err = w.prepareStates(f.Tombstones); err != nil {
			return err
		}
	}
	w.versions.resolver = fold.NewResolver(w.b, names, &w.table)
	w.b = w.versions.resolver.Batch()
	return nil
}

// prepareStates prepares to read and write states, forgets deletes that are old, and returns the names of the columns that
// have versions.
func (w *writer) prepareStates(tombstones time.Duration) (names []string, err error) {
	v := w.versions
	for _, sql := range dialect.Versions() {
		if err := w.c.exec(sql); err != nil {
			return nil, err
		}
	}
	err = w.c.query("SELECT value FROM weir_meta WHERE name = ?", func(s *stmt) error {
		v.names = s.text(0)
		return json.Unmarshal([]byte(v.names), &names)
	}, versionsMark(w.table.Name))
	if err != nil {
		return nil, err
	}
	before := time.Now().Add(-tombstones).UTC().Format(timeFormat)
	if err := w.c.exec("DELETE FROM weir_versions WHERE tbl = ? AND gone < ?", v.table, before); err != nil {
		return nil, err
	}
	const replace = " ON CONFLICT DO UPDATE SET state = excluded.state, gone = excluded.gone"
	if v.put, err = w.c.prepare("INSERT INTO weir_versions (tbl, key, state, gone) VALUES (?1, ?2, ?3, ?4)" + replace); err != nil {
		return nil, err
	}
	more := strings.Repeat(", (?1, ?, ?)", manyRows-1)
	if v.putMany, err = w.c.prepare("INSERT INTO weir_versions (tbl, key, state) VALUES (?1, ?, ?)" + more + replace); err != nil {
		return nil, err
	}
	return names, nil
}

// prepareStored prepares to find what the database has of n rows: no more of one is read than is needed,
// which docs/performance.md has the gain of.
func (w *writer) prepareStored(n int) (s stored) {
	version := "x''"
	if at := w.b.Version; w.b.Scope == fold.RowScope && at >= 0 && w.writable(at) {
		version = "coalesce(" + w.names[at] + ", x'')"
	}
	finds, looks := make([]string, n), make([]string, n)
	for i := range n {
		finds[i] = "(SELECT state FROM weir_versions WHERE tbl = ?1 AND key = ?" + strconv.Itoa(i+2) + ")"
		looks[i] = "(SELECT " + version + " FROM " + quote(w.table.Name) + w.where(i*len(w.key)) + ")"
	}
	return stored{"SELECT " + strings.Join(finds, ", "), "SELECT " + strings.Join(looks, ", ")}
}

// endVersions keeps the names of the columns that have versions.
func (w *writer) endVersions() error {
	if w.b.Scope != fold.ColumnScope {
		return nil
	}
	names, err := json.Marshal(w.versions.resolver.Names())
	if err != nil || string(names) == w.versions.names {
		return err
	}
	return w.c.keepMark(versionsMark(w.table.Name), string(names))
}
