package sqlite

import (
	"cmp"
	"context"
	"errors"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A writer writes the rows of one table in one flush.
type writer struct {
	c          *conn
	layout     *layout
	way        strategy
	statements statements
	references references
	nested     nested
	versions   *versioned  // nil if messages have none
	states     *stateStore // nil if no column has versions of its own
	piece      piece
	fresh      int   // how many rows in succession the table did not have
	set        []int // memory for the columns that a row changes
	res        sink.Counts
}

// A piece is what a writer has done in one call of [pieces.Write].
type piece struct {
	rows    []*fold.Row     // that were given
	keys    map[string]bool // of these; nil: not asked for yet
	written []*fold.Row     // whose sets make rows of other tables
	deletes []delayed
}

// A delayed row has a version, and is deleted when all tables have got their rows; at is its number among those given.
type delayed struct {
	*fold.Row
	at int
}

// A strategy is how the rows of a table are written, decided once per flush.
type strategy struct {
	// together is how many rows are read before they are written: with versions, by one statement, and 1 if something else
	// than its values matters to a row.
	together int
	// inserts says that one statement may insert so many new rows.
	inserts bool
	// explodes says that rows of other tables are values of the table's.
	explodes bool
}

const (
	// manyRows is how many rows one statement inserts or looks up: to begin and end one for each row takes a fifth of the
	// time of a flush of new rows. With 4 of them half of it is gained. BenchmarkFlush/sqlite/insert would show the loss.
	manyRows = 16
	// manyParams and manyText, bytes of a value, bound the memory that a statement of many rows and its values take.
	manyParams = 2048
	manyText   = 4 << 10
	// certainlyFresh rows in succession that were not there make it likely that none of the next manyRows is.
	certainlyFresh = 64
)

// decide sets the writer's strategy, once all is known that matters to its rows.
func (w *writer) decide(explodes bool) {
	n := max(1, min(manyRows, manyParams/len(w.layout.cols)))
	alone := w.statements.exact || explodes || w.references.any()
	w.way = strategy{together: n, inserts: n > 1 && !alone && !w.layout.b.FillOnly, explodes: explodes}
	if w.versions != nil && (alone || len(w.nested.below) > 0 || w.nested.follows) {
		w.way = strategy{together: 1, explodes: explodes}
	}
}

// newWriter prepares to write a batch.
func (d *DB) newWriter(b *fold.Batch, t *table, f *sink.Flush) (w *writer, err error) {
	w = &writer{c: d.c}
	if b.Versioned() {
		if b, err = w.prepareVersions(b, &t.Table, f.Tombstones); err != nil {
			return nil, err
		}
	}
	w.layout = newLayout(b, &t.Table)
	if w.references, err = d.c.prepareReferences(w.layout); err != nil {
		return nil, err
	}
	if w.statements, err = d.c.prepareStatements(w.layout, t.HasConstraints || t.indexed); err != nil || w.states == nil {
		return w, err
	}
	return w, w.states.dropOrphans(w.layout)
}

// begin forgets the piece before.
func (w *writer) begin(rows []*fold.Row) {
	w.piece = piece{rows: rows}
	w.references.forget()
	if w.states != nil {
		w.states.forget()
	}
}

// phase is which rows of a batch are written.
type phase int

const (
	allRows phase = iota
	living        // those that are not deleted
	deleted
)

func (p phase) has(r *fold.Row) bool { return p == allRows || r.Deleted == (p == deleted) }

// rows writes rows up to one that the database rejects, and returns its index with the error. It calls sent with how many
// it has written, some at a time.
func (w *writer) rows(ctx context.Context, rows []*fold.Row, now phase, sent func(n int)) (at int, err error) {
	if w.versions != nil && now == deleted { // which rows they are was found with the others
		return w.delayedDeletes()
	}
	n := w.way.together
	if w.versions != nil && len(rows) < n {
		n = 1
	}
	var next rowBuffer
	for at < len(rows) {
		if ctx.Err() != nil {
			return -1, ctx.Err()
		}
		next.reset(w.layout, rows[at:min(at+n, len(rows))])
		if w.versions != nil {
			if err := w.resolve(&next, rows[at:], n); err != nil {
				return at, err
			}
		}
		next.read(w.layout, rows[at:])
		done, err := w.write(&next, at, now)
		at += done
		sent(done)
		if err != nil {
			return at, err
		}
	}
	if w.states != nil {
		return -1, w.states.write()
	}
	return -1, nil
}

// write writes the rows of a buffer, up to one that the database rejects, and returns how many it has written. at is the index
// of the first.
func (w *writer) write(next *rowBuffer, at int, now phase) (done int, err error) {
	all := false
	if w.way.inserts && now != deleted && w.fresh >= certainlyFresh && len(next.rows) == w.way.together && next.areNew() {
		if all, err = w.insertTogether(next); err != nil {
			return 0, err
		}
	}
	for i := 0; i < len(next.rows) && !all; i++ {
		switch r := next.rows[i]; {
		case w.versions != nil && next.resolved[i].Unchanged:
			w.res.Unchanged++
		case now.has(r):
			if err := w.row(r, next.of(i)); err != nil {
				return i, err
			}
		case w.versions != nil:
			row := *r // whose memory the next rows get
			w.piece.deletes = append(w.piece.deletes, delayed{&row, at + i})
		}
	}
	done = len(next.rows)
	if w.states == nil {
		return done, nil
	}
	return done, w.states.put(next.resolved[:done])
}

// insertTogether inserts the rows of a buffer whose keys the table does not have, and reports whether these are all. If
// it has some of them, or rejects one, all are to be written one by one.
func (w *writer) insertTogether(next *rowBuffer) (all bool, err error) {
	inserted, err := w.statements.insertMany(next)
	if err != nil && (!isRefusal(err) || w.c.autocommit()) {
		return false, err
	}
	w.res.Inserted += inserted
	if inserted == int64(len(next.rows)) {
		w.fresh += len(next.rows)
		return true, nil
	}
	w.res.Unchanged -= inserted // they will be counted there
	w.fresh = 0
	for i := range next.rows {
		w.layout.unstamp(next.of(i))
	}
	return false, nil
}

// delayedDeletes deletes the rows that waited, up to one that the database rejects, and returns its index among those given
// with the error.
func (w *writer) delayedDeletes() (at int, err error) {
	vals := make([]value, len(w.layout.cols))
	for _, r := range w.piece.deletes {
		w.layout.read(vals, r.Row)
		if err := w.row(r.Row, vals); err != nil {
			return r.at, err
		}
	}
	return -1, nil
}

// row looks a row up by its key, and inserts, updates or deletes it. vals are what it sets.
func (w *writer) row(r *fold.Row, vals []value) error {
	w.c.bound.release()
	if err := w.initials(r, vals); err != nil {
		return err
	}
	if exists, err := w.references.findOwner(r, vals); err != nil {
		return err
	} else if !exists { // a row exists only with the one that it belongs to
		w.res.Unchanged++
		return nil
	}
	if w.nested.members != nil {
		w.references.wrote(vals)
	}
	if err := w.references.findReferred(r, vals); err != nil {
		return err
	}
	if w.way.explodes && !r.Deleted {
		w.piece.written = append(w.piece.written, r)
	}
	if len(w.nested.below) > 0 && (r.Deleted || r.Replaces) {
		if err := w.deleteBelow(r); err != nil {
			return err
		}
	}
	exists, err := w.layout.lookUp(w.statements.sel, vals)
	if err != nil {
		return err
	}
	if w.fresh++; exists {
		w.fresh = 0
	}
	switch {
	case r.Deleted && !exists:
		w.res.Unchanged++
	case r.Deleted:
		err = w.statements.runDelete(vals)
		w.counted(&w.res.Deleted)
	case !exists:
		err = w.insert(vals)
		w.counted(&w.res.Inserted)
	case r.Replaces && w.isReplaced(vals):
		w.res.Unchanged++
	case r.Replaces:
		err = w.replace(vals)
		w.res.Updated++
	default:
		differing := w.differing(vals)
		if len(differing) == 0 {
			w.res.Unchanged++
			break
		}
		err = w.statements.runUpdate(vals, differing, func(i int) bool {
			return w.layout.b.FillOnly && w.layout.b.Table.Columns[i].Stamp == schema.NoStamp && !w.statements.sel.null(i)
		})
		w.counted(&w.res.Updated)
	}
	w.statements.sel.reset()
	return err
}

// initials has a row set columns to their defaults that a delete in the batch cleared. Values that fill such a row alone
// are marked.
func (w *writer) initials(r *fold.Row, vals []value) error {
	for i := range vals {
		if !w.layout.b.Initial(r, i) || w.layout.cols[i] < 0 {
			continue
		}
		if v := &vals[i]; v.kind != 0 {
			v.late = true
		} else if err := w.initial(i, v); err != nil {
			return err
		}
	}
	return nil
}

// initial sets v to the default of column i.
func (w *writer) initial(i int, v *value) error {
	s, err := w.c.prepareOne("SELECT " + cmp.Or(w.layout.table.Columns[w.layout.cols[i]].Default, "NULL"))
	if err != nil {
		return err
	}
	defer s.reset()
	if _, err := s.step(); err != nil {
		return err
	}
	*v = s.value(0)
	return nil
}

// counted counts what the last statement did to its row: nothing, if a trigger has it ignored.
func (w *writer) counted(n *int64) {
	if w.c.changes() == 0 {
		n = &w.res.Unchanged
	}
	*n++
}

// insert inserts a row that was not found by its key.
func (w *writer) insert(vals []value) error {
	done, err := w.statements.runInsert(vals)
	if err == nil && !done && !w.statements.exact {
		err = w.statements.insertOrFail(vals)
	}
	return err
}

// differing returns the columns that a row sets and that the table has otherwise, and with these the stamps of an update,
// which it sets.
func (w *writer) differing(vals []value) []int {
	set := w.set[:0]
	for i := range vals {
		if vals[i].kind == 0 || w.layout.b.Table.Columns[i].Key {
			continue
		}
		if w.layout.b.FillOnly && !w.statements.sel.null(i) || w.holds(i, vals) {
			continue
		}
		set = append(set, i)
	}
	w.set = set
	if len(set) == 0 {
		return nil
	}
	for _, i := range w.layout.stamps {
		if w.layout.b.Table.Columns[i].Stamp == schema.UpdateStamp {
			vals[i] = w.layout.now
			set = append(set, i)
		}
	}
	return set
}

// holds reports whether column i of the table's row has the value of a row.
func (w *writer) holds(i int, vals []value) bool {
	return w.statements.sel.holds(i, &vals[i], w.layout.types[i])
}

// isReplaced reports whether the table's row is what a delete and an insert would make it.
func (w *writer) isReplaced(vals []value) bool {
	if w.statements.exact {
		return false // defaults would show
	}
	compared := 0 // of the table's columns
	for i := range vals {
		if w.layout.cols[i] < 0 { // a set, or a column that no row names
			continue
		}
		compared++
		if vals[i].kind != 0 && !w.holds(i, vals) ||
			vals[i].kind == 0 && w.layout.b.Table.Columns[i].Stamp == schema.NoStamp && !w.statements.sel.null(i) {
			return false
		}
	}
	return len(w.layout.table.Columns) == compared
}

// replace leaves nothing of a row but the key that the database generated.
func (w *writer) replace(vals []value) error {
	t := &w.layout.b.Table
	if t.Surrogate() < 0 && len(w.layout.table.Referrers) == 0 {
		if err := w.statements.runDelete(vals); err != nil {
			return err
		}
		return w.insert(vals)
	}
	var set []int
	for _, i := range w.layout.columns {
		c := &t.Columns[i]
		if c.Key && w.holds(i, vals) {
			continue
		}
		if v := &vals[i]; c.Stamp == schema.NoStamp && (v.kind == 0 || v.late) {
			if err := w.initial(i, v); err != nil {
				return err
			}
		}
		set = append(set, i)
	}
	w.layout.stamp(vals)
	if len(set) == 0 {
		return nil
	}
	return w.statements.runUpdate(vals, set, func(int) bool { return false })
}

// isRefusal reports whether an error is about the row alone: a constraint, a trigger's RAISE, a type of a STRICT table, a
// value too big.
func isRefusal(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Doing != "" {
		return false
	}
	switch e.primary() {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_ERROR:
		return true
	}
	return false
}
