package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
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
	versions   *fold.Resolver // nil if messages have none
	states     *stateStore    // nil if no column has versions of its own
	piece      piece
	fresh      int // how many rows in succession the table did not have
	buffer     rowBuffer
	res        *sink.Counts
}

// A rowBuffer is memory for what some rows set, which the next rows that are read overwrite. Texts in it are the batch's.
type rowBuffer struct {
	vals    []value // one row behind the other
	width   int     // columns of the batch
	differs []int   // the columns that a row changes
}

// row is the memory of the n-th row.
func (b *rowBuffer) row(n int) []value { return b.vals[n*b.width : (n+1)*b.width] }

// A piece is what a writer has done in one call of [pieces.Write].
type piece struct {
	rows    []*fold.Row     // that were given
	keys    map[string]bool // of these; nil: not asked for yet
	written []*fold.Row     // whose sets make rows of other tables
	deletes []delayed
}

// A delayed row is deleted when all tables have got their rows; at is its number among those given.
type delayed struct {
	*fold.Row
	at int
}

// A strategy is how the rows of a table are written, decided once per flush.
type strategy struct {
	// together is how many rows are read before they are written, and inserts says that one statement may insert so many
	// new ones.
	together int
	inserts  bool
	// explodes says that rows of other tables are values of the table's.
	explodes bool
}

const (
	// manyRows is how many rows one statement inserts: to begin and end one for each row takes a fifth of the time of a
	// flush of new rows. With 4 of them half of it is gained. BenchmarkFlush/sqlite/insert would show the loss.
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
	w.way = strategy{together: n, explodes: explodes,
		inserts: n > 1 && !w.statements.exact && !explodes && !w.references.any() && w.layout.insertsAsFolded() && w.versions == nil}
	if w.statements.sel == nil { // nothing is looked up
		w.fresh = certainlyFresh
	}
	w.buffer = rowBuffer{vals: make([]value, n*len(w.layout.cols)), width: len(w.layout.cols)}
}

// newWriter prepares to write a batch. What it does is counted in res.
func (d *DB) newWriter(b *fold.Batch, t *table, f *sink.Flush, res *sink.Counts) (w *writer, err error) {
	w = &writer{c: d.c, res: res}
	if b.Versioned() {
		var names []string
		if b.Scope == fold.ColumnScope {
			if w.states, names, err = w.c.openStates(t.Name, f.Tombstones); err != nil {
				return nil, err
			}
		}
		w.versions = fold.NewResolver(b, names, &t.Table)
		b = w.versions.Batch()
	}
	w.layout = newLayout(b, &t.Table)
	if w.statements, err = d.c.prepareStatements(w.layout, t.HasConstraints || t.indexed && !b.Table.Appends()); err != nil || w.states == nil {
		return w, err
	}
	return w, cmp.Or(w.states.dropOrphans(w.layout), w.states.keepNames(w.versions.Names()))
}

// begin forgets the piece before.
func (w *writer) begin(rows []*fold.Row) {
	w.piece = piece{rows: rows}
	w.references.forget()
}

// rows writes rows up to one that the database rejects, and returns its index with the error. It calls sent with how many
// it has written, some at a time. If deletes wait, they are noted for deleteDelayed.
func (w *writer) rows(ctx context.Context, rows []*fold.Row, wait bool, sent func(n int)) (at int, err error) {
	for at < len(rows) {
		if ctx.Err() != nil {
			return -1, ctx.Err()
		}
		done, err := w.some(rows[at:], at, wait)
		at += done
		sent(done)
		if err != nil {
			return at, err
		}
	}
	return -1, nil
}

// some writes as many of the rows that are left as are read at once, up to one that the database rejects, and returns how
// many it has written. at is the index of the first.
func (w *writer) some(rows []*fold.Row, at int, wait bool) (done int, err error) {
	n := min(w.way.together, len(rows))
	if w.versions != nil {
		for i, r := range rows[:n] {
			w.layout.b.CPUPrefetch(rows[i:])
			if err := w.newer(r, at+i, wait); err != nil {
				return i, err
			}
		}
		return n, nil
	}
	for i, r := range rows[:n] {
		w.layout.b.CPUPrefetch(rows[i:])
		w.layout.read(w.buffer.row(i), r)
	}
	if w.way.inserts && w.fresh >= certainlyFresh && n == w.way.together && w.areNew(rows[:n]) {
		if all, err := w.insertTogether(n); all || err != nil {
			return n, err
		}
	}
	for i, r := range rows[:n] {
		if wait && r.Deleted {
			w.piece.deletes = append(w.piece.deletes, delayed{r, at + i})
		} else if err := w.row(r, w.buffer.row(i)); err != nil {
			return i, err
		}
	}
	return n, nil
}

// areNew reports whether rows that were read may all be new ones that only set values, none of which is long.
func (w *writer) areNew(rows []*fold.Row) bool {
	return !slices.ContainsFunc(rows, func(r *fold.Row) bool { return r.Deleted || r.Replaces || r.Sweeps }) &&
		!slices.ContainsFunc(w.buffer.vals, func(v value) bool {
			return (v.kind == lib.SQLITE_TEXT || v.kind == lib.SQLITE_BLOB) && len(v.text) > manyText
		})
}

// insertTogether inserts the n rows that were read and that the table does not have, and reports whether these are all. If
// it has some of them, or rejects one, all are to be written one by one.
func (w *writer) insertTogether(n int) (all bool, err error) {
	inserted, err := w.statements.insertMany(&w.buffer, n)
	if err != nil && (!isRefusal(err) || w.c.autocommit()) {
		return false, err
	}
	w.res.Inserted += inserted
	if inserted == int64(n) {
		w.fresh += n
		return true, nil
	}
	w.res.Unchanged -= inserted // they will be counted there
	w.fresh = 0
	for i := range n {
		w.layout.unstamp(w.buffer.row(i))
	}
	return false, nil
}

// deleteDelayed deletes the rows that waited, up to one that the database rejects, and returns its index among those given
// with the error.
func (w *writer) deleteDelayed() (at int, err error) {
	vals := w.buffer.row(0)
	for _, r := range w.piece.deletes {
		w.layout.read(vals, r.Row)
		if err := w.row(r.Row, vals); err != nil {
			return r.at, err
		}
	}
	return -1, nil
}

// row inserts, updates or deletes a row. vals are what it sets.
func (w *writer) row(r *fold.Row, vals []value) error {
	w.c.bound.release()
	if owned, err := w.relate(r, vals); err != nil || !owned {
		return err
	}
	exists := false
	if w.statements.sel != nil {
		var err error
		if exists, err = w.layout.lookUp(w.statements.sel, vals); err != nil {
			return err
		}
	}
	return w.put(r, vals, exists)
}

// newer writes what is newer of a row with a version, or notes a delete that has to wait. at is the row's number among
// those given.
func (w *writer) newer(r *fold.Row, at int, wait bool) (err error) {
	w.c.bound.release()
	vals, sel := w.buffer.row(0), w.statements.sel
	var was fold.Stored
	if w.states != nil {
		if was.State, err = w.states.read(r.Key); err != nil {
			return err
		}
	}
	looked := w.states == nil || was.State != nil
	if looked {
		w.layout.readKey(vals, r)
		if _, err := w.references.findOwner(r, vals); err != nil {
			return err
		}
		if was.Exists, err = w.layout.lookUp(sel, vals); err != nil {
			return err
		}
		if at := w.layout.b.Version; was.Exists && w.states == nil && at >= 0 && !sel.null(at) {
			was.Version = sel.spelling(at)
		}
	}
	newer, err := w.versions.Resolve(r, was)
	if err != nil {
		return fmt.Errorf("table %q: %w", w.layout.table.Name, err)
	}
	switch r := &newer.Row; {
	case newer.Unchanged:
		w.res.Unchanged++
	case wait && r.Deleted:
		w.piece.deletes = append(w.piece.deletes, delayed{r, at})
	default:
		w.layout.read(vals, r)
		if !looked || len(w.nested.below) > 0 { // else the row is still looked up
			sel.reset()
			err = w.row(r, vals)
			break
		}
		owned := false
		if owned, err = w.relate(r, vals); err == nil && owned {
			err = w.put(r, vals, was.Exists)
		}
	}
	sel.reset()
	if err != nil || newer.State == nil {
		return err
	}
	gone := null
	if newer.Row.Deleted {
		gone = w.states.now
	}
	return w.states.put(r.Key, newer.State, gone)
}

// relate finds the rows that a row belongs or refers to, and deletes those that go with it. A row exists only with the one
// that it belongs to: owned is false without.
func (w *writer) relate(r *fold.Row, vals []value) (owned bool, err error) {
	if err := w.initials(r, vals); err != nil {
		return false, err
	}
	if owned, err = w.references.findOwner(r, vals); err != nil {
		return false, err
	} else if !owned {
		w.res.Unchanged++
		return false, nil
	}
	if err := w.references.findReferred(r, vals); err != nil {
		return false, err
	}
	if w.way.explodes && !r.Deleted {
		w.piece.written = append(w.piece.written, r)
	}
	if len(w.nested.below) > 0 && (r.Deleted || r.Replaces) {
		return true, w.deleteBelow(r)
	}
	return true, nil
}

// put inserts, updates or deletes a row that was looked up.
func (w *writer) put(r *fold.Row, vals []value, exists bool) (err error) {
	if w.fresh++; exists {
		w.fresh = 0
	}
	if err := w.merge(r, vals, exists); err != nil {
		return err
	}
	switch {
	case r.Deleted && !exists:
		w.res.Unchanged++
	case r.Deleted:
		err = w.statements.runDelete(vals)
		w.counted(&w.res.Deleted)
	case !exists:
		err = w.statements.runInsert(vals)
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
		err = w.statements.runUpdate(vals, differing)
		w.counted(&w.res.Updated)
	}
	w.statements.forget()
	return err
}

// merge merges what a row sets into what the table has.
func (w *writer) merge(r *fold.Row, vals []value, exists bool) error {
	switch {
	case r.Deleted:
		return nil
	case exists && !r.Replaces:
		return w.layout.merge(r, vals, w.statements.sel)
	}
	return w.layout.merge(r, vals, nil)
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
	*v, err = s.one(nil)
	return err
}

// counted counts what the last statement did to its row: nothing, if a trigger has it ignored.
func (w *writer) counted(n *int64) {
	if w.c.changes() == 0 {
		n = &w.res.Unchanged
	}
	*n++
}

// differing returns the columns that a row sets and that the table has otherwise, and with these the stamps of an update,
// which it sets.
func (w *writer) differing(vals []value) []int {
	set := w.buffer.differs[:0]
	for i := range vals {
		if vals[i].kind == 0 || w.layout.b.Table.Columns[i].Key {
			continue
		}
		if w.holds(i, vals) {
			continue
		}
		set = append(set, i)
	}
	w.buffer.differs = set
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
		return w.statements.runInsert(vals)
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
	return w.statements.runUpdate(vals, set)
}

// isRefusal reports whether an error is about the row alone: a constraint, a trigger's RAISE, a type of a STRICT table, a
// value too big, a merge function that cannot use the row's value.
func isRefusal(err error) bool {
	if errors.As(err, new(*feed.Error)) {
		return true
	}
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
