package sqlite

import (
	"fmt"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about rows that name rows of other tables.

// A reference finds the rows that a column names.
type reference struct {
	*schema.Ref
	to   *writer // of their table; nil where rows are only read
	find *stmt
}

// prepareRefs prepares to find the rows that those of the writer name. to returns the writer of a
// table.
func (w *writer) prepareRefs(to func(table int) *writer) error {
	for i := range w.b.Table.Refs {
		ref := reference{Ref: &w.b.Table.Refs[i]}
		if ref.Missing == schema.NoRow {
			continue
		}
		from := ref.From[0]
		collation := w.b.Table.Columns[from].Collation
		if to != nil {
			ref.to = to(ref.Table)
			key := ref.to.key[0]
			collation = ref.to.table.Columns[ref.to.cols[key]].Collation
		} else if from == ref.Column {
			continue // the column has what messages have
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
		case r.Deleted, raw == nil && (from == ref.Column || !w.b.Initial(r, from)):
			continue
		case raw == nil || raw[0] == 'n':
			w.vals[ref.Column] = value{kind: lib.SQLITE_NULL}
			continue
		}
		id, err := ref.row(w, raw)
		if err != nil {
			return err
		}
		if id.kind == lib.SQLITE_NULL || from != ref.Column {
			id.late = w.b.Initial(r, from)
			w.vals[ref.Column] = id
		}
	}
	return nil
}

// row returns what the database knows the row by that has a key.
func (ref *reference) row(w *writer, raw []byte) (id value, err error) {
	key := w.converted(raw, ref.From[0])
	for {
		if id, err = ref.known(&key); err != nil || id.kind != lib.SQLITE_NULL || ref.to == nil {
			return id, err
		}
		switch ref.Missing {
		case schema.Stub:
			if err := ref.to.stub(raw); err != nil {
				return id, err
			}
		case schema.Reject:
			return id, &Error{Code: lib.SQLITE_CONSTRAINT_FOREIGNKEY, Msg: fmt.Sprintf("table %q has no row of the key %s", ref.To.Table, raw)}
		default:
			return id, nil
		}
	}
}

func (ref *reference) known(key *value) (id value, err error) {
	defer ref.find.reset()
	if err := ref.find.bindValue(1, key); err != nil {
		return id, err
	}
	if found, err := ref.find.step(); err != nil || !found {
		return value{kind: lib.SQLITE_NULL}, err
	}
	return ref.find.value(0), nil
}

// stub makes a row of a key that the table does not have, with that alone.
func (w *writer) stub(raw []byte) error {
	for i := range w.vals {
		w.vals[i].kind = 0
	}
	w.vals[w.key[0]] = w.converted(raw, w.key[0])
	done, err := w.insert()
	if err == nil && !done {
		return fmt.Errorf("table %q takes no row of the key %s, which another names", w.table.Name, raw)
	}
	w.counted(&w.res.Inserted)
	return err
}
