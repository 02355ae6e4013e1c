package pipeline

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
)

// A Table is a table that a job writes to.
type Table struct {
	*mapping.Table          // its settings
	Name           string   // in the database
	Key            []string // columns as named in the database
	Fold           fold.Options
}

// AddsTo tells what a repeated message adds to, for an error message. "": a repeated message changes nothing.
func (t *Table) AddsTo() string {
	name := fmt.Sprintf("table %q", t.Name)
	if t.Name == mapping.Star {
		name = "each table of the stream"
	}
	switch column := t.Fold.SumColumn(); {
	case column != "":
		return fmt.Sprintf("the sums in column %q of %s", column, name)
	case t.Fold.Appends():
		return "the rows of " + name
	}
	return ""
}

// addsAgain reports whether applying messages twice changes the result.
func addsAgain(tables []Table) bool {
	return slices.ContainsFunc(tables, func(t Table) bool { return t.AddsTo() != "" })
}

// TableNames returns the names of the tables in the database.
func TableNames(tables []Table) []string {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].Name
	}
	return names
}

// TableKeys returns the tables and their keys as the database has them.
func TableKeys(tables []Table) []sink.TableKey {
	keys := make([]sink.TableKey, len(tables))
	for i := range tables {
		keys[i] = sink.TableKey{Name: tables[i].Name, Key: tables[i].Key}
	}
	return keys
}
