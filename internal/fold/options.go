package fold

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/merge"
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
	Key           []string // the fields of the key; none: each message is a row of its own
	DeleteField   string   // "" for none
	DeleteValue   string   // the text of the field in a message that deletes; "null" is JSON's null alone
	Null          Null
	FillOnly      bool                      // values go only where the row has NULL
	Version       string                    // the field with a message's version, "" for none
	Scope         Scope                     // of the versions, where there are any
	Merge         map[string]merge.Function // by column: how its values meet, if not by [merge.Last]
	UnknownFields UnknownFields
	MaxColumns    int           // columns that weir adds at most
	WholeLines    bool          // [Message.Text] is the whole line
	Limits        schema.Limits // of the database
	Log           *slog.Logger
}

// function is how the values of a column meet that is not of the key.
func (o *Options) function(column string) merge.Function {
	if o.FillOnly {
		return merge.First
	}
	for name, f := range o.Merge {
		if o.Limits.FoldName(name) == o.Limits.FoldName(column) {
			return f
		}
	}
	return merge.Last
}

// CheckMerge reports why a table cannot be kept by the options' merge functions.
func CheckMerge(t *schema.Table, o Options) error {
	for _, name := range slices.Sorted(maps.Keys(o.Merge)) {
		f := o.Merge[name]
		switch {
		case f == merge.Last:
			continue
		case len(o.Key) == 0:
			return fmt.Errorf("column %q cannot merge by %s: with key none each message is a row of its own, which meets no other", name, f)
		case slices.Contains(o.Key, name):
			return fmt.Errorf("column %q cannot merge by %s: it is part of the key", name, f)
		case o.Version != "" && (name == o.Version || f == merge.First || f == merge.Patch):
			return fmt.Errorf("column %q cannot merge by %s with --version-field %s: leave one of them out", name, f, o.Version)
		}
		at := o.Limits.Find(t, name, 0)
		if at < 0 {
			continue
		}
		c := t.Columns[at]
		c.Merge = f
		if err := c.CheckMerge(); err != nil {
			return fmt.Errorf("table %q: %w", t.Name, err)
		}
	}
	return nil
}
