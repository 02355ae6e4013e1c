package fold

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
)

// UnknownFields says what happens to a field without a column; "" lets the table decide.
type UnknownFields string

// What happens to a field without a column.
const (
	AddUnknown    UnknownFields = "add"
	IgnoreUnknown UnknownFields = "ignore"
	RejectUnknown UnknownFields = "reject"
)

// Scope is what has a version: each column, or the whole row.
type Scope string

// The scopes of versions.
const (
	ColumnScope Scope = "column"
	RowScope    Scope = "row"
)

// Null is what null does to its column; "" means ClearNull.
type Null string

// What null does.
const (
	ClearNull Null = "clear" // sets NULL
	KeepNull  Null = "keep"  // nothing, as if the field were absent
)

// Rules say how messages update the rows of a table. Each is a flag, a key of a table and a key at the top of a config
// file, by its tags: see package settings.
type Rules struct {
	Null     Null                      `key:"null" top:"all" words:"clear keep" help:"clear: null sets NULL; keep: null is the same as absent" default:"the top-level ‘null’"`
	Scope    Scope                     `key:"version_scope" top:"all" words:"column row" help:"what has a version: each column, or the row (then a message older than its row changes nothing)" default:"the top-level ‘version_scope’; in a child the parent's"`
	FillOnly bool                      `key:"fill_only" rebuild:"yes" top:"all" help:"write only columns that are NULL in the table: the first value of a column stays" default:"the top-level ‘fill_only’"`
	Merge    map[string]merge.Function // by column, if not [merge.Last]
	// UnknownFields "": fields without a column are ignored if the mapping names columns, else the table decides.
	UnknownFields UnknownFields `key:"unknown_fields" top:"all" words:"add ignore reject" unset:"" help:"fields without a column: add columns, ignore them, or reject the message" default:"ignore with ‘columns’, else the top-level ‘unknown_fields’, else add in a table that weir made, and ignore in others"`
	MaxColumns    int           `key:"max_columns" top:"all" help:"add at most this many ‘COLUMNS’ to a table" default:"the top-level ‘max_columns’"`
}

// Options are the rules of a fold for a table of a database.
type Options struct {
	Rules
	Key     []string      // the fields of the key; none: each message becomes a row
	Deletes bool          // messages may delete rows
	Version string        // where messages have their version, "" for none
	Limits  schema.Limits // of the database
	Log     *slog.Logger
}

// function returns the merge function of a column outside the key.
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

func (o *Options) setFunction(c *schema.Column) {
	if !c.Key && !c.Generated && c.Stamp == schema.NoStamp {
		c.Merge = o.function(c.Name)
	}
}

// Appends reports whether each message becomes a row of its own.
func (o *Options) Appends() bool { return len(o.Key) == 0 }

// SumColumn returns the first column that is a sum, or "".
func (o *Options) SumColumn() string {
	for _, name := range slices.Sorted(maps.Keys(o.Merge)) {
		if o.Merge[name] == merge.Sum {
			return name
		}
	}
	return ""
}

// CheckMerge returns, by column, why a table cannot have the options' merge functions. For a table without columns it
// returns the errors that need no database.
func CheckMerge(t *schema.Table, o Options) iter.Seq2[string, error] {
	return func(yield func(column string, err error) bool) {
		seen := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(o.Merge)) {
			other := seen[o.Limits.FoldName(name)]
			seen[o.Limits.FoldName(name)] = name
			if err := o.checkMerge(t, name, other); err != nil && !yield(name, err) {
				return
			}
		}
	}
}

// checkMerge returns why a table cannot have a column's merge function. other is a column before it that has the same
// name to the database, or "".
func (o *Options) checkMerge(t *schema.Table, name, other string) error {
	f, at := o.Merge[name], o.Limits.Find(t, name, 0)
	why := o.whyNotMerged(name)
	if other != "" {
		why = fmt.Sprintf("to the database it is the same column as %q, which has a function too", other)
	}
	switch {
	case f == merge.Last:
		return nil
	case why != "":
		return schema.MergeError(name, f, why)
	case at < 0 && (t.Made || o.addsColumns(t)): // a run that ignores new fields made it, with those of its first messages
		return nil
	case at < 0:
		return schema.MergeError(name, f, fmt.Sprintf("table %q has no such column, and gets no new ones", t.Name))
	}
	c := t.Columns[at]
	c.Merge = f
	if err := c.CheckMerge(); err != nil {
		return fmt.Errorf("table %q: %w", t.Name, err)
	}
	return nil
}

// addsColumns reports whether a table gets a column for each new field.
func (o *Options) addsColumns(t *schema.Table) bool {
	return !t.Exists || o.UnknownFields == AddUnknown || o.UnknownFields == "" && t.Made
}

// whyNotMerged says why a column cannot have its merge function with the other options; "" if it can.
func (o *Options) whyNotMerged(column string) string {
	f := o.Merge[column]
	switch {
	case o.Appends():
		return "with key none each message is its own row, so there is nothing to merge"
	case slices.Contains(o.Key, column):
		return "it is part of the key"
	case o.FillOnly:
		return "fill-only already keeps the first value of every column: leave one of them out"
	case o.Version == "":
		return ""
	case column == o.Version:
		return "it is the version of the messages"
	case f == merge.First || f == merge.Patch:
		return fmt.Sprintf("it depends on the order of arrival, and messages have a version (%s), which overrides that order: leave one of them out", o.Version)
	case o.Deletes:
		return fmt.Sprintf("messages delete rows and have a version (%s), and weir cannot tell what a late delete leaves of the value: leave the version or the deletes out", o.Version)
	}
	return ""
}
