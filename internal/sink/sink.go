// Package sink is between weir and the databases that it writes:
// the interface that a driver implements, what a flush carries, and the classes
// of errors that decide what follows one.
package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// A Sink keeps tables in one database. Its methods and its optional parts' methods are called by
// one goroutine at a time. The optional parts are [Expirer], [DeadLetters], [SchemaMaker], [Forgetter]
// and [Gauged]: [As] finds them.
type Sink interface {
	// Caps returns what the database can hold.
	Caps() Caps
	// Tables reads tables, each for a key, or for its primary key if that is nil. Exists is false for a table that
	// is missing. If a table cannot be kept by its key, the error says what to change. It is a [KeyError] if weir made
	// every such table: the answer then describes these as missing.
	Tables(ctx context.Context, wanted ...TableKey) ([]schema.Table, error)
	// Flush writes the batches of the job's tables, its rejects and the checkpoints of its
	// lanes in one transaction, in which it first makes or widens the tables as the batches need
	// it. A flush may be repeated unchanged, whatever came of it before: it is applied exactly once.
	Flush(ctx context.Context, f *Flush) (Result, error)
	// Close releases the database. It is safe to call it twice.
	Close() error
}

// An Expirer is a sink that can remove old rows.
type Expirer interface {
	// Expire makes one step: it removes some old rows and their versions in transactions of its own, and moves e
	// on. If an index begins with one of the columns, it finds the rows by that; otherwise it walks through the whole
	// table in the order of the key. It may be called again after any error, and by several runs at once.
	Expire(ctx context.Context, e *Expiry) (Expired, error)
}

// DeadLetters is a sink whose rejected lines can be sent elsewhere.
type DeadLetters interface {
	// Outbox removes rejected lines that were sent elsewhere, and returns those that come next, at
	// most [SentAtOnce], or else how many wait in all. It may be called again after any error.
	Outbox(ctx context.Context, o *Outbox) (next []Kept, waiting int64, err error)
}

// A SchemaMaker is a sink whose tables are in schemas. Tables returns a [NoSchemaError] for one whose schema is missing.
type SchemaMaker interface {
	// MakeSchema makes the schema that an error names, unless it exists.
	MakeSchema(ctx context.Context, missing NoSchemaError) error
}

// A NoSchemaError says that the schema of a table is missing.
type NoSchemaError struct{ Schema, SQL string } // SQL makes it

func (e NoSchemaError) Error() string {
	return fmt.Sprintf("there is no schema %q: %s; a table whose name has a dot in it is written in double quotes", e.Schema, e.SQL)
}

// A Forgetter is a sink that can forget a job.
type Forgetter interface {
	// Forget removes what the database has of a job that was claimed: its checkpoints and
	// rejects, and the versions of its tables that no other job has written to.
	Forget(ctx context.Context, job string) (Forgotten, error)
}

// Gauged is a sink with figures for whoever monitors it.
type Gauged interface{ Gauges() []Gauge }

// A Gauge is a figure as Prometheus names it. Read may be called from any goroutine until the sink is
// closed, and after.
type Gauge struct {
	Name, Help string
	Read       func() int64
}

// As returns an optional part of a sink or of claims. The error is a [LacksError] if there is none; does is what the part
// is needed for, a verb with its object. What [Intercept] returned has the parts of the sink behind it.
func As[T any](of any, does string) (part T, err error) {
	if i, ok := of.(*intercepted); ok {
		if _, err := As[T](i.Sink, does); err != nil {
			return part, err
		}
	}
	part, ok := of.(T)
	if !ok {
		return part, LacksError{does}
	}
	return part, nil
}

// LacksError says what a kind of database cannot do, by its driver.
type LacksError struct{ Does string }

func (e LacksError) Error() string { return "weir cannot " + e.Does + " in a database of this kind" }

// A TableKey is a table's name, and the columns that tell its rows apart.
type TableKey struct {
	Name string
	Key  []string
}

// ReadTables is Tables of a [Sink].
type ReadTables func(ctx context.Context, wanted ...TableKey) ([]schema.Table, error)

// NoTables is [ReadTables] of a database that has none.
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

// EachTable is Tables of a [Sink] by what reads one table.
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

// Claims hold the lanes of one job for a run, by a connection or a file of their own. A flush makes a call wait only while
// the database keeps readers out (SQLite without a WAL), or if the call says so. Several goroutines may use them. What
// they hold is released when the process ends, however it ends. Only [GroupClaims] write to the database.
type Claims interface {
	// Tables returns the names of the tables that the job has written.
	Tables(ctx context.Context) ([]string, error)
	// Checkpoints returns the checkpoints of lanes, in the order of the arguments; without one, it is zero.
	Checkpoints(ctx context.Context, lanes ...string) ([]Checkpoint, error)
	// Latest returns the checkpoint that was committed last among those from which a run can resume, and its source.
	// Of the checkpoint only Line, Offset, Mark and TableID are set. Without one, both are zero.
	Latest(ctx context.Context) (source string, cp Checkpoint, err error)
	// Take claims lanes, and returns their checkpoints as Checkpoints does. It may wait some seconds for the
	// last flush of a run that was killed. The error is a [BusyError] if another run holds one of the
	// lanes; then no more lanes are held than before. Until Close no other run can take the whole job, even if lanes
	// is empty.
	Take(ctx context.Context, lanes ...string) ([]Checkpoint, error)
	// Drop releases lanes.
	Drop(ctx context.Context, lanes ...string) error
	// TakeJob claims the job with all its lanes. The error is a [BusyError] if another run holds one of them.
	TakeJob(ctx context.Context) error
	// RejectFile returns the state of the job's file of rejects at a path; without one, it is zero.
	RejectFile(ctx context.Context, path string) (RejectFile, error)
	// Close releases all. It is safe to call it twice.
	Close() error
}

// GroupClaims are those of a database that several runs may write to as members of a consumer group. The group decides
// who reads a lane: taking over a lane that another run still writes is no error, but fences that run.
type GroupClaims interface {
	Claims
	// Database returns the id that the database got with weir's tables. A copy of these has the same one.
	Database(ctx context.Context) (id string, err error)
	// Begin writes the checkpoints of lanes that have none, in the name of a run.
	Begin(ctx context.Context, run string, lanes []Lane) error
	// TakeOver waits for the flushes of lanes that are under way, moves the fences of the lanes on in the name of a
	// run, once for each name, and returns their checkpoints with the new Seq: no other run can change these any more. run
	// has no space, and is no name that a flush has. Drop need not release the lanes.
	TakeOver(ctx context.Context, run string, lanes ...string) ([]Checkpoint, error)
}

// Caps is what a database can hold.
type Caps struct {
	Columns int // in one table at most
	schema.Limits
}

// A Checkpoint is how far a job has come in one lane.
type Checkpoint struct {
	Seq    int64  // flushes of the lane, over all runs; the next one is Seq+1
	Line   int64  // lines of the source that were read
	Offset int64  // bytes of the source that were read
	Mark   string // what else the source needs to resume there; "": it is read from its start
	// Rejected is how many of the lines were rejected.
	Rejected int64
	// Settings are those of the fold that the lines were folded by, in the job package's
	// own notation.
	Settings string

	// Only Claims set these.
	Run       string    // that wrote it
	TableID   string    // [Flush.TableIDs] when it was written
	Committed time.Time // when that was
}

// A Lane is one of the sources of a flush: what is read in order, and resumed by itself.
type Lane struct {
	// Source is the name of the source, under which its rejected lines are kept, and its
	// checkpoint unless it is Unnamed.
	Source string
	// Unnamed says that no run resumes the lane. Its checkpoint has the run's name instead: it only tells whether a
	// commit whose answer was lost has happened.
	Unnamed bool
	// Restart removes the rejects that are kept of the source: the flush is the first one of a run that reads the
	// source from its start.
	Restart bool
	// Checkpoint is what the flush writes.
	Checkpoint Checkpoint
}

// A RejectFile is the state of a job's file of rejects: what is past the size was written by a flush that did not
// commit.
type RejectFile struct {
	Path string
	Size int64  // bytes
	ID   string // no other job has it, in this database or another
}

// A Flush is one transaction.
type Flush struct {
	// Batches are what is written to the tables of the job, one for each, parents before
	// their children: rows are inserted and updated in this order, and deleted in the
	// reverse one. A later flush of the run has the same tables first, and may have more if Grows is set.
	Batches []*fold.Batch
	Grows   bool
	// Rejects are lines of the lanes that cannot be messages.
	Rejects []fold.Reject
	Job     string // under which the checkpoints are kept
	Run     string // names the run; no other has the same
	// Lanes are the sources whose checkpoints the flush writes, at least one; each is fenced by its
	// own sequence number. [fold.Place.Lane] is an index into them.
	Lanes []Lane
	// RejectFile is the state of the file of rejects; nil leaves it as it is.
	RejectFile *RejectFile
	// Resent are the IDs of lines that weir_rejects has kept until now, and that the batches and rejects of the flush
	// were made of. They are removed. The error is a [ResentError] if one of them is missing.
	Resent []int64
	// KeepRejects writes the rejects to weir_rejects.
	KeepRejects bool
	// DropRejects is the time before which the job's rejects are removed; zero keeps all.
	DropRejects time.Time
	// Rebuild empties the tables first, and drops those that have another key. The job's rejects, its checkpoints of
	// other lanes and the versions of the tables' rows go with them. The error is a [SharedError] if another job has
	// written to one of the tables.
	Rebuild bool
	// Tombstones is how long the version of a delete is remembered at least, if a batch has versions.
	Tombstones time.Duration
	// Sent is called now and then with how many rows of the batches the database has been sent, unchanged ones among
	// them: fewer than before if they are sent again, and more than the batches have if some are written twice. It may
	// be called from another goroutine than Flush's, never after Flush has returned, and a driver need not call it. It
	// may be nil.
	Sent func(rows int)
	// BeforeCommit sets RejectFile and the checkpoints of Lanes, except Seq. A driver calls it once for each try, with
	// all rejects: Rejects, and those that the database rejected. It may do so before it sends anything, if it calls it
	// again when the database has rejected some, but never for a flush that was committed before. An error ends the
	// flush, and nothing is written. It may be nil.
	BeforeCommit func(rejects []fold.Reject) error
}

// TellSent calls Sent, if there is one.
func (f *Flush) TellSent(rows int) {
	if f.Sent != nil {
		f.Sent(rows)
	}
}

// A Result is what a flush did.
type Result struct {
	Tables []Counts // by batch
	// Refused are the messages that the database rejected. They are among the rejects that were kept.
	Refused []fold.Reject
}

// Counts are what a flush did to rows.
type Counts struct{ Inserted, Updated, Unchanged, Deleted int64 }

// Total returns the counts of all tables.
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

// Kind is how a row differs.
type Kind int

// How a row differs.
const (
	Differs Kind = iota
	Missing      // the table lacks it
	Removed      // the table has it, and the fold has removed it
	Refused      // the database cannot take what the fold makes of it
)

// A Difference is a row that is another one in a table than in a fold.
type Difference struct {
	Row    *fold.Row
	Kind   Kind
	Column int    // of the batch's, the first that differs
	Have   string // what the table has in it, as text, or "NULL"; for Refused why
}

// Status is what a database says of the jobs that wrote to it.
type Status struct {
	Jobs    []JobStatus   `json:"jobs"`
	Rejects []RejectCount `json:"rejects"`
}

// JobStatus is one job's progress in one source.
type JobStatus struct {
	Job     string    `json:"job"`
	Tables  []string  `json:"tables"` // sorted
	Source  string    `json:"source"`
	Line    int64     `json:"line"`
	Offset  int64     `json:"offset"`
	Flushes int64     `json:"batches"`
	Updated time.Time `json:"updated,omitzero"` // zero: no checkpoint of the job is kept
}

// Forgotten counts what was removed with a job.
type Forgotten struct {
	Sources, Rejects int64
	Versions         bool // those of a table of the job's too, which no other job has written to
	Found            bool // there was something of the job
}

// RejectCount counts the rejects kept of one job, by reason.
type RejectCount struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
}

// An Outbox asks for rejected lines of a job that are to be sent elsewhere.
type Outbox struct {
	Job   string
	Lanes []string // whose they are
	After int64    // the ID behind which the next ones are; 0: all
	Sent  []int64  // IDs of those to be removed
}

// A RejectsDrop names rejected lines of a job that are to be removed, and sent nowhere.
type RejectsDrop struct {
	Job   string
	Lanes []string // whose they are
	IDs   []int64
}

// Do removes the lines. It may be called again after any error.
func (d *RejectsDrop) Do(ctx context.Context, s DeadLetters) error {
	for ids := range slices.Chunk(d.IDs, KeptAtOnce) {
		// No line comes behind the last ID that there can be.
		if _, _, err := s.Outbox(ctx, &Outbox{Job: d.Job, Lanes: d.Lanes, After: math.MaxInt64, Sent: ids}); err != nil {
			return err
		}
	}
	return nil
}

// Kept is a rejected line as the database keeps it.
type Kept struct {
	ID           int64 // later lines have higher ones
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
	Transient              // retry; the flush may have been committed if the connection broke
	Unknown                // retry a few times; the flush may have been committed
)

// An Error is a failure of a database with its class.
type Error struct {
	Class  Class
	Reason string // a word for metrics: one of RetryReasons, if it can be retried
	Err    error
	// Attempt is how often the call has failed when it is tried again: Retry sets it.
	Attempt int
}

// DiskFull is the reason of an [Error] if the disk of the database is full.
const DiskFull = "disk_full"

// RetryReasons are the reasons for which a call is tried again.
var RetryReasons = []string{"locked", "io", DiskFull, "connection", "connections", "deadlock", "serialization", "timeout", "readonly", "resources"}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// BusyError says that another run holds a lane, or the job.
type BusyError struct{ Job, Lane string }

func (e BusyError) Error() string {
	if e.Lane == "" {
		return fmt.Sprintf("another run holds a source of job %q", e.Job)
	}
	return fmt.Sprintf("another run holds %s of job %q", e.Lane, e.Job)
}

// ExitCode is that of a run that finds another one in its place.
func (BusyError) ExitCode() int { return 4 }

// FencedError says that another run has taken lanes over meanwhile.
type FencedError struct{ Lanes []string }

func (e FencedError) Error() string {
	return "another run has written the checkpoint meanwhile of " + list(e.Lanes)
}

// ExitCode is that of a run that finds another one in its place.
func (FencedError) ExitCode() int { return 4 }

// ResentError says that rejected lines which a flush was made of are not kept any more: another run has applied or
// removed them.
type ResentError struct{ Missing int }

func (e ResentError) Error() string {
	return fmt.Sprintf("another run has removed rejected lines meanwhile: %d", e.Missing)
}

// ExitCode is that of a run that finds another one in its place.
func (ResentError) ExitCode() int { return 4 }

// BehindError says that the database was restored to an earlier state under the run: the
// sources have to be read again from the checkpoints that it has.
type BehindError struct {
	Lane        string
	Found, Want int64
}

func (e BehindError) Error() string {
	return fmt.Sprintf("the database was restored to an earlier state: it holds flush %d of %s, this run had committed %d", e.Found, e.Lane, e.Want)
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

func (e ErrUnlogged) Error() string {
	return "a table without constraints rejected a row: " + e.Err.Error()
}
func (e ErrUnlogged) Unwrap() error { return e.Err }
