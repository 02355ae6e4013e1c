package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// versioned writes the rows of a batch that has versions.
type versioned struct {
	resolver *fold.Resolver
	table    string // in weir_versions
	names    string // JSON of those of the columns, as weir_meta has them
	now      string
	find     *stmt
	look     *stmt // the version of the table's row where rows have one
	put      *stmt
	stored   []byte
	// What is deleted when all tables have got their rows, and which of the rows it is.
	gone   []*fold.Row
	goneAt []int
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
		d.c.exec("DELETE FROM weir_meta WHERE name = ?", versionsMark(table)))
}

// prepareVersions makes the writer one of a batch that has versions, and forgets
// deletes that are old.
func (w *writer) prepareVersions(f *sink.Flush) error {
	v := &versioned{table: lower(w.table.Name), now: time.Now().UTC().Format(timeFormat)}
	var names []string
	if w.b.Scope == fold.ColumnScope {
		for _, sql := range dialect.Versions() {
			if err := w.c.exec(sql); err != nil {
				return err
			}
		}
		err := w.c.query("SELECT value FROM weir_meta WHERE name = ?", func(s *stmt) error {
			v.names = s.text(0)
			return json.Unmarshal([]byte(v.names), &names)
		}, versionsMark(w.table.Name))
		if err != nil {
			return err
		}
		before := time.Now().Add(-f.Tombstones).UTC().Format(timeFormat)
		if err := w.c.exec("DELETE FROM weir_versions WHERE tbl = ? AND gone < ?", v.table, before); err != nil {
			return err
		}
		if v.find, err = w.c.prepare("SELECT state FROM weir_versions WHERE tbl = ?1 AND key = ?2"); err != nil {
			return err
		}
		if v.put, err = w.c.prepare("INSERT INTO weir_versions (tbl, key, state, gone) VALUES (?1, ?2, ?3, ?4)" +
			" ON CONFLICT DO UPDATE SET state = excluded.state, gone = excluded.gone"); err != nil {
			return err
		}
	}
	v.resolver = fold.NewResolver(w.b, names, &w.table)
	w.b, w.versions = v.resolver.Batch(), v
	return nil
}

// prepareLook prepares to look for rows: no more of one is read than is needed, which docs/performance.md
// has the gain of.
func (w *writer) prepareLook() (err error) {
	version := "NULL"
	if at := w.b.Version; w.versions.find == nil && at >= 0 && w.writable(at) {
		version = w.names[at]
	}
	w.versions.look, err = w.c.prepare("SELECT " + version + " FROM " + quote(w.table.Name) + w.where(0))
	return err
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

// newer brings a row of the table up to date with what is newer of a row. One that is deleted waits
// where now is living.
func (w *writer) newer(r *fold.Row, now phase) error {
	was, err := w.stored(r)
	if err != nil {
		return err
	}
	res, err := w.versions.resolver.Resolve(r, was)
	if err != nil {
		return fmt.Errorf("table %q: %w", w.table.Name, err)
	}
	if res.Unchanged {
		w.res.Unchanged++
	} else if now == living && res.Row.Deleted {
		w.versions.gone = append(w.versions.gone, &res.Row)
	} else if err := w.row(&res.Row); err != nil {
		return err
	}
	if res.State == nil {
		return nil
	}
	v := w.versions
	var gone any
	if res.Row.Deleted {
		gone = v.now
	}
	err = errors.Join(v.put.bind(1, v.table), v.put.bind(2, blob(r.Key)), v.put.bind(3, blob(res.State)), v.put.bind(4, gone))
	if err != nil {
		return err
	}
	return v.put.run()
}

// deferred deletes the rows that waited, up to one that the database rejects, and returns its index
// among those given with the error.
func (w *writer) deferred() (at int, err error) {
	for i, r := range w.versions.gone {
		if err := w.row(r); err != nil {
			return w.versions.goneAt[i], err
		}
	}
	return -1, nil
}

// stored looks up what the database has of a row.
func (w *writer) stored(r *fold.Row) (was fold.Stored, err error) {
	v := w.versions
	w.c.release()
	if v.find != nil {
		if err := errors.Join(v.find.bind(1, v.table), v.find.bind(2, blob(r.Key))); err != nil {
			return was, err
		}
		known, err := v.find.step()
		if known {
			v.stored = append(v.stored[:0], v.find.blob(0)...)
			was.State = v.stored
		}
		v.find.reset()
		if err != nil || !known {
			return was, err
		}
	}
	for _, k := range w.b.Table.Key {
		w.take(r, k)
	}
	if _, err = w.own(r); err != nil {
		return was, err
	}
	defer v.look.reset()
	if was.Exists, err = w.lookUp(v.look); was.Exists {
		switch v.look.kind(0) {
		case lib.SQLITE_NULL:
		case lib.SQLITE_FLOAT: // SQLite's own text has 15 digits
			was.Version = feed.AppendReal(nil, v.look.real(0))
		default:
			was.Version = bytes.Clone(v.look.bytes(0))
		}
	}
	return was, err
}
