// Package envelope decodes change data capture (CDC) messages: their table, row, operation and version.
package envelope

import (
	_ "embed"

	"github.com/weirsync/weir/internal/paths"
)

// Presets are the built-in envelopes by name: YAML with the keys of envelope in a config file.
//
//go:embed presets.yaml
var Presets []byte

// RecordKey is the field of a line with the key of its Kafka record, null if it has none. It is not a column.
const RecordKey = "@key"

// An Envelope says where CDC messages have their table, row, operation and version. Unwrap and ConnectSchema start at
// the line; all other paths start at the message that Unwrap finds.
type Envelope struct {
	Preset string     `json:"-"` // name of the preset; "" for a custom envelope
	Unwrap paths.Path // path to an object that is the message; if it is missing, the line is the message
	// ConnectSchema is the path in the line to the schema of Kafka Connect's JSON converter, which has the types of
	// the row's fields. If it is set, a line without a schema is unwrapped only if it has no other fields.
	ConnectSchema paths.Path
	Table         []paths.Path // the parts of the table's name, which may be absent; nil: messages name no table
	// OneTable ends the run if messages name a second table.
	OneTable bool
	Each     paths.Path   // path to an array whose elements are the rows; the zero path: there is one row
	Row      []paths.Path // the first that is present is the row: an object, or an array of its fields as pairs of name and value
	// Old is the row before the change, or a part of it: the key of a delete, and the former key of an update. With
	// Each it is a parallel array.
	Old paths.Path
	Key paths.Path // an object with the key fields, which the row may lack; or an array with only their names
	// RecordKeys: the key of a Kafka record is the key of its row: an object, or null if the table has no key.
	RecordKeys bool
	Omit       []string // names of fields that are not columns; a trailing * matches any text
	// Absent are the texts of values that mean that the field is absent.
	Absent []string
	Unset  paths.Path // an array with the names of fields that are NULL, ignored if the row is whole
	// Partial is an array that is not empty if the message changes parts of values that it does not contain. Such a
	// message is rejected, unless the row is whole.
	Partial paths.Path
	// ExtendedJSON: the row's values are wrapped with their types, as MongoDB writes them.
	ExtendedJSON bool

	ReplaceWhen paths.When // the row is whole: columns that it lacks become NULL
	// Schema and SchemaKey are in messages that describe the future rows of their table: a JSON Schema, and an array
	// with the names of the key fields.
	Schema, SchemaKey paths.Path
	// Resume is a value from which the source resumes, in messages of their own.
	Resume paths.Path

	Operations
	// Version has the parts of the version, compared in order. It is used for tables whose version is
	// [paths.VersionBase].
	Version []VersionPart
}

// Operations say what each message does. A message that none of them matches is rejected.
type Operations struct {
	Ignore       paths.When
	DeleteWhen   paths.When
	TruncateWhen paths.When
	WriteWhen    paths.When // nil: all other messages
	InsertWhen   paths.When // messages that insert their row, so fields that they omit have no value anywhere
	WarnWhen     paths.When // messages that are ignored with a warning
	FailWhen     paths.When // messages that end the run
}

// NamesKeys reports whether messages may name the key of their table.
func (e *Envelope) NamesKeys() bool { return e.RecordKeys || e.Key.Base != paths.NoBase }

// Removes reports whether messages may remove rows. Messages that change a key do.
func (e *Envelope) Removes() bool {
	return e.DeleteWhen != nil || e.TruncateWhen != nil || e.Old.Base != paths.NoBase
}
