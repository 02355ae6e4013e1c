package job

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A Table is a table that a job writes to.
type Table struct {
	Name string
	Key  []string // key columns as named in the database; nil: the fold's key
	// KeyOpen means that the first message may name another key: see [mapping.Table].
	KeyOpen bool
	Fold    fold.Options
	// Fit changes a table, as read from the database, to what the job wants: its stamps, and the SQL that creates it.
	// nil: it changes nothing.
	Fit func(*schema.Limits, *schema.Table) error
	// Mapping has the table's settings in checkpoints, by key of a config file. nil if messages are rows.
	Mapping map[string]string
}

// StoredKey returns the key columns as named in the database.
func (t *Table) StoredKey() []string {
	if t.Key != nil {
		return t.Key
	}
	return t.Fold.Key
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

// TableKeys returns the tables and their keys as the database has them.
func TableKeys(tables []Table) []sink.TableKey {
	keys := make([]sink.TableKey, len(tables))
	for i := range tables {
		keys[i] = sink.TableKey{Name: tables[i].Name, Key: tables[i].StoredKey()}
	}
	return keys
}

// A Mapping turns messages into rows. [Config.Map] sets it. With the zero value, all messages belong to the only table,
// whose columns are named like the fields.
type Mapping struct {
	// New returns a mapper of lines scanned with names. The tables are fitted after it is called.
	New func(names *feed.Names) (Mapper, error)
	// Names number the fields of the messages, if New relies on earlier numbers. nil: the run creates them.
	Names *feed.Names
	// Star describes the tables that messages add to the job. nil: they add none.
	Star *Table
	// Stream is set for a change stream, in which a line null follows the message that removed the row.
	Stream bool
	// Fingerprint has the settings of all tables in checkpoints, by key of a config file.
	Fingerprint map[string]string
}

// A Mapper turns the lines of a job's sources into changes of its tables. It is for one goroutine.
type Mapper interface {
	// Map returns the changes that a line makes, in the order of the tables; none if the line is for no table. The line
	// was scanned without an error, or is null in a stream. source is the name of its source. A [*feed.Error] rejects
	// the line; any other error ends the run. table is the index of the table that rejects the line, or -1. The changes
	// are valid until the next call.
	Map(l *feed.Line, source string, at fold.Place) (changes []fold.TableChange, table int, err error)
}
