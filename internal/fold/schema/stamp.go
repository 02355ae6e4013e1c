package schema

import "fmt"

// Stamp says when a column is set to the time of the flush, in UTC. Messages cannot set such a column.
type Stamp string

// When a column is set to the time of the flush.
const (
	NoStamp     Stamp = ""
	InsertStamp Stamp = "insert" // when the row is inserted
	UpdateStamp Stamp = "update" // also when another column of the row changes
)

// AddStamp makes a column of a table a timestamp column, or returns an error if it cannot be one. A missing column is
// added if weir creates or has created the table.
func (l *Limits) AddStamp(t *Table, name string, s Stamp) error {
	at := l.Find(t, name, len(t.Columns))
	if at < 0 {
		if t.Exists && !t.Made {
			return fmt.Errorf("table %q has no column %q for the time of a flush", t.Name, name)
		}
		t.Columns = append(t.Columns, Column{Name: name, Type: Instant, New: true, Stamp: s})
		return nil
	}
	c, what := &t.Columns[at], ""
	switch {
	case c.Key:
		what = "part of the key"
	case c.Generated:
		what = "computed by the database"
	case !c.HoldsTime:
		what = c.Declared()
	}
	if what != "" {
		return fmt.Errorf("column %q of table %q is %s: it cannot hold the time of a flush", c.Name, t.Name, what)
	}
	c.Stamp = s
	return nil
}
