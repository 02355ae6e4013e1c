package sqlite

import (
	"bytes"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// references find the rows of other tables that the rows of a table name by keys that the database generates.
type references struct {
	layout *layout
	owner  *ownership // nil if rows name those that they belong to by their keys
	refs   []reference
}

// An ownership finds the rows that the rows of a table belong to.
type ownership struct {
	*schema.Ref
	find *stmt
	last []byte // the key of the row that was found last, as messages have it; nil: none was
	id   value  // of that row
}

// A reference finds the rows that a column names.
type reference struct {
	*schema.Ref
	find *stmt
	key  schema.Type // that keys are written as
}

// prepareReferences prepares to find the rows that a table's rows belong to.
func (c *conn) prepareReferences(l *layout) (references, error) {
	ref := l.b.Table.Owner()
	if ref == nil {
		return references{layout: l}, nil
	}
	find, err := c.prepare(l.finder(1).Find(ref.To))
	return references{layout: l, owner: &ownership{Ref: ref, find: find}}, err
}

// prepareRefs prepares to find the rows that a table's rows refer to. to returns the layout of another table of the flush; nil:
// rows are only read.
func (k *references) prepareRefs(c *conn, to func(table int) *layout) (err error) {
	for i := range k.layout.b.Table.Refs {
		ref := reference{Ref: &k.layout.b.Table.Refs[i]}
		from := ref.From[0]
		if ref.Owner || from == ref.Column {
			continue
		}
		name := collationOf(&k.layout.b.Table.Columns[from])
		ref.key = k.layout.types[from]
		if to != nil {
			of := to(ref.Table)
			at := of.b.Table.Key[0]
			name, ref.key = collationOf(&of.table.Columns[of.cols[at]]), of.types[at]
		}
		if ref.find, err = c.prepare(finder(1, func(int) string { return name }).Find(ref.To)); err != nil {
			return err
		}
		k.refs = append(k.refs, ref)
	}
	return nil
}

func (k *references) any() bool { return k.owner != nil || len(k.refs) > 0 }

// followOwner has owners looked up by keys as their table writes them: what this table has seen of them itself may be of
// another type.
func (k *references) followOwner(of *layout) {
	if k.owner == nil {
		return
	}
	for part, column := range k.owner.From {
		k.layout.types[column] = of.types[of.b.Table.Key[part]]
	}
}

// findOwner sets the column that refers to the row's parent, and reports whether the parent exists.
func (k *references) findOwner(r *fold.Row, vals []value) (exists bool, err error) {
	o := k.owner
	if o == nil {
		return true, nil
	}
	var key []byte
	for _, from := range o.From {
		key = append(append(key, k.layout.b.Value(r, from)...), 0)
	}
	if !bytes.Equal(key, o.last) {
		o.last = nil
		from := make([]value, len(o.From))
		for i, column := range o.From {
			from[i] = convert(k.layout.b.Value(r, column), k.layout.types[column])
		}
		if o.id, err = o.find.one(from); err != nil {
			return false, err
		}
		o.last = key
	}
	vals[o.Column] = o.id
	return o.id.kind != lib.SQLITE_NULL, nil
}

// findReferred sets the columns that refer to other rows: NULL if those are missing.
func (k *references) findReferred(r *fold.Row, vals []value) (err error) {
	for i := range k.refs {
		ref := &k.refs[i]
		from := ref.From[0]
		raw, initial := k.layout.b.Value(r, from), k.layout.b.Initial(r, from)
		if r.Deleted || raw == nil && !initial {
			continue
		}
		id := value{kind: lib.SQLITE_NULL}
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

// one returns the first column of a query's first row with these arguments; NULL if there is none.
func (s *stmt) one(args []value) (value, error) {
	defer s.reset()
	if err := s.bindValues(args); err != nil {
		return value{}, err
	}
	if found, err := s.step(); err != nil || !found {
		return value{kind: lib.SQLITE_NULL}, err
	}
	return s.value(0), nil
}

// forget forgets what was found before a piece.
func (k *references) forget() {
	if k.owner != nil {
		k.owner.last = nil
	}
}
