package sink

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// Format is the format of weir's own tables. No earlier one was ever released.
const Format = 7

// CheckFormat returns an error if weir's tables in a database have another format than this program's. answer is that
// of [Dialect.FormatSQL], and where names the database.
func CheckFormat(answer [][][]byte, where string) error {
	if len(answer) == 0 {
		return nil
	}
	if found := Number(answer[0][0]); found != Format {
		return fmt.Errorf("weir's tables in %s were made by another version of weir (format %d, this version knows %d): "+
			"use that version, or sync into another database", where, found, Format)
	}
	return nil
}

// RunPrefix starts the names of lanes that no run resumes. RunsKept is how long their checkpoints are kept: a feed may
// be silent for that long.
const (
	RunPrefix = "run "
	RunsKept  = 30 * 24 * time.Hour
)

// LaneName returns the name under which a lane's checkpoint is stored.
func (f *Flush) LaneName(l *Lane) string {
	if l.Unnamed {
		return RunPrefix + f.Run
	}
	return l.Source
}

func (f *Flush) laneNames() []string {
	names := make([]string, len(f.Lanes))
	for i := range names {
		names[i] = f.LaneName(&f.Lanes[i])
	}
	return names
}

// First reports whether the flush is the first one of a lane in all runs. Only then can the job be new to its tables.
func (f *Flush) First() bool {
	return slices.ContainsFunc(f.Lanes, func(l Lane) bool { return l.Checkpoint.Seq == 1 })
}

// A Fence is a lane's state in the database: the sequence number of its last flush, and the run that wrote it.
type Fence struct {
	Seq int64
	Run string
}

// CheckFence reports whether a flush may be written to a database with these fences, by lane name; a missing lane has
// sequence number zero. done says that this flush is already committed. The error is a [BehindError] or a [FencedError]
// if it must not be written.
func (f *Flush) CheckFence(found map[string]Fence) (done bool, err error) {
	var behind error
	var fenced []string
	for i := range f.Lanes {
		l := &f.Lanes[i]
		at, want := found[f.LaneName(l)], l.Checkpoint.Seq-1
		switch {
		case at == Fence{l.Checkpoint.Seq, f.Run}:
			return true, nil
		case at.Seq < want && behind == nil:
			behind = BehindError{l.Source, at.Seq, want}
		case at.Seq > want:
			fenced = append(fenced, l.Source)
		}
	}
	if len(fenced) > 0 {
		return false, FencedError{fenced}
	}
	return false, behind
}

// TableIDs returns the value that a checkpoint stores to identify the flush's tables: the name and the ID of each.
func (f *Flush) TableIDs(ids ...string) string {
	text := ""
	for i, id := range ids {
		text += f.BeforeID(i) + id
	}
	return text
}

// BeforeID returns the text before the i-th ID in [Flush.TableIDs].
func (f *Flush) BeforeID(i int) string {
	name := strconv.Quote(f.Batches[i].Table.Name) + betweenIDs
	if i == 0 {
		return name
	}
	return betweenIDs + name
}

// betweenIDs separates IDs and quoted names. Neither contains it.
const betweenIDs = "\n"

// SplitIDs splits the value of [Flush.TableIDs] into quoted names and IDs.
func SplitIDs(text string) (names, ids []string) {
	for pair := range slices.Chunk(strings.Split(text, betweenIDs), 2) {
		names, ids = append(names, pair[0]), append(ids, pair[len(pair)-1])
	}
	return names, ids
}

// OtherTables returns the job's tables that were replaced since a checkpoint was written.
func OtherTables(cp *Checkpoint, tables []schema.Table) (others []*schema.Table) {
	names, ids := SplitIDs(cp.TableID)
	for i := range tables {
		at := slices.Index(names, strconv.Quote(tables[i].Name))
		if at >= 0 && ids[at] != "" && ids[at] != tables[i].ID {
			others = append(others, &tables[i])
		}
	}
	return others
}

// Keys in weir_meta, by the table's name in the driver's form.

// MadeMark returns the key that marks a table as created by weir. Its value is the table's ID: a new table of the same
// name gets another.
func MadeMark(table string) string { return "made " + table }

// DatabaseMark is the key of the database's ID.
const DatabaseMark = "database"

// VersionsMark returns the key of a table's columns that have versions. The value is a JSON array, in the order of
// their numbers.
func VersionsMark(table string) string { return "versions " + table }

// ColumnsMark returns the key for the columns that weir added to a table, with what they must hold:
// [schema.Table.Marks].
func ColumnsMark(table string) string { return "columns " + table }

// Grow adapts have, a table as in the database, to a batch; see [schema.Table.Grow].
func Grow(have *schema.Table, b *fold.Batch) ([]schema.Growth, error) {
	grown, err := have.Grow(&b.Limits, &b.Table, b.Names)
	switch err := err.(type) {
	case *schema.MissingError:
		if !err.Made { // the user's own: its field has no column from now on
			return nil, ChangedError{fmt.Errorf("table %q: %w", b.Table.Name, err)}
		}
		return nil, DroppedError{Table: b.Table.Name, Column: err.Column}
	case *schema.HeldError:
		return nil, ChangedError{Err: err}
	}
	return grown, err
}

// MayRebuild returns an error if a table must not be emptied for a job.
func MayRebuild(t *schema.Table, job string) error {
	others := slices.DeleteFunc(slices.Clone(t.Writers), func(other string) bool { return other == job })
	switch {
	case len(others) > 0:
		return SharedError{t.Name, others}
	case t.Exists && !t.Made:
		return fmt.Errorf("--restart rebuild empties only tables that weir created: table %q is not one, or others added constraints or triggers to it", t.Name)
	}
	return nil
}

// DroppedError reports that a table, or a column of it that weir added, was dropped or replaced while a run wrote to
// it.
type DroppedError struct{ Table, Column string }

func (e DroppedError) Error() string {
	if e.Column != "" {
		return fmt.Sprintf("column %q of table %q was dropped while weir wrote to it", e.Column, e.Table)
	}
	return fmt.Sprintf("table %q was dropped, replaced or lost columns while weir wrote to it", e.Table)
}

// CheckSame returns a [DroppedError] if now is not the same table as was.
func CheckSame(was, now *schema.Table) error {
	if was.Exists && was.ID != "" && now.ID != was.ID {
		dropped := DroppedError{Table: was.Name}
		for _, a := range now.Altered {
			if a.Now == "" {
				dropped.Column = a.Column
			}
		}
		return dropped
	}
	return nil
}

// NewTableID returns a unique value for [MadeMark].
func NewTableID() string { return rand.Text() }

// OnCreateError returns the error for a failed statement of [schema.Table.OnCreate].
func OnCreateError(table string, err error) error {
	return fmt.Errorf("a statement of on_create for table %q: %w", table, err)
}

// KeyError reports that a table created by weir has another key than the job's.
type KeyError struct{ Err error }

func (e KeyError) Error() string { return e.Err.Error() }
func (e KeyError) Unwrap() error { return e.Err }

// SharedError reports that a table cannot be emptied for one job, because others write it.
type SharedError struct {
	Table string
	Jobs  []string
}

func (e SharedError) Error() string {
	names := make([]string, len(e.Jobs))
	for i := range names {
		names[i] = fmt.Sprintf("%q", e.Jobs[i])
	}
	return fmt.Sprintf("--restart rebuild would remove what other jobs have written to table %q (%s): "+
		"weir forget JOB, for each that is over, or drop the table and sync all of them with --restart reread", e.Table, list(names))
}

// list joins names. It omits those after the third.
func list(names []string) string {
	if n := len(names) - 3; n > 0 {
		names = append(names[:3:3], fmt.Sprintf("%d more", n))
	}
	return strings.Join(names, ", ")
}
