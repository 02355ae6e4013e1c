package fold

import (
	"log/slog"

	"github.com/weirsync/weir/internal/schema"
)

// UnknownFields says what becomes of a field that the table has no column for; "" leaves it to
// the table.
type UnknownFields string

// What becomes of such a field.
const (
	AddUnknown    UnknownFields = "add"
	IgnoreUnknown UnknownFields = "ignore"
	RejectUnknown UnknownFields = "reject"
)

// Scope is what has a version: each column, or the row as a whole.
type Scope string

// The scopes of versions.
const (
	ColumnScope Scope = "column"
	RowScope    Scope = "row"
)

// Null is what null does to its column; "" is ClearNull.
type Null string

// What null does.
const (
	ClearNull Null = "clear" // sets NULL
	KeepNull  Null = "keep"  // nothing, as if the field were absent
)

// Options are the rules of a fold.
type Options struct {
	Key           []string // the fields of the key, one at least
	DeleteField   string   // "" for none
	DeleteValue   string   // the text of the field in a message that deletes; "null" is JSON's null alone
	Null          Null
	FillOnly      bool   // values go only where the row has NULL
	Version       string // the field with a message's version, "" for none
	Scope         Scope  // of the versions, where there are any
	UnknownFields UnknownFields
	MaxColumns    int           // columns that weir adds at most
	WholeLines    bool          // [Message.Text] is the whole line
	Limits        schema.Limits // of the database
	Log           *slog.Logger
}

// setsNull reports whether null sets NULL.
func (o *Options) setsNull() bool { return o.Null != KeepNull && !o.FillOnly }
