package example

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Flush implements [sink.Sink].
func (c *conn) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	w := &writer{ctx: ctx, f: f, tables: make([]schema.Table, len(f.Batches))}
	err := transaction(ctx, c.db, func(tx *sql.Tx) error {
		w.tx = tx
		done, err := ledger(tx).Judge(ctx, f)
		if done || err != nil {
			return err
		}
		w.res.Tables = make([]sink.Counts, len(f.Batches))
		if err := w.write(c.seen); err != nil {
			return err
		}
		c.last = w.res // it counts if the reply is lost and the commit is not
		return nil
	})
	if err != nil {
		return sink.Result{}, err
	}
	for _, t := range w.tables {
		c.seen[t.Name] = t
	}
	return c.last, nil
}

// A writer writes one flush in a transaction.
type writer struct {
	ctx    context.Context
	tx     *sql.Tx
	f      *sink.Flush
	tables []schema.Table // as in the database
	res    sink.Result
}

func (w *writer) exec(statement string, args ...any) (changed int64, err error) {
	return exec(w.ctx, w.tx, statement, args...)
}

// write does everything in a flush between its fence and COMMIT.
func (w *writer) write(seen map[string]schema.Table) (err error) {
	if w.f.Rebuild {
		if err := w.empty(); err != nil {
			return err
		}
	}
	tables, rows := make([]*schema.Table, len(w.tables)), make([][]*fold.Row, len(w.tables))
	for i, b := range w.f.Batches {
		if w.tables[i], err = w.fit(b, seen[b.Table.Name]); err != nil {
			return err
		}
		tables[i], rows[i] = &w.tables[i], b.Sorted()
		if b.Truncated != nil && w.tables[i].Exists {
			if w.res.Tables[i].Deleted, err = w.exec("DELETE FROM " + quote(b.Table.Name)); err != nil {
				return err
			}
		}
	}
	if err = w.Write(rows, false); errors.As(err, new(*sink.Refusal)) {
		w.res.Refused, err = sink.Search(w.f, w.f.Batches, rows, w)
	}
	if err != nil {
		return err
	}
	return ledger(w.tx).Record(w.ctx, w.f, tables, w.res.Refused)
}

// empty removes what the job has written.
func (w *writer) empty() error {
	for _, b := range w.f.Batches {
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
	_, err := ledger(w.tx).Exec(w.ctx, func(d sink.Dialect) []string { return d.Empty(w.f) })
	return err
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
	if !t.Exists {
		if err := sink.MayCreate(&b.Table); err != nil {
			return t, err
		}
		_, err := w.exec(createTable(&b.Table))
		t = b.Table.Clone()
		if err = errors.Join(err, ledger(w.tx).SetMark(w.ctx, sink.MadeMark(t.Name), sink.NewTableID())); err != nil {
			return t, err
		}
	}
	grown, err := sink.Grow(&t, b)
	for _, g := range grown {
		if c := &t.Columns[g.At]; g.New && err == nil {
			_, err = w.exec(addColumn(t.Name, c))
			if c.Stamp != schema.NoStamp && err == nil {
				_, err = w.exec("UPDATE "+quote(t.Name)+" SET "+quote(c.Name)+" = ?", stamp(b))
			}
		}
	}
	if err == nil {
		err = ledger(w.tx).SetMark(w.ctx, sink.ColumnsMark(t.Name), t.Marks())
	}
	if err != nil {
		return t, err
	}
	return readTable(w.ctx, w.tx, named)
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

// rows upserts rows, and then deletes others, in the reverse order of tables.
func (w *writer) rows(rows [][]*fold.Row) error {
	for i := range rows {
		for _, r := range rows[i] {
			if r.Deleted {
				continue
			}
			if err := w.put(i, r); err != nil {
				return refusal(err, i)
			}
		}
	}
	for i := range slices.Backward(rows) {
		for _, r := range rows[i] {
			if !r.Deleted {
				continue
			}
			where, key := w.where(i, r)
			n, err := w.exec("DELETE FROM "+quote(w.tables[i].Name)+where, key...)
			if err != nil {
				return refusal(err, i)
			}
			w.res.Tables[i].Deleted += n
			w.res.Tables[i].Unchanged += 1 - n
		}
	}
	return nil
}

// refusal turns err into a Refusal of a row of a table, if err is a rejection.
func refusal(err error, table int) error {
	const constraint, foreignKey = 19, 19 | 3<<8
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok || e.Code()&0xff != constraint {
		return err
	}
	return &sink.Refusal{Err: err, Table: table, Waits: e.Code() == foreignKey}
}

// where returns the condition on a row's key.
func (w *writer) where(table int, r *fold.Row) (condition string, args []any) {
	b, all := w.f.Batches[table], []string(nil)
	for _, k := range b.Table.Key {
		all = append(all, quote(b.Table.Columns[k].Name)+" = ?")
		args = append(args, value(b.Value(r, k), b.Table.Columns[k].Type))
	}
	return " WHERE " + strings.Join(all, " AND "), args
}

// put inserts a row, or updates the existing one.
func (w *writer) put(table int, r *fold.Row) error {
	b, t, count := w.f.Batches[table], &w.tables[table], &w.res.Tables[table]
	var names, marks, sets []string
	for i := range t.Columns {
		name := quote(t.Columns[i].Name)
		names, marks, sets = append(names, name), append(marks, "?"), append(sets, name+" = excluded."+name)
	}
	was, exists, upsert := make([]any, len(t.Columns)), false, ""
	if !b.Table.Appends() {
		where, key := w.where(table, r)
		found, err := query(w.ctx, w.tx, "SELECT "+strings.Join(names, ", ")+" FROM "+quote(t.Name)+where, key...)
		if err != nil {
			return err
		}
		if exists = len(found) > 0; exists {
			for i, cell := range found[0] {
				if cell != nil {
					was[i] = string(cell)
				}
			}
		}
		upsert = " ON CONFLICT (" + sink.NameList(t.KeyColumns(), quote) + ") DO UPDATE SET " + strings.Join(sets, ", ")
	}
	now, stamps, err := w.values(table, r, was, exists && !r.Replaces)
	if err != nil {
		return err
	}
	switch {
	case exists && slices.Equal(was, now):
		count.Unchanged++
		return nil
	case exists:
		count.Updated++
	default:
		count.Inserted++
	}
	for _, at := range stamps { // a stamp alone is no difference
		now[at] = stamp(b)
	}
	_, err = w.exec("INSERT INTO "+quote(t.Name)+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(marks, ", ")+")"+upsert, now...)
	return err
}

// values returns what a row is to hold, and which columns get the time if that differs from what it holds, was. keeps
// says that columns without a new value keep theirs.
func (w *writer) values(table int, r *fold.Row, was []any, keeps bool) (now []any, stamps []int, err error) {
	b, t := w.f.Batches[table], &w.tables[table]
	if now = make([]any, len(was)); keeps {
		copy(now, was)
	}
	for i := range b.Table.Columns {
		c := &b.Table.Columns[i]
		at, raw := caps.Find(t, c.Name, i), b.Value(r, i)
		switch {
		case at < 0 || !c.Stored():
		case c.Stamp != schema.NoStamp:
			if now[at] = was[at]; !keeps || c.Stamp == schema.UpdateStamp {
				stamps = append(stamps, at)
			}
		case raw == nil && b.Initial(r, i):
			now[at] = nil
		case raw != nil:
			var have []byte
			if text, filled := now[at].(string); filled {
				have = []byte(text)
			}
			merged, ok := b.AppendMerged(nil, r, i, have)
			if !ok {
				return nil, nil, fmt.Errorf("column %q has %q, which its merge function cannot use", c.Name, have)
			}
			if merged != nil {
				now[at] = value(merged, t.Columns[at].Type)
			}
		}
	}
	return now, stamps, nil
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
