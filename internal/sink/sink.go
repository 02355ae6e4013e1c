// Package sink is the layer between weir and the databases: the interface that a driver implements, the content of a
// flush, and the error classes that decide what happens next.
package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A Sink writes tables in one database. One goroutine at a time calls its methods, including the methods of its
// optional parts. The optional parts are [Housekeeper], [RejectDropper], [Forgetter] and [Gauged]; [As] finds them.
type Sink interface {
	// Caps returns the limits of the database.
	Caps() Caps
	// Tables reads tables, each for a key, or for its primary key if the key is nil. For a missing table, Exists is
	// false. If a table cannot be written by its key, the error says what to change. If weir created every such table,
	// the error is a [KeyError] and each is described as missing.
	Tables(ctx context.Context, wanted ...TableKey) ([]schema.Table, error)
	// Flush writes, in one transaction, the batches of the job's tables, its rejects, and the checkpoints of its lanes.
	// It first creates or widens the tables as the batches need. A flush may be repeated unchanged, whatever its
	// previous outcome: it is applied exactly once.
	Flush(ctx context.Context, f *Flush) (Result, error)
	// Close releases the database. It is safe to call it twice.
	Close() error
}

// A RejectDropper is a sink that can remove rejected lines.
type RejectDropper interface {
	// DropRejects removes rejected lines of a job and with a reason, both "" for any, and returns how many. It may be
	// called again after any error.
	DropRejects(ctx context.Context, job, reason string) (dropped int64, err error)
}

// A Housekeeper is a sink that executes SQL of the user's.
type Housekeeper interface {
	// Execute executes a statement in a transaction of its own, which waits 2 seconds at most for a lock. The end of ctx
	// cancels it. It is not retried. A connection that it breaks is restored by the next call.
	Execute(ctx context.Context, sql string) error
}

// A NoSchemaError of [Sink].Tables reports that a table's schema is missing.
type NoSchemaError struct{ Schema, SQL string } // SQL creates it

func (e NoSchemaError) Error() string {
	return fmt.Sprintf("there is no schema %q: %s; write double quotes around a table name that contains a dot", e.Schema, e.SQL)
}

// A Forgetter is a sink that can forget a job.
type Forgetter interface {
	// Forget removes everything that the database has of a claimed job: its checkpoints and rejects, and the versions
	// of tables that no other job has written to.
	Forget(ctx context.Context, job string) (Forgotten, error)
}

// Gauged is a sink with metrics for monitoring.
type Gauged interface{ Gauges() []Gauge }

// A Gauge is a Prometheus gauge. Any goroutine may call Read, even after the sink is closed.
type Gauge struct {
	Name, Help string
	Read       func() int64
}

// As returns an optional part of a sink or of claims. The error is a [LacksError] if there is none; does says what the
// part is needed for, as a verb with its object.
func As[T any](of any, does string) (part T, err error) {
	part, ok := of.(T)
	if !ok {
		return part, LacksError{does}
	}
	return part, nil
}

// LacksError reports what a kind of database cannot do.
type LacksError struct{ Does string }

func (e LacksError) Error() string { return "weir cannot " + e.Does + " in a database of this kind" }

// A TableKey is a table's name, and the columns that identify its rows.
type TableKey struct {
	Name string
	Key  []string
}

// ReadTables is the signature of [Sink].Tables.
type ReadTables func(ctx context.Context, wanted ...TableKey) ([]schema.Table, error)

// NoTables is a [ReadTables] for a database without tables.
func NoTables(_ context.Context, wanted ...TableKey) ([]schema.Table, error) {
	return EachTable(wanted, func(_ int, w TableKey) (schema.Table, error) { return schema.Table{Name: w.Name}, nil })
}

// Table reads one table.
func Table(ctx context.Context, read ReadTables, name string, key []string) (t schema.Table, err error) {
	tables, err := read(ctx, TableKey{name, key})
	if len(tables) > 0 {
		t = tables[0]
	}
	return t, err
}

// EachTable implements [Sink].Tables with a function that reads one table.
func EachTable(wanted []TableKey, read func(i int, w TableKey) (schema.Table, error)) ([]schema.Table, error) {
	tables, keyErr := make([]schema.Table, len(wanted)), error(nil)
	for i, w := range wanted {
		var err error
		if tables[i], err = read(i, w); errors.As(err, new(KeyError)) {
			keyErr = err
		} else if err != nil {
			return nil, err
		}
	}
	return tables, keyErr
}

// Claims hold the lanes of one job for a run, with their own connection or file. A call waits for a flush only if the
// database locks out readers (SQLite without a WAL), or if its comment says so. Several goroutines may use them.
// Everything held is released when the process ends, however it ends. Only [GroupClaims] write to the database.
type Claims interface {
	// Tables returns the names of the tables that the job has written.
	Tables(ctx context.Context) ([]string, error)
	// Checkpoints returns the lanes' checkpoints, in the order of the arguments. A missing one is zero.
	Checkpoints(ctx context.Context, lanes ...string) ([]Checkpoint, error)
	// Latest returns the last committed checkpoint from which a run can resume, and its source. Only its Line, Offset,
	// Mark and TableID are set. If there is none, both are zero.
	Latest(ctx context.Context) (source string, cp Checkpoint, err error)
	// Take claims lanes, and returns their checkpoints as Checkpoints does. The last flush of a killed run may still come:
	// it fences the first flush of this one. The error is a [BusyError] if another run holds one of the lanes; then no
	// lane is added. Until Close no other run can claim the whole job, even if lanes is empty.
	Take(ctx context.Context, lanes ...string) ([]Checkpoint, error)
	// Drop releases lanes.
	Drop(ctx context.Context, lanes ...string) error
	// TakeJob claims the job with all its lanes. The error is a [BusyError] if another run holds one of them.
	TakeJob(ctx context.Context) error
	// Close releases everything. It is safe to call it twice.
	Close() error
}

// GroupClaims are the claims in a database to which several runs may write as members of a consumer group. The group
// decides who reads a lane. Taking over a lane that another run still writes is no error; it fences that run.
type GroupClaims interface {
	Claims
	// Database returns the ID that the database got with weir's tables. A copy of the tables has the same ID.
	Database(ctx context.Context) (id string, err error)
	// Begin writes checkpoints, in a run's name, for lanes that have none.
	Begin(ctx context.Context, run string, lanes []Lane) error
	// TakeOver waits for flushes of the lanes in progress, advances the lanes' fences in a run's name, once per name,
	// and returns their checkpoints with the new Seq. No other run can change them afterwards. run contains no space,
	// and is not the name of any flush's run. Drop need not release the lanes.
	TakeOver(ctx context.Context, run string, lanes ...string) ([]Checkpoint, error)
}

// Caps are the limits of a database.
type Caps struct {
	Columns  int  // maximum per table
	Children bool // it has child tables: see [fold.Batch].Child
	schema.Limits
}

// A Checkpoint is a job's progress in one lane.
type Checkpoint struct {
	Seq    int64  // number of the lane's last flush, over all runs; the next one is Seq+1
	Line   int64  // lines of the source read
	Offset int64  // bytes of the source read
	Mark   string // what else the source needs to resume; "": it is read from its start
	// Rejected is how many of the lines were rejected.
	Rejected int64
	// Settings are the fold settings that applied to the lines, as package pipeline writes them.
	Settings string

	// Only Claims set these:
	Run       string    // the run that wrote it
	TableID   string    // [Flush.TableIDs] of its flush
	Committed time.Time // when it was written
}

// A Lane is a source of a flush. It is read in order, and resumed separately.
type Lane struct {
	// Source is the source's name. Its rejected lines are stored under it, and so is its checkpoint, unless the lane is
	// Unnamed.
	Source string
	// Unnamed marks a lane that no run resumes. Its checkpoint is stored under the run's name, and serves only to
	// detect, after a lost reply, whether a commit succeeded.
	Unnamed bool
	// Restart removes the source's stored rejects. It is set in the first flush of a run that reads the source from its
	// start.
	Restart bool
	// Checkpoint is the checkpoint to write.
	Checkpoint Checkpoint
}

// A Flush is one transaction.
type Flush struct {
	// Batches are the rows to write, one batch for each of the job's tables, parents before their children. Rows are
	// inserted and updated in this order, and deleted in reverse. A later flush of the run has the same tables in the
	// same order; more may follow.
	Batches []*fold.Batch
	// Rejects are lines of the lanes that are not valid messages.
	Rejects []fold.Reject
	Job     string // name under which the checkpoints are stored
	Run     string // the run's unique name
	// Lanes are the sources whose checkpoints the flush writes, at least one. Each is fenced by its own sequence
	// number. [fold.Place.Lane] is an index into Lanes.
	Lanes []Lane
	// KeepRejects writes the rejects to weir_rejects.
	KeepRejects bool
	// DropRejects removes the job's rejects from before this time; zero keeps all.
	DropRejects time.Time
	// Rebuild first empties the tables, and drops those with another key. It also removes the job's rejects, its
	// checkpoints of other lanes and the versions of the tables' rows. The error is a [SharedError] if another job has
	// written to one of the tables.
	Rebuild bool
	// Tombstones is how long the version of a delete is remembered at least, for batches with versions.
	Tombstones time.Duration
	// Sent is called from time to time with how many rows of the batches were sent to the database, including unchanged
	// ones. The number drops if rows are sent again, and exceeds the batches' if some are written twice. Another
	// goroutine than Flush's may call it, but never after Flush has returned. A driver need not call it. It may be nil.
	Sent func(rows int)
	// Searching is called from time to time while messages that the database rejects are searched for. An error ends the
	// flush, and nothing is written. It may be nil.
	Searching func(Searching) error
	// BeforeCommit sets the checkpoints of Lanes, except Seq. A driver calls it once per try, with all
	// rejects: Rejects, and messages that the database rejected. It may call it before it sends anything, if it calls
	// it again when the database has rejected some. It never calls it for a flush that is already committed. An error
	// ends the flush, and nothing is written. It may be nil.
	BeforeCommit func(rejects []fold.Reject) error
}

// TellSent calls Sent, if it is set.
func (f *Flush) TellSent(rows int) {
	if f.Sent != nil {
		f.Sent(rows)
	}
}

// tellSearching calls Searching, if it is set.
func (f *Flush) tellSearching(s Searching) error {
	if f.Searching == nil {
		return nil
	}
	return f.Searching(s)
}

// A Result is what a flush did.
type Result struct {
	Tables []Counts // by batch
	// Refused are the messages that the database rejected. They are among the stored rejects.
	Refused []fold.Reject
}

// Counts are a flush's effects on rows.
type Counts struct{ Inserted, Updated, Unchanged, Deleted int64 }

// Total returns the sum over all tables.
func (r Result) Total() (c Counts) {
	for i := range r.Tables {
		t := &r.Tables[i]
		c.Inserted += t.Inserted
		c.Updated += t.Updated
		c.Unchanged += t.Unchanged
		c.Deleted += t.Deleted
	}
	return c
}

// Kind classifies a difference.
type Kind int

// The kinds of differences.
const (
	Differs Kind = iota
	Missing      // the table does not have the row
	Removed      // the table has the row, but the fold has deleted it
	Refused      // the database cannot store the fold's value
)

// A Difference is a row that differs between a table and a fold.
type Difference struct {
	Row    *fold.Row
	Kind   Kind
	Column int    // the first of the batch's columns that differs
	Have   string // the table's value as text, or "NULL"; for Refused: why
}

// Status is the state of the jobs that wrote to a database.
type Status struct {
	Jobs    []JobStatus   `json:"jobs"`
	Rejects []RejectCount `json:"rejects"`
}

// JobStatus is a job's progress in one source.
type JobStatus struct {
	Job     string    `json:"job"`
	Tables  []string  `json:"tables"` // sorted
	Source  string    `json:"source"`
	Line    int64     `json:"line"`
	Offset  int64     `json:"offset"`
	Updated time.Time `json:"updated,omitzero"` // zero: the job has no checkpoint
}

// Forgotten counts what was removed with a job.
type Forgotten struct {
	Sources, Rejects int64
	Versions         bool // versions were removed too, of a table that no other job has written to
	Found            bool // the database had data of the job
}

// RejectCount counts a job's stored rejects, by reason.
type RejectCount struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// Kept is a rejected line as stored in the database.
type Kept struct {
	ID           int64 // increases with each line
	Job, Source  string
	Line, Offset int64
	Element      int // see [fold.Place]
	Reason       string
	Text         []byte
	Time         time.Time
}

// Class says how to react to an error.
type Class int

// The classes of errors.
const (
	Permanent Class = iota // do not retry
	Transient              // retry; the flush may have been committed if the connection broke
	Unknown                // retry a few times; the flush may have been committed
)

// An Error is a database error with its class.
type Error struct {
	Class  Class
	Reason string // a word for metrics: one of RetryReasons, if it can be retried
	Err    error
	// Attempt is how often the call has failed when it is retried; Retry sets it.
	Attempt int
}

// DiskFull is the reason of an [Error] because the database's disk is full.
const DiskFull = "disk_full"

// RetryReasons are the reasons of errors that are retried.
var RetryReasons = []string{"locked", "io", DiskFull, "connection", "connections", "deadlock", "serialization", "timeout", "readonly", "resources"}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// BusyError reports that another run holds a lane, or the job.
type BusyError struct{ Job, Lane string }

func (e BusyError) Error() string {
	if e.Lane == "" {
		return fmt.Sprintf("another run holds a source of job %q", e.Job)
	}
	return fmt.Sprintf("another run holds %s of job %q", e.Lane, e.Job)
}

// ExitCode is the exit code of a run that finds another one in its place.
func (BusyError) ExitCode() int { return 4 }

// FencedError reports that another run has taken over lanes.
type FencedError struct{ Lanes []string }

func (e FencedError) Error() string {
	return "another run has written the checkpoint meanwhile of " + list(e.Lanes)
}

// ExitCode is the exit code of a run that finds another one in its place.
func (FencedError) ExitCode() int { return 4 }

// BehindError reports that the database was restored to an earlier state during the run. The sources must be reread
// from the checkpoints that it has now.
type BehindError struct {
	Lane        string
	Found, Want int64
}

func (e BehindError) Error() string {
	return fmt.Sprintf("the database was restored to an earlier state: it holds flush %d of %s, this run had committed %d", e.Found, e.Lane, e.Want)
}

// ChangedError reports that the table can no longer be adapted to a batch. The source must be reread for the current
// table.
type ChangedError struct{ Err error }

func (e ChangedError) Error() string { return e.Err.Error() }
func (e ChangedError) Unwrap() error { return e.Err }

// UnloggedError reports that the database refused a row of a table that seemed to have no constraints, so the batch did
// not keep the row's messages. The source must be reread for a table with constraints.
type UnloggedError struct{ Err error }

func (e UnloggedError) Error() string {
	return "a table without constraints rejected a row: " + e.Err.Error()
}
func (e UnloggedError) Unwrap() error { return e.Err }
