package example

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Flush implements [sink.Sink].
func (c *conn) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return sink.Result{}, explain(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after COMMIT
	if done, err := ledger(tx).Judge(ctx, f); err != nil {
		return sink.Result{}, err
	} else if done { // its reply was lost
		return c.last, nil
	}
	w := &writer{ctx: ctx, tx: tx, f: f, batches: slices.Clone(f.Batches), tables: make([]schema.Table, len(f.Batches))}
	w.res.Tables = make([]sink.Counts, len(f.Batches))
	if err := w.write(c.seen); err != nil {
		return sink.Result{}, err
	}
	c.last = w.res
	if err := tx.Commit(); err != nil {
		return sink.Result{}, &sink.Error{Class: sink.Unknown, Reason: "io", Err: err}
	}
	for _, t := range w.tables {
		c.seen[t.Name] = t
	}
	return w.res, nil
}

// A writer writes one flush in a transaction.
type writer struct {
	ctx       context.Context
	tx        *sql.Tx
	f         *sink.Flush
	batches   []*fold.Batch  // for sets, the rows that explosion makes
	tables    []schema.Table // as in the database
	explosion *fold.Explosion
	piece     []map[string]bool // by table, the keys of the rows that Write writes
	res       sink.Result
}

func (w *writer) exec(statement string, args ...any) (rows int64, err error) {
	res, err := w.tx.ExecContext(w.ctx, statement, args...)
	if err != nil {
		return 0, explain(err)
	}
	return res.RowsAffected()
}

func (w *writer) execAll(statements []string) error {
	for _, s := range statements {
		if _, err := w.exec(s); err != nil {
			return err
		}
	}
	return nil
}

// write does everything in a flush between its fence and COMMIT.
func (w *writer) write(seen map[string]schema.Table) (err error) {
	f := w.f
	if f.Rebuild {
		if err := w.empty(); err != nil {
			return err
		}
	}
	ids, rows := make([]string, len(w.batches)), make([][]*fold.Row, len(w.batches))
	for i, b := range w.batches {
		if w.tables[i], err = w.fit(b, seen[b.Table.Name]); err != nil {
			return err
		}
		ids[i], rows[i] = w.tables[i].ID, b.Sorted()
		if _, err := w.exec("INSERT INTO weir_jobs (job, tbl) VALUES (?, ?) ON CONFLICT DO NOTHING", f.Job, b.Table.Name); err != nil {
			return err
		}
	}
	for i, b := range slices.Backward(w.batches) { // children before their parents
		if b.Truncated != nil && w.tables[i].Exists {
			if w.res.Tables[i].Deleted, err = w.exec("DELETE FROM " + quote(b.Table.Name)); err != nil {
				return err
			}
		}
	}
	w.explosion = fold.NewExplosion(f.Batches, func(i int) *schema.Table { return &w.tables[i] })
	for i, b := range w.batches {
		if b.Child != nil && b.Child.Set {
			w.batches[i] = b.Exploded()
		}
	}
	if err = w.Write(rows, false); errors.As(err, new(*sink.Refusal)) {
		w.res.Refused, err = sink.Search(f, w.batches, rows, w)
	}
	if err != nil {
		return err
	}
	return w.record(f.TableIDs(ids...), slices.Concat(f.Rejects, w.res.Refused))
}

// record writes rejects and checkpoints.
func (w *writer) record(ids string, rejects []fold.Reject) error {
	f, now := w.f, time.Now().UTC().Format(timeFormat)
	if err := w.execAll(dialect.Prune(f)); err != nil {
		return err
	}
	for i := 0; i < len(rejects) && f.KeepRejects; i++ {
		r := &rejects[i]
		_, err := w.exec(`INSERT INTO weir_rejects (job, source, line, "offset", reason, raw, time) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			f.Job, f.Lanes[r.Lane].Source, r.Line, r.Offset, r.Why(), string(r.Text), now)
		if err != nil {
			return err
		}
	}
	if f.BeforeCommit != nil {
		if err := f.BeforeCommit(rejects); err != nil {
			return err
		}
	}
	for i := range f.Lanes {
		cp := &f.Lanes[i].Checkpoint
		_, err := w.exec(`REPLACE INTO weir_checkpoints (job, source, seq, run, line, "offset", mark, rejected, settings, tableid, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			f.Job, f.LaneName(&f.Lanes[i]), cp.Seq, f.Run, cp.Line, cp.Offset, cp.Mark, cp.Rejected, cp.Settings, ids, now)
		if err != nil {
			return err
		}
	}
	return nil
}

// empty removes what the job has written.
func (w *writer) empty() error {
	for _, b := range slices.Backward(w.batches) {
		t, err := readTable(w.ctx, w.tx, sink.TableKey{Name: b.Table.Name, Key: b.Table.KeyColumns()})
		if err == nil {
			err = sink.MayRebuild(&t, w.f.Job)
		}
		if err == nil && t.Exists {
			_, err = w.exec("DELETE FROM " + quote(t.Name))
		}
		if err != nil {
			return err
		}
	}
	for _, table := range []string{"weir_checkpoints", "weir_rejects"} {
		if _, err := w.exec("DELETE FROM "+table+" WHERE job = ?", w.f.Job); err != nil {
			return err
		}
	}
	return nil
}

// fit adapts a table to a batch, and returns it as it then is. seen is the table as the run last saw it.
func (w *writer) fit(b *fold.Batch, seen schema.Table) (t schema.Table, err error) {
	named := sink.TableKey{Name: b.Table.Name, Key: b.Table.KeyColumns()}
	if t, err = readTable(w.ctx, w.tx, named); err != nil || !b.Used() {
		return t, err
	}
	switch {
	case b.Versioned():
		return t, sink.LacksError{Does: "keep versions"}
	case b.Table.Surrogate() >= 0 || len(b.Table.OnCreate) > 0:
		return t, sink.LacksError{Does: "generate keys, or run statements of on_create,"}
	}
	if err := sink.CheckSame(&seen, &t); err != nil {
		return t, err
	}
	var statements []string
	if !t.Exists {
		if err := sink.MayCreate(&b.Table); err != nil {
			return t, err
		}
		t, statements = b.Table.Clone(), []string{createTable(&b.Table)}
		if err := w.keepMark(sink.MadeMark(t.Name), sink.NewTableID()); err != nil {
			return t, err
		}
	} else {
		grown, err := sink.Grow(&t, b)
		if err != nil {
			return t, err
		}
		for _, g := range grown {
			if c := &t.Columns[g.At]; g.New {
				statements = append(statements, addColumn(t.Name, c))
				if c.Stamp != schema.NoStamp {
					statements = append(statements, "UPDATE "+quote(t.Name)+" SET "+quote(c.Name)+" = "+text(stamp(b)))
				}
			}
		}
	}
	if err := errors.Join(w.execAll(statements), w.keepMark(sink.ColumnsMark(t.Name), t.Marks())); err != nil {
		return t, err
	}
	return readTable(w.ctx, w.tx, named)
}

func (w *writer) keepMark(name, value string) error {
	_, err := w.exec("REPLACE INTO weir_meta (name, value) VALUES (?, ?)", name, value)
	return err
}

// Write implements [sink.RowWriter].
func (w *writer) Write(rows [][]*fold.Row, _ bool) error {
	if _, err := w.exec("SAVEPOINT piece"); err != nil {
		return err
	}
	before := slices.Clone(w.res.Tables)
	err := w.rows(rows)
	if err != nil {
		w.res.Tables = before
		if _, undo := w.exec("ROLLBACK TO piece"); undo != nil {
			return undo
		}
	}
	_, release := w.exec("RELEASE piece")
	return errors.Join(err, release)
}

// rows upserts rows, parents before children, and then deletes, children before parents.
func (w *writer) rows(rows [][]*fold.Row) error {
	rows = slices.Clone(rows)
	w.piece = make([]map[string]bool, len(rows))
	for i := range rows {
		w.piece[i] = map[string]bool{}
		for _, r := range rows[i] {
			w.piece[i][string(r.Key)] = true
		}
	}
	for i, b := range w.batches {
		for _, r := range rows[i] {
			if err := w.put(i, r); err != nil {
				return w.refusal(err, i)
			}
		}
		if fold.Top(w.f.Batches, i) != i {
			continue
		}
		if err := w.explosion.Explode(i, b, rows[i]); err != nil {
			return err
		}
		for j := i + 1; j < len(rows); j++ {
			if fold.Top(w.f.Batches, j) == i {
				rows[j] = w.batches[j].Sorted()
			}
		}
	}
	for i, b := range slices.Backward(w.batches) {
		for _, r := range b.Sweeps() {
			if err := w.sweep(i, r); err != nil {
				return w.refusal(err, i)
			}
		}
		for _, r := range rows[i] {
			if r.Deleted {
				if err := w.remove(i, r); err != nil {
					return w.refusal(err, i)
				}
			}
		}
	}
	return nil
}

// refusal turns err into a Refusal of a row of a table, if err is a rejection.
func (w *writer) refusal(err error, table int) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code()&0xff != constraint {
		return err
	}
	return &sink.Refusal{Err: err, Table: table, Waits: e.Code() == foreignKey}
}

// where returns the condition that columns of a batch equal the values of other columns in a row.
func (w *writer) where(table int, columns []int, of *fold.Batch, r *fold.Row, values []int) (condition string, args []any) {
	var all []string
	for i, c := range columns {
		all = append(all, quote(w.batches[table].Table.Columns[c].Name)+" = ?")
		args = append(args, value(of.Value(r, values[i]), of.Table.Columns[values[i]].Type))
	}
	return " WHERE " + strings.Join(all, " AND "), args
}

// put inserts a row, or updates the existing one.
func (w *writer) put(table int, r *fold.Row) error {
	if r.Deleted {
		return nil
	}
	b, t, count := w.batches[table], &w.tables[table], &w.res.Tables[table]
	var names, marks, sets []string
	for i := range t.Columns {
		name := quote(t.Columns[i].Name)
		names, marks, sets = append(names, name), append(marks, "?"), append(sets, name+" = ?")
	}
	var where string
	var key []any
	var found [][][]byte
	if !b.Table.Appends() {
		var err error
		where, key = w.where(table, b.Table.Key, b, r, b.Table.Key)
		if found, err = query(w.ctx, w.tx, "SELECT "+strings.Join(names, ", ")+" FROM "+quote(t.Name)+where, key...); err != nil {
			return err
		}
	}
	was, exists := make([]any, len(t.Columns)), len(found) > 0
	for i := range was {
		if exists && found[0][i] != nil {
			was[i] = string(found[0][i])
		}
	}
	now, begins := make([]any, len(t.Columns)), !exists || r.Replaces
	if !begins {
		copy(now, was)
	}
	var stamps []int
	for i := range b.Table.Columns {
		c := &b.Table.Columns[i]
		at, raw := caps.Find(t, c.Name, i), b.Value(r, i)
		switch {
		case at < 0 || !c.Stored():
		case c.Stamp != schema.NoStamp:
			if now[at] = was[at]; begins || c.Stamp == schema.UpdateStamp {
				stamps = append(stamps, at)
			}
		case raw == nil && b.Initial(r, i):
			now[at] = nil
		case raw != nil:
			have, ok := []byte(nil), false
			if text, filled := now[at].(string); filled {
				have = []byte(text)
			}
			if raw, ok = b.AppendMerged(nil, r, i, have); !ok {
				return fmt.Errorf("column %q has %q, which its merge function cannot use", c.Name, have)
			}
			if raw != nil {
				now[at] = value(raw, t.Columns[at].Type)
			}
		}
	}
	if r.Replaces { // its former children
		if err := w.removeBelow(table, r); err != nil {
			return err
		}
	}
	if exists && slices.Equal(was, now) {
		count.Unchanged++
		return nil
	}
	for _, at := range stamps { // a stamp alone is no difference
		now[at] = stamp(b)
	}
	var err error
	if exists {
		count.Updated++
		_, err = w.exec("UPDATE "+quote(t.Name)+" SET "+strings.Join(sets, ", ")+where, append(now, key...)...)
	} else {
		count.Inserted++
		_, err = w.exec("INSERT INTO "+quote(t.Name)+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", now...)
	}
	return err
}

// stamp returns the time of a batch's flush.
func stamp(b *fold.Batch) string { return b.Time.UTC().Format(timeFormat) }

// value returns a message's value as stored in a text column.
func value(raw []byte, as schema.Type) any {
	k := feed.KindOf(raw)
	if k == feed.Null {
		return nil
	}
	s := feed.Text(nil, raw, k)
	if _, isNumber := feed.IsNumber(s); isNumber && as == schema.Real {
		n, _, _ := feed.ParseReal(s) // 1.0 and 1 are equal
		s = feed.AppendReal(nil, n)
	}
	return string(s)
}

// remove deletes a row, and the rows that belong to it.
func (w *writer) remove(table int, r *fold.Row) error {
	if err := w.removeBelow(table, r); err != nil {
		return err
	}
	b := w.batches[table]
	where, args := w.where(table, b.Table.Key, b, r, b.Table.Key)
	n, err := w.exec("DELETE FROM "+quote(b.Table.Name)+where, args...)
	w.res.Tables[table].Deleted += n
	w.res.Tables[table].Unchanged += 1 - n
	return err
}

// removeBelow deletes the descendants of a row, except those that are written themselves or swept. The database would
// delete them by itself, but not report how many.
func (w *writer) removeBelow(table int, r *fold.Row) error {
	of := w.batches[table]
	for i, b := range slices.Backward(w.batches) {
		ancestor, top := i, fold.Top(w.f.Batches, i)
		for ancestor > table && w.batches[ancestor].Child != nil {
			ancestor = w.batches[ancestor].Child.Parent
		}
		if ancestor != table || i == table || !w.tables[i].Exists || top == table && !r.Deleted {
			continue
		}
		where, args := w.where(i, b.Child.Key[:len(of.Table.Key)], of, r, of.Table.Key)
		err := w.removeOthers(i, where, args, func(key [][]byte) bool { return top != table && w.piece[top][w.keyOf(top, key)] })
		if err != nil {
			return err
		}
	}
	return nil
}

// keyOf returns, as in the fold, the key of a table's row. key begins with that key.
func (w *writer) keyOf(table int, key [][]byte) string {
	t := &w.batches[table].Table
	return string(fold.AppendKey(nil, t, key[:len(t.Key)]))
}

// sweep deletes the rows of a set that are no longer in it. r has the key of the row that the set belongs to.
func (w *writer) sweep(table int, r *fold.Row) error {
	b := w.batches[table]
	set := b.Child.Key[:len(w.batches[fold.Top(w.f.Batches, table)].Table.Key)]
	where, args := w.where(table, set, b, r, set)
	return w.removeOthers(table, where, args, func(key [][]byte) bool { return b.Has([]byte(w.keyOf(table, key))) })
}

// removeOthers deletes the rows that match a condition, unless stays reports true for their key as in messages.
func (w *writer) removeOthers(table int, where string, args []any, stays func(key [][]byte) bool) error {
	b := w.batches[table]
	var key []string
	for _, k := range b.Table.Key {
		key = append(key, quote(b.Table.Columns[k].Name))
	}
	rows, err := query(w.ctx, w.tx, "SELECT "+strings.Join(key, ", ")+" FROM "+quote(b.Table.Name)+where, args...)
	if err != nil {
		return err
	}
	for _, row := range rows {
		values := make([][]byte, len(row))
		for i := range row {
			values[i], _ = json.Marshal(string(row[i])) // a text
		}
		if stays(values) {
			continue
		}
		args := make([]any, len(row))
		for i := range row {
			args[i] = string(row[i])
		}
		n, err := w.exec("DELETE FROM "+quote(b.Table.Name)+" WHERE "+strings.Join(key, " = ? AND ")+" = ?", args...)
		if err != nil {
			return err
		}
		w.res.Tables[table].Deleted += n
	}
	return nil
}
