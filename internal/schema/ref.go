package schema

import "slices"

// A Ref is a column of a table that names a row of another one by what the database knows it by,
// where messages name it by its key.
type Ref struct {
	Column int // of the table
	// From are the columns with the key of the row, as its messages have it. Those that no database
	// has are [Column.Hidden].
	From  []int
	To    *Lookup
	Table int // of the row, by its batch
	// Owner tells that the row belongs to the one that it names, and is not written if that is missing.
	Owner bool
}

// A Lookup finds a row by its key, as messages have it.
type Lookup struct {
	Table  string
	Column string   // what the database knows the row by
	Key    []string // what it has of the key
	// Above finds the first column of Key by the first values; nil: the values are those of Key.
	Above *Lookup
}

// Parts returns the tables and columns that have the values of a key.
func (l *Lookup) Parts() (parts []Part) {
	key := l.Key
	if l.Above != nil {
		parts, key = l.Above.Parts(), key[1:]
	}
	for _, name := range key {
		parts = append(parts, Part{l, name})
	}
	return parts
}

// A Part is a column of a key.
type Part struct {
	In     *Lookup // of its table
	Column string
}

// A Lower is a table whose rows belong to those of another.
type Lower struct {
	Table string
	Key   []string // as the database has it
	// Owner finds the first column of Key by the first values that messages have of the key; nil:
	// these are those of Key.
	Owner *Lookup
	// Above is the table of the rows whose columns To have what Columns of these have: one of those
	// below, by its number, or the one that expires: -1.
	Above       int
	Columns, To []string
}

// Stored reports whether the database has the column.
func (c *Column) Stored() bool { return c.Type != Rows && !c.Hidden }

// Stored returns the table without the columns that no database has, by the key that it has there.
func (t *Table) Stored() Table {
	s := *t
	s.Columns, s.Key, s.Refs = nil, t.StoredKey(), nil
	at := make([]int, len(t.Columns))
	for i := range t.Columns {
		if at[i] = len(s.Columns); t.Columns[i].Stored() {
			s.Columns = append(s.Columns, t.Columns[i])
		}
	}
	for part, k := range s.Key {
		s.Key[part] = at[k]
	}
	return s
}

// Owner returns what names the row that a row of the table belongs to where that is not done by its
// key; nil: nothing does.
func (t *Table) Owner() *Ref {
	if i := slices.IndexFunc(t.Refs, func(r Ref) bool { return r.Owner }); i >= 0 {
		return &t.Refs[i]
	}
	return nil
}

// StoredKey returns the columns of the key as the database has it: in place of those that it has
// not, the one that names the row that the row belongs to.
func (t *Table) StoredKey() []int {
	owner := t.Owner()
	if owner == nil {
		return slices.Clone(t.Key)
	}
	return append([]int{owner.Column}, t.Key[len(owner.From):]...)
}

// Refers reports whether a column names rows that messages name by others.
func (t *Table) Refers(column int) bool {
	return slices.ContainsFunc(t.Refs, func(r Ref) bool { return r.Column == column && r.From[0] != column })
}
