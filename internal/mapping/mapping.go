// Package mapping turns messages into row changes of several tables: it routes messages, renames and casts fields, and
// extracts child rows from arrays.
package mapping

import (
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A Mapping says what happens to the messages of a feed. Package settings reads and prints the fields with tags: the key
// in a config file, what it does, its default, and its words or smallest value.
type Mapping struct {
	File      string             // name of the file, for errors; "" for flags
	Envelope  *envelope.Envelope `key:"envelope" rebuild:"yes" help:"how to read a change stream: a preset's name, or keys" default:"the message is the row"`
	Ignore    paths.When         `key:"ignore" rebuild:"yes" help:"messages to ignore and count, in addition to the envelope's"`
	Unmatched Unmatched          `key:"unmatched" words:"ignore reject fail" help:"messages that no table takes: ‘ignore’ and count them, ‘reject’ them, or ‘fail’, which ends the run" default:"ignore"`
	MaxEach   int                `key:"max_each" min:"1" help:"most elements of an array" default:"100000"`
	MaxTables int                `key:"max_tables" min:"1" help:"most tables" default:"100"`
	Tables    []Table
	whole     *Mapping // what this mapping is a part of, see [Mapping.Select]; nil if it is whole
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
	Pos  paths.Pos            `json:"-"` // position in the file
	At   map[string]paths.Pos `json:"-"` // positions of the keys that the file gives the table
	Name string
	// From are patterns for the table's names in the stream; see [Envelope.Table].
	From []string   `key:"from" rebuild:"yes" commas:"yes" help:"tables of the stream to take, TABLE or SCHEMA.TABLE; ‘*’ matches any text, ‘?’ any character" default:"the table's own name"`
	When paths.When `key:"when" rebuild:"yes" help:"messages that the table takes; in a child table, elements" default:"all; with an envelope, all of this table"`
	Row  RowPath    `key:"row" rebuild:"yes" help:"path of the object that is the row, or ‘PATH as json_text’ if a string contains the object; without the object there is no row" default:"the message"`
	Nest
	Key []string `key:"key" rebuild:"yes" top:"yes" commas:"yes" none:"none" help:"columns that identify a row; in a child, after the parent's key. ‘none’: each message is a new row" default:"the top-level ‘key’; of ‘'*'’ the stream's key; else the existing table's primary key, or ‘id’"`
	// KeyByDefault: no key was set, so it is [DefaultKey], or the primary key of an existing table.
	KeyByDefault bool
	ID           string    `key:"id" rebuild:"yes" filled:"yes" help:"name of an integer key that the database generates"`
	Type         cast.Type `key:"type" rebuild:"yes" help:"type of columns that name none" default:"auto"`
	// OnCreate is SQL that runs after the table is created, in the same transaction.
	OnCreate []Statement `key:"on_create" help:"SQL to run when weir creates the table: one statement, a list, or either by database (‘postgres: […]’)"`

	DeleteWhen paths.When `key:"delete_when" top:"yes" help:"messages that delete their row; in a child table, elements" default:"the top-level ‘delete_when’; in a child never"`
	// DeletesNeedRow rejects a delete without the object Row, because it is unknown which row it means.
	DeletesNeedRow bool
	// Version is zero for the parent's version in a child table, else for none.
	Version paths.Path `key:"version_field" top:"yes" help:"path of the version" default:"the top-level ‘version_field’; in a child the parent's"`
	fold.Rules
	// Columns are the row's columns; nil: all fields, with their names.
	Columns []Column `key:"columns" rebuild:"yes" help:"columns and their sources; with ‘unknown_fields: add’ you can leave out the key" default:"all fields by their names"`
}

// A Nest says where the rows of a table are nested in messages.
type Nest struct {
	// Each is an array or object with a row in each element, in the row of table Of, or in the message if Of is "". The
	// zero path: a message is one row.
	Each   paths.Path        `key:"each" rebuild:"yes" help:"path of an array or object: each element is a row"`
	Of     string            `key:"of" rebuild:"yes" filled:"yes" help:"parent table: ‘each’ is in its row, and deleting that row deletes these"`
	Set    Set               `key:"set" rebuild:"yes" words:"replace merge" help:"‘replace’: the array is the complete set of rows; ‘merge’: its elements are updates" default:"replace"`
	Parent map[string]string `key:"parent" rebuild:"yes" help:"new names for the parent's columns, such as ‘{id: order_id}’"`
}

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
	// Merge is among the rules of the table, too.
	Merge merge.Function `json:"-"`
}

// A Source is where a value comes from: one of From, Value, Stamp and Meta.
type Source struct {
	Pos   paths.Pos `json:"-"` // position in the file
	When  paths.When
	As    cast.Type
	From  paths.Path
	Value []byte // raw JSON constant; nil for other sources
	Stamp schema.Stamp
	Meta  Meta
	// References is the table that the value is a foreign key to, "" for none. A missing row there is created with
	// only its key.
	References string
}

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

// Has reports whether the file gives the table a key.
func (t *Table) Has(key string) bool {
	_, given := t.At[key]
	return given
}

// isHistory reports whether the settings make each message its own row. A message that deletes its row is one more.
func (t *Table) isHistory() bool { return t.Key != nil && len(t.Key) == 0 && !t.KeyByDefault }

// Place returns the position of a key of the table, or of the table.
func (t *Table) Place(key string) paths.Pos {
	if at, given := t.At[key]; given {
		return at
	}
	return t.Pos
}

// columnNames returns the names of the columns that the mapping lists.
func (t *Table) columnNames() []string {
	names := make([]string, len(t.Columns))
	for i := range t.Columns {
		names[i] = t.Columns[i].Name
	}
	return names
}

// TypeOf returns the type that a source's values are converted to.
func (t *Table) TypeOf(s *Source) cast.Type {
	if s.As.Kind == cast.DefaultType {
		return t.Type
	}
	return s.As
}
