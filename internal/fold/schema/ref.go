package schema

import "slices"

// A Ref is a column with the generated key of a row of another table, while messages name that row by another key.
type Ref struct {
	Column int // index in the table
	// From are the columns with the referenced row's key as in messages. Those that the database does not have are
	// [Column.Hidden].
	From  []int
	To    *Lookup
	Table int // index of the referenced table's batch
	// Owner: the row is a child of the referenced row, and is not written if that is missing.
	Owner bool
}

// A Lookup finds a row by its key in messages.
type Lookup struct {
	Table  string
	Column string   // the row's generated key
	Key    []string // the columns of the key that the database has
	// Above finds the first column of Key from the first values; nil if they are the values of Key.
	Above *Lookup
}

// Parts returns the tables and columns that hold the values of the key.
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
	In     *Lookup // its table
	Column string
}

// Stored reports whether the database has the column.
func (c *Column) Stored() bool { return c.Type != Rows && !c.Hidden }

// Stored returns the table as in the database: without the columns that are not stored, and with the stored key.
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

// Owner returns the reference to the parent row, if the key does not contain the parent's key; else nil.
func (t *Table) Owner() *Ref {
	if i := slices.IndexFunc(t.Refs, func(r Ref) bool { return r.Owner }); i >= 0 {
		return &t.Refs[i]
	}
	return nil
}

// StoredKey returns the columns of the key in the database: the reference to the parent replaces the parts of the key
// that are not stored.
func (t *Table) StoredKey() []int {
	owner := t.Owner()
	if owner == nil {
		return slices.Clone(t.Key)
	}
	return append([]int{owner.Column}, t.Key[len(owner.From):]...)
}

// Refers reports whether a column holds the generated key of a row that messages name by other columns.
func (t *Table) Refers(column int) bool {
	return slices.ContainsFunc(t.Refs, func(r Ref) bool { return r.Column == column && r.From[0] != column })
}
