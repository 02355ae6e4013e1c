package sinktest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// The table, job and source of the suite's runs.
const (
	table = "t"
	job   = "feed.jsonl > t"
	from  = "feed.jsonl"
)

// A Setup describes a run. The zero value reads feed.jsonl into the table t, by the key id; messages delete with
// op=delete.
type Setup struct {
	Job     string
	Sources []string // each flush advances all of them
	Unnamed bool     // no run resumes the sources
	// Tables are the tables to write, parents first; for several, messages are as for a [router].
	Tables  []string
	Options func(table string, o *fold.Options)
	// Mapping makes rows of the messages, instead of Tables and Options.
	Mapping *mapping.Mapping
	// Constrained says that the tables may reject rows, whatever the database says about them.
	Constrained bool
	// Fit adapts a table to the run.
	Fit func(*schema.Limits, *schema.Table) error
}

// A Run is a run of weir, reduced to the minimum of what package pipeline does.
type Run struct {
	Setup
	Sink    sink.Sink
	Claims  sink.Claims
	t       *testing.T
	id      string
	lanes   []sink.Lane // as after the last flush, advanced by what was folded since
	lane    int         // the one that Fold uses
	now     time.Time   // of the flushes
	keep    bool        // write rejects to weir_rejects
	scan    *feed.Scanner
	folders fold.Folders // by table
	set     *fold.Set
	plan    *mapping.Plan // of Mapping
	// changes returns a line's changes to rows.
	changes func(l *feed.Line, at fold.Place) ([]fold.TableChange, error)
}

// Begin opens the database, claims the lane of the suite's source and reads the table.
func Begin(t *testing.T, db Database, change ...func(*fold.Options)) *Run {
	t.Helper()
	return BeginJob(t, db, job, change...)
}

// BeginJob is Begin for a job with another name.
func BeginJob(t *testing.T, db Database, name string, change ...func(*fold.Options)) *Run {
	t.Helper()
	return Setup{Job: name, Options: all(change...)}.Begin(t, db)
}

// BeginTable is Begin for another table and its key.
func BeginTable(t *testing.T, db Database, name string, keys ...string) *Run {
	t.Helper()
	return Setup{Job: "feed > " + name, Tables: []string{name}, Options: all(key(keys...))}.Begin(t, db)
}

// BeginTables is Begin for several tables, parents first; messages are as for a [router].
func BeginTables(t *testing.T, db Database, tables []string, change ...func(table string, o *fold.Options)) *Run {
	t.Helper()
	return Setup{Tables: tables, Options: func(table string, o *fold.Options) {
		for _, c := range change {
			c(table, o)
		}
	}}.Begin(t, db)
}

// BeginNested is Begin for the tables of a mapping.
func BeginNested(t *testing.T, db Database, m *mapping.Mapping) *Run {
	t.Helper()
	return Setup{Mapping: m}.Begin(t, db)
}

// TryBegin is Begin if an error is expected; the run is then over.
func TryBegin(t *testing.T, db Database, change ...func(*fold.Options)) (*Run, error) {
	t.Helper()
	return Setup{Options: all(change...)}.tryBegin(t, db)
}

// Begin opens the database, claims the sources and reads the tables. The run is closed at the end of the test.
func (s Setup) Begin(t *testing.T, db Database) *Run {
	t.Helper()
	r, err := s.tryBegin(t, db)
	testcheck.NoError(t, err)
	return r
}

func (s Setup) tryBegin(t *testing.T, db Database) (*Run, error) {
	t.Helper()
	r := s.open(t, db)
	err := r.take()
	if err == nil {
		err = r.read()
	}
	if err != nil {
		r.End()
	}
	return r, err
}

// open opens the database for a run, without claiming or reading anything.
func (s Setup) open(t *testing.T, db Database) *Run {
	t.Helper()
	if s.Job == "" {
		s.Job = job
	}
	r := s.run(t, db.Open(t), db.Claims(t, s.Job))
	t.Cleanup(r.End)
	return r
}

// unclaimed is Begin without a claim.
func (s Setup) unclaimed(t *testing.T, db Database) *Run {
	t.Helper()
	r := s.open(t, db)
	testcheck.NoError(t, r.read())
	return r
}

var runs atomic.Int64 // for unique names

// run returns a run with an open sink and claims.
func (s Setup) run(t *testing.T, db sink.Sink, claims sink.Claims) *Run {
	if s.Job == "" {
		s.Job = job
	}
	if s.Sources == nil {
		s.Sources = []string{from}
	}
	if s.Tables == nil {
		s.Tables = []string{table}
	}
	r := &Run{Setup: s, t: t, Sink: db, Claims: claims, id: fmt.Sprintf("run-%d", runs.Add(1)), keep: true}
	for _, source := range s.Sources {
		r.lanes = append(r.lanes, sink.Lane{Source: source, Unnamed: s.Unnamed})
	}
	return r
}

// sibling returns a run of the same job with the same sink, from another source into another table.
func (r *Run) sibling(table string, change ...func(*fold.Options)) *Run {
	r.t.Helper()
	b := Setup{Job: r.Job, Tables: []string{table}, Sources: []string{table + ".jsonl"}, Options: all(change...)}.run(r.t, r.Sink, r.Claims)
	b.id = r.id
	testcheck.NoError(r.t, errors.Join(b.take(), b.read()))
	return b
}

// all returns a function that applies a change to each table's options.
func all(change ...func(*fold.Options)) func(string, *fold.Options) {
	return func(_ string, o *fold.Options) {
		for _, c := range change {
			c(o)
		}
	}
}

// key returns a change that sets the key's fields.
func key(fields ...string) func(*fold.Options) {
	return func(o *fold.Options) { o.Key = fields }
}

// Checkpoint returns the run's checkpoint.
func (r *Run) Checkpoint() sink.Checkpoint { return *r.cp() }

// cp returns the current lane's checkpoint.
func (r *Run) cp() *sink.Checkpoint { return &r.lanes[r.lane].Checkpoint }

// In selects the source of the following lines.
func (r *Run) In(source string) *Run {
	r.lane = slices.IndexFunc(r.lanes, func(l sink.Lane) bool { return l.Source == source })
	return r
}

// At sets the time of the next flushes.
func (r *Run) At(now time.Time) *Run {
	r.now = now
	return r
}

// take claims the lanes.
func (r *Run) take() error {
	found, err := r.Claims.Take(r.t.Context(), r.Sources...)
	for i, cp := range found {
		r.lanes[i].Checkpoint = cp
	}
	return err
}

// read reads the tables and starts their folds. It does so even after a [sink.KeyError].
func (r *Run) read() (keyErr error) {
	r.folders = nil
	if r.Mapping != nil {
		keyErr = r.readMapped()
	} else {
		keyErr = r.readPlain()
	}
	if keyErr == nil || errors.As(keyErr, new(sink.KeyError)) {
		r.folders.Link()
		r.set = fold.NewSet(len(r.folders))
	}
	if r.Mapping != nil && keyErr == nil {
		r.folders.Nest(r.plan)
	}
	return keyErr
}

func (r *Run) readPlain() (keyErr error) {
	names := &feed.Names{}
	r.scan = feed.NewScanner(names)
	var options []fold.Options
	for _, name := range r.Tables {
		o := fold.Options{Deletes: true, Key: []string{"id"}, Rules: fold.Rules{MaxColumns: 500}, Limits: r.Sink.Caps().Limits, Log: logtest.New(r.t)}
		if r.Options != nil {
			r.Options(name, &o)
		}
		t, err := sink.Table(r.t.Context(), r.Sink.Tables, name, o.Key)
		if errors.As(err, new(sink.KeyError)) {
			keyErr = err
		} else if err != nil {
			return err
		}
		if o.UnknownFields == "" {
			o.UnknownFields = fold.IgnoreUnknown
			if t.Made || !t.Exists {
				o.UnknownFields = fold.AddUnknown
			}
		}
		if r.Fit != nil {
			if err := r.Fit(&o.Limits, &t); err != nil {
				return err
			}
		}
		t.HasConstraints = t.HasConstraints || r.Constrained
		options = append(options, o)
		r.folders = append(r.folders, fold.NewFolder(names, t, o))
	}
	if len(r.Tables) > 1 {
		router := newRouter(names, r.Tables, options)
		r.changes = func(l *feed.Line, at fold.Place) ([]fold.TableChange, error) {
			changes, _, err := router.Map(l, "", at)
			return changes, err
		}
		return keyErr
	}
	mapper := NewMapper(names, options[0], deleteWhen(&options[0]))
	r.changes = func(l *feed.Line, _ fold.Place) ([]fold.TableChange, error) {
		return []fold.TableChange{{Change: mapper.Map(l)}}, nil
	}
	return keyErr
}

// deleteWhen returns the condition of a delete.
func deleteWhen(o *fold.Options) string {
	if o.Deletes {
		return "op=delete"
	}
	return ""
}

func (r *Run) readMapped() (err error) {
	if r.plan, err = mapping.Compile(r.Mapping, r.Sink.Caps().Limits); err != nil {
		return err
	}
	r.scan = feed.NewScanner(r.plan.Names())
	mapper := r.plan.NewMapper()
	mapper.UseColumns(func(i int) schema.Table { return r.folders[i].Table() })
	r.changes = func(l *feed.Line, at fold.Place) ([]fold.TableChange, error) {
		mapped, err := mapper.Map(l, "", at)
		return mapped.Rows, err
	}
	for i := range r.plan.Tables {
		t, o, err := r.table(i)
		if err != nil {
			return err
		}
		o.MaxColumns, o.Log = 500, logtest.New(r.t)
		t.HasConstraints = t.HasConstraints || r.Constrained
		r.folders = append(r.folders, fold.NewFolder(r.plan.Names(), t, o))
	}
	return nil
}

// table returns a table of the mapping, as in the database, and its options.
func (r *Run) table(i int) (t schema.Table, o fold.Options, err error) {
	if t, err = sink.Table(r.t.Context(), r.Sink.Tables, r.plan.Tables[i].Name, r.plan.Tables[i].StoredKey()); err == nil {
		o, err = r.plan.Fit(i, &t)
	}
	return t, o, err
}

// known returns a table of the run, as in the database.
func (r *Run) known(table int) schema.Table {
	r.t.Helper()
	folded := r.folders[table].Table()
	t, err := sink.Table(r.t.Context(), r.Sink.Tables, folded.Name, folded.KeyColumns())
	testcheck.NoError(r.t, err)
	return t
}

// Reread resumes the run at a checkpoint, with the current tables, as after a flush that returned [sink.ChangedError].
func (r *Run) Reread(cp sink.Checkpoint) {
	r.t.Helper()
	*r.cp() = cp
	testcheck.NoError(r.t, r.read())
}

// Fold folds lines into the current set, and rejects lines that are no messages.
func (r *Run) Fold(lines ...string) {
	r.t.Helper()
	for _, line := range lines {
		testcheck.NoError(r.t, r.add(line))
	}
}

// add folds or rejects a line.
func (r *Run) add(line string) error {
	at := fold.Place{Lane: r.lane, Line: r.cp().Line + 1, Offset: r.cp().Offset}
	var bad *feed.Error
	if table, err := r.fold([]byte(line), at); errors.As(err, &bad) {
		r.set.Reject(fold.NewReject(at, table, bad, []byte(line)))
	} else if err != nil {
		return err
	}
	r.cp().Line++
	r.cp().Offset += int64(len(line)) + 1
	return nil
}

func (r *Run) fold(line []byte, at fold.Place) (table int, err error) {
	var l feed.Line
	if l.Scan(r.scan, nil, line); l.Err != nil {
		return -1, l.Err
	}
	changes, err := r.changes(&l, at)
	if err != nil || len(changes) == 0 {
		return -1, err
	}
	return r.folders.Add(r.set, changes, at)
}

// Seal makes a flush of the current set, which advances all lanes.
func (r *Run) Seal() *sink.Flush {
	r.folders.Seal(r.set)
	for _, b := range r.set.Batches {
		b.Time = r.now
	}
	for i := range r.lanes {
		r.lanes[i].Checkpoint.Seq++
	}
	return &sink.Flush{Batches: r.set.Batches, Rejects: r.set.Rejects, Job: r.Job, Run: r.id, Lanes: slices.Clone(r.lanes), KeepRejects: r.keep, Tombstones: time.Hour}
}

// Flush writes the lines in a transaction of their own.
func (r *Run) Flush(lines ...string) sink.Result {
	r.t.Helper()
	return r.FlushAs(func(*sink.Flush) {}, lines...)
}

// FlushAs is Flush with a change to the flush.
func (r *Run) FlushAs(change func(f *sink.Flush), lines ...string) sink.Result {
	r.t.Helper()
	r.Fold(lines...)
	f := r.Seal()
	change(f)
	return r.again(f)
}

// TryFlush is Flush if an error is expected.
func (r *Run) TryFlush(lines ...string) (sink.Result, error) {
	r.t.Helper()
	r.Fold(lines...)
	return r.Send(r.Seal())
}

// Send writes a flush and empties the set. It skips the test if the driver lacks what the flush needs.
func (r *Run) Send(f *sink.Flush) (sink.Result, error) {
	r.t.Helper()
	defer r.Reset()
	res, err := r.Sink.Flush(r.t.Context(), f)
	if errors.As(err, new(sink.LacksError)) {
		r.t.Skip(err)
	}
	return res, err
}

// again sends a flush that must succeed, and may have been sent before.
func (r *Run) again(f *sink.Flush) sink.Result {
	r.t.Helper()
	res, err := r.Send(f)
	testcheck.NoError(r.t, err)
	return res
}

// failing sends a flush of the lines that fails at a moment, and returns it for resending.
func (r *Run) failing(at Moment, lines ...string) *sink.Flush {
	r.t.Helper()
	r.Fold(lines...)
	f := r.Seal()
	faulty := Faulty(r.Sink, func(Call) Fault { return Fault{At: at, Err: errFault} })
	if _, err := faulty.Flush(r.t.Context(), f); !errors.Is(err, errFault) {
		r.t.Fatalf("the flush ended with %v", err)
	}
	return f
}

// Feed writes lines in transactions of at most most lines, and of fewer if the set has to be flushed before a line is
// added.
func (r *Run) Feed(most int, lines ...string) {
	r.t.Helper()
	inSet := 0
	for _, line := range lines {
		if inSet == most {
			r.Flush()
			inSet = 0
		}
		err := r.add(line)
		if err == fold.ErrSplit {
			r.Flush()
			inSet, err = 0, r.add(line)
		}
		testcheck.NoError(r.t, err)
		inSet++
	}
	r.Flush()
}

// Reset empties the set, for a flush that was not sent by Send.
func (r *Run) Reset() { r.set.Reset() }

// part returns an optional part of the run's sink. It skips the test if the driver does not have it.
func part[T any](r *Run) T {
	r.t.Helper()
	part, err := sink.As[T](r.Sink, "pass this test")
	if err != nil {
		r.t.Skip(err)
	}
	return part
}

// End closes the run; it may be called again.
func (r *Run) End() {
	if err := errors.Join(r.Sink.Close(), r.Claims.Close()); err != nil {
		r.t.Errorf("closing: %v", err)
	}
}

// drop ends the run, and drops its tables with their versions.
func (r *Run) drop(db Database) {
	r.t.Helper()
	r.End()
	for _, f := range slices.Backward(r.folders) {
		db.Exec(r.t, "DROP TABLE IF EXISTS "+f.Table().Name)
	}
	if len(db.Query(r.t, "SELECT * FROM weir_meta WHERE name LIKE 'versions%'")) > 0 {
		db.Exec(r.t, "DELETE FROM weir_versions")
	}
}

// rival returns a run with another's lanes but without a claim, as after a claim was lost.
func (r *Run) rival(db Database) *Run {
	r.t.Helper()
	other := r.unclaimed(r.t, db)
	other.lanes = slices.Clone(r.lanes)
	return other
}
