package sqlite

import (
	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// references finds the rows of other tables that a table's rows name by database-generated keys.
type references struct {
	layout *layout
	owner  *ownership // nil if rows name their parents by their own keys
	refs   []reference
}

// An ownership finds the parents of a table's rows.
type ownership struct {
	*schema.Ref
	find *stmt
}

// A reference finds the rows that a column names.
type reference struct {
	*schema.Ref
	find *stmt
	key  schema.Type // type in which keys are written
}

// prepareReferences prepares to find the rows that a table's rows name. Keys are looked up with the type in the other
// table's layout, which to returns; the type that this table has seen may differ. to is nil if rows are only read.
func (c *conn) prepareReferences(l *layout, to func(table int) *layout) (k references, err error) {
	k.layout = l
	for i := range l.b.Table.Refs {
		ref := &l.b.Table.Refs[i]
		from := ref.From[0]
		switch {
		case ref.Owner:
			if to != nil {
				of := to(ref.Table)
				for part, column := range ref.From {
					l.types[column] = of.types[of.b.Table.Key[part]]
				}
			}
			k.owner = &ownership{Ref: ref}
			k.owner.find, err = c.prepare(l.finder().Find(ref.To))
		case from != ref.Column:
			named := reference{Ref: ref, key: l.types[from]}
			name := collationOf(&l.b.Table.Columns[from])
			if to != nil {
				of := to(ref.Table)
				at := of.b.Table.Key[0]
				name, named.key = collationOf(&of.table.Columns[of.cols[at]]), of.types[at]
			}
			named.find, err = c.prepare(finder(func(int) string { return name }).Find(ref.To))
			k.refs = append(k.refs, named)
		}
		if err != nil {
			return k, err
		}
	}
	return k, nil
}

func (k *references) any() bool { return k.owner != nil || len(k.refs) > 0 }

// findOwner sets the column that refers to the row's parent. It returns false if the parent is missing.
func (k *references) findOwner(r *fold.Row, vals []value) (exists bool, err error) {
	o := k.owner
	if o == nil {
		return true, nil
	}
	from := make([]value, len(o.From))
	for i, column := range o.From {
		from[i] = convert(k.layout.b.Value(r, column), k.layout.types[column])
	}
	id, err := o.find.one(from)
	vals[o.Column] = id
	return id.kind != lib.SQLITE_NULL, err
}

// findReferred sets the columns that refer to other rows; NULL if those are missing.
func (k *references) findReferred(r *fold.Row, vals []value) (err error) {
	for i := range k.refs {
		ref := &k.refs[i]
		from := ref.From[0]
		raw, initial := k.layout.b.Value(r, from), k.layout.b.Initial(r, from)
		if r.Deleted || raw == nil && !initial {
			continue
		}
		id := null
		if raw != nil && raw[0] != 'n' {
			if id, err = ref.find.one([]value{convert(raw, ref.key)}); err != nil {
				return err
			}
			id.late = initial
		}
		vals[ref.Column] = id
	}
	return nil
}

// one returns the first column of a query's first row; NULL if there is none.
func (s *stmt) one(args []value) (value, error) {
	defer s.reset()
	if err := s.bindValues(args); err != nil {
		return value{}, err
	}
	if found, err := s.step(); err != nil || !found {
		return null, err
	}
	return s.value(0), nil
}
