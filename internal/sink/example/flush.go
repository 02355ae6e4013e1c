package example

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Flush implements [sink.Sink].
func (c *conn) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	w := &writer{ctx: ctx, f: f, tables: make([]schema.Table, len(f.Batches))}
	err := transaction(ctx, c.db, func(tx *sql.Tx) error {
		w.tx = tx
		done, err := ledger(tx).CheckFence(ctx, f)
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
	if does := lacks(b); does != "" {
		return t, sink.LacksError{Does: does}
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
		if g.New && err == nil {
			_, err = w.exec(addColumn(t.Name, &t.Columns[g.At]))
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

// lacks returns what the driver would have to do for a batch, and cannot; "" if it can write it.
func lacks(b *fold.Batch) string {
	switch special := func(c schema.Column) bool { return c.Stamp != schema.NoStamp || c.Merge != merge.Last }; {
	case b.Versioned():
		return "keep versions"
	case b.Table.Surrogate() >= 0 || len(b.Table.OnCreate) > 0:
		return "generate keys, or run statements of on_create,"
	case slices.ContainsFunc(b.Table.Columns, special):
		return "merge values, or set timestamps,"
	}
	return ""
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

// put inserts a row, or updates the existing one if a value differs.
func (w *writer) put(table int, r *fold.Row) error {
	b, t, count := w.f.Batches[table], &w.tables[table], &w.res.Tables[table]
	var names, marks, sets, differs []string
	var args []any
	for at := range t.Columns {
		var raw []byte // nil: the column of a new row gets NULL, and others keep their value
		i := caps.Find(&b.Table, t.Columns[at].Name, at)
		if i >= 0 {
			raw = b.Value(r, i)
		}
		if raw == nil && !r.Replaces && !b.Table.Appends() && (i < 0 || !b.Initial(r, i)) {
			continue
		}
		name := quote(t.Columns[at].Name)
		names, marks, args = append(names, name), append(marks, "?"), append(args, value(raw, t.Columns[at].Type))
		sets, differs = append(sets, name+" = excluded."+name), append(differs, quote(t.Name)+"."+name+" IS NOT excluded."+name)
	}
	upsert := "INSERT INTO " + quote(t.Name) + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ")"
	exists := false
	if !b.Table.Appends() {
		where, key := w.where(table, r)
		found, err := query(w.ctx, w.tx, "SELECT 1 FROM "+quote(t.Name)+where, key...)
		if err != nil {
			return err
		}
		exists = len(found) > 0
		upsert += " ON CONFLICT (" + sink.NameList(t.KeyColumns(), quote) + ") DO UPDATE SET " + strings.Join(sets, ", ") + " WHERE " + strings.Join(differs, " OR ")
	}
	written, err := w.exec(upsert, args...)
	switch {
	case err != nil:
		return err
	case written == 0:
		count.Unchanged++
	case exists:
		count.Updated++
	default:
		count.Inserted++
	}
	return nil
}

// value returns a message's value as stored in a text column. No value is NULL.
func value(raw []byte, as schema.Type) any {
	if raw == nil || feed.KindOf(raw) == feed.Null {
		return nil
	}
	k := feed.KindOf(raw)
	s := feed.Text(nil, raw, k)
	if _, isNumber := feed.IsNumber(s); isNumber && as == schema.Real {
		n, _, _ := feed.ParseReal(s) // 1.0 and 1 are equal
		s = feed.AppendReal(nil, n)
	}
	return string(s)
}
