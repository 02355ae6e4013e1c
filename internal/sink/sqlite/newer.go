package sqlite

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// This file is about rows of which only what is newer is written. They are looked up, and their states read and written,
// manyRows at a time, and the next rows are resolved while others are written (see ahead): docs/performance.md and
// docs/versions.md have the gain, BenchmarkFlush/sqlite/insert/versions and BenchmarkFlush/sqlite/update/versions would
// show its loss.

// newerRows is what is known of the rows of a portion that have versions.
type newerRows struct {
	was      []fold.Stored
	text     []byte // what was points into
	resolved []fold.Resolved
	written  []*fold.Row // what they are resolved to
}

func (n *newerRows) forget() {
	clear(n.was)
	n.resolved, n.written = nil, nil // some may be kept
}

// begin makes room for rows of which nothing is known. What rows were resolved to before is written over, unless it
// is kept.
func (n *newerRows) begin(rows int, kept bool) {
	n.text, n.was = n.text[:0], slices.Grow(n.was[:0], rows)[:rows]
	clear(n.was)
	if kept || len(n.resolved) < rows {
		n.resolved, n.written = make([]fold.Resolved, rows), make([]*fold.Row, rows)
		for i := range n.written {
			n.written[i] = &n.resolved[i].Row
		}
	}
}

// prepareNewer decides whether the next rows, n of them, are resolved while others are written: if nothing but its
// values matters to a row, and there are some.
func (w *writer) prepareNewer(n int) {
	v := w.versions
	v.together = n >= manyRows && !w.exact && w.owner == nil && len(w.refs) == 0 && !w.above && len(w.below) == 0 && !w.follows
	if v.single.look == "" {
		v.single, v.several = w.prepareStored(1), w.prepareStored(manyRows)
	}
}

// resolve tells what becomes of a row of a portion.
func (p *portion) resolve(w *writer, at int) (err error) {
	if p.newer.resolved[at], err = w.versions.resolver.Resolve(p.given[at], p.newer.was[at]); err != nil {
		return fmt.Errorf("table %q: %w", w.table.Name, err)
	}
	return nil
}

// areMissing reports whether none of these rows is known to exist.
func (n *newerRows) areMissing(from, to int) bool {
	return !slices.ContainsFunc(n.was[from:to], func(was fold.Stored) bool { return was.Exists })
}

// newer brings rows of the table up to date with what is newer of them, up to one that the database rejects, and
// returns how many it has written. The first one's index is from. Those that are deleted wait where now is living.
func (w *writer) newer(p *portion, from int, now phase) (n int, err error) {
	for n < len(p.rows) {
		many := 0
		if w.versions.together && p.newer.areMissing(n, min(n+manyRows, len(p.rows))) {
			if many, err = w.insertMany(p, n, now); err != nil {
				return n + many, err
			}
		}
		for end := n + many; n < end; n++ {
			if err := w.keepState(&p.newer.resolved[n]); err != nil {
				return n, err
			}
		}
		if many > 0 {
			continue
		}
		waits, err := w.writeNewer(p, n, now)
		if err == nil {
			err = w.keepState(&p.newer.resolved[n])
		}
		if err != nil {
			return n, err
		}
		if waits {
			row := *p.rows[n]
			w.versions.gone = append(w.versions.gone, goneRow{&row, from + n})
		}
		n++
	}
	return n, nil
}

// writeNewer writes what a row was resolved to, and reports whether it waits.
func (w *writer) writeNewer(p *portion, at int, now phase) (waits bool, err error) {
	w.vals = p.of(at)
	switch res := &p.newer.resolved[at]; {
	case res.Unchanged:
		w.res.Unchanged++
		return false, nil
	case now == living && res.Row.Deleted:
		return true, nil
	default:
		return false, w.row(&res.Row)
	}
}

// readStored reads what the database has of the rows of a portion.
func (w *writer) readStored(p *portion) error {
	v := w.versions
	p.newer.begin(len(p.given), w.above)
	v.asked = v.asked[:0]
	for i := range p.given {
		v.asked = append(v.asked, i)
	}
	if w.b.Scope == fold.ColumnScope {
		if err := w.eachStored(p, func(of *stored, at []int) error { return w.readStates(of, p, at) }); err != nil {
			return err
		}
		v.asked = slices.DeleteFunc(v.asked, func(i int) bool { return p.newer.was[i].State == nil })
	}
	return w.eachStored(p, func(of *stored, at []int) error {
		for _, i := range at {
			p.newer.was[i].Exists = false
		}
		return w.look(of, p, at, p.newer.exists)
	})
}

// eachStored calls read with the rows of a portion that are asked for, several at a time, and with SQL that asks for as many.
func (w *writer) eachStored(p *portion, read func(of *stored, at []int) error) error {
	v := w.versions
	for at := v.asked; len(at) > 0; {
		of, n := &v.several, manyRows
		if len(at) < n {
			of, n = &v.single, 1
		}
		if err := read(of, at[:n]); err != nil {
			return err
		}
		at = at[n:]
	}
	return nil
}

// exists notes that a row exists, and what has its version: a column of a query's row.
func (n *newerRows) exists(i int, s *stmt, col int) {
	was := &n.was[i]
	was.Exists = true
	switch kind := s.kind(col); {
	case kind == lib.SQLITE_FLOAT: // SQLite's own text has 15 digits
		was.Version = feed.AppendReal(nil, s.real(col))
	case kind != lib.SQLITE_BLOB || len(s.blob(col)) > 0:
		was.Version = bytes.Clone(s.bytes(col))
	}
}

// found notes the state of a row.
func (n *newerRows) found(i int, state []byte) {
	from := len(n.text)
	n.text = append(n.text, state...)
	n.was[i].State, n.was[i].Exists = n.text[from:len(n.text):len(n.text)], true
}

// look looks those rows of a portion up that stand at these places, and calls each with the place of each that exists, and
// with the column that has its version.
func (w *writer) look(of *stored, p *portion, at []int, each func(i int, s *stmt, col int)) error {
	s, err := w.c.prepareRows(len(at), of.look)
	if err != nil {
		return err
	}
	w.c.release()
	for n, i := range at {
		for _, k := range w.b.Table.Key {
			w.take(p.given[i], k)
		}
		if _, err := w.own(p.given[i]); err != nil {
			return err
		}
		for part, k := range w.key {
			if err := s.bindValue(n*len(w.key)+part+1, &w.vals[k]); err != nil {
				return err
			}
		}
	}
	return s.stepEach(len(at), func(n int) { each(at[n], s, n) })
}

// readStates reads the states of those rows of a portion that stand at these places.
func (w *writer) readStates(of *stored, p *portion, at []int) error {
	s, err := w.c.prepareRows(len(at), of.find)
	if err != nil {
		return err
	}
	w.c.release()
	if err := s.bind(1, w.versions.table); err != nil {
		return err
	}
	for n, i := range at {
		if err := s.bindBlob(n+2, p.given[i].Key); err != nil {
			return err
		}
	}
	return s.stepEach(len(at), func(n int) { p.newer.found(at[n], s.blob(n)) })
}

// stepEach steps a query of one row to that, and calls each with the number of each of its n columns that is not NULL.
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

// keepState keeps what is beside a row from now on. That of a row that exists waits until a statement can write many,
// unless it is long.
func (w *writer) keepState(res *fold.Resolved) error {
	v, s := w.versions, newState{res.Row.Key, res.State}
	if s.state == nil {
		return nil
	}
	if res.Row.Deleted {
		return w.putState(s, v.now)
	}
	if v.states = append(v.states, s); len(v.states) < manyRows && len(s.key)+len(s.state) <= manyText {
		return nil
	}
	return w.putStates()
}

// putStates writes the states that wait.
func (w *writer) putStates() error {
	v := w.versions
	states := v.states
	v.states = v.states[:0]
	if len(states) == manyRows {
		return w.putTogether(states)
	}
	for _, s := range states {
		if err := w.putState(s, nil); err != nil {
			return err
		}
	}
	return nil
}

// putTogether writes manyRows states by one statement.
func (w *writer) putTogether(states []newState) error {
	put := w.versions.putMany
	w.c.release()
	if err := put.bind(1, w.versions.table); err != nil {
		return err
	}
	for i, s := range states {
		if err := cmp.Or(put.bindBlob(2*i+2, s.key), put.bindBlob(2*i+3, s.state)); err != nil {
			return err
		}
	}
	return put.run()
}

// putState writes a state; gone is when its row was deleted.
func (w *writer) putState(s newState, gone any) error {
	return w.versions.put.runWith(w.versions.table, blob(s.key), blob(s.state), gone)
}

// deferred deletes the rows that waited, up to one that the database rejects, and returns its index
// among those given with the error.
func (w *writer) deferred() (at int, err error) {
	for _, r := range w.versions.gone {
		for i := range w.vals {
			w.take(r.Row, i)
		}
		if err := w.row(r.Row); err != nil {
			return r.at, err
		}
	}
	return -1, nil
}
