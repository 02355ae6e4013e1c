package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about rows of which only what is newer is written. Several are looked up, and have their states read and
// written, by one statement: BenchmarkFlush/sqlite/insert/versions and BenchmarkFlush/sqlite/update/versions would show the
// loss.

// versioned is what a writer needs for rows with versions.
type versioned struct {
	resolver *fold.Resolver
	looks    map[int]string // SQL that looks up as many rows
}

// prepareVersions has the writer write what is newer of a batch, and returns the batch that this is of.
func (w *writer) prepareVersions(b *fold.Batch, table *schema.Table, tombstones time.Duration) (_ *fold.Batch, err error) {
	var names []string
	if b.Scope == fold.ColumnScope {
		if w.states, names, err = w.c.openStates(table.Name, tombstones); err != nil {
			return nil, err
		}
	}
	w.versions = &versioned{resolver: fold.NewResolver(b, names, table), looks: map[int]string{}}
	return w.versions.resolver.Batch(), nil
}

// resolve has the rows of a buffer become what is newer of them. coming are the rows of the batch from the first on, and n how many
// a statement takes.
func (w *writer) resolve(next *rowBuffer, coming []*fold.Row, n int) error {
	v, given := w.versions, next.rows
	next.found, next.states = slices.Grow(next.found[:0], len(given))[:len(given)], next.states[:0]
	clear(next.found)
	if w.states != nil {
		if err := w.states.read(given, n, next.hasState); err != nil {
			return err
		}
	}
	if err := w.lookUpVersions(next, n); err != nil {
		return err
	}
	if w.way.explodes || len(next.resolved) < len(given) { // rows of such a table are kept
		next.resolved = make([]fold.Resolved, len(given))
	}
	rows := make([]*fold.Row, len(given))
	for i, r := range given {
		w.layout.b.PrefetchValues(coming[i:])
		var err error
		if next.resolved[i], err = v.resolver.Resolve(r, next.found[i]); err != nil {
			return fmt.Errorf("table %q: %w", w.layout.table.Name, err)
		}
		rows[i] = &next.resolved[i].Row
	}
	next.rows = rows
	return nil
}

// hasState notes the state of a row.
func (n *rowBuffer) hasState(i int, state []byte) {
	from := len(n.states)
	n.states = append(n.states, state...)
	n.found[i].State = n.states[from:len(n.states):len(n.states)]
}

// lookUpVersions looks up the rows of a buffer that have states, all if there are no states, by one statement for n.
func (w *writer) lookUpVersions(next *rowBuffer, n int) error {
	looks := w.versions.looks
	asks := func(i int) bool { return w.states == nil || next.found[i].State != nil }
	var s *stmt
	for i, r := range next.rows {
		if !asks(i) {
			continue
		}
		if s == nil {
			if looks[n] == "" {
				looks[n] = w.layout.versionsSQL(n)
			}
			var err error
			if s, err = w.c.prepareOne(looks[n]); err != nil {
				return err
			}
			w.c.bound.release()
			s.clear()
		}
		vals := next.of(i)
		w.layout.readKey(vals, r)
		if _, err := w.references.findOwner(r, vals); err != nil {
			return err
		}
		if err := w.layout.bindKey(s, i*len(w.layout.key), vals); err != nil {
			return err
		}
	}
	if s == nil {
		return nil
	}
	return s.stepEach(len(next.rows), func(i int) {
		found := &next.found[i]
		found.Exists = true
		switch kind := s.kind(i); {
		case kind == lib.SQLITE_FLOAT: // SQLite's own text has 15 digits
			found.Version = feed.AppendReal(nil, s.real(i))
		case kind != lib.SQLITE_BLOB || len(s.blob(i)) > 0:
			found.Version = bytes.Clone(s.bytes(i))
		}
	})
}

// versionsSQL looks up n rows, with a column for each: NULL if the row is missing, else its version, if rows have one.
// It reads nothing else of a row.
func (l *layout) versionsSQL(n int) string {
	version := "x''"
	if at := l.b.Version; l.b.Scope == fold.RowScope && at >= 0 && l.names[at] != "" {
		version = "coalesce(" + l.names[at] + ", x'')"
	}
	looks := make([]string, n)
	for i := range n {
		looks[i] = "(SELECT " + version + " FROM " + quote(l.table.Name) + l.where(i*len(l.key)) + ")"
	}
	return "SELECT " + strings.Join(looks, ", ")
}

// stepEach steps a query of one row to that, and calls each with the number of each of its first n columns that is not NULL.
func (s *stmt) stepEach(n int, each func(i int)) error {
	defer s.reset()
	if _, err := s.step(); err != nil {
		return err
	}
	for i := range n {
		if !s.null(i) {
			each(i)
		}
	}
	return nil
}

// A stateStore reads and writes the states of a table's rows: the versions of their columns, and deletes that are
// remembered.
type stateStore struct {
	c       *conn
	table   string // in weir_versions
	names   string // the columns that have versions, as weir_meta has them
	now     string
	one     *stmt          // writes one state
	many    *stmt          // writes manyRows states of rows that exist
	finds   map[int]string // SQL that reads as many states
	waiting []state
}

// A state is what is kept beside a row of a key.
type state struct{ key, state []byte }

// openStates makes weir_versions if it is missing, and forgets old deletes. columns are those that have versions.
func (c *conn) openStates(table string, tombstones time.Duration) (s *stateStore, columns []string, err error) {
	now := time.Now().UTC()
	s = &stateStore{c: c, table: lower(table), now: now.Format(timeFormat), finds: map[int]string{}}
	for _, sql := range dialect.Versions() {
		if err := c.exec(sql); err != nil {
			return nil, nil, err
		}
	}
	err = c.query("SELECT value FROM weir_meta WHERE name = ?", func(row *stmt) error {
		s.names = row.text(0)
		return json.Unmarshal([]byte(s.names), &columns)
	}, versionsMark(table))
	if err != nil {
		return nil, nil, err
	}
	if err := c.exec("DELETE FROM weir_versions WHERE tbl = ? AND gone < ?", s.table, now.Add(-tombstones).Format(timeFormat)); err != nil {
		return nil, nil, err
	}
	const replace = " ON CONFLICT DO UPDATE SET state = excluded.state, gone = excluded.gone"
	if s.one, err = c.prepare("INSERT INTO weir_versions (tbl, key, state, gone) VALUES (?1, ?2, ?3, ?4)" + replace); err != nil {
		return nil, nil, err
	}
	s.many, err = c.prepare("INSERT INTO weir_versions (tbl, key, state) VALUES (?1, ?, ?)" + strings.Repeat(", (?1, ?, ?)", manyRows-1) + replace)
	return s, columns, err
}

// read calls found with the state of each row that has one, which it reads by one statement for n rows. A state is good
// until found returns.
func (s *stateStore) read(rows []*fold.Row, n int, found func(i int, state []byte)) error {
	if s.finds[n] == "" {
		finds := make([]string, n)
		for i := range n {
			finds[i] = "(SELECT state FROM weir_versions WHERE tbl = ?1 AND key = ?" + strconv.Itoa(i+2) + ")"
		}
		s.finds[n] = "SELECT " + strings.Join(finds, ", ")
	}
	find, err := s.c.prepareOne(s.finds[n])
	if err != nil {
		return err
	}
	s.c.bound.release()
	find.clear()
	if err := find.bind(1, s.table); err != nil {
		return err
	}
	for i, r := range rows {
		if err := find.bindBlob(i+2, r.Key); err != nil {
			return err
		}
	}
	return find.stepEach(len(rows), func(i int) { found(i, find.blob(i)) })
}

// put writes what is to be kept beside rows from now on. Those of rows that exist wait until one statement can write many,
// or write is called, unless one is long.
func (s *stateStore) put(rows []fold.Resolved) error {
	for i := range rows {
		r := &rows[i]
		if r.State == nil {
			continue
		}
		if r.Row.Deleted {
			if err := s.putOne(state{r.Row.Key, r.State}, s.now); err != nil {
				return err
			}
			continue
		}
		s.waiting = append(s.waiting, state{r.Row.Key, r.State})
		if len(s.waiting) == manyRows || len(r.Row.Key)+len(r.State) > manyText {
			if err := s.write(); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the states that wait.
func (s *stateStore) write() error {
	states := s.waiting
	s.forget()
	if len(states) < manyRows {
		for _, st := range states {
			if err := s.putOne(st, nil); err != nil {
				return err
			}
		}
		return nil
	}
	s.c.bound.release()
	if err := s.many.bind(1, s.table); err != nil {
		return err
	}
	for i, st := range states {
		if err := cmp.Or(s.many.bindBlob(2*i+2, st.key), s.many.bindBlob(2*i+3, st.state)); err != nil {
			return err
		}
	}
	return s.many.run()
}

// forget drops the states that wait.
func (s *stateStore) forget() { s.waiting = s.waiting[:0] }

// putOne writes a state; gone is when its row was deleted.
func (s *stateStore) putOne(st state, gone any) error {
	return s.one.runWith(s.table, blob(st.key), blob(st.state), gone)
}

// keepNames keeps the names of the columns that have versions.
func (s *stateStore) keepNames(columns []string) error {
	names, err := json.Marshal(columns)
	if err != nil || string(names) == s.names {
		return err
	}
	return s.c.keepMark(sink.VersionsMark(s.table), string(names))
}

func versionsMark(table string) string { return sink.VersionsMark(lower(table)) }

// dropVersions removes the versions of a table.
func (d *DB) dropVersions(ctx context.Context, table string) error {
	if known, err := d.hasTable(ctx, "weir_versions"); err != nil || !known {
		return err
	}
	return errors.Join(d.c.exec("DELETE FROM weir_versions WHERE tbl = ?", lower(table)),
		d.c.exec("DELETE FROM weir_meta WHERE name IN (?, ?)", versionsMark(table), sink.OrphansMark(lower(table))))
}
