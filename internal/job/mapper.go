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

// A Table is one of those that a job keeps.
type Table struct {
	Name string
	Key  []string // as the database has it; nil: that of the fold
	// KeyOpen tells that the first message may name another key: see [mapping.Table].
	KeyOpen bool
	Fold    fold.Options
	// Fit makes the table, as the database has it, what the job wants of it: its stamps, and
	// what runs when it is made. nil: nothing.
	Fit    func(*schema.Limits, *schema.Table) error
	Expire *Expire // when its rows are removed; nil: never
	// Mapping is what makes its rows of messages, by the keys of a config file, for checkpoints;
	// nil where messages are its rows.
	Mapping map[string]string
}

// StoredKey returns the key as the database has it.
func (t *Table) StoredKey() []string {
	if t.Key != nil {
		return t.Key
	}
	return t.Fold.Key
}

// AddsTo says what each message adds to, for an error about applying messages twice; "": a repeated message changes nothing.
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

// addsAgain reports whether applying messages twice would add them twice.
func addsAgain(tables []Table) bool {
	return slices.ContainsFunc(tables, func(t Table) bool { return t.AddsTo() != "" })
}

// TableKeys are the tables with their keys as the database has them.
func TableKeys(tables []Table) []sink.TableKey {
	keys := make([]sink.TableKey, len(tables))
	for i := range tables {
		keys[i] = sink.TableKey{Name: tables[i].Name, Key: tables[i].StoredKey()}
	}
	return keys
}

// A Mapping is how a job makes rows of messages. [Config.Map] fills it. The zero value: all messages are for the one table,
// whose columns are called as the fields are.
type Mapping struct {
	// New returns what maps lines whose scanners number names as names does; the tables are fitted after it.
	New func(names *feed.Names) (Mapper, error)
	// Names number the fields of the messages, where New goes by numbers that it had before; nil: the run makes them.
	Names *feed.Names
	// Star describes the tables that messages add to the job's; nil: they add none.
	Star *Table
	// Stream is set for a change stream, where a line null comes after the message that removed the row.
	Stream bool
	// Fingerprint is by which messages are taken, whatever the table, by the keys of a config file, for checkpoints.
	Fingerprint map[string]string
}

// A Mapper says what the lines of a job's sources mean for its tables. One goroutine uses it.
type Mapper interface {
	// Map returns the changes that a line makes, in the order of the tables: none where it is
	// for no table. The line was scanned without an error, or is null in a stream; source is the name of where it
	// comes from. An error of type [*feed.Error] rejects the line, any other one ends the
	// run. table is the one that rejects it, -1 where it is none of them. The answer is good
	// until the next call.
	Map(l *feed.Line, source string, at fold.Place) (changes []fold.TableChange, table int, err error)
}
