package fold

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// Op is what a message does to its row.
type Op uint8

// What a message does.
const (
	Upsert  Op = iota // sets the columns that it names
	Delete            // removes the row
	Replace           // sets the columns that it names, and nothing else is left of the row
	// Ensure makes the row, with its key alone, unless it exists. It has no version, and is older than
	// all.
	Ensure
	// Truncate removes all rows of the table, and has no fields. The other changes of its message are of
	// the same kind.
	Truncate
)

// ends reports whether nothing is left of the row as it was.
func (o Op) ends() bool { return o == Delete || o == Replace }

// versioned reports whether it has a version, where the table's messages have.
func (o Op) versioned() bool { return o < Ensure }

// A Change is what one message says about one row of a table.
type Change struct {
	Op Op
	// Fields are the values, those of the key among them. Of equal names the last counts.
	Fields     []feed.Field
	Unnumbered [][]byte   // as in [feed.Line]
	Version    feed.Field // without a Value where the message has none
	// Declared are the columns, by name, that weir makes for fields of the change, where the stream says
	// what they hold: others are made for the values that come. Nothing writes to it.
	Declared map[string]schema.Column
	// Nulled are the values that count as null, for their columns do not take them.
	Nulled []Nulled
	// Text is the message's line. Where a value holds a NUL, it has the escape of one, too.
	Text []byte
}

// Nulled is a value that its column does not take, and that counts as null.
type Nulled struct{ Table, Column, Why string }

// A Mapper makes changes of lines, for one table whose columns are called as the fields are.
// Several goroutines may use it.
type Mapper struct {
	deletes, version int32 // the numbers of their fields, or noName
	deleteValue      string
}

// NewMapper returns the mapper of a fold's options, for lines whose scanners number names as
// names does.
func NewMapper(names *feed.Names, o Options) *Mapper {
	m := &Mapper{deletes: noName, version: noName, deleteValue: o.DeleteValue}
	if o.DeleteField != "" {
		m.deletes = names.Number(o.DeleteField)
	}
	if o.Version != "" {
		m.version = names.Number(o.Version)
	}
	return m
}

// noName is the number of no name.
const noName = -1 << 31

// Map returns what a line says, which must have been scanned without an error. The change's
// memory is the line's.
func (m *Mapper) Map(l *feed.Line) Change {
	c := Change{Fields: l.Fields, Unnumbered: l.Unnumbered, Text: l.Text}
	if m.deletes != noName || m.version != noName {
		m.look(&c)
	}
	if l.Deletes {
		c.Op = Delete
	}
	return c
}

// look takes what a change's fields say of its kind and its version.
func (m *Mapper) look(c *Change) {
	for i := range c.Fields {
		f := &c.Fields[i]
		if f.Name == m.deletes {
			if c.Op = Upsert; m.isDelete(f) {
				c.Op = Delete
			}
		}
		if f.Name == m.version {
			c.Version = *f
		}
	}
}

func (m *Mapper) isDelete(f *feed.Field) bool {
	return string(feed.Text(nil, f.Value, f.Kind)) == m.deleteValue && (f.Kind == feed.Null || m.deleteValue != "null")
}
