package schema

import "fmt"

// Stamp is when a column gets the time of the flush, in UTC. No field of a message sets such
// a column.
type Stamp uint8

// When it does.
const (
	NoStamp     Stamp = iota
	InsertStamp       // when the row is made
	UpdateStamp       // also when something else of it changes
)

// AddStamp makes a column of a table, as the database has it, a stamp, or returns why it
// cannot be one. A table that does not exist, or that weir made, gets one that it lacks.
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
