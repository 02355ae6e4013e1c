package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// This file is about rows of which only what is newer is written. Their states are read and written
// manyRows at a time, and no row is looked up before it changes: docs/performance.md has the gain,
// BenchmarkFlush/sqlite/insert/versions and BenchmarkFlush/sqlite/update/versions would show its loss.

// maxBetween is how many states are read between the keys of manyRows rows; where there are more, reading
// only those of the rows costs less.
const maxBetween = 2 * manyRows

// skipBetween is how many times that is not tried again where there were.
const skipBetween = 16

// newer brings rows of the table up to date with what is newer of them, up to one that the database
// rejects, and returns its index with the error. Those that are deleted wait where now is living.
func (w *writer) newer(ctx context.Context, rows []*fold.Row, now phase) (at int, err error) {
	v := w.versions
	if v.n == 0 {
		w.prepareNewer()
	}
	if len(w.c.portions) == 0 {
		w.c.addPortion()
	}
	p, own := w.c.portions[0], w.vals
	defer func() {
		w.vals = own
		p.forget()
	}()
	for check := 0; at < len(rows); {
		if at >= check {
			if check = at + 1024; ctx.Err() != nil {
				return -1, ctx.Err()
			}
		}
		n, s := v.n, &v.several
		if n > len(rows)-at {
			n, s = 1, &v.single
		}
		w.vals = own
		done, err := w.newerOf(rows[at:at+n], s, at, now, p)
		if err != nil {
			return at + done, err
		}
		at += n
	}
	return -1, w.putStates()
}

// prepareNewer decides how many rows are resolved together: several, if nothing but its values matters to a
// row.
func (w *writer) prepareNewer() {
	v := w.versions
	v.n = manyRows
	if w.exact || w.owner != nil || len(w.refs) > 0 || w.above || len(w.below) > 0 || w.follows {
		v.n = 1
	}
	v.was = make([]fold.Stored, v.n)
	v.single, v.several = w.prepareStored(1), w.prepareStored(v.n)
}

// newerOf is newer of rows that are resolved together, of which the first one's index is from. The index that
// it returns counts from there.
func (w *writer) newerOf(rows []*fold.Row, s *stored, from int, now phase, p *portion) (at int, err error) {
	v, n, known := w.versions, len(rows), false
	v.assuming = n > 1 && v.between != nil
	if err := w.readStored(s, rows); err != nil {
		return 0, err
	}
	resolved, written := make([]fold.Resolved, n), make([]*fold.Row, n)
	for i := range rows {
		w.b.PrefetchValues(rows[i:])
		if resolved[i], err = w.resolve(rows[i], v.was[i]); err != nil {
			return i, err
		}
		written[i], known = &resolved[i].Row, known || v.was[i].Exists
	}
	p.read(w, written, n)
	for i := 0; i < n; i++ {
		if n > 1 && !known {
			many, err := w.insertMany(p, i, now)
			if err != nil {
				return i + many, err
			}
			for ; many > 0; many-- {
				if err := w.keepState(&resolved[i]); err != nil {
					return i, err
				}
				i++
			}
			if i == n {
				break
			}
		}
		w.vals = p.of(i)
		waits, err := w.writeNewer(rows[i], &resolved[i], v.was[i], now)
		if err == nil {
			err = w.keepState(&resolved[i])
		}
		if err != nil {
			return i, err
		}
		if waits {
			v.gone = append(v.gone, goneRow{written[i], from + i})
		}
	}
	return 0, nil
}

// resolve tells what becomes of a row.
func (w *writer) resolve(r *fold.Row, was fold.Stored) (fold.Resolved, error) {
	res, err := w.versions.resolver.Resolve(r, was)
	if err != nil {
		return res, fmt.Errorf("table %q: %w", w.table.Name, err)
	}
	return res, nil
}

// writeNewer writes what a row was resolved to, and reports whether it waits. Where the row was taken to exist,
// because it has a state, and does not, it is resolved again.
func (w *writer) writeNewer(r *fold.Row, res *fold.Resolved, was fold.Stored, now phase) (waits bool, err error) {
	v := w.versions
	assumed := v.assuming && was.State != nil
	if assumed && (res.Unchanged || res.Row.Deleted || res.Row.Replaces) {
		assumed, was.Exists = false, false
		if err = w.look(&v.single, []*fold.Row{r}, func(int, *stmt) { was.Exists = true }); err == nil {
			*res, err = w.resolve(r, was)
		}
		w.takeAll(&res.Row)
		if err != nil {
			return false, err
		}
	}
	before := w.res
	switch {
	case res.Unchanged:
		w.res.Unchanged++
		return false, nil
	case now == living && res.Row.Deleted:
		return true, nil
	}
	if err := w.row(&res.Row); err != nil || !assumed || w.res.Inserted == before.Inserted {
		return false, err
	}
	was.Exists = false
	if *res, err = w.resolve(r, was); err != nil {
		return false, err
	}
	w.takeAll(&res.Row)
	err = w.row(&res.Row)
	if w.res = before; res.Row.Deleted {
		w.res.Unchanged++
	} else {
		w.res.Inserted++
	}
	return false, err
}

// takeAll takes a row's values.
func (w *writer) takeAll(r *fold.Row) {
	for i := range w.vals {
		w.take(r, i)
	}
}

// readStored reads what the database has of rows; whether those that have a state exist is not, where they are
// taken to.
func (w *writer) readStored(s *stored, rows []*fold.Row) error {
	v := w.versions
	v.text = v.text[:0]
	clear(v.was)
	if v.between != nil {
		if err := w.readStates(s, rows); err != nil {
			return err
		}
	}
	if v.assuming || v.between != nil && v.was[0].State == nil {
		return nil
	}
	v.was[0].Exists = false
	return w.look(s, rows, func(i int, s *stmt) {
		was := &v.was[i]
		was.Exists = true
		switch kind := s.kind(i); {
		case kind == lib.SQLITE_FLOAT: // SQLite's own text has 15 digits
			was.Version = feed.AppendReal(nil, s.real(i))
		case kind != lib.SQLITE_BLOB || len(s.blob(i)) > 0:
			was.Version = bytes.Clone(s.bytes(i))
		}
	})
}

// look looks rows up, and calls each with the number of each that exists, and with what has its version in the
// column of that number.
func (w *writer) look(of *stored, rows []*fold.Row, each func(i int, s *stmt)) error {
	s, err := w.c.prepareRows(len(rows), of.look)
	if err != nil {
		return err
	}
	w.c.release()
	for i, r := range rows {
		for _, k := range w.b.Table.Key {
			w.take(r, k)
		}
		if _, err := w.own(r); err != nil {
			return err
		}
		for part, k := range w.key {
			if err := s.bindValue(i*len(w.key)+part+1, &w.vals[k]); err != nil {
				return err
			}
		}
	}
	return s.stepEach(len(rows), func(i int) { each(i, s) })
}

// readStates reads the states of rows. Those of neighbours in the database are read as such.
func (w *writer) readStates(of *stored, rows []*fold.Row) error {
	v := w.versions
	if v.apart > 0 {
		v.apart--
	} else if len(rows) > 1 {
		if done, err := w.readBetween(rows); done || err != nil {
			return err
		}
		v.apart = skipBetween
	}
	s, err := w.c.prepareRows(len(rows), of.find)
	if err != nil {
		return err
	}
	w.c.release()
	if err := s.bind(1, v.table); err != nil {
		return err
	}
	for i, r := range rows {
		if err := s.bind(i+2, blob(r.Key)); err != nil {
			return err
		}
	}
	return s.stepEach(len(rows), func(i int) { v.found(i, s.blob(i)) })
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

// readBetween is readStates, if there are few states beside those of the rows.
func (w *writer) readBetween(rows []*fold.Row) (done bool, err error) {
	v := w.versions
	first, last := rows[0].Key, rows[0].Key
	for _, r := range rows[1:] { // the order of numbers is another one
		if bytes.Compare(r.Key, first) < 0 {
			first = r.Key
		} else if bytes.Compare(r.Key, last) > 0 {
			last = r.Key
		}
	}
	w.c.release()
	if err := errors.Join(v.between.bind(1, v.table), v.between.bind(2, blob(first)), v.between.bind(3, blob(last))); err != nil {
		return false, err
	}
	defer v.between.reset()
	at := 0
	for n := 0; ; n++ {
		if n == maxBetween {
			return false, nil
		}
		if more, err := v.between.step(); err != nil || !more {
			return true, err
		}
		key := v.between.blob(0)
		same := func(r *fold.Row) bool { return bytes.Equal(r.Key, key) }
		if next := slices.IndexFunc(rows[at:], same); next >= 0 {
			at += next
		} else if at = slices.IndexFunc(rows, same); at < 0 {
			at = 0
			continue
		}
		v.found(at, v.between.blob(1))
	}
}

// found notes the state of a row.
func (v *versioned) found(i int, state []byte) {
	from := len(v.text)
	v.text = append(v.text, state...)
	v.was[i].State, v.was[i].Exists = v.text[from:len(v.text):len(v.text)], true
}

// keepState keeps what is beside a row from now on.
func (w *writer) keepState(res *fold.Resolved) error {
	v := w.versions
	switch {
	case res.State == nil:
		return nil
	case res.Row.Deleted:
		return w.putState(newState{res.Row.Key, res.State}, v.now)
	}
	if v.states = append(v.states, newState{res.Row.Key, res.State}); len(v.states) < manyRows {
		return nil
	}
	w.c.release()
	if err := v.putMany.bind(1, v.table); err != nil {
		return err
	}
	for i, s := range v.states {
		if err := errors.Join(v.putMany.bind(2*i+2, blob(s.key)), v.putMany.bind(2*i+3, blob(s.state))); err != nil {
			return err
		}
	}
	v.states = v.states[:0]
	return v.putMany.run()
}

// putStates writes the states that are left.
func (w *writer) putStates() error {
	v := w.versions
	for _, s := range v.states {
		if err := w.putState(s, nil); err != nil {
			return err
		}
	}
	v.states = v.states[:0]
	return nil
}

// putState writes a state; gone is when its row was deleted.
func (w *writer) putState(s newState, gone any) error {
	return w.versions.put.runWith(w.versions.table, blob(s.key), blob(s.state), gone)
}

// deferred deletes the rows that waited, up to one that the database rejects, and returns its index
// among those given with the error.
func (w *writer) deferred() (at int, err error) {
	for _, r := range w.versions.gone {
		w.takeAll(r.Row)
		if err := w.row(r.Row); err != nil {
			return r.at, err
		}
	}
	return -1, nil
}
