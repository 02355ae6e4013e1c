package fold

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
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
	Declared   *Declared  // nil: the stream declares no types
	// Text is the message's line. If a value holds a NUL, Text holds the escape of one.
	Text []byte
}

// Declared has, by name, the columns to create for fields whose type the stream declares; for others, the values decide.
// It is read-only.
type Declared struct{ Columns map[string]schema.Column }
