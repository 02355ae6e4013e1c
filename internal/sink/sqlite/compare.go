package sqlite

import (
	"context"
	"errors"
	"strconv"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Compare implements [sink.Inspector].
func (d *DB) Compare(ctx context.Context, b *fold.Batch, differs func(sink.Difference) bool) error {
	table, err := d.table(ctx, b.Table.Name, b.Table.KeyColumns())
	if err != nil {
		return err
	}
	d.c.tidy()
	w := d.newWriter(b, table, true)
	if err := errors.Join(w.prepare(), w.prepareRefs(nil)); err != nil {
		return d.explain(err)
	}
	rows := b.Sorted()
	named := make([]bool, len(b.Table.Columns))
	for _, r := range rows {
		for i := range named {
			named[i] = named[i] || b.Value(r, i) != nil
		}
	}
	for _, ref := range w.refs {
		named[ref.Column] = named[ref.From[0]]
	}
	for _, r := range rows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		diff, err := w.compare(r, named)
		w.sel.reset()
		if err != nil {
			return d.explain(err)
		}
		if diff != nil && !differs(*diff) {
			return nil
		}
	}
	return nil
}

// compare returns the first difference of a row in the columns that some message
// named, or nil.
func (w *writer) compare(r *fold.Row, named []bool) (*sink.Difference, error) {
	w.c.release()
	for i := range w.vals {
		w.take(r, i)
	}
	if _, err := w.own(r); err != nil {
		return nil, err
	}
	if err := w.refer(r); err != nil {
		return nil, err
	}
	exists, err := w.lookUp(w.sel)
	switch {
	case err != nil:
		return nil, err
	case r.Deleted && exists:
		return &sink.Difference{Row: r, Kind: sink.Removed}, nil
	case r.Deleted:
		return nil, nil
	case !exists:
		return &sink.Difference{Row: r, Kind: sink.Missing}, nil
	}
	for i := range w.vals {
		c, v := &w.b.Table.Columns[i], &w.vals[i]
		if !w.writable(i) || !named[i] || c.Key {
			continue
		}
		if v.kind == 0 || w.b.Initial(r, i) { // no message named it
			if w.table.Columns[w.cols[i]].Default != "" {
				continue
			}
			v = &value{kind: lib.SQLITE_NULL}
		}
		if w.sel.holds(i, v, w.types[i]) || w.respelled(r, i) {
			continue
		}
		have := "NULL"
		if w.sel.kind(i) != lib.SQLITE_NULL {
			have = w.sel.text(i)
		}
		return &sink.Difference{Row: r, Kind: sink.Differs, Column: i, Have: have}, nil
	}
	return nil, nil
}

// Others implements [sink.Inspector].
func (d *DB) Others(ctx context.Context, b *fold.Batch, each func(key string) bool) error {
	table, err := d.table(ctx, b.Table.Name, b.Table.KeyColumns())
	if err != nil {
		return err
	}
	d.c.tidy()
	w := d.newWriter(b, table, true)
	if err := w.prepare(); err != nil {
		return d.explain(err)
	}
	known := map[string]bool{}
	for _, r := range b.Sorted() {
		exists, err := w.find(r)
		if exists {
			known[keyOf(w.sel, w.key)] = true
		}
		w.sel.reset()
		if err != nil || ctx.Err() != nil {
			return errors.Join(d.explain(err), ctx.Err())
		}
	}
	names := make([]string, len(w.key))
	columns := make([]int, len(w.key))
	for i, k := range w.key {
		names[i], columns[i] = w.names[k], i
	}
	list := strings.Join(names, ", ")
	err = d.c.query("SELECT "+list+" FROM "+quote(table.Name)+" ORDER BY "+list, func(s *stmt) error {
		if known[keyOf(s, columns)] {
			return ctx.Err()
		}
		texts := make([]string, len(columns))
		for i := range columns {
			texts[i] = s.text(i)
		}
		if !each(strings.Join(texts, ",")) {
			return errEnough
		}
		return ctx.Err()
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return d.explain(err)
}

// find looks a row up by its key alone, and reports whether it exists.
func (w *writer) find(r *fold.Row) (exists bool, err error) {
	w.c.release()
	for _, k := range w.b.Table.Key {
		w.take(r, k)
	}
	if _, err := w.own(r); err != nil {
		return false, err
	}
	return w.lookUp(w.sel)
}

var errEnough = errors.New("no more rows are wanted")

// keyOf is the key of the row at hand, which some columns have.
func keyOf(s *stmt, columns []int) string {
	var key []byte
	for _, i := range columns {
		key = strconv.AppendInt(key, int64(s.kind(i)), 10)
		key = strconv.AppendQuote(key, s.text(i))
	}
	return string(key)
}

// respelled reports whether column i of the table's row has what the row of the batch
// names, but for its spelling.
func (w *writer) respelled(r *fold.Row, i int) bool {
	c, raw := &w.table.Columns[w.cols[i]], w.b.Value(r, i)
	if raw == nil || c.Type == schema.Text != (w.sel.kind(i) == lib.SQLITE_TEXT) {
		return false
	}
	text := w.sel.bytes(i)
	if w.sel.kind(i) == lib.SQLITE_FLOAT {
		text = feed.AppendReal(nil, w.sel.real(i))
	}
	return c.Respelled(raw, text)
}
