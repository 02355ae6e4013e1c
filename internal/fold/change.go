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
	Replace           // sets the columns that it names and clears the others
	// Ensure creates the row, with only its key, unless it exists. It has no version and is older than all messages.
	Ensure
	// Truncate removes all rows of the table. It has no fields, and the other changes of its message are Truncates
	// too.
	Truncate
)

// ends reports whether the change removes all earlier values of the row.
func (o Op) ends() bool { return o == Delete || o == Replace }

// versioned reports whether the change has a version if the table's messages have versions.
func (o Op) versioned() bool { return o < Ensure }

// A Change is what one message says about one row of a table.
type Change struct {
	Op Op
	// Fields are the values, including the key's. If a name occurs several times, the last one counts.
	Fields     []feed.Field
	Unnumbered [][]byte   // as in [feed.Line]
	Version    feed.Field // without a Value if the message has none
	// Declared has, by name, the columns to create for fields whose type the stream declares; for others, the values
	// decide. It is read-only.
	Declared map[string]schema.Column
	// Nulled are the values that count as null because their columns do not admit them.
	Nulled []Nulled
	// Text is the message's line. If a value holds a NUL, Text holds the escape of one.
	Text []byte
}

// Nulled is a value that counts as null because its column does not admit it.
type Nulled struct{ Table, Column, Why string }

// A Mapper makes changes from lines, for one table whose columns have the names of the fields. Several goroutines may
// use it.
type Mapper struct {
	deletes, version int32 // numbers of the fields, or noName
	deleteValue      string
}

// NewMapper returns the mapper of a fold's options, for lines that were scanned with names.
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

// noName is a number that no name has.
const noName = -1 << 31

// Map returns the change that a line makes. The line must have been scanned without an error; the change points into
// its memory.
func (m *Mapper) Map(l *feed.Line) Change {
	c := Change{Fields: l.Fields, Unnumbered: l.Unnumbered, Text: l.Text}
	if m.deletes != noName || m.version != noName {
		m.readOpAndVersion(&c)
	}
	if l.Deletes {
		c.Op = Delete
	}
	return c
}

// readOpAndVersion reads a change's kind and version from its fields.
func (m *Mapper) readOpAndVersion(c *Change) {
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
