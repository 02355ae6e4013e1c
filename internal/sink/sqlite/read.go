package sqlite

import (
	"context"
	"errors"

	"github.com/weirsync/weir/internal/fold"
)

// Read implements [sink.RowReader]: the rows' pages are then in the memory of the system.
func (d *DB) Read(ctx context.Context, b *fold.Batch, rows []*fold.Row) error {
	t, have := &b.Table, d.known(b).Table
	if !have.Exists {
		var err error
		if have, err = d.table(ctx, t.Name, t.KeyColumns()); err != nil || !have.Exists {
			return err
		}
	}
	d.c.tidy()
	w := d.newWriter(b, have, true)
	if err := w.prepare(); err != nil {
		return d.explain(err)
	}
	for _, r := range rows {
		_, err := w.find(r)
		w.sel.reset()
		if err != nil || ctx.Err() != nil {
			return errors.Join(d.explain(err), ctx.Err())
		}
	}
	return nil
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
