// Package job ties a source to a sink: it cuts blocks into lines, has them
// folded, decides when a batch is due, and has batches written with their
// checkpoint while the next one fills.
//
// Goroutines do the work: some scan blocks of lines, one folds them in order, one
// flushes.
// Between the latter two go two batches; a batch has one owner at a time, and
// when both are full reading waits.
package job

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
)

// Config is what a run does.
type Config struct {
	Sources []string       // as source.Expand returns them
	Source  source.Options // but Pool, Hello, Warn, Reconnects and Whole
	Feed    Feed
	Job     string // "": each source has one of its own, stdin none
	Table   string
	Fold    fold.Options

	BatchRows int
	// BatchPeriod is how long a line waits at most before it is written; 0
	// means 1s for a source that can make its reader wait or that is held to a
	// rate, and no limit for another file.
	BatchPeriod time.Duration
	MaxRate     float64 // lines a second that are read at most; 0 is no limit
	Buffer      int64   // bytes of memory for both batches
	Spool       spool.Folders
	// Tombstones is how long the version of a delete is remembered.
	Tombstones time.Duration

	// ReadAhead is ReadAheadAuto, …; OpenReader opens one of its connections. nil
	// is none.
	ReadAhead  string
	OpenReader func(context.Context) (Reader, error)

	Rejects    Rejects
	MaxRejects int64
	// RejectsAge is how long rejected lines are kept in the database; 0 is for good.
	RejectsAge time.Duration
	// ShowRejects is the command that prints them, for people.
	ShowRejects string

	FromStart bool // read from the start, over the rows that exist
	Rebuild   bool // the same into an emptied table
	// AcceptSettings continues from checkpoints of other settings, or of a table that was
	// recreated.
	AcceptSettings bool

	Warn func(format string, args ...any)
	Info func(format string, args ...any)
}

const livePeriod = time.Second

// ErrRejected ends a run that takes no bad lines.
var ErrRejected = errors.New("a line was rejected")

// Run reads the sources to their ends, one after the other, and keeps the table
// true to them. When ctx ends, it stops reading, writes what it has and returns
// nil. p counts what happens.
func Run(ctx context.Context, c Config, db sink.Sink, p *Progress) (err error) {
	c.FromStart = c.FromStart || c.Rebuild
	r := &run{Config: c, wrote: map[string]bool{}, db: db, p: p, id: rand.Text(), pool: source.NewPool(), limit: newLimiter(c.MaxRate), readAhead: &readAhead{mode: c.ReadAhead, open: c.OpenReader}}
	r.feedNames = r.Feed.names(&r.names)
	defer func() { err = errors.Join(err, r.readAhead.close()) }()
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, r.Rejects.close())
		p.setIgnored(r.folder.Ignored())
	}()
	if err := r.Rejects.open(); err != nil {
		return err
	}
	if err := r.admitAll(ctx); err != nil {
		return err
	}
	defer r.sayFinished()
	for i := 0; i < len(c.Sources) && ctx.Err() == nil; i++ {
		err := r.source(ctx, c.Sources[i])
		if err == nil {
			continue
		}
		if err := r.rewind(ctx, c.Sources[i], err); err != nil {
			return err
		}
		// What went back may have been of a source that was done: each one's
		// checkpoint says.
		i, r.finished, r.finishedRejected = -1, 0, 0
	}
	return nil
}

// sayFinished tells of the files that there was nothing to do for, in one line.
func (r *run) sayFinished() {
	rejected := ""
	if r.finishedRejected > 0 {
		rejected = fmt.Sprintf(" (lines rejected then: %d; %s)", r.finishedRejected, r.ShowRejects)
	}
	switch {
	case r.finished == 0:
	case len(r.Sources) == 1:
		r.Info("%s was read to its end before and has not changed: nothing to do%s", r.Sources[0], rejected)
	default:
		r.Info("%d of %d files were read to their ends before and have not changed: nothing to do for these%s", r.finished, len(r.Sources), rejected)
	}
}

// begin reads the table and starts a fold for it.
func (r *run) begin(ctx context.Context) error {
	r.keyErr = nil
	table, err := r.db.Table(ctx, r.Table, r.Fold.Key)
	if errors.As(err, new(sink.KeyError)) {
		if !r.Rebuild {
			r.keyErr = err // the checkpoint may have a better word for it
		}
	} else if err != nil {
		return err
	}
	r.Table = table.Name
	r.table = table
	if r.settings, err = r.Config.settings(); err != nil {
		return err
	}
	if r.jobs, err = r.jobNames(); err != nil {
		return err
	}
	table.HasConstraints = table.HasConstraints || r.constrained
	o := r.Fold
	if err := fold.CheckVersion(&table, o); err != nil {
		return err
	}
	if table.Versioned && (o.Version == "" || o.Scope != fold.ColumnScope) {
		r.Warn("table %q is kept by a version for each column; what this run writes has none, and later messages may be taken for older or newer than they are", table.Name)
	}
	if o.Columns == "" {
		o.Columns = fold.IgnoreColumns
		if table.Made || !table.Exists {
			o.Columns = fold.AddColumns
		}
	}
	o.MaxColumns = min(o.MaxColumns, max(0, r.db.Caps().Columns-len(table.Columns)-len(o.Key)))
	o.Warn = r.Warn
	r.mapper, r.folder = fold.NewMapper(&r.names, o), fold.NewFolder(&r.names, table, o)
	return nil
}

// job returns the name of a source, and that under which its checkpoint is kept, "" for
// none.
func (r *run) job(spec string) (job, name string, err error) {
	if name, err = source.Name(spec); err == nil && r.Job == "" && source.TraitsOf(spec).Named {
		return name + " > " + r.Table, name, nil
	}
	return r.Job, name, err
}

// jobNames returns the names that the run's jobs have in the database.
func (r *run) jobNames() (names []string, err error) {
	for _, spec := range r.Sources {
		job, _, err := r.job(spec)
		if err != nil {
			return nil, err
		}
		names = append(names, (&sink.Flush{Job: job, Run: r.id}).JobName())
	}
	return names, nil
}

// maxRewinds is how often a run reads again without a calm between; a server that goes
// back more often is none to rely on.
const (
	maxRewinds = 10
	calm       = time.Minute
)

// rewind has the run go on from the database's checkpoints, where an error says
// that this mends it; other errors it returns.
func (r *run) rewind(ctx context.Context, spec string, err error) error {
	var behind sink.ErrBehind
	var unlogged sink.ErrUnlogged
	var changed sink.ErrChanged
	switch {
	case !errors.As(err, &behind) && !errors.As(err, &unlogged) && !errors.As(err, &changed):
		return err
	case !source.TraitsOf(spec).Named || !r.repeats(spec):
		return fmt.Errorf("%w; %s cannot be read again: lines %d to %d may be lost", err, spec, r.safe+1, r.line)
	case r.rewinds == maxRewinds && time.Since(r.rewound) <= calm:
		return fmt.Errorf("%w (for the %dth time)", err, r.rewinds+1)
	}
	if time.Since(r.rewound) > calm {
		r.rewinds = 0
	}
	r.rewinds, r.rewound = r.rewinds+1, time.Now()
	r.constrained = r.constrained || unlogged.Err != nil
	r.Warn("%v; reading again from the database's checkpoint", err)
	r.rebuilt = false
	return r.begin(ctx)
}

// repeats reports whether a run can read again what an earlier one has read of a source.
func (r *run) repeats(spec string) bool {
	return source.TraitsOf(spec).Rewindable || r.Feed.resumes(spec)
}

// run is the state that lasts over all sources of a run.
type run struct {
	Config
	db     sink.Sink
	p      *Progress
	id     string
	names  feed.Names
	mapper *fold.Mapper
	folder *fold.Folder

	feedNames feedNames
	table     schema.Table    // as the run found it
	keyErr    error           // why it cannot be kept by the key that is wanted
	settings  string          // of the fold, as checkpoints keep them
	jobs      []string        // of all sources, by their names in the database
	wrote     map[string]bool // the jobs that this run has written
	rebuilt   bool
	pruned    time.Time // when old rejects were last removed
	// seq is that of the job's last flush; anonymous jobs of one run share
	// theirs.
	seq         int64
	line        int64 // of the source at hand, the last that was read
	safe        int64 // lines before those of batches that may be lost
	constrained bool  // the table has refused a row
	finished    int   // sources that had been read to their ends before
	// finishedRejected is how many of their lines were rejected then.
	finishedRejected int64
	rewinds          int
	rewound          time.Time // when it last did
	batches          [2]fold.Batch

	pool      *source.Pool
	readAhead *readAhead
	committed atomic.Pointer[string] // the feed's resume value in the database
	spool     *spool.Queue           // nil where there is none
	limit     *rate.Limiter          // of lines read, all sources together; nil: none
}

// resumeFrom has a connection that is made from now on begin at a value that is
// committed: what was only read goes with the program.
func (r *run) resumeFrom(value string) { r.committed.Store(&value) }

// source syncs one source to its end.
func (r *run) source(ctx context.Context, spec string) (err error) {
	stream, cp, from, job, err := r.open(ctx, spec)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, stream.Close())
		if r.spool != nil {
			err = errors.Join(err, r.spool.Close())
			r.spool = nil
		}
	}()
	f := &feeding{run: r, stream: stream, job: job, seq: cp.Seq, period: r.BatchPeriod, tally: tally{rejected: cp.Rejected}}
	f.pos.mark.Feed = from.mark.Feed
	if at := stream.Start(); at != "" {
		f.pos.line, f.pos.offset, f.pos.mark.Source = from.line, from.offset, at
	}
	f.restart = cp.Mark == "" && cp.Seq > 0 && job != "" && r.repeats(spec)
	f.tentative = cp.Mark == "" && r.repeats(spec) && !r.spool.Durable()
	if r.spool.Durable() {
		f.pos.mark.Source = r.spool.Start()
	}
	f.sent, f.line, f.heard = f.pos, f.pos.line, heeding{feedMark: f.pos.mark.Feed, opening: !r.spool.Durable()}
	f.head.on = f.pos.offset == 0 && !stream.Traits().Live
	r.p.begin(stream)
	switch {
	case stream.Done():
		r.finished++
		r.finishedRejected += cp.Rejected
		return nil
	case f.heard.Resume != "":
		r.Info("%s: going on from %s %s", stream.Name(), r.Feed.ResumeField, f.heard.Resume)
	case f.pos.offset > 0:
		r.Info("%s: going on after line %d (byte %d)", stream.Name(), f.pos.line, f.pos.offset)
	}
	if at := stream.Addr(); at != nil {
		r.Info("%s: senders connect to %s", stream.Name(), at)
	}
	if f.period == 0 && (stream.Waits() || r.MaxRate > 0) {
		f.period = livePeriod
	}
	err = f.sync(ctx)
	r.seq, r.line = f.seq, f.line
	if err == nil && ctx.Err() == nil && len(r.rebuilding()) > 0 { // the feed is empty
		err = r.write(context.WithoutCancel(ctx), job, stream.Name(), sink.Checkpoint{Seq: f.seq + 1})
	}
	return err
}

// open claims the job and opens the source where the job's checkpoint says.
func (r *run) open(ctx context.Context, spec string) (_ *source.Stream, cp sink.Checkpoint, from position, job string, err error) {
	job, name, err := r.job(spec)
	if err != nil {
		return nil, cp, from, "", err
	}
	cp, from, accepted, err := r.claim(ctx, job, name)
	if err != nil {
		return nil, cp, from, "", err
	}
	if job == "" {
		cp.Seq = r.seq // this run's own
	}
	if at := cp.Committed; at.After(time.Unix(0, r.p.LastCommit.Load())) {
		r.p.LastCommit.Store(at.UnixNano())
	}
	if err := r.Rejects.resume(job, cp.Rejects); err != nil {
		return nil, cp, from, "", err
	}
	if accepted {
		cp.Seq++
		if err := r.write(ctx, job, name, cp); err != nil {
			return nil, cp, from, "", err
		}
	}
	if r.FromStart {
		from = position{}
	}
	if from == (position{}) {
		cp.Mark, cp.Rejected = "", 0
	}
	r.resumeFrom(from.mark.Feed.Resume)
	o := r.Source
	o.Pool = r.pool
	o.Warn = func(s string) { r.Warn("%s", s) }
	o.Whole = func(line []byte) bool {
		_, err := feed.NewScanner(&feed.Names{}).Scan(line)
		return err == nil
	}
	o.Reconnects = func() { r.p.Reconnects.Add(1) }
	o.Settle = r.Feed.resumes(name) // else it cannot be asked for more
	if r.Feed.Hello != nil {
		o.Hello = func() ([]byte, error) {
			if r.spool.Durable() {
				return r.Feed.Hello(r.spool.Resume()) // what is on disk need not come again
			}
			return r.Feed.Hello(*r.committed.Load())
		}
	}
	stream, err := source.Open(ctx, spec, o, from.mark.Source)
	if err == nil {
		if r.spool, err = r.openSpool(stream, cp, from, job); err != nil {
			err = errors.Join(err, stream.Close())
		}
	}
	return stream, cp, from, job, err
}
