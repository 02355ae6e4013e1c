package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A writer writes the rows of one batch.
type writer struct {
	c     *conn
	b     *fold.Batch
	table schema.Table // as the database has it
	// exact has statements name only the columns that change, for tables where
	// naming more would show: triggers, defaults, indexes. Elsewhere one
	// statement for all rows saves preparing many.
	exact bool
	res   sink.Counts

	cols  []int32       // of the table's columns, by those of the batch; -1: none
	types []schema.Type // of the values that they get
	key   []int         // of the batch's columns, as the database has it
	names []string
	sel   *stmt
	del   *stmt
	ins   *stmt   // of all columns, unless exact: where no row has the key
	upd   *stmt   // the same
	vals  []value // of the row at hand, by the batch's columns; kind 0: not named
	all   []int   // the columns that upd sets
	// columns are those that ins names.
	columns []int
	// stamps and now are the columns that get the time of the flush, and that.
	stamps []int
	now    value
	set    []int // the columns that a statement for the row at hand names
	fresh  int   // how many rows in succession were not there
	many   *many // see insertMany

	versions *versioned // nil where messages have none
	refs     []reference
	owner    *ownership // nil where the rows name those that they belong to by their keys

	below   []lowerTable // whose rows belong to the table's, parents first
	follows bool         // deletes of the rows that its own belong to are theirs too
	above   bool         // rows of other tables are values of the table's
	written []*fold.Row  // of such a table
	swept   []int        // where the rows are values of others: the columns of the key of the rows that have them
	piece   []*fold.Row  // that are written
	inPiece map[string]bool
	members *stmt // the keys of the rows that belong to one of these
}

// newWriter starts to write a batch, or to look its rows up.
func (d *DB) newWriter(b *fold.Batch, table schema.Table, exact bool) *writer {
	return &writer{c: d.c, b: b, table: table, exact: exact}
}

// begin prepares to write.
func (w *writer) begin(f *sink.Flush) error {
	if w.b.Versioned() {
		if err := w.prepareVersions(f); err != nil {
			return err
		}
	}
	if err := w.prepare(); err != nil || w.b.Scope != fold.ColumnScope {
		return err
	}
	return w.dropOrphans()
}

// phase is which rows of a batch are written.
type phase int

const (
	allRows phase = iota
	living        // those that are not deleted
	deleted
)

func (p phase) has(r *fold.Row) bool { return p == allRows || r.Deleted == (p == deleted) }

// rows writes rows up to one that the database rejects, and returns its index with the
// error. It calls sent with how many it has written, some at a time.
func (w *writer) rows(ctx context.Context, rows []*fold.Row, now phase, sent func(n int)) (at int, err error) {
	find, write := func(*portion) error { return nil }, w.portion
	if w.versions != nil {
		if now == deleted { // which rows they are was found with the others
			return w.deferred()
		}
		w.prepareNewer(len(rows))
		find, write = w.readStored, func(p *portion, now phase) (int, error) { return w.newer(p, at, now) }
	}
	err = w.ahead(ctx, rows, find, func(p *portion) error {
		n, err := write(p, now)
		at += n
		sent(n)
		return err
	})
	if err == nil && w.versions != nil {
		return -1, w.putStates()
	}
	if err == nil || errors.Is(err, ctx.Err()) {
		return -1, err
	}
	return at, err
}

// portion writes rows up to one that the database rejects, and returns how many it has written.
func (w *writer) portion(p *portion, now phase) (n int, err error) {
	for n < len(p.rows) {
		many, err := w.insertMany(p, n, now)
		if n += many; err != nil {
			return n, err
		}
		if many > 0 {
			continue
		}
		if r := p.rows[n]; now.has(r) {
			w.vals = p.of(n)
			if err := w.row(r); err != nil {
				return n, err
			}
		}
		n++
	}
	return n, nil
}

// isRefusal reports whether an error is about the row alone: a constraint, a
// trigger's RAISE, a type of a STRICT table, a value too big.
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

func (w *writer) prepare() error {
	t := &w.b.Table
	w.key = t.StoredKey()
	w.vals = make([]value, len(t.Columns))
	w.cols = make([]int32, len(t.Columns))
	w.types = make([]schema.Type, len(t.Columns))
	w.names = make([]string, len(t.Columns))
	list := make([]string, len(t.Columns))
	for i := range t.Columns {
		at := caps.Find(&w.table, t.Columns[i].Name, i)
		w.cols[i], list[i] = int32(at), "NULL"
		w.types[i] = t.Columns[i].Type
		if at >= 0 && t.Columns[i].Type != schema.Bytes { // to the database one for bytes takes anything
			w.types[i] = w.table.Columns[at].Type
		}
		if at >= 0 && !w.table.Columns[at].Generated && !t.Columns[i].Generated {
			w.names[i] = quote(w.table.Columns[at].Name)
			list[i] = w.names[i]
			if t.Columns[i].Stamp != schema.NoStamp {
				w.stamps = append(w.stamps, i)
			}
		}
	}
	w.now = value{kind: lib.SQLITE_TEXT, text: []byte(w.b.Time.UTC().Format(stampFormat))}
	err := w.prepareOwner()
	if err != nil {
		return err
	}
	if w.sel, err = w.c.prepare("SELECT " + strings.Join(list, ", ") + " FROM " + quote(w.table.Name) + w.where(0)); err != nil {
		return err
	}
	if w.del, err = w.c.prepare("DELETE FROM " + quote(w.table.Name) + w.where(0)); err != nil || w.exact {
		return err
	}
	for i := range w.vals {
		if w.writable(i) {
			w.columns = append(w.columns, i)
		}
	}
	if w.ins, err = w.c.prepare(w.insertSQL(w.columns) + " ON CONFLICT DO NOTHING"); err != nil {
		return err
	}
	w.all = slices.DeleteFunc(slices.Clone(w.columns), func(i int) bool { return t.Columns[i].Key })
	if len(w.all) == 0 {
		return nil
	}
	w.upd, err = w.c.prepare(w.updateSQL(w.all))
	return err
}

// where is the condition on the key, with parameters from number n+1 on. Keys are
// equal where the key's index says so; the column may have another collation.
func (w *writer) where(n int) string {
	var b strings.Builder
	for i, k := range w.key {
		b.WriteString([]string{" WHERE ", " AND "}[min(i, 1)])
		b.WriteString(w.names[k])
		b.WriteString(" = ?")
		b.WriteString(strconv.Itoa(n + i + 1))
		if collation := w.table.Columns[w.cols[k]].Collation; collation != "" {
			b.WriteString(" COLLATE " + collation)
		}
	}
	return b.String()
}

// take reads what the row sets in column i.
func (w *writer) take(r *fold.Row, i int) { w.takeTo(&w.vals[i], r, i) }

// takeTo reads what the row sets in column i to v.
func (w *writer) takeTo(v *value, r *fold.Row, i int) {
	v.kind = 0 // the rest costs more to clear than to leave
	if raw := w.b.Value(r, i); raw != nil && w.cols[i] >= 0 {
		*v = w.converted(raw, i)
	}
}

// converted is a value for column i.
func (w *writer) converted(raw []byte, i int) value {
	return convert(raw, w.types[i])
}

// initial has the row set column i to its default.
func (w *writer) initial(i int) error {
	s, err := w.c.prepareOne("SELECT " + cmp.Or(w.table.Columns[w.cols[i]].Default, "NULL"))
	if err != nil {
		return err
	}
	defer s.reset()
	if _, err := s.step(); err != nil {
		return err
	}
	w.vals[i] = s.value(0)
	return nil
}

// lookUp steps a query to the row of the key that was taken, and reports whether
// there is one.
func (w *writer) lookUp(s *stmt) (bool, error) {
	for i, k := range w.key {
		if err := s.bindValue(i+1, &w.vals[k]); err != nil {
			return false, err
		}
	}
	return s.step()
}

// row brings the row of the table up to date whose values were taken: it looks the row up, and inserts or updates it.
func (w *writer) row(r *fold.Row) error {
	t := &w.b.Table
	w.c.release()
	for i := range t.Columns {
		if !w.b.Initial(r, i) || w.cols[i] < 0 {
			continue
		}
		if v := &w.vals[i]; v.kind != 0 {
			v.late = true
		} else if err := w.initial(i); err != nil {
			return err
		}
	}
	if known, err := w.own(r); err != nil {
		return err
	} else if !known { // a row exists only with that it belongs to
		w.res.Unchanged++
		return nil
	}
	w.owns()
	if err := w.refer(r); err != nil {
		return err
	}
	if w.above && !r.Deleted {
		w.written = append(w.written, r)
	}
	if len(w.below) > 0 && (r.Deleted || r.Replaces) {
		if err := w.clear(r); err != nil {
			return err
		}
	}
	exists, err := w.lookUp(w.sel)
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
		err = w.delete()
		w.counted(&w.res.Deleted)
	case !exists:
		var done bool
		if done, err = w.insert(); err == nil && !done && !w.exact {
			err = w.insertOrFail()
		}
		w.counted(&w.res.Inserted)
	case r.Replaces:
		if w.replaced() {
			w.res.Unchanged++
			break
		}
		if t.Surrogate() >= 0 || len(w.table.Referrers) > 0 {
			err = w.overwrite()
		} else if err = w.delete(); err == nil {
			_, err = w.insert()
		}
		w.res.Updated++
	default:
		if w.differing(); len(w.set) == 0 {
			w.res.Unchanged++
			break
		}
		err = w.update()
		w.counted(&w.res.Updated)
	}
	w.sel.reset()
	return err
}

// counted counts what the last statement did to its row: nothing, where a trigger has it
// ignored.
func (w *writer) counted(n *int64) {
	if w.c.changes() == 0 {
		n = &w.res.Unchanged
	}
	*n++
}

// differing collects the columns that the row names and that the table has
// otherwise, and with these the stamps of an update.
func (w *writer) differing() {
	w.set = w.set[:0]
	for i := range w.vals {
		if w.vals[i].kind == 0 || w.b.Table.Columns[i].Key {
			continue
		}
		if w.b.FillOnly && !w.sel.null(i) || w.holds(i) {
			continue
		}
		w.set = append(w.set, i)
	}
	if len(w.set) == 0 {
		return
	}
	for _, i := range w.stamps {
		if w.b.Table.Columns[i].Stamp == schema.UpdateStamp {
			w.vals[i] = w.now
			w.set = append(w.set, i)
		}
	}
}

// holds reports whether column i of the table's row has the value of the row at hand.
func (w *writer) holds(i int) bool { return w.sel.holds(i, &w.vals[i], w.types[i]) }

// replaced reports whether the table's row is what a delete and an insert would
// make it.
func (w *writer) replaced() bool {
	if w.exact {
		return false // defaults would show
	}
	known := 0 // of the table's columns
	for i := range w.vals {
		if w.cols[i] < 0 { // a set, or a column that no row names
			continue
		}
		known++
		if w.vals[i].kind == 0 {
			if w.b.Table.Columns[i].Stamp == schema.NoStamp && !w.sel.null(i) {
				return false
			}
		} else if !w.holds(i) {
			return false
		}
	}
	return len(w.table.Columns) == known
}

func (w *writer) delete() error {
	w.sel.reset()
	for i, k := range w.key {
		if err := w.del.bindValue(i+1, &w.vals[k]); err != nil {
			return err
		}
	}
	return w.del.run()
}

// writable reports whether column i of the batch is one that the table takes.
func (w *writer) writable(i int) bool { return w.names[i] != "" }

// insert reports whether no row had the key.
func (w *writer) insert() (done bool, err error) {
	w.sel.reset()
	w.stamp()
	s, set := w.ins, w.columns
	if w.exact {
		w.set = w.set[:0]
		for i := range w.vals {
			if w.writable(i) && w.vals[i].kind != 0 && !w.vals[i].late {
				w.set = append(w.set, i)
			}
		}
		set = w.set
		if s, err = w.c.prepareOne(w.insertSQL(set)); err != nil {
			return false, err
		}
	}
	if err := w.put(s, set); err != nil {
		return false, err
	}
	if done = w.c.changes() > 0; !done {
		w.unstamp()
	}
	return done, nil
}

// insertOrFail inserts the row at hand where another row has something of it that is unique, the rowid:
// SQLite says what.
func (w *writer) insertOrFail() error {
	s, err := w.c.prepareOne(w.insertSQL(w.columns))
	if err != nil {
		return err
	}
	w.stamp()
	return w.put(s, w.columns)
}

// stamp has the row at hand set its stamps.
func (w *writer) stamp() {
	for _, i := range w.stamps {
		w.vals[i] = w.now
	}
}

// unstamp undoes stamp.
func (w *writer) unstamp() {
	for _, i := range w.stamps {
		w.vals[i].kind = 0
	}
}

// put runs a statement that inserts the row at hand with these columns.
func (w *writer) put(s *stmt, columns []int) error {
	s.clear()
	if err := w.bindRow(s, 0, columns); err != nil {
		return err
	}
	return s.run()
}

// bindRow binds what the row at hand has in these columns, from parameter n+1 on. A column without a value keeps the NULL
// of clear: to bind it takes longer.
func (w *writer) bindRow(s *stmt, n int, columns []int) error {
	for _, i := range columns {
		n++
		if w.vals[i].kind == 0 {
			continue
		}
		if err := s.bindValue(n, &w.vals[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) insertSQL(set []int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + quote(w.table.Name))
	for n, i := range set {
		b.WriteString([]string{" (", ", "}[min(n, 1)])
		b.WriteString(w.names[i])
	}
	b.WriteString(") VALUES " + params(len(set)))
	return b.String()
}

// params is a row of parameters.
func params(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// update sets the columns that differ; see exact.
func (w *writer) update() (err error) {
	s, set := w.upd, w.all
	if w.exact {
		set = w.set
		if s, err = w.c.prepareOne(w.updateSQL(set)); err != nil {
			return err
		}
	}
	for n, i := range set {
		if v := &w.vals[i]; v.kind == 0 || w.b.FillOnly && w.b.Table.Columns[i].Stamp == schema.NoStamp && !w.sel.null(i) {
			err = s.bindFrom(n+1, w.sel, i)
		} else {
			err = s.bindValue(n+1, v)
		}
		if err != nil {
			return err
		}
	}
	for i, k := range w.key {
		if err := s.bindValue(len(set)+i+1, &w.vals[k]); err != nil {
			return err
		}
	}
	w.sel.reset()
	return s.run()
}

func (w *writer) updateSQL(set []int) string {
	var b strings.Builder
	b.WriteString("UPDATE " + quote(w.table.Name))
	for n, i := range set {
		b.WriteString([]string{" SET ", ", "}[min(n, 1)])
		b.WriteString(w.names[i])
		b.WriteString(" = ?" + strconv.Itoa(n+1))
	}
	return b.String() + w.where(len(set))
}
