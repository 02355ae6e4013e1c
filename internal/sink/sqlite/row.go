package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A writer writes one table's rows in one flush.
type writer struct {
	c          *conn
	layout     *layout
	upserts    bool // one statement may insert or update several rows
	inserts    bool // one statement may insert several rows, after others that the table did not have
	explodes   bool // rows of other tables are values in this table's rows
	statements statements
	references references
	nested     nested
	versions   *fold.Resolver // nil if messages have none
	states     *stateStore    // nil if no column has its own versions
	piece      piece
	news       bool // the rows before were inserted
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
	deletes []*fold.Row     // rows to delete after all tables have got their rows
	last    *fold.Row       // the row that was looked up last; nil: none
}

const (
	// manyRows is how many rows one statement writes. Starting and ending one statement per row takes a fifth of a flush
	// of new rows; 4 rows per statement save half of that.
	manyRows = 16
	// manyColumns and manyText (bytes of a value) limit the memory of a statement of many rows and its values.
	manyColumns = 128
	manyText    = 4 << 10
)

// decide decides how the rows are written, once per flush, when everything that affects them is known.
func (w *writer) decide(t *table, explodes bool) {
	l := w.layout
	w.explodes, w.upserts = explodes, !w.looksUp(t, explodes)
	w.inserts = !w.statements.exact && w.versions == nil && !explodes && !w.references.any() && l.insertsAsFolded() && len(l.columns) <= manyColumns
	w.news = l.b.Table.Appends()
	w.buffer = rowBuffer{vals: make([]value, manyRows*len(l.cols)), width: len(l.cols)}
}

// looksUp reports whether a table's rows are looked up before they are written. An upsert sees only what it inserts. It
// names all columns, and checks the row that it would insert before it updates another.
func (w *writer) looksUp(t *table, explodes bool) bool {
	l := w.layout
	switch {
	case w.versions != nil: // stored versions decide what is written
	case len(l.merged) > 0: // stored values are merged
	case explodes, w.references.any(): // a row names rows of other tables, or contains them
	case t.HasConstraints: // including triggers, defaults, generated columns, NOT NULL and other unique indexes
	case t.indexed: // an index would be written, although its column stays
	case t.rowless: // SQLite does not tell what was inserted
	case slices.ContainsFunc(t.Columns, func(c schema.Column) bool { return c.Serial }): // a row names no rowid
	case l.b.Table.Appends(): // no row can exist
	case len(l.columns) > manyColumns:
	default:
		return false
	}
	return true
}

// newWriter prepares to write a batch. It counts changes in res.
func (d *DB) newWriter(ctx context.Context, b *fold.Batch, t *table, f *sink.Flush, res *sink.Counts) (w *writer, err error) {
	w = &writer{c: d.c, res: res}
	if b.Versioned() {
		var names []string
		if b.Scope == fold.ColumnScope {
			if w.states, names, err = d.openStates(ctx, t.Name, f.Tombstones); err != nil {
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
	return w, w.states.keepNames(ctx, w.versions.Names())
}

// rows writes rows up to the first that the database rejects. It calls sent from time to time with how many it has
// written. If wait is set, it leaves deletes to deleteDelayed.
func (w *writer) rows(ctx context.Context, rows []*fold.Row, wait bool, sent func(n int)) error {
	for some := range slices.Chunk(rows, manyRows) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.writeSome(some, wait); err != nil {
			return err
		}
		sent(len(some))
	}
	return nil
}

// writeSome writes up to manyRows rows.
func (w *writer) writeSome(rows []*fold.Row, wait bool) error {
	if w.versions != nil {
		for _, r := range rows {
			if err := w.newer(r, wait); err != nil {
				return err
			}
		}
		return nil
	}
	w.layout.b.Warm(rows)
	for i, r := range rows {
		w.layout.read(w.buffer.row(i), r)
	}
	if kind, ok := w.groupOf(rows); ok && len(rows) == manyRows {
		if all, err := w.writeGroup(kind); all || err != nil {
			return err
		}
	}
	before := w.res.Inserted
	for i, r := range rows {
		if wait && r.Deleted {
			w.piece.deletes = append(w.piece.deletes, r)
		} else if err := w.row(r, w.buffer.row(i)); err != nil {
			return err
		}
	}
	w.news = w.res.Inserted-before == manyRows
	return nil
}

// groupOf returns the kind of statement that can write the rows in the buffer at once, if one can: they only set
// values, none of them long.
func (w *writer) groupOf(rows []*fold.Row) (kind int, ok bool) {
	if !w.upserts && !w.inserts {
		return 0, false
	}
	nulls, equal, first := false, true, w.buffer.row(0)
	for n, r := range rows {
		if r.Deleted || r.Replaces || r.Sweeps {
			return 0, false
		}
		vals := w.buffer.row(n)
		for i := range vals {
			v := &vals[i]
			if (v.kind == lib.SQLITE_TEXT || v.kind == lib.SQLITE_BLOB) && len(v.text) > manyText || w.layout.b.Initial(r, i) {
				return 0, false
			}
			nulls = nulls || v.kind == lib.SQLITE_NULL
			equal = equal && (v.kind == 0) == (first[i].kind == 0)
		}
	}
	switch {
	case w.upserts && equal:
		return equalGroup, true
	case w.upserts && !nulls:
		return sparseGroup, true
	}
	return newGroup, w.inserts && w.news
}

// writeGroup writes the rows in the buffer by one statement. all is false if they must be looked up, because the table
// rejects one or, of new rows, has one: the statement is then undone.
func (w *writer) writeGroup(kind int) (all bool, err error) {
	inserted, updated, err := w.statements.runGroup(kind, &w.buffer)
	switch {
	case err == nil:
		w.news = inserted == manyRows
		w.res.Inserted += inserted
		w.res.Updated += updated
		w.res.Unchanged += manyRows - inserted - updated
		return true, nil
	case !isRefusal(err) || w.c.autocommit():
		return false, err
	}
	for n := range manyRows {
		w.layout.unstamp(w.buffer.row(n))
	}
	return false, nil
}

// deleteDelayed deletes the delayed rows, up to the first that the database rejects.
func (w *writer) deleteDelayed() error {
	vals := w.buffer.row(0)
	for _, r := range w.piece.deletes {
		w.layout.read(vals, r)
		if err := w.row(r, vals); err != nil {
			return err
		}
	}
	return nil
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

// newer writes the newer values of a row with a version, or records a delayed delete.
func (w *writer) newer(r *fold.Row, wait bool) (err error) {
	w.c.bound.release()
	vals, sel := w.buffer.row(0), w.statements.sel
	var was fold.Stored
	if w.states != nil {
		if was.State, err = w.states.read(r.Key); err != nil {
			return err
		}
	}
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
	newer, err := w.versions.Resolve(r, was)
	if err != nil {
		return fmt.Errorf("table %q: %w", w.layout.table.Name, err)
	}
	switch r := &newer.Row; {
	case newer.Unchanged:
		w.res.Unchanged++
	case wait && r.Deleted:
		w.piece.deletes = append(w.piece.deletes, r)
	default:
		w.layout.read(vals, r)
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
	w.piece.last = r
	w.setDefaults(r, vals)
	if owned, err = w.references.findOwner(r, vals); err != nil {
		return false, err
	} else if !owned {
		w.res.Unchanged++
		return false, nil
	}
	if err := w.references.findReferred(r, vals); err != nil {
		return false, err
	}
	if w.explodes && !r.Deleted {
		w.piece.written = append(w.piece.written, r)
	}
	if len(w.nested.descendants) > 0 && (r.Deleted || r.Replaces) {
		return true, w.deleteDescendants(r)
	}
	return true, nil
}

// put inserts, updates or deletes a row that was looked up.
func (w *writer) put(r *fold.Row, vals []value, exists bool) (err error) {
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
		w.counted(&w.res.Updated)
	default:
		differing, resets := w.differing(vals)
		if len(differing) == 0 {
			w.res.Unchanged++
			break
		}
		if resets {
			err = w.statements.runReset(vals, slices.DeleteFunc(slices.Clone(w.layout.columns), func(i int) bool { return vals[i].kind == initial }), differing)
		} else {
			err = w.statements.runUpdate(vals, differing)
		}
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

// setDefaults sets columns that a delete in the batch cleared to their defaults. The insert of a row does not name
// them, nor a value that only fills NULL.
func (w *writer) setDefaults(r *fold.Row, vals []value) {
	for i := range vals {
		if at := w.layout.cols[i]; at >= 0 && w.layout.b.Initial(r, i) {
			if v := &vals[i]; v.kind == 0 && w.layout.table.Columns[at].Default != "" {
				v.kind = initial
			} else if v.kind == 0 {
				*v = null
			}
			vals[i].late = true
		}
	}
}

// counted counts the last statement's effect on its row: unchanged, if a trigger suppressed it.
func (w *writer) counted(n *int64) {
	if w.c.changes() == 0 {
		n = &w.res.Unchanged
	}
	*n++
}

// differing returns the columns that a row sets to another value than the table's, or resets to their defaults. If
// there are any, it also sets and returns the stamps of an update.
func (w *writer) differing(vals []value) (set []int, resets bool) {
	set = w.buffer.differs[:0]
	for i := range vals {
		if vals[i].kind == 0 || w.layout.b.Table.Columns[i].Key {
			continue
		}
		if vals[i].kind == initial {
			resets = true
		} else if w.holds(i, vals) {
			continue
		}
		set = append(set, i)
	}
	w.buffer.differs = set
	if len(set) == 0 {
		return nil, false
	}
	for _, i := range w.layout.stamps {
		if w.layout.b.Table.Columns[i].Stamp == schema.UpdateStamp {
			vals[i] = w.layout.now
			set = append(set, i)
		}
	}
	return set, resets
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
	w.layout.stamp(vals)
	var insert, set []int
	for _, i := range w.layout.columns {
		if v := &vals[i]; v.kind != 0 && !v.late {
			insert = append(insert, i)
		}
		if !t.Columns[i].Key || !w.holds(i, vals) {
			set = append(set, i)
		}
	}
	return w.statements.runReset(vals, insert, set)
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
