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

// A writer writes one table's rows in one flush.
type writer struct {
	c          *conn
	layout     *layout
	way        strategy
	statements statements
	references references
	nested     nested
	versions   *fold.Resolver // nil if messages have none
	states     *stateStore    // nil if no column has its own versions
	piece      piece
	fresh      int // consecutive rows that the table did not have
	buffer     rowBuffer
	res        *sink.Counts
}

// A rowBuffer holds the values that some rows set. The next rows that are read overwrite it. Its texts belong to the
// batch.
type rowBuffer struct {
	vals    []value // row after row
	width   int     // columns of the batch
	differs []int   // the columns that a row changes
}

// row returns the memory of the n-th row.
func (b *rowBuffer) row(n int) []value { return b.vals[n*b.width : (n+1)*b.width] }

// A piece is the state of a writer in one call of [pieces.Write].
type piece struct {
	rows    []*fold.Row     // the rows to write
	keys    map[string]bool // of these rows; nil: not needed yet
	written []*fold.Row     // rows whose sets make rows of other tables
	deletes []delayed
}

// A delayed row is deleted after all tables have got their rows; at is its index in the piece.
type delayed struct {
	*fold.Row
	at int
}

// A strategy is how a table's rows are written. It is decided once per flush.
type strategy struct {
	// together is how many rows are read before they are written. inserts says that one statement may insert up to that
	// many new rows.
	together int
	inserts  bool
	// explodes says that rows of other tables are values in this table's rows.
	explodes bool
}

const (
	// manyRows is how many rows one statement inserts. Starting and ending one statement per row takes a fifth of a
	// flush of new rows; 4 rows per statement save half of that. BenchmarkFlush/sqlite/insert measures it.
	manyRows = 16
	// manyParams and manyText (bytes of a value) limit the memory of a statement of many rows and its values.
	manyParams = 2048
	manyText   = 4 << 10
	// certainlyFresh consecutive new rows make it likely that the next manyRows are new, too.
	certainlyFresh = 64
)

// decide sets the writer's strategy, when everything that affects its rows is known.
func (w *writer) decide(explodes bool) {
	n := max(1, min(manyRows, manyParams/len(w.layout.cols)))
	w.way = strategy{together: n, explodes: explodes,
		inserts: n > 1 && !w.statements.exact && !explodes && !w.references.any() && w.layout.insertsAsFolded() && w.versions == nil}
	if w.statements.sel == nil { // no lookups
		w.fresh = certainlyFresh
	}
	w.buffer = rowBuffer{vals: make([]value, n*len(w.layout.cols)), width: len(w.layout.cols)}
}

// newWriter prepares to write a batch. It counts changes in res.
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

// begin starts a new piece.
func (w *writer) begin(rows []*fold.Row) {
	w.piece = piece{rows: rows}
	w.references.forget()
}

// rows writes rows up to the first that the database rejects, and returns its index with the error. It calls sent from
// time to time with how many it has written. If wait is set, it leaves deletes to deleteDelayed.
func (w *writer) rows(ctx context.Context, rows []*fold.Row, wait bool, sent func(n int)) (at int, err error) {
	for at < len(rows) {
		if ctx.Err() != nil {
			return -1, ctx.Err()
		}
		done, err := w.writeNext(rows[at:], at, wait)
		at += done
		sent(done)
		if err != nil {
			return at, err
		}
	}
	return -1, nil
}

// writeNext writes the next rows that are read together, up to the first that the database rejects, and returns how many
// it has written. at is the index of the first.
func (w *writer) writeNext(rows []*fold.Row, at int, wait bool) (done int, err error) {
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

// areNew reports whether the rows that were read may all be new ones that only set values, none of them long.
func (w *writer) areNew(rows []*fold.Row) bool {
	return !slices.ContainsFunc(rows, func(r *fold.Row) bool { return r.Deleted || r.Replaces || r.Sweeps }) &&
		!slices.ContainsFunc(w.buffer.vals, func(v value) bool {
			return (v.kind == lib.SQLITE_TEXT || v.kind == lib.SQLITE_BLOB) && len(v.text) > manyText
		})
}

// insertTogether inserts the n rows in the buffer, except rows that the table has, and reports whether it inserted all.
// If not, or if the table rejects one, all must be written one by one.
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
	w.res.Unchanged -= inserted // written one by one, these rows count as unchanged
	w.fresh = 0
	for i := range n {
		w.layout.unstamp(w.buffer.row(i))
	}
	return false, nil
}

// deleteDelayed deletes the delayed rows, up to the first that the database rejects, and returns its index in the piece
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

// row inserts, updates or deletes a row. vals are the values that it sets.
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

// newer writes the newer values of a row with a version, or records a delayed delete. at is the row's index in the
// piece.
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
		if !looked || len(w.nested.descendants) > 0 { // otherwise the statement is still at the row
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

// relate finds a row's parent and the rows that it refers to, and deletes the rows that are deleted with it. owned is
// false if the parent is missing; the row then cannot exist.
func (w *writer) relate(r *fold.Row, vals []value) (owned bool, err error) {
	if err := w.setDefaults(r, vals); err != nil {
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
	if len(w.nested.descendants) > 0 && (r.Deleted || r.Replaces) {
		return true, w.deleteDescendants(r)
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

// merge merges the values that a row sets into the table's.
func (w *writer) merge(r *fold.Row, vals []value, exists bool) error {
	switch {
	case r.Deleted:
		return nil
	case exists && !r.Replaces:
		return w.layout.merge(r, vals, w.statements.sel)
	}
	return w.layout.merge(r, vals, nil)
}

// setDefaults sets columns that a delete in the batch cleared to their defaults. A value that only fills NULL is marked
// late.
func (w *writer) setDefaults(r *fold.Row, vals []value) error {
	for i := range vals {
		if !w.layout.b.Initial(r, i) || w.layout.cols[i] < 0 {
			continue
		}
		if v := &vals[i]; v.kind != 0 {
			v.late = true
		} else if err := w.setDefault(i, v); err != nil {
			return err
		}
	}
	return nil
}

// setDefault sets v to column i's default.
func (w *writer) setDefault(i int, v *value) error {
	s, err := w.c.prepareVariant("SELECT " + cmp.Or(w.layout.table.Columns[w.layout.cols[i]].Default, "NULL"))
	if err != nil {
		return err
	}
	*v, err = s.one(nil)
	return err
}

// counted counts the last statement's effect on its row: unchanged, if a trigger suppressed it.
func (w *writer) counted(n *int64) {
	if w.c.changes() == 0 {
		n = &w.res.Unchanged
	}
	*n++
}

// differing returns the columns that a row sets to another value than the table's. If there are any, it also sets and
// returns the stamps of an update.
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

// holds reports whether column i of the table's row already has a row's value.
func (w *writer) holds(i int, vals []value) bool {
	return w.statements.sel.holds(i, &vals[i], w.layout.types[i])
}

// isReplaced reports whether the table's row equals the result of a delete and an insert.
func (w *writer) isReplaced(vals []value) bool {
	if w.statements.exact {
		return false // it may differ in defaults
	}
	compared := 0 // columns of the table
	for i := range vals {
		if w.layout.cols[i] < 0 { // a set, or a column that no row has
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

// replace resets a row, except the key that the database generated.
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
			if err := w.setDefault(i, v); err != nil {
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

// isRefusal reports whether an error concerns only the row: a constraint, a trigger's RAISE, a type of a STRICT table,
// an oversized value, or a merge function that cannot use the row's value.
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
