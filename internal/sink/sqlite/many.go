package sqlite

import (
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
)

// This file is about rows that one statement inserts: to begin and end one for each row takes a fifth of the
// time of a flush of new rows. BenchmarkFlush/sqlite/insert would show the loss.

const (
	// manyRows is how many rows a statement inserts: with 4 of them half of it is gained.
	manyRows = 16
	// manyParams and manyText, bytes of a value, bound the memory that a statement and its values take.
	manyParams = 2048
	manyText   = 4 << 10
	// certainlyFresh rows in succession that were not there make it likely that none of the next manyRows is.
	certainlyFresh = 64
)

// A many inserts rows by one statement.
type many struct {
	sql string
	n   int // of rows; 0: none are inserted together
}

// prepareMany prepares to insert rows together, if nothing but its values matters to a row.
func (w *writer) prepareMany() {
	w.many = &many{}
	if w.exact || w.b.FillOnly || w.owner != nil || len(w.refs) > 0 || w.above {
		return
	}
	m := w.many
	if m.n = min(manyRows, manyParams/len(w.columns)); m.n < 2 {
		m.n = 0
		return
	}
	more := strings.Repeat(", "+params(len(w.columns)), m.n-1)
	m.sql = w.insertSQL(w.columns) + more + " ON CONFLICT DO NOTHING"
}

// insertMany inserts rows of a portion, from this one on, by one statement if those before were all new, and
// returns how many are written. Where the table has some of them, or rejects one, they are written one by one,
// up to the one that is rejected.
func (w *writer) insertMany(p *portion, from int, now phase) (n int, err error) {
	if w.fresh < certainlyFresh || now == deleted {
		return 0, nil
	}
	if w.many == nil {
		w.prepareMany()
	}
	n = w.many.n
	if n == 0 || n > len(p.rows)-from || !p.arePlain(from, from+n) {
		return 0, nil
	}
	inserted, err := w.tryMany(p, from)
	if err != nil && (!isRefusal(err) || w.c.autocommit()) {
		return 0, err
	}
	w.res.Inserted += inserted
	if inserted == int64(n) {
		w.fresh += n
		return n, nil
	}
	w.res.Unchanged -= inserted // they will be counted there
	w.fresh = 0
	for i, r := range p.rows[from : from+n] {
		w.vals = p.of(from + i)
		w.unstamp()
		if err := w.row(r); err != nil {
			return i, err
		}
	}
	return n, nil
}

// arePlain reports whether these rows but set values, none of which is long.
func (p *portion) arePlain(from, to int) bool {
	isLong := func(at int) bool { return from <= at && at < to }
	isOther := func(r *fold.Row) bool { return r.Deleted || r.Replaces || r.Sweeps }
	return !slices.ContainsFunc(p.long, isLong) && !slices.ContainsFunc(p.rows[from:to], isOther)
}

// tryMany inserts those of the next rows of a portion whose keys the table does not have, and returns how many
// these are.
func (w *writer) tryMany(p *portion, from int) (inserted int64, err error) {
	s, err := w.c.prepareLarge(w.many.sql)
	if err != nil {
		return 0, err
	}
	w.c.release()
	s.clear()
	for at := range w.many.n {
		w.vals = p.of(from + at)
		w.stamp()
		if err := w.bindRow(s, at*len(w.columns), w.columns); err != nil {
			return 0, err
		}
	}
	if err := s.run(); err != nil {
		return 0, err
	}
	return int64(w.c.changes()), nil
}
