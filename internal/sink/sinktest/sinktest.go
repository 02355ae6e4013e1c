// Package sinktest is the suite that every driver must pass. It drives a driver
// through the interfaces of package sink alone, with batches that the real fold made of
// JSON lines, and looks at the database only as another program would: by SQL.
package sinktest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A Harness makes databases for the suite.
type Harness struct {
	// New makes an empty database, which goes with the test.
	New func(t *testing.T) Database
}

// A Trait is what not all databases have. Tests that need one are skipped without it.
type Trait string

// What a database may have.
const (
	Claimable  Trait = "claims that hold a lane for a run" // without them only the fence tells two runs apart
	Shared     Trait = "tables that other programs make or change"
	Measurable Trait = "a log whose bytes can be counted"
	Scripted   Trait = "statements of on_create"
	Nestable   Trait = "tables whose rows belong to rows of others"
	Creatable  Trait = "databases that Open makes where they are missing"
	Alone      Trait = "a process in which nothing but the test allocates"
)

// A Database is one database, seen from outside and by way of its driver.
type Database interface {
	// Has reports whether the database has a trait.
	Has(Trait) bool
	// Driver returns the database's driver, and the database as --to names it.
	Driver() (d sink.Driver, to string)
	// Open opens the database with the driver, as a further run of weir does.
	// The test closes what it opens; a close more does no harm.
	Open(t *testing.T) sink.Sink
	// Claims opens the claims of a job in a database that is open, as a further run of
	// weir does. The test closes what it opens; a close more does no harm.
	Claims(t *testing.T, job string) sink.Claims
	// Exec runs one statement of SQL.
	Exec(t *testing.T, sql string)
	// Query returns the rows of a query; each cell is nil, an int64, a float64,
	// a bool or a string.
	Query(t *testing.T, sql string) [][]any
	// Logged returns the bytes that a database with a log has written to it since the
	// last call.
	Logged(t *testing.T) int64
}

// Test has a driver pass the suite. The SQL of the suite is what all databases
// understand.
func Test(t *testing.T, h Harness) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Fold", foldTests},
		{"Columns", columnTests},
		{"Widening", wideningTests},
		{"Types", typeTests},
		{"Table", tableTests},
		{"Refused", refusedTests},
		{"Transaction", transactionTests},
		{"Fence", fenceTests},
		{"Lanes", laneTests},
		{"Tables", alternatingTests},
		{"Several", severalTests},
		{"Checkpoints", checkpointTests},
		{"Ledger", ledgerTests},
		{"Claim", needing(Claimable, claimTests)},
		{"Inspector", inspectorTests},
		{"Outbox", outboxTests},
		{"Driver", driverTests},
		{"Unchanged", unchangedTests},
		{"Version", versionTests},
		{"Stamps", stampTests},
		{"OnCreate", needing(Scripted, onCreateTests)},
		{"Expiry", slices.Concat(expiryTests, belowTests)},
		{"Nested", needing(Nestable, slices.Concat(nestedTests, wholeTests, followTests))},
		{"ForeignKeys", needing(Nestable, foreignTests)},
		{"Surrogates", needing(Nestable, surrogateTests)},
		{"References", needing(Nestable, referenceTests)},
		{"Stream", streamTests},
		{"Faults", faultTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) { test.run(t, h.New(t)) })
			}
		})
	}
}

// need skips a test where the database lacks a trait.
func need(t *testing.T, db Database, trait Trait) {
	t.Helper()
	if !db.Has(trait) {
		t.Skipf("the database has no %s", trait)
	}
}

// needing are tests of which each needs a trait.
func needing(trait Trait, tests []test) (needing []test) {
	for _, of := range tests {
		needing = append(needing, test{of.name, func(t *testing.T, db Database) {
			need(t, db, trait)
			of.run(t, db)
		}})
	}
	return needing
}

// theirs runs a statement as a program that shares the database.
func theirs(t *testing.T, db Database, sql string) {
	t.Helper()
	need(t, db, Shared)
	db.Exec(t, sql)
}

type test struct {
	name string
	run  func(t *testing.T, db Database)
}

// The table, job and source of the suite's runs.
const (
	table = "t"
	job   = "feed.jsonl > t"
	from  = "feed.jsonl"
)

// A Run is one run of weir, in as few lines as show what the job package does.
type Run struct {
	t       *testing.T
	Sink    sink.Sink
	Claims  sink.Claims
	id      string
	job     string
	table   string
	lanes   []sink.Lane // as the last flush left them, and moved on by what was folded since
	lane    int         // that Fold folds
	folder  *fold.Folder
	mapper  *mapper // nil: the messages are the rows
	batch   fold.Batch
	rejects []fold.Reject // with the batch
	keep    bool          // rejects go to weir_rejects
	// fit makes a table what the run wants of it, and now is the time of its flushes.
	fit func(*schema.Limits, *schema.Table) error
	now time.Time
}

var runs atomic.Int64 // names runs

// Begin opens the database, claims the lane of the suite's source and reads the table.
// Options are those of a feed whose key is id and whose messages delete by op=delete.
func Begin(t *testing.T, db Database, change ...func(*fold.Options)) *Run {
	t.Helper()
	r, err := TryBegin(t, db, change...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// BeginJob is Begin for a job of another name.
func BeginJob(t *testing.T, db Database, name string, change ...func(*fold.Options)) *Run {
	t.Helper()
	return open(t, db, name, table).begin(change...)
}

// BeginFitted is Begin for a run that has a function make the table what it wants.
func BeginFitted(t *testing.T, db Database, fit func(*schema.Limits, *schema.Table) error, change ...func(*fold.Options)) *Run {
	t.Helper()
	r := open(t, db, job, table)
	r.fit = fit
	return r.begin(change...)
}

// BeginTable is Begin for another table and its key.
func BeginTable(t *testing.T, db Database, name string, keys ...string) *Run {
	t.Helper()
	return open(t, db, "feed > "+name, name).begin(key(keys...))
}

// BeginLanes is Begin for other sources, of which each flush moves all.
func BeginLanes(t *testing.T, db Database, sources ...string) *Run {
	t.Helper()
	r := open(t, db, job, table)
	r.reads(sources...)
	return r.begin()
}

// BeginUnnamed is Begin for a source that no run resumes.
func BeginUnnamed(t *testing.T, db Database) *Run {
	t.Helper()
	r := open(t, db, job, table)
	r.lanes[0].Unnamed = true
	return r.unclaimed()
}

// open opens the database for a run that has claimed nothing yet.
func open(t *testing.T, db Database, job, table string) *Run {
	r := &Run{t: t, Sink: db.Open(t), Claims: db.Claims(t, job), id: fmt.Sprintf("run-%d", runs.Add(1)), job: job, table: table, keep: true}
	r.reads(from)
	t.Cleanup(r.End)
	return r
}

// Checkpoint is what the run has come to.
func (r *Run) Checkpoint() sink.Checkpoint { return *r.cp() }

// cp is the checkpoint of the lane at hand.
func (r *Run) cp() *sink.Checkpoint { return &r.lanes[r.lane].Checkpoint }

// reads has the run read these sources, from their starts.
func (r *Run) reads(sources ...string) {
	r.lanes = nil
	for _, s := range sources {
		r.lanes = append(r.lanes, sink.Lane{Source: s})
	}
}

// In has the following lines come from another one of the run's sources.
func (r *Run) In(source string) *Run {
	r.lane = slices.IndexFunc(r.lanes, func(l sink.Lane) bool { return l.Source == source })
	return r
}

// begin claims the lanes and reads the table.
func (r *Run) begin(change ...func(*fold.Options)) *Run {
	r.t.Helper()
	if err := errors.Join(r.take(), r.read(change...)); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// unclaimed reads the table, and claims nothing.
func (r *Run) unclaimed() *Run {
	r.t.Helper()
	if err := r.read(); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// take claims the lanes.
func (r *Run) take() error {
	sources := make([]string, len(r.lanes))
	for i := range r.lanes {
		sources[i] = r.lanes[i].Source
	}
	found, err := r.Claims.Take(r.t.Context(), sources...)
	for i, cp := range found {
		r.lanes[i].Checkpoint = cp
	}
	return err
}

// TryBegin is Begin where a fault is expected, after which the run is over.
func TryBegin(t *testing.T, db Database, change ...func(*fold.Options)) (_ *Run, err error) {
	t.Helper()
	r := open(t, db, job, table)
	defer func() {
		if err != nil {
			r.End()
		}
	}()
	if err := r.take(); err != nil {
		return r, err
	}
	return r, r.read(change...)
}

// read reads the table and starts a fold for it.
func (r *Run) read(change ...func(*fold.Options)) error {
	o := fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500, Limits: r.Sink.Caps().Limits, Log: logtest.New(r.t)}
	for _, c := range change {
		c(&o)
	}
	t, err := sink.Table(r.t.Context(), r.Sink.Tables, r.table, o.Key)
	if err != nil && !errors.As(err, new(sink.KeyError)) {
		return err
	}
	if o.Columns == "" {
		o.Columns = fold.IgnoreColumns
		if t.Made || !t.Exists {
			o.Columns = fold.AddColumns
		}
	}
	if r.fit != nil {
		if err := r.fit(&o.Limits, &t); err != nil {
			return err
		}
	}
	names := &feed.Names{}
	if r.mapper != nil {
		if fault := r.mapper.fit(names, &t, &o); fault != nil {
			return fault
		}
	}
	r.folder = fold.NewFolder(names, t, o)
	return err
}

// Reread has the run resume at a checkpoint, with the table as it is, as a flush asks for
// that answers [sink.ErrChanged].
func (r *Run) Reread(cp sink.Checkpoint, change ...func(*fold.Options)) {
	r.t.Helper()
	r.Reset()
	*r.cp() = cp
	if err := r.read(change...); err != nil {
		r.t.Fatal(err)
	}
}

// key names the fields of the key.
func key(fields ...string) func(*fold.Options) {
	return func(o *fold.Options) { o.Key = fields }
}

// Fold folds lines into the batch at hand, and rejects those that are no
// messages.
func (r *Run) Fold(lines ...string) {
	r.t.Helper()
	for _, line := range lines {
		at := fold.Place{Lane: r.lane, Line: r.cp().Line + 1, Offset: r.cp().Offset}
		err := r.fold([]byte(line), at)
		var bad *feed.Error
		if errors.As(err, &bad) {
			r.rejects = append(r.rejects, fold.NewReject(at, -1, bad, []byte(line)))
		} else if err != nil {
			r.t.Fatal(err)
		}
		r.cp().Line++
		r.cp().Offset += int64(len(line)) + 1
	}
}

func (r *Run) fold(line []byte, at fold.Place) error {
	if r.mapper == nil {
		return r.folder.Fold(&r.batch, line, at)
	}
	changes, err := r.mapper.rows(line, at)
	for i := range changes {
		err = errors.Join(err, r.folder.Add(&r.batch, &changes[i].Change, at))
	}
	return err
}

// Seal makes a flush of the batch at hand, which moves all lanes on.
func (r *Run) Seal() *sink.Flush {
	r.folder.Seal(&r.batch)
	r.batch.Time = r.now
	return r.flushOf([]*fold.Batch{&r.batch}, r.rejects)
}

// flushOf makes a flush of batches, which moves all lanes on.
func (r *Run) flushOf(batches []*fold.Batch, rejects []fold.Reject) *sink.Flush {
	for i := range r.lanes {
		r.lanes[i].Checkpoint.Seq++
	}
	return &sink.Flush{Batches: batches, Rejects: rejects, Job: r.job, Run: r.id, Lanes: slices.Clone(r.lanes), KeepRejects: r.keep, Tombstones: time.Hour}
}

// Flush writes the lines in one transaction of their own.
func (r *Run) Flush(lines ...string) sink.Result {
	r.t.Helper()
	res, err := r.TryFlush(lines...)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *Run) TryFlush(lines ...string) (sink.Result, error) {
	r.t.Helper()
	r.Fold(lines...)
	return r.Send(r.Seal())
}

// Send writes a flush and empties the batch.
func (r *Run) Send(f *sink.Flush) (sink.Result, error) {
	defer r.Reset()
	return r.Sink.Flush(r.t.Context(), f)
}

// Reset empties the batch, whose flush was sent by other means than Send.
func (r *Run) Reset() {
	r.batch.Reset()
	r.rejects = nil
}

// End closes the run; it may be called again.
func (r *Run) End() {
	if err := errors.Join(r.Sink.Close(), r.Claims.Close()); err != nil {
		r.t.Errorf("closing: %v", err)
	}
}

// Expect compares the rows of a query with lines as psql -At prints them: cells
// divided by |, NULL where there is none.
func Expect(t *testing.T, db Database, query string, want ...string) {
	t.Helper()
	got := Rows(t, db, query)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\n got:\n  %s\n want:\n  %s", query, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// Rows returns the rows of a query in this form.
func Rows(t *testing.T, db Database, query string) (rows []string) {
	t.Helper()
	for _, row := range db.Query(t, query) {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = show(v)
		}
		rows = append(rows, strings.Join(cells, "|"))
	}
	return rows
}

func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// Counts compares what a flush says it did.
func Counts(t *testing.T, res sink.Result, inserted, updated, unchanged, deleted int64) {
	t.Helper()
	if got, want := res.Total(), (sink.Counts{Inserted: inserted, Updated: updated, Unchanged: unchanged, Deleted: deleted}); got != want {
		t.Errorf("the flush counts %+v; want %+v", got, want)
	}
}
