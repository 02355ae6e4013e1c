// Package mapping turns messages into row changes of several tables: it routes messages, renames and casts fields, and
// extracts child rows from arrays.
package mapping

import (
	"slices"
	"time"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/paths"
)

// A Mapping says what becomes of the messages of a feed.
type Mapping struct {
	File      string             // that it was read from, for errors; "" for flags
	Envelope  *envelope.Envelope // nil: the messages are the rows
	Ignore    paths.When         // messages that are skipped
	Unmatched Unmatched
	MaxEach   int // elements of one array
	MaxTables int
	Tables    []Table
}

// Unmatched is what becomes of a message that no table takes.
type Unmatched string

// What becomes of such a message.
const (
	IgnoreUnmatched Unmatched = "ignore" // it is counted
	RejectUnmatched Unmatched = "reject"
	FailUnmatched   Unmatched = "fail" // the run ends
)

// A Table says how messages become rows of one table.
type Table struct {
	Pos  paths.Pos `json:"-"` // where it is in the file
	Name string
	// From are the names of the table in a stream, as patterns; see [Envelope.Table].
	From []string
	When paths.When
	Row  paths.Path // of the object that is the row
	Nest
	Key []string // columns; a child's come after those of its parent. None: each message is a row of its own
	// KeyByDefault tells that nothing names the key: it is [DefaultKey], or the primary key of the table if that exists.
	KeyByDefault bool
	// KeyOpen tells that neither the mapping nor the database names the key: the first message may. Until then it is Key.
	KeyOpen bool
	ID      string // the column of a key that the database generates; "" for none
	// Columns are what the row has; nil: all fields by their names.
	Columns       []Column
	Type          cast.Type          // of columns that name none
	UnknownFields fold.UnknownFields // fields without a column; "": ignored if Columns is set, else the fold decides
	Expire        *Expire
	// OnCreate is SQL that is run in the transaction that makes the table.
	OnCreate []Statement

	DeleteWhen paths.When
	OnDelete   OnDelete
	// DeletesNeedRow rejects a message that removes its row and has no object Row: the row that it
	// means is not known.
	DeletesNeedRow bool
	Rules
}

// A Nest says where the rows of a table are nested in messages.
type Nest struct {
	// Each is an array or object with a row in each element, in the row of table Of, or in the message if Of is "". The zero
	// path: a message is one row.
	Each   paths.Path
	Of     string
	Set    Set
	Parent map[string]string // names that the row has for columns of its parent
}

// Rules say how messages update a row, as [fold.Options] do.
type Rules struct {
	Null       fold.Null
	BadValues  fold.BadValues
	FillOnly   bool
	Merge      map[string]merge.Function // by column, if not [merge.Last]
	Version    paths.Path                // of the version; the zero path: the parent's for a child table, else none
	Scope      fold.Scope
	MaxColumns int
}

// OnDelete is what happens to a row when a message deletes it. The zero value removes it.
type OnDelete struct {
	// Mark is the column that is true in rows that the source deleted; a later message about the row makes it false.
	Mark string
	// Insert inserts the deleted row as it was, in a table without a key.
	Insert bool
}

// String is what a config file says, in short; "" if the row is removed.
func (o OnDelete) String() string {
	switch {
	case o.Insert:
		return "row"
	case o.Mark != "":
		return "mark " + o.Mark
	}
	return ""
}

// removes reports whether a message that deletes a row removes it.
func (o OnDelete) removes() bool { return o == OnDelete{} }

// Set says what happens to child rows that the array does not have.
type Set string

// What happens to them.
const (
	ReplaceSet Set = "replace" // delete them: the array is the whole set
	MergeSet   Set = "merge"   // keep them: the elements are sparse updates
)

// A Column is a column and where its values come from.
type Column struct {
	Pos  paths.Pos `json:"-"` // where it is in the file
	Name string
	From []Source // the first whose When holds and whose path is present counts
}

// A Source is where a value comes from: one of From, Value, Stamp and Meta.
type Source struct {
	Pos   paths.Pos `json:"-"` // where it is in the file
	When  paths.When
	As    cast.Type
	From  paths.Path
	Value []byte // raw JSON; nil where the value is none of the file's
	Stamp Stamp
	Meta  Meta
	// References is the table to which the value is a foreign key, "" for none. A row that is missing
	// there is made, with its key alone.
	References string
}

// Stamp is when a column gets the time of the flush.
type Stamp string

// When it does.
const (
	NoStamp     Stamp = ""
	InsertStamp Stamp = "insert" // when the row is made
	UpdateStamp Stamp = "update" // also when something of it changes
)

// Meta is what is known of an element or a line beside its value.
type Meta string

// What is known.
const (
	NoMeta     Meta = ""
	IndexMeta  Meta = "index" // of the element in its array, from 0
	KeyMeta    Meta = "key"   // the name of the element in its object
	LineMeta   Meta = "line"  // from 1
	OffsetMeta Meta = "offset"
	SourceMeta Meta = "source"
)

// Expire is when rows of a table are removed.
type Expire struct {
	Pos   paths.Pos `json:"-"` // where it is in the file
	After time.Duration
	Of    []string // columns: all of them must be older, or NULL; nil: all timestamps and stamps
	Every time.Duration
}

// A Statement is SQL for one kind of database, or for all.
type Statement struct {
	Database string // "" for all
	SQL      string
}

// Aging are the columns by whose times rows expire: those that the mapping names, or all stamps and
// timestamps.
func (t *Table) Aging() (names []string) {
	if t.Expire.Of != nil {
		return t.Expire.Of
	}
	for _, c := range t.Columns {
		if slices.ContainsFunc(c.From, func(s Source) bool { return s.Stamp != NoStamp || t.TypeOf(&s).IsTime() }) {
			names = append(names, c.Name)
		}
	}
	return names
}

// TypeOf is the type that the value of a source is read as.
func (t *Table) TypeOf(s *Source) cast.Type {
	if s.As.Kind == cast.DefaultType {
		return t.Type
	}
	return s.As
}
