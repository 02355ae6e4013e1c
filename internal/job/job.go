// Package job reads sources, folds their lines and writes what that makes with the
// sources' checkpoints.
//
// Goroutines do the work, each with state of its own: the opener claims the sources and
// reads blocks of lines ([opener]), scanners cut and scan these ([scanPool]), the reader
// folds them in order into a set ([reader]), and the flusher writes it ([flusher]) while
// the reader fills another. A set has one owner at a time, and when both are full reading
// pauses.
package job

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
)

// Config is what a run does.
type Config struct {
	Kind    source.Kind    // of all Sources
	Sources []string       // as source.Kinds.Expand returns them
	Source  source.Options // but those of the run
	Feed    Feed
	// Job is what the checkpoints are kept under: each source is a lane of it. stdin is one
	// only with ResumeStdin, else no run resumes it.
	Job         string
	ResumeStdin bool
	// Tables are those that the sources' messages are applied to, parents before their
	// children.
	Tables []Table
	// Star stands for the tables that messages add to these, behind them; nil: they add none.
	Star *Table
	// NewMapper returns what maps lines whose scanners number names as names does, for a database
	// with these limits; the tables are fitted after it. nil: all messages are for the one table,
	// whose columns are called as the fields are.
	NewMapper func(names *feed.Names, limits schema.Limits) (Mapper, error)
	// Stream tells that messages are those of a change stream, in which null removes a row that an
	// earlier message has removed.
	Stream bool
	// Resume is called with each value from which the source resumes, as JSON, that the envelope of
	// a mapping names, in order, when all that came before it is committed. nil: with none.
	Resume func(value []byte) error
	// Mapping is by which messages are taken, whatever the table, by the keys of a config file, for
	// checkpoints.
	Mapping map[string]string

	BatchRows int // a set has at most; 0 is no limit
	// BatchPeriod is how long a line waits at most before it is written; 0
	// means 1s for a source that can make its reader wait or that is held to a
	// rate, up to 10s for a followed file or Kafka while there is more to read, and no limit for another file.
	BatchPeriod time.Duration
	MaxRate     float64 // lines a second that are read at most; 0 is no limit
	Buffer      int64   // bytes of memory for both sets
	Spool       spool.Folders
	// Tombstones is how long the version of a delete is remembered.
	Tombstones time.Duration

	Rejects    Rejects
	MaxRejects int64
	// RejectsAge is how long rejected lines are kept in the database; 0 is for good.
	RejectsAge time.Duration
	// ShowRejects is the command that prints them, for people.
	ShowRejects string

	FromStart bool // read from the start, over the rows that exist; once, whatever the run has to read again
	Rebuild   bool // the same into emptied tables
	// AcceptSettings continues from checkpoints of other settings, or of tables that were
	// recreated.
	AcceptSettings bool
	// Backfill returns the command that fills new tables of the job, for people; nil: there is
	// none.
	Backfill func(tables []string) string

	Log *slog.Logger
}

const livePeriod = time.Second

// catchUpPeriod is how long a line of a followed file or of Kafka waits at most while there is more to read.
const catchUpPeriod = 10 * time.Second

// ErrRejected ends a run that takes no bad lines.
var ErrRejected = errors.New("a line was rejected")

// Run reads the sources to their ends, and applies them to the tables. They are read one
// after the other; files that are followed are read at the same time. claims hold the
// sources for the run; where they are nil, all are read from their starts and nothing is
// claimed. When ctx ends, Run stops reading, writes what it has and returns nil. p counts
// what happens.
func Run(ctx context.Context, c Config, db sink.Sink, claims sink.Claims, p *progress.Progress) (err error) {
	if claims == nil {
		claims = unclaimed{}
	}
	c.FromStart = c.FromStart || c.Rebuild
	c.Tables = slices.Clone(c.Tables) // they get the names that the database has
	r := &run{Config: c, declared: len(c.Tables), db: db, claims: claims, p: p, id: rand.Text(), pool: source.NewPool(), limit: newLimiter(c.MaxRate),
		moved: map[string]bool{}, fenced: map[string]bool{}, flush: db.Flush, readTables: db.Tables}
	r.feedNames = r.Feed.names(&r.names)
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, r.Rejects.close())
		r.countPassed()
	}()
	if err := r.Rejects.open(); err != nil {
		return err
	}
	if r.expirers, err = newExpirers(db, r.Tables); err != nil {
		return err
	}
	for {
		if err := r.sizeFiles(); err != nil {
			return err
		}
		lanes, err := r.attempt(ctx)
		if err == nil {
			break
		}
		if err := r.rewind(ctx, lanes, err); err != nil {
			return r.unfinished(lanes, err)
		}
	}
	r.logFinished()
	return r.fencedErr
}

// Fold reads the sources from their starts, folds them for tables of a database with
// these limits, and has each set of rows looked at in place of a flush. When ctx ends, so
// does Fold with its error, and what was read until then is not looked at. read returns a table that a
// message adds, as the database has it.
func Fold(ctx context.Context, c Config, tables []schema.Table, caps sink.Caps, p *progress.Progress, look func(*sink.Flush) error, read sink.ReadTables) error {
	c.Tables = slices.Clone(c.Tables)
	r := &run{Config: c, declared: len(c.Tables), claims: unclaimed{}, p: p, id: rand.Text(), pool: source.NewPool(), limit: newLimiter(c.MaxRate), lanesAtOnce: math.MaxInt, lookedAt: true,
		flush: func(_ context.Context, f *sink.Flush) (sink.Result, error) {
			if err := ctx.Err(); err != nil {
				return sink.Result{}, err
			}
			return sink.Result{}, look(f)
		}}
	r.readTables = read
	r.feedNames = r.Feed.names(&r.names)
	if err := r.fold(tables, caps); err != nil {
		return err
	}
	_, err := r.attempt(ctx)
	r.countPassed()
	return cmp.Or(err, ctx.Err())
}

// run is what lasts over all attempts of a run to read its sources. During one it does
// not change, except for what has an owner of its own.
type run struct {
	Config
	declared int // of Tables: those behind these were added by messages
	db       sink.Sink
	flush    func(context.Context, *sink.Flush) (sink.Result, error)
	// readTables is that of the database.
	readTables sink.ReadTables
	claims     sink.Claims
	p          *progress.Progress
	id         string
	pool       *source.Pool
	limit      *rate.Limiter // of lines read, all sources together; nil: none
	names      feed.Names    // of the fields, in all sources
	feedNames  feedNames
	// lanesAtOnce is how many lanes a set takes at most; 0: maxLanes.
	lanesAtOnce int
	lookedAt    bool // nothing is written: a set is all that is read

	// Those that messages have added in this attempt, behind Tables: the reader's, which gives them to the
	// flusher for its asks.
	added       []Table
	found       []schema.Table // the same as the database had them
	asks        chan *ask      // of the reader, for the flusher
	caps        sink.Caps
	tables      []schema.Table    // as the attempt found them
	keyErr      error             // why one cannot have the key of this run
	settings    settings          // of the fold
	settingText string            // the same, as checkpoints keep them
	streamNames map[string]string // of the same; while an attempt lasts, the reader's
	mapper      Mapper            // nil where the fields are the columns of the one table, which is identity's
	identity    *fold.Mapper
	folders     fold.Folders
	constrained bool // a table has refused a row

	// What the functions of these names returned at the end of the attempt before:
	ignoredBefore, mismatchesBefore map[string]int64
	unmetBefore                     []progress.Unmet // nil: there was none

	folded    int              // messages, while they are few: the reader's
	known     int              // lanes, when the attempt began
	latest    start            // the source that the job committed last, when the attempt began
	ends      map[string]int64 // of the lanes of a catalog, when the run began
	inGroup   bool             // a group says which lanes the run has; see [source.Member]
	rewinds   int
	rewound   time.Time       // when it last did
	moved     map[string]bool // sources that another run has written once since they were claimed
	fenced    map[string]bool // the same, more than once: they are theirs
	fencedErr error           // names these

	finished         atomic.Int64 // sources that had been read to their ends before
	finishedRejected atomic.Int64 // lines of these that were rejected then

	hasWritten bool      // the job has written to the tables: the flusher's
	pruned     time.Time // when old rejects were last removed
	expirers   []*expirer
}

// attempt reads all sources from their checkpoints to their ends. It returns those that it
// has opened.
func (r *run) attempt(ctx context.Context) (_ []*lane, err error) {
	r.finished.Store(0)
	r.finishedRejected.Store(0)
	names, src, err := r.lanes(ctx)
	if err != nil {
		return nil, err
	}
	if src != nil {
		defer func() { err = errors.Join(err, src.Close()) }()
	}
	r.known = len(names)
	starts, err := r.admitAll(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range starts {
		if err := r.knowNames(&starts[i]); err != nil {
			return nil, err
		}
	}
	member, inGroup := src.(source.Member)
	if r.inGroup = inGroup; inGroup {
		if err := r.join(ctx, member, starts); err != nil {
			return nil, err
		}
	}
	unmarked, err := r.Rejects.resume(ctx, r.claims)
	if err != nil {
		return nil, err
	}
	scans := newScanPool(&r.names, r.limit)
	box, err := r.newOutbox(src, starts)
	if err != nil {
		return nil, err
	}
	o := &opener{run: r, scans: scans, outbox: box}
	r.asks = make(chan *ask)
	full, free := make(chan *set), make(chan *set, 2)
	for range 2 {
		s := newSet(len(r.Tables))
		s.Unsplit, s.Whole = r.lookedAt, r.lookedAt && r.Buffer == math.MaxInt64
		free <- s
	}
	in := &reader{run: r, scans: scans, full: full, free: free, unmarked: unmarked}
	in.rebuilds = r.Rebuild && !slices.ContainsFunc(starts, func(s start) bool { return r.hasBegun(&s) })
	out := &flusher{run: r, full: full, free: free, outbox: box}

	// What was read is folded and written even when reading was stopped, so flushing ends
	// only with an error; that ends folding and reading too.
	g, flushing := errgroup.WithContext(context.WithoutCancel(ctx))
	folding, cancel := context.WithCancel(flushing)
	defer cancel()
	reading, stop := context.WithCancel(folding)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	sending, written := context.WithCancel(flushing)
	g.Go(func() error { return box.send(sending) })
	g.Go(func() error {
		defer written()
		return out.write(flushing, ctx.Done())
	})
	g.Go(func() error {
		scans.run(func() error { return o.open(reading, folding, starts, src) })
		return nil
	})
	g.Go(func() error {
		defer cancel() // whatever ends the fold ends the scan
		defer close(full)
		return in.fill(reading, flushing)
	})
	err = errors.Join(g.Wait(), in.failed)
	r.p.SetBuffer(0)
	scans.leave()
	for _, l := range o.lanes {
		if err == nil && ctx.Err() != nil && in.open[l] {
			r.p.Stopped(l.stop(l.reading.pos))
		}
		l.progress.Close()
		if err == nil {
			l.progress.Drop() // what made nothing to commit
		}
	}
	return o.lanes, errors.Join(err, o.close())
}

// logFinished logs the files that were read to their ends before, in one line.
func (r *run) logFinished() {
	finished, rejected := r.finished.Load(), ""
	if n := r.finishedRejected.Load(); n > 0 {
		rejected = fmt.Sprintf(" (lines rejected then: %d; %s)", n, r.ShowRejects)
	}
	switch {
	case finished == 0:
	case len(r.Sources) == 1:
		r.Log.Info(fmt.Sprintf("%s was read to its end before and has not changed: nothing to do%s", r.Sources[0], rejected), "source", r.Sources[0])
	default:
		r.Log.Info(fmt.Sprintf("%d of %d files were read to their ends before and have not changed: nothing to do for these%s", finished, len(r.Sources), rejected))
	}
}

// begin reads the tables and starts a fold for them.
func (r *run) begin(ctx context.Context) error {
	r.keyErr = nil
	r.Tables, r.added, r.found = append(r.Tables, r.added...), nil, nil
	tables, err := r.db.Tables(ctx, TableKeys(r.Tables)...)
	if errors.As(err, new(sink.KeyError)) {
		if !r.Rebuild {
			r.keyErr = err // the checkpoint may know the reason: other settings
		}
	} else if err != nil {
		return err
	}
	return r.fold(tables, r.db.Caps())
}

// fold starts a fold for tables of a database with these limits.
func (r *run) fold(tables []schema.Table, caps sink.Caps) (err error) {
	r.ignoredBefore, r.mismatchesBefore = r.ignored(), r.mismatches()
	if r.mapper != nil {
		unmet, _ := r.unmetFields()
		r.unmetBefore = append([]progress.Unmet{}, unmet...)
	}
	r.tables, r.folders, r.mapper, r.caps = tables, nil, nil, caps
	for i := range tables {
		r.Tables[i].Name = tables[i].Name
	}
	if r.settings = r.foldSettings(); r.streamNames == nil {
		r.streamNames = map[string]string{}
	}
	if err := r.keepSettings(); err != nil {
		return err
	}
	if r.NewMapper != nil {
		if r.mapper, err = r.NewMapper(&r.names, caps.Limits); err != nil {
			return err
		}
		if m, ok := r.mapper.(*planned); ok {
			m.log = r.Log
		}
	}
	fitted, err := r.fit(tables, caps.Limits)
	if err != nil {
		return err
	}
	for i := range fitted {
		o, err := r.addFolder(&fitted[i], caps)
		if err != nil {
			return err
		}
		r.identity = fold.NewMapper(&r.names, o)
	}
	r.folders.Link()
	if m, ok := r.mapper.(*planned); ok {
		m.scratch.Names = r.streamNames
		m.scratch.Now = func(table int) (schema.Table, bool) {
			if table == len(r.folders) { // about to be added
				return schema.Table{}, false
			}
			return r.folders[table].Table(), true
		}
		return r.folders.Nest(m.plan)
	}
	return nil
}

// addFolder adds the folder of a table, behind those of the tables before it.
func (r *run) addFolder(fitted *schema.Table, caps sink.Caps) (fold.Options, error) {
	o, err := r.options(fitted, r.table(len(r.folders)).Fold, caps)
	if err == nil {
		fitted.HasConstraints = fitted.HasConstraints || r.constrained
		r.folders = append(r.folders, fold.NewFolder(&r.names, *fitted, o))
	}
	return o, err
}

// table returns a table of the run by its number.
func (r *run) table(i int) *Table {
	if n := len(r.Tables); i >= n {
		return &r.added[i-n]
	}
	return &r.Tables[i]
}

// fit returns tables as the job wants them. The error joins those of all.
func (r *run) fit(tables []schema.Table, limits schema.Limits) ([]schema.Table, error) {
	fitted := make([]schema.Table, len(tables))
	var faults []error
	for i := range tables {
		fitted[i] = tables[i].Clone()
		if m, ok := r.mapper.(*planned); ok {
			faults = append(faults, m.same(tables[:i], tables[i].FullName))
		}
		if fit := r.Tables[i].Fit; fit != nil {
			faults = append(faults, fit(&limits, &fitted[i]))
		}
	}
	return fitted, errors.Join(faults...)
}

// options are the rules of the fold for a table.
func (r *run) options(t *schema.Table, o fold.Options, caps sink.Caps) (fold.Options, error) {
	o.Limits = caps.Limits
	if err := fold.CheckVersion(t, o); err != nil {
		return o, err
	}
	if t.Versioned && (o.Version == "" || o.Scope != fold.ColumnScope) {
		r.Log.Warn(fmt.Sprintf("table %q is kept by a version for each column; what this run writes has none, and later messages may be taken for older or newer than they are", t.Name))
	}
	if o.Columns == "" {
		o.Columns = fold.IgnoreColumns
		if t.Made || !t.Exists {
			o.Columns = fold.AddColumns
		}
	}
	o.MaxColumns = min(o.MaxColumns, max(0, caps.Columns-len(t.Columns)-len(o.Key)))
	o.Log = r.Log
	return o, nil
}

// countPassed counts what has found no table and no column.
func (r *run) countPassed() {
	r.p.SetIgnored(r.ignored())
	r.countUnmet()
	if m, ok := r.mapper.(*planned); ok {
		r.p.SetUnmatched(m.ignored, m.noTable)
	}
}

// ignored returns how many values each field had that found no column.
func (r *run) ignored() map[string]int64 {
	all := map[string]int64{}
	maps.Copy(all, r.ignoredBefore)
	for i, f := range r.folders {
		for field, n := range f.Ignored() {
			if len(r.folders) > 1 {
				field = r.table(i).Name + "." + field
			}
			all[field] += n
		}
	}
	return all
}

// mismatches returns how many values were no object, or no array, where a path of the mapping steps into one.
func (r *run) mismatches() map[string]int64 {
	m, ok := r.mapper.(*planned)
	if !ok {
		return r.mismatchesBefore
	}
	all := m.scratch.Mismatches()
	for path, n := range r.mismatchesBefore {
		if all == nil {
			all = map[string]int64{}
		}
		all[path] += n
	}
	return all
}

// lost returns how many values were not kept, by TABLE.COLUMN or TABLE.FIELD; nil: none.
func (r *run) lost() map[string]int64 {
	if m, ok := r.mapper.(*planned); ok && len(m.lost) > 0 {
		return maps.Clone(m.lost)
	}
	return nil
}

// maxRewinds is how often a run rewinds in a row: until a minute (calm) passes without a
// rewind. A server that is restored more often cannot be relied on.
const (
	maxRewinds = 10
	calm       = time.Minute
)

// rewind has the run read again from the database's checkpoints, where an error says that
// this helps; other errors it returns. lanes are those that were opened.
func (r *run) rewind(ctx context.Context, lanes []*lane, err error) error {
	var behind sink.BehindError
	var fenced sink.FencedError
	var unlogged sink.ErrUnlogged
	var changed sink.ErrChanged
	switch {
	case r.inGroup && errors.As(err, &fenced):
		r.p.Fenced() // the group knows who has the lanes: the run joins it again
	case r.inGroup && errors.Is(err, source.ErrNewLane):
	case errors.As(err, &fenced):
		if r.noteFenced(fenced.Lanes); len(r.fenced) > 0 {
			r.fencedErr = err
		}
		if len(r.fenced) == r.known {
			return r.fencedErr
		}
	case !errors.As(err, &behind) && !errors.As(err, &unlogged) && !errors.As(err, &changed):
		return err
	}
	if slices.ContainsFunc(lanes, func(l *lane) bool { return l.lost() > 0 }) {
		return err
	}
	if !errors.Is(err, source.ErrNewLane) { // which is no fault
		if err := r.countRewind(err); err != nil {
			return err
		}
	}
	r.constrained = r.constrained || unlogged.Err != nil
	r.Log.Warn(fmt.Sprintf("%v; reading again from the database's checkpoint", err))
	var names []string
	for _, l := range lanes {
		l.progress.Drop()
		names = append(names, l.name)
	}
	if err := r.claims.Drop(ctx, names...); err != nil {
		return err
	}
	return r.begin(ctx)
}

// unfinished notes where an error has left the lanes, and returns the error with how many lines it has lost.
func (r *run) unfinished(lanes []*lane, err error) error {
	perhaps := "" // the answer to a commit may have been lost
	if failed, ok := errors.AsType[*sink.Error](err); ok && failed.Class == sink.Unknown {
		perhaps = "perhaps "
	}
	for _, l := range lanes {
		if l.reading.ended && l.flushed.safe == l.reading.read {
			continue
		}
		s := l.stop(l.flushed.pos)
		s.Lost = l.lost()
		r.p.Stopped(s)
		if s.Lost > 0 {
			err = fmt.Errorf("%w; lines of %s that were read and %snot committed: %d. They are lost unless they are sent again", err, l.name, perhaps, s.Lost)
		}
	}
	return err
}

// countRewind counts a rewind for a reason, which it returns as the run's error after too many.
func (r *run) countRewind(why error) error {
	if time.Since(r.rewound) > calm {
		r.rewinds = 0
	}
	if r.rewinds == maxRewinds {
		return fmt.Errorf("%w (for the %dth time)", why, r.rewinds+1)
	}
	r.rewinds, r.rewound = r.rewinds+1, time.Now()
	return nil
}

// noteFenced notes which sources are lost to other runs. The first time that may have been the last
// flush of a run that was killed, which came after its claim was released: then the source
// is still this run's.
func (r *run) noteFenced(lanes []string) {
	for _, name := range lanes {
		if r.moved[name] {
			r.fenced[name] = true
		}
		r.moved[name] = true
	}
}

// unclaimed are the claims of a run that resumes nothing.
type unclaimed struct{}

func (unclaimed) Tables(context.Context) ([]string, error) { return nil, nil }
func (unclaimed) Latest(context.Context) (source string, cp sink.Checkpoint, err error) {
	return "", cp, nil
}
func (unclaimed) Drop(context.Context, ...string) error { return nil }
func (unclaimed) TakeJob(context.Context) error         { return nil }
func (unclaimed) Close() error                          { return nil }
func (unclaimed) Checkpoints(_ context.Context, lanes ...string) ([]sink.Checkpoint, error) {
	return make([]sink.Checkpoint, len(lanes)), nil
}
func (u unclaimed) Take(ctx context.Context, lanes ...string) ([]sink.Checkpoint, error) {
	return u.Checkpoints(ctx, lanes...)
}
func (unclaimed) RejectFile(context.Context, string) (sink.RejectFile, error) {
	return sink.RejectFile{}, nil
}
