// Package sinktest is the suite that every driver must pass. It drives a driver
// through [sink.Sink] alone, with batches that the real fold made of JSON lines,
// and looks at the database only as another program would: by SQL.
package sinktest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// A Harness makes databases for the suite.
type Harness struct {
	// New makes an empty database, which goes with the test.
	New func(t *testing.T) Database
	// Unclaimed tells that nothing in the database can hold a job for a run, so
	// that only the fence tells two runs apart.
	Unclaimed bool
}

// A Database is one database, seen from outside and by way of its driver.
type Database interface {
	// Open opens the database with the driver, as a further run of weir does.
	// The test closes what it opens; a close more does no harm.
	Open(t *testing.T) sink.Sink
	// Exec runs one statement of SQL.
	Exec(t *testing.T, sql string)
	// Query returns the rows of a query; each cell is nil, an int64, a float64,
	// a bool or a string.
	Query(t *testing.T, sql string) [][]any
	// Logged returns the bytes that the database has written to its log since
	// the last call.
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
		{"Table", tableTests},
		{"Refused", refusedTests},
		{"Transaction", transactionTests},
		{"Fence", fenceTests},
		{"Ledger", ledgerTests},
		{"Claim", claimTests},
		{"Unchanged", unchangedTests},
		{"Version", versionTests},
		{"Random", randomTests},
	} {
		if group.name == "Claim" && h.Unclaimed {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) { test.run(t, h.New(t)) })
			}
		})
	}
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
	t      *testing.T
	Sink   sink.Sink
	id     string
	job    string
	table  string
	cp     sink.Checkpoint
	folder *fold.Folder
	batch  fold.Batch
	keep   bool // rejects go to weir_rejects
}

var runs atomic.Int64 // names runs

// Begin opens the database, claims the job and reads the table. Options are
// those of a feed whose key is id and whose messages delete by op=delete.
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
	r := open(t, db, name, table)
	if err := r.claim(change...); err != nil {
		t.Fatal(err)
	}
	return r
}

// BeginTable is Begin for another table and its key.
func BeginTable(t *testing.T, db Database, name string, keys ...string) *Run {
	t.Helper()
	r := open(t, db, "feed > "+name, name)
	if err := r.claim(key(keys...)); err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens the database for a run that has claimed nothing yet.
func open(t *testing.T, db Database, job, table string) *Run {
	r := &Run{t: t, Sink: db.Open(t), id: fmt.Sprintf("run-%d", runs.Add(1)), job: job, table: table, keep: true}
	t.Cleanup(r.End)
	return r
}

// Checkpoint is what the run has come to.
func (r *Run) Checkpoint() sink.Checkpoint { return r.cp }

// claim claims the job and reads the table.
func (r *Run) claim(change ...func(*fold.Options)) (err error) {
	if r.cp, err = r.Sink.Claim(r.t.Context(), r.job, from); err != nil {
		return err
	}
	return r.read(change...)
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
	return r, r.claim(change...)
}

// read reads the table and starts a fold for it.
func (r *Run) read(change ...func(*fold.Options)) error {
	o := fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500, Warn: r.t.Logf}
	for _, c := range change {
		c(&o)
	}
	t, err := r.Sink.Table(r.t.Context(), r.table, o.Key)
	if err != nil && !errors.As(err, new(sink.KeyError)) {
		return err
	}
	if o.Columns == "" {
		o.Columns = fold.IgnoreColumns
		if t.Made || !t.Exists {
			o.Columns = fold.AddColumns
		}
	}
	r.folder = fold.NewFolder(&feed.Names{}, t, o)
	return err
}

// Reread has the run resume at a checkpoint, with the table as it is, as a flush asks for
// that answers [sink.ErrChanged].
func (r *Run) Reread(cp sink.Checkpoint, change ...func(*fold.Options)) {
	r.t.Helper()
	r.batch.Reset()
	r.cp = cp
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
		at := fold.Place{Line: r.cp.Line + 1, Offset: r.cp.Offset}
		err := r.folder.Fold(&r.batch, []byte(line), at)
		var bad *feed.Error
		if errors.As(err, &bad) {
			r.batch.Reject(at, bad, []byte(line))
		} else if err != nil {
			r.t.Fatal(err)
		}
		r.cp.Line++
		r.cp.Offset += int64(len(line)) + 1
	}
}

// Seal makes a flush of the batch at hand.
func (r *Run) Seal() *sink.Flush {
	r.folder.Seal(&r.batch)
	r.cp.Seq++
	return &sink.Flush{Batch: &r.batch, Job: r.job, Source: from, Checkpoint: r.cp, Run: r.id, KeepRejects: r.keep, Tombstones: time.Hour}
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
	defer r.batch.Reset()
	return r.Sink.Flush(r.t.Context(), f)
}

// Reset empties the batch, whose flush was sent by other means than Send.
func (r *Run) Reset() { r.batch.Reset() }

// End closes the run; it may be called again.
func (r *Run) End() {
	if err := r.Sink.Close(); err != nil {
		r.t.Errorf("closing: %v", err)
	}
}

// Expect compares the rows of a query with lines as psql -At prints them: cells
// divided by |, NULL where there is none.
func Expect(t *testing.T, db Database, query string, want ...string) {
	t.Helper()
	var got []string
	for _, row := range db.Query(t, query) {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = show(v)
		}
		got = append(got, strings.Join(cells, "|"))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\n got:\n  %s\n want:\n  %s", query, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
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
	if res.Inserted != inserted || res.Updated != updated || res.Unchanged != unchanged || res.Deleted != deleted {
		t.Errorf("the flush counts %d inserted, %d updated, %d unchanged, %d deleted; want %d, %d, %d, %d",
			res.Inserted, res.Updated, res.Unchanged, res.Deleted, inserted, updated, unchanged, deleted)
	}
}
