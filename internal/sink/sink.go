// Package sink is the seam between weir and the databases that it keeps true:
// the interface that a driver implements, what a flush carries, and the classes
// of errors that decide what follows one.
package sink

import (
	"context"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// A Sink keeps tables in one database. Its methods are called by one goroutine
// at a time.
type Sink interface {
	// Caps tells what the database can hold.
	Caps() Caps
	// Claim takes a job for this run, instead of the one that it held, and
	// returns the job's checkpoint for a source: the zero one where there is
	// none. It writes nothing. The error is [ErrBusy] where another run holds
	// the job. The empty job is this run's alone.
	Claim(ctx context.Context, job, source string) (Checkpoint, error)
	// Table reads a table. Where there is none, Exists is false in the answer;
	// where the table cannot be kept by that key, the error says what would
	// make it so; it is a [KeyError] where weir made the table, and the answer is then
	// what the table would be if it were missing.
	Table(ctx context.Context, name string, key []string) (schema.Table, error)
	// Flush writes a batch, its rejects and its checkpoint in one transaction,
	// after it has made or widened the table as the batch needs it. A flush
	// that was sent before, whatever came of it, may be sent again as it is:
	// it happens once.
	Flush(ctx context.Context, f *Flush) (Result, error)
	// Close releases the job and the database. It is safe to call it twice.
	Close() error
}

// Caps is what a database can hold.
type Caps struct {
	Name    string // for people
	Columns int    // in one table at most
}

// A Checkpoint is how far a job has come in one source.
type Checkpoint struct {
	Seq     int64  // flushes of the job, over all its runs; the next one is Seq+1
	Line    int64  // lines of the source that were read
	Offset  int64  // bytes of the source that were read
	Mark    string // what else the source needs to resume there; "" where it is to be read from its start
	Rejects string // what the run needs to resume a file of rejects
	// Rejected is how many of the lines were rejected.
	Rejected int64
	// Settings are those of the fold that the lines were folded by, in the job package's own
	// notation.
	Settings string

	// What Claim alone sets.
	Table     string    // the job's table by its name
	TableID   string    // [schema.Table.ID] when the checkpoint was written
	Committed time.Time // when that was
}

// A Flush is one transaction.
type Flush struct {
	Batch *fold.Batch
	// Job and Source are what the checkpoint is kept under.
	Job, Source string
	Checkpoint  Checkpoint
	Run         string // names the run; no other has the same
	// KeepRejects has the batch's rejects written to weir_rejects.
	KeepRejects bool
	// Restart has the rejects that are kept of the source removed: the flush is the first
	// one of a run that reads the source from its start.
	Restart bool
	// DropRejects is the time before which the job's rejects are removed; zero keeps all.
	DropRejects time.Time
	// Rebuild, where it is not empty, has the table emptied first, or dropped where it has
	// another key, with the checkpoints, rejects and versions of what it held. It names
	// the jobs for which this is done. The error is a [SharedError] where others have
	// written to the table.
	Rebuild []string
	// Tombstones is how long the version of a delete is remembered at least, where the
	// batch has versions.
	Tombstones time.Duration
	// ReadsDominate tells that flushes wait for rows to be read from a disk.
	ReadsDominate bool
	// BeforeCommit is called in the transaction when everything but the
	// checkpoint is written, with all rejects of the batch; it may change the
	// checkpoint. An error ends the flush and nothing is written. It may be
	// called again when the flush is. nil is none.
	BeforeCommit func(rejects []fold.Reject, cp *Checkpoint) error
}

// A Result counts what a flush did to the table's rows, and names the messages
// that the database refused.
type Result struct {
	Inserted, Updated, Unchanged, Deleted int64
	// Refused are messages that only the database could judge. They are among
	// the rejects that were kept.
	Refused []fold.Reject
}

// A Comparer compares a table with a fold.
type Comparer interface {
	// Compare looks up the rows of a batch, which hold all that their messages make,
	// and calls differs for each that the table has otherwise, until it returns
	// false. It writes nothing.
	Compare(ctx context.Context, b *fold.Batch, differs func(Difference) bool) error
}

// A Forgetter forgets jobs.
type Forgetter interface {
	// Forget removes what the database has of a job that was claimed: its checkpoints and
	// rejects, and its table's versions where no other job has written to the table.
	Forget(ctx context.Context, job string) (Forgotten, error)
}

// Kind is how a row differs.
type Kind int

// How a row differs.
const (
	Differs Kind = iota
	Missing      // the table lacks it
	Extra        // the table has it, and the fold has removed it
	Refused      // the database cannot take what the fold makes of it
)

// A Difference is a row that a table has otherwise than a fold.
type Difference struct {
	Row    *fold.Row
	Kind   Kind
	Column int    // of the batch's, the first that differs
	Have   string // what the table has in it, as text; NULL too; of Refused why
}

// Status is what a database says of the jobs that wrote to it.
type Status struct {
	Jobs    []JobStatus
	Rejects []RejectCount
}

// JobStatus is one job's progress in one source.
type JobStatus struct {
	Job, Table, Source string
	Line, Offset       int64
	Flushes            int64
	Updated            time.Time
}

// Forgotten counts what was removed with a job.
type Forgotten struct {
	Sources, Rejects int64
	Versions         bool // those of the job's table too: no other job has written to it
	Found            bool // there was something of the job
}

// RejectCount counts the rejects kept of one job, by reason.
type RejectCount struct {
	Job, Reason string
	Count       int64
}

// Kept is a rejected line as the database keeps it.
type Kept struct {
	Job, Source  string
	Line, Offset int64
	Reason       string
	Text         []byte
	Time         time.Time
}

// Class tells what may be done about an error.
type Class int

// The classes of errors.
const (
	Permanent Class = iota // nothing
	Transient              // wait and try again
	Unknown                // the same, and the flush may have happened
)

// An Error is a failure of a database with its class.
type Error struct {
	Class  Class
	Reason string // a word for metrics: one of RetryReasons, if it can be retried
	Err    error
}

// RetryReasons are the reasons for which a call is tried again.
var RetryReasons = []string{"locked", "io", "connection", "connections", "deadlock", "serialization", "timeout", "readonly", "resources"}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

var (
	// ErrBusy says that another run holds the job.
	ErrBusy error = takenError("another run holds this job")
	// ErrFenced says that another run has taken the job over meanwhile.
	ErrFenced error = takenError("another run has written this job's checkpoint meanwhile")
)

// A takenError is one of a job that another run has. The program exits with 4.
type takenError string

func (e takenError) Error() string { return string(e) }
func (takenError) ExitCode() int   { return 4 }

// ErrBehind says that the database went back to an earlier state under the run:
// the source has to be read again from the checkpoint that is there.
type ErrBehind struct{ Found, Want int64 }

func (e ErrBehind) Error() string {
	return fmt.Sprintf("the database went back: it holds flush %d of this job, this run had committed %d", e.Found, e.Want)
}

// ErrChanged says that the table can no longer become what a batch needs: the source has to
// be read again for the table as it is.
type ErrChanged struct{ Err error }

func (e ErrChanged) Error() string { return e.Err.Error() }
func (e ErrChanged) Unwrap() error { return e.Err }

// ErrUnlogged says that the database refused a row of a table that seemed to have no
// constraints, so that the batch did not keep the row's messages: the source has to be read
// again for a table that has some.
type ErrUnlogged struct{ Err error }

func (e ErrUnlogged) Error() string { return "a table without rules refused a row: " + e.Err.Error() }
func (e ErrUnlogged) Unwrap() error { return e.Err }
