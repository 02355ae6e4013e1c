// Package envelope decodes change data capture (CDC) messages: their table, row, operation and version.
package envelope

import (
	_ "embed"

	"github.com/weirsync/weir/internal/mapping/paths"
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
	Unwrap paths.Path `key:"unwrap" help:"path of the message in the line. If nothing is there, the line is the message"`
	// ConnectSchema is the path in the line to the schema of Kafka Connect's JSON converter, which has the types of
	// the row's fields. If it is set, a line without a schema is unwrapped only if it has no other fields.
	ConnectSchema paths.Path `key:"connect_schema" help:"path of the message's Kafka Connect schema in the line, which gives fields their types"`
	// Table has the parts of the table's name, which may be absent; nil: messages name no table.
	Table []paths.Path `key:"table" help:"path of the table's name, or of its parts, such as schema and table"`
	// OneTable ends the run if messages name a second table.
	OneTable bool
	Each     paths.Path   `key:"each" help:"path of an array whose elements are rows"`
	Row      []paths.Path `key:"row" help:"path of the row, or several: the first that is not null counts. An object, or an array of ‘{name, value}’" default:"the message; with ‘each’, the element"`
	// Old is the row before the change, or a part of it: the key of a delete, and the former key of an update. With
	// Each it is a parallel array.
	Old paths.Path `key:"old" help:"path of the row before the change, or of a part with its key; with ‘each’, of a parallel array"`
	Key paths.Path `key:"key" help:"path of an object with the key's fields, or of an array of their names"`
	// RecordKeys: the key of a Kafka record is the key of its row: an object, or null if the table has no key.
	RecordKeys bool `key:"record_key" help:"whether the Kafka record's key is the row's key"`
	Operations
	ReplaceWhen paths.When `key:"replace_when" help:"messages with the complete row: columns that it lacks become NULL"`
	Omit        []string   `key:"omit" commas:"yes" help:"fields of the row that are not columns; ‘ts_*’ names a prefix"`
	// Absent are the texts of values that mean that the field is absent.
	Absent []string   `key:"absent" help:"values that mean that the field is absent"`
	Unset  paths.Path `key:"unset" help:"path of an array of fields that become NULL"`
	// Partial is an array that is not empty if the message changes parts of values that it does not contain. Such a
	// message is rejected, unless the row is whole.
	Partial paths.Path `key:"partial" help:"path of an array. If it has elements, the message changes parts of values and is rejected, unless its row is complete"`
	// ExtendedJSON: the row's values are wrapped with their types, as MongoDB writes them.
	ExtendedJSON bool `key:"extended_json" help:"whether values are wrapped with their types, as in MongoDB's Extended JSON: ‘{\"$oid\": …}’, ‘{\"$numberLong\": …}’, ‘{\"$date\": …}’"`
	Description
	// Resume is a value from which the source resumes, in messages of their own.
	Resume paths.Path `key:"resume" help:"path of the value to resume the source from, printed to stdout once everything before it is committed"`
	// Version has the parts of the version, compared in order. It is used for tables whose version is
	// [paths.VersionBase].
	Version []VersionPart `key:"version" help:"path of the version, or of its parts, compared in order; ‘PATH as lsn’, ‘binlog’, ‘mongo_ts’ or ‘timestamp’ reads log positions. Needs ‘version: true’"`
}

// A Description of a table is in messages that describe its future rows: a JSON Schema, and an array with the names of
// the key fields.
type Description struct {
	Schema    paths.Path `key:"schema" help:"path of a JSON Schema with the types of new columns, for tables that ‘'*'’ stands for"`
	SchemaKey paths.Path `key:"schema_key" help:"path of an array of the key's fields, next to ‘schema’"`
}

// Operations say what each message does. A message that none of them matches is rejected.
type Operations struct {
	Ignore       paths.When `key:"ignore" help:"messages to ignore and count, such as heartbeats"`
	DeleteWhen   paths.When `key:"delete_when" help:"messages that delete their row"`
	TruncateWhen paths.When `key:"truncate_when" help:"messages that truncate their table"`
	WriteWhen    paths.When `key:"write_when" help:"messages that set columns; those that match no condition are rejected" default:"all others"`
	InsertWhen   paths.When `key:"insert_when" help:"messages that insert their row; rejected if a value is ‘absent’"`
	WarnWhen     paths.When `key:"warn_when" help:"messages to ignore with one warning"`
	FailWhen     paths.When `key:"fail_when" help:"messages that end the run"`
}

// Removes reports whether messages may remove rows. Messages that change a key do.
func (e *Envelope) Removes() bool {
	return e.DeleteWhen != nil || e.TruncateWhen != nil || e.Old.Base != paths.NoBase
}
