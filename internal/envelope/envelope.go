// Package envelope decodes change data capture (CDC) messages: their table, row, operation and version.
package envelope

import (
	_ "embed"

	"github.com/weirsync/weir/internal/paths"
)

// Presets are the envelopes by their names, with the keys of envelope in a config file, as YAML.
//
//go:embed presets.yaml
var Presets []byte

// RecordKey is the field of a line with the key of its Kafka record, null if it has none. It is not a column.
const RecordKey = "@key"

// An Envelope says where CDC messages hold their table, row, operation and version. Its paths begin at the message that
// Unwrap finds; only Unwrap and ConnectSchema begin at the line.
type Envelope struct {
	Preset string     `json:"-"` // its name; "" for one of its own
	Unwrap paths.Path // of an object that is the message; where there is none, the line is the message
	// ConnectSchema is, in the line, what says which types the fields of the row have, as Kafka Connect's JSON
	// converter has it. Where the envelope has one, a line without it is unwrapped only if it has nothing else.
	ConnectSchema paths.Path
	Table         []paths.Path // the parts of the table's name, those that are present; nil: messages name no table
	// OneTable ends the run when messages name a second table.
	OneTable bool
	Each     paths.Path   // of an array, each of whose elements is a row; the zero path: there is one row
	Row      []paths.Path // the first that is present is the row: an object, or an array of its fields as pairs of name and value
	// Old has the row as it was before, or some of it: the key of a delete, and the former key of an
	// update. With Each it is an array beside that one.
	Old paths.Path
	Key paths.Path // an object with the fields of the key, which the row may lack; an array has their names alone
	// RecordKeys says that the key of a Kafka record is the key of its row: an object, or null if the table has no key.
	RecordKeys bool
	Omit       []string // names of fields that are no columns; a * at the end stands for any text
	// Absent are texts of values that mean that there is none.
	Absent []string
	Unset  paths.Path // an array with the names of fields that are NULL, unless the row is whole
	// Partial is an array that has elements where the message changes parts of values that it does not
	// have; then it is rejected, unless the row is whole.
	Partial paths.Path
	// ExtendedJSON has fields of the row with their types, as MongoDB writes them.
	ExtendedJSON bool

	ReplaceWhen paths.When // the row is whole: what it lacks is NULL
	// Schema and SchemaKey are of messages that describe the rows to come of their table: a JSON Schema
	// of them, and an array with the names of the fields that are their key.
	Schema, SchemaKey paths.Path
	// Resume has a value from which the source resumes, in messages of their own.
	Resume paths.Path

	Operations
	// Version are parts that are compared in order. They count for tables whose version is
	// [paths.VersionBase].
	Version []VersionPart
}

// Operations say which messages do what. A message that none of them covers is rejected.
type Operations struct {
	Ignore       paths.When
	DeleteWhen   paths.When
	TruncateWhen paths.When
	WriteWhen    paths.When // nil: all other messages
	InsertWhen   paths.When // messages that insert their row: nothing else has the values that they leave out
	WarnWhen     paths.When // messages that are ignored with a warning
	FailWhen     paths.When // messages that end the run
}

// NamesKeys reports whether messages with rows may name the key of their table.
func (e *Envelope) NamesKeys() bool { return e.RecordKeys || e.Key.Base != paths.NoBase }

// Removes reports whether messages may remove rows, as those do that change a key.
func (e *Envelope) Removes() bool {
	return e.DeleteWhen != nil || e.TruncateWhen != nil || e.Old.Base != paths.NoBase
}
