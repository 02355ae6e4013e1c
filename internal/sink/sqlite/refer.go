package sqlite

import (
	"fmt"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about rows that name rows of other tables by keys that the database generates.

// A reference finds the rows that a column names.
type reference struct {
	*schema.Ref
	find *stmt
	key  schema.Type // that keys are written as
}

// prepareRefs prepares to find the rows that those of the writer name. to returns the writer of a
// table; nil: rows are only read.
func (w *writer) prepareRefs(to func(table int) *writer) error {
	for i := range w.b.Table.Refs {
		ref := reference{Ref: &w.b.Table.Refs[i]}
		from := ref.From[0]
		if ref.Owner || from == ref.Column {
			continue
		}
		collation := w.b.Table.Columns[from].Collation
		ref.key = w.types[from]
		if to != nil {
			of := to(ref.Table)
			at := of.b.Table.Key[0]
			collation, ref.key = of.table.Columns[of.cols[at]].Collation, of.types[at]
		}
		f := &sink.Finder{Table: quote, Quote: quote, Equal: func(_, column string, value int) string {
			sql := fmt.Sprintf("%s = ?%d", quote(column), value+1)
			if collation != "" {
				sql += " COLLATE " + collation
			}
			return sql
		}}
		var err error
		if ref.find, err = w.c.prepare(f.Find(ref.To)); err != nil {
			return err
		}
		w.refs = append(w.refs, ref)
	}
	return nil
}

// refer notes what the row at hand names other rows by.
func (w *writer) refer(r *fold.Row) error {
	for i := range w.refs {
		ref := &w.refs[i]
		from := ref.From[0]
		raw := w.b.Value(r, from)
		switch {
		case r.Deleted, raw == nil && !w.b.Initial(r, from):
		case raw == nil || raw[0] == 'n':
			w.vals[ref.Column] = value{kind: lib.SQLITE_NULL}
		default:
			id, err := ref.row(raw)
			if err != nil {
				return err
			}
			id.late = w.b.Initial(r, from)
			w.vals[ref.Column] = id
		}
	}
	return nil
}

// row returns what the database knows the row by that has a key; NULL where there is none.
func (ref *reference) row(raw []byte) (id value, err error) {
	key := convert(raw, ref.key)
	defer ref.find.reset()
	if err := ref.find.bindValue(1, &key); err != nil {
		return id, err
	}
	if found, err := ref.find.step(); err != nil || !found {
		return value{kind: lib.SQLITE_NULL}, err
	}
	return ref.find.value(0), nil
}
