package sqlite

import (
	"context"
	"errors"
	"slices"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Compare implements [sink.Inspector].
func (d *DB) Compare(ctx context.Context, b *fold.Batch, differs func(sink.Difference) bool) error {
	table, err := d.Table(ctx, b.Table.Name, b.Table.KeyColumns())
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
	exists, err := w.lookUp()
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
		if w.sel.holds(i, v) || w.respelled(r, i) || w.mayBeNull(i) && w.sel.null(i) {
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

// mayBeNull tells that column i names rows that may have been missing when a message came.
func (w *writer) mayBeNull(i int) bool {
	return slices.ContainsFunc(w.b.Table.Refs, func(r schema.Ref) bool { return r.Column == i && r.Missing == schema.Null })
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
