// Package mapping turns messages into row changes of several tables: it routes messages, renames and casts fields, and
// extracts child rows from arrays.
package mapping

import (
	"time"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/paths"
)

// A Mapping says what happens to the messages of a feed.
type Mapping struct {
	File      string             // name of the file, for errors; "" for flags
	Envelope  *envelope.Envelope // nil: the messages are the rows
	Ignore    paths.When         // messages that are skipped
	Unmatched Unmatched
	MaxEach   int // maximum number of elements of one array
	MaxTables int
	Tables    []Table
}

// Unmatched is what happens to a message that matches no table.
type Unmatched string

// What happens to a message that matches no table.
const (
	IgnoreUnmatched Unmatched = "ignore" // it is only counted
	RejectUnmatched Unmatched = "reject"
	FailUnmatched   Unmatched = "fail" // the run ends
)

// A Table says how messages become rows of one table.
type Table struct {
	Pos  paths.Pos `json:"-"` // position in the file
	Name string
	// From are patterns for the table's names in the stream; see [Envelope.Table].
	From []string
	When paths.When
	Row  paths.Path // path to the object that is the row
	// RowInText: Row leads to a string that contains the object.
	RowInText bool
	Nest
	Key []string // columns; in a child table they follow the parent's. None: each message is a row
	// KeyByDefault: no key was set, so it is [DefaultKey], or the primary key of an existing table.
	KeyByDefault bool
	// KeyOpen: neither the mapping nor the database sets the key, so the first message may. Until then it is Key.
	KeyOpen bool
	ID      string // the column of the database-generated key; "" for none
	// Columns are the row's columns; nil: all fields, with their names.
	Columns       []Column
	Type          cast.Type          // of columns without a type
	UnknownFields fold.UnknownFields // fields without a column; "": ignored if Columns is set, else the fold decides
	// OnCreate is SQL that runs after the table is created, in the same transaction.
	OnCreate []Statement

	DeleteWhen paths.When
	OnDelete   OnDelete
	// DeletesNeedRow rejects a delete without the object Row, because it is unknown which row it means.
	DeletesNeedRow bool
	Rules
}

// A Nest says where the rows of a table are nested in messages.
type Nest struct {
	// Each is an array or object with a row in each element, in the row of table Of, or in the message if Of is "". The
	// zero path: a message is one row.
	Each   paths.Path
	Of     string
	Set    Set
	Parent map[string]string // the row's names for columns of the parent's key
}

// Rules say how messages update a row, as [fold.Options] do.
type Rules struct {
	Null       fold.Null
	BadValues  fold.BadValues
	FillOnly   bool
	Merge      map[string]merge.Function // by column, if not [merge.Last]
	Version    paths.Path                // path to the version; the zero path: the parent's version in a child table, else none
	Scope      fold.Scope
	MaxColumns int
}

// OnDelete is what happens to a row when a message deletes it. The zero value removes it.
type OnDelete struct {
	// Mark is the column that is true in rows that the source deleted; a later message about the row makes it false.
	Mark string
	// Insert inserts the deleted row unchanged, in a table without a key.
	Insert bool
}

// String returns the setting's short form in a config file; "" if the row is removed.
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

// Set says what happens to child rows that are not in the array.
type Set string

// What happens to child rows that are not in the array.
const (
	ReplaceSet Set = "replace" // delete them: the array is the whole set
	MergeSet   Set = "merge"   // keep them: the elements are sparse updates
)

// A Column is a column and where its values come from.
type Column struct {
	Pos  paths.Pos `json:"-"` // position in the file
	Name string
	From []Source // the first source whose When holds and whose path is present
}

// A Source is where a value comes from: one of From, Value, Stamp and Meta.
type Source struct {
	Pos   paths.Pos `json:"-"` // position in the file
	When  paths.When
	As    cast.Type
	From  paths.Path
	Value []byte // raw JSON constant; nil for other sources
	Stamp Stamp
	Meta  Meta
	// References is the table that the value is a foreign key to, "" for none. A missing row there is created with
	// only its key.
	References string
}

// Stamp says when a column is set to the time of the flush.
type Stamp string

// When a column is set to the time of the flush.
const (
	NoStamp     Stamp = ""
	InsertStamp Stamp = "insert" // when the row is inserted
	UpdateStamp Stamp = "update" // also when another column of the row changes
)

// Meta is metadata of an element or a line.
type Meta string

// The metadata.
const (
	NoMeta     Meta = ""
	IndexMeta  Meta = "index" // index of the element in its array, from 0
	KeyMeta    Meta = "key"   // name of the element in its object
	LineMeta   Meta = "line"  // from 1
	OffsetMeta Meta = "offset"
	SourceMeta Meta = "source"
)

// PeriodicSQL is SQL that a run executes each period.
type PeriodicSQL struct {
	Period     time.Duration
	Statements []Statement
}

// A Statement is SQL for one kind of database or for all.
type Statement struct {
	Database string // "" for all
	SQL      string
}

// TypeOf returns the type that a source's values are converted to.
func (t *Table) TypeOf(s *Source) cast.Type {
	if s.As.Kind == cast.DefaultType {
		return t.Type
	}
	return s.As
}
