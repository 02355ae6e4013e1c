package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A reader looks up rows of a batch.
type reader struct {
	layout     *layout
	references references
	sel        *stmt // the row looked up last, until reset
}

// newReader reads the table of a batch.
func (d *DB) newReader(ctx context.Context, b *fold.Batch) (*reader, error) {
	table, err := d.table(ctx, b.Table.Name, b.Table.KeyColumns())
	if err != nil {
		return nil, err
	}
	d.c.tidy()
	w := &reader{layout: newLayout(b, &table)}
	w.references, err = d.c.prepareReferences(w.layout, nil)
	return w, d.explain(err)
}

// Compare implements [sink.Inspector].
func (d *DB) Compare(ctx context.Context, b *fold.Batch, differs func(sink.Difference) bool) error {
	w, err := d.newReader(ctx, b)
	if err == nil {
		w.sel, err = d.c.prepare(w.layout.selectSQL())
	}
	if err != nil {
		return d.explain(err)
	}
	rows := b.Sorted()
	named := make([]bool, len(b.Table.Columns))
	for _, r := range rows {
		for i := range named {
			named[i] = named[i] || b.Value(r, i) != nil
		}
	}
	for _, ref := range w.references.refs {
		named[ref.Column] = named[ref.From[0]]
	}
	for _, r := range rows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.c.bound.release()
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

// compare returns the first difference of a row, in columns that some message has, or nil.
func (w *reader) compare(r *fold.Row, named []bool) (*sink.Difference, error) {
	vals := make([]value, len(named))
	w.layout.read(vals, r)
	if _, err := w.references.findOwner(r, vals); err != nil {
		return nil, err
	}
	if err := w.references.findReferred(r, vals); err != nil {
		return nil, err
	}
	exists, err := w.layout.lookUp(w.sel, vals)
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
	for i := range vals {
		c, v := &w.layout.b.Table.Columns[i], &vals[i]
		if w.layout.names[i] == "" || !named[i] || c.Key {
			continue
		}
		if v.kind == 0 || w.layout.b.Initial(r, i) { // no message has it
			if w.layout.table.Columns[w.layout.cols[i]].Default != "" {
				continue
			}
			v = &value{kind: lib.SQLITE_NULL}
		}
		if w.sel.holds(i, v, w.layout.types[i]) || w.respelled(r, i) {
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

// Sums implements [sink.Inspector].
func (d *DB) Sums(ctx context.Context, b *fold.Batch) (have, want sink.RowSum, err error) {
	w, err := d.newReader(ctx, b)
	if err != nil {
		return have, want, err
	}
	l := w.layout
	columns := slices.DeleteFunc(slices.Clone(l.columns), func(i int) bool {
		return !b.Names(i) && !b.Table.Refers(i) || l.table.Columns[l.cols[i]].Default != ""
	})
	texts, vals := make([][]byte, len(columns)), make([]value, len(l.cols))
	for _, r := range b.Sorted() {
		if r.Deleted {
			continue
		}
		d.c.bound.release()
		l.read(vals, r)
		if err := cmp.Or(ctx.Err(), w.references.findReferred(r, vals)); err != nil {
			return have, want, d.explain(err)
		}
		for n, i := range columns {
			texts[n] = vals[i].spelling()
		}
		want.Add(texts)
	}
	err = d.c.query("SELECT "+cmp.Or(l.list(columns), "NULL")+" FROM "+quote(l.table.Name), func(s *stmt) error {
		for n := range texts {
			if texts[n] = nil; !s.null(n) {
				texts[n] = s.spelling(n)
			}
		}
		have.Add(texts)
		return ctx.Err()
	})
	return have, want, d.explain(err)
}

// Others implements [sink.Inspector].
func (d *DB) Others(ctx context.Context, b *fold.Batch, each func(key string) bool) error {
	w, err := d.newReader(ctx, b)
	if err != nil {
		return err
	}
	l, n := w.layout, len(b.Table.Key)
	err = d.c.query("SELECT "+l.messageKeySQL()+", "+l.keySQL()+" FROM "+quote(l.table.Name)+" ORDER BY "+l.keySQL(), func(s *stmt) error {
		if b.Has(s.key(n).folded(&b.Table)) {
			return ctx.Err()
		}
		texts := make([]string, len(l.key))
		for i := range texts {
			texts[i] = s.text(n + i)
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

var errEnough = errors.New("no more rows are wanted")

// respelled reports whether column i of the table's row has the same value as a row of the batch, apart from spelling.
func (w *reader) respelled(r *fold.Row, i int) bool {
	c, raw := &w.layout.table.Columns[w.layout.cols[i]], w.layout.b.Value(r, i)
	if raw == nil || c.Type == schema.Text != (w.sel.kind(i) == lib.SQLITE_TEXT) {
		return false
	}
	return c.Respelled(raw, w.sel.spelling(i))
}
