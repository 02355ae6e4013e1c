// Package pipeline reads sources, folds their lines, and writes the resulting rows together with the sources'
// checkpoints.
//
// A run ([Run]) makes attempts ([attempt]) to read all sources from the checkpoints in the database, until one
// succeeds. Its task is fixed ([Config], [run]); what it learns is kept across attempts ([history]).
//
// Goroutines do the work of an attempt, each with its own state. The opener claims the sources and reads blocks of
// lines ([opener], [claimer]). Scanners cut and scan the blocks ([scanPool]). The reader folds the lines in order into
// a set ([reader], [tables], [setBuilder]). The flusher writes the set ([flusher]) while the reader fills another. A
// set has one owner at a time, and when both are full, reading pauses. What the reader wants to know from the database
// waits in the [dbQueue] until the flusher runs it: the tables that a message names first ([tableAdder]).
package pipeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
	"github.com/weirsync/weir/internal/status"
)

// Config is what a run does. A run does not change it, except that the plan remembers the tables that messages add.
type Config struct {
	Kind    source.Kind    // of all Sources
	Sources []string       // as source.Kinds.Expand returns them
	Source  source.Options // except Pool, Log, and others that the run sets; see sourceOptions
	Feed    Feed
	// Job is the name of the checkpoints: each source is a lane of the job. stdin is a lane only with ResumeStdin;
	// otherwise it is never resumed.
	Job         string
	ResumeStdin bool
	// Plan has the tables and maps the messages. It remembers the tables that messages add.
	Plan *mapping.Plan
	// Resume is called with each resume value that the envelope of a mapping names, as JSON, in order, once all earlier
	// messages are committed. nil: never.
	Resume func(value []byte) error

	Limits
	Spool spool.Folders
	// Tombstones is how long the versions of deleted rows are remembered.
	Tombstones time.Duration

	Rejects RejectRules
	Restart Restart
	// Every is the user's SQL that the run executes between flushes, for this kind of database.
	Every []mapping.PeriodicSQL
	Log   *slog.Logger
	Retry sink.Retry // of calls to the database
}

// Limits bound a set, and the rate of reading.
type Limits struct {
	BatchRows int // maximum rows of a set; 0: no limit
	// BatchPeriod is the longest that a line waits to be written. 0 chooses: 1 s for connections, a piped stdin and
	// rate-limited sources; 1 s for followed files, FIFOs and Kafka, but up to 10 s while they are behind; no limit for
	// other files.
	BatchPeriod time.Duration
	MaxRate     float64 // maximum lines per second; 0: no limit
	Buffer      int64   // bytes of memory for both sets
}

// A Restart tells how a run starts if it does not simply continue where the last one ended.
type Restart struct {
	FromStart bool // read from the start, over the existing rows; only once, even if the run rewinds
	Rebuild   bool // like FromStart, but into emptied tables
	// AcceptSettings continues from checkpoints of other settings or recreated tables.
	AcceptSettings bool
}

// livePeriod is the default batch period of live sources, and how long a reader waits for lines before it hands over a
// set without a period.
const livePeriod = time.Second

// catchUpPeriod is how long a line of a followed file or of Kafka waits at most while there is more to read.
const catchUpPeriod = 10 * time.Second

// ErrRejected ends a run that accepts no bad lines.
var ErrRejected = errors.New("a line was rejected")

// Run reads the sources to their ends and applies them to the tables. It reads them one after the other, but followed
// files at the same time. claims locks the sources for the run; nil reads all from their starts and locks nothing. When
// ctx ends, Run stops reading, writes what it has read, and returns nil. p counts what happens.
func Run(ctx context.Context, c Config, db sink.Sink, claims sink.Claims, p *status.Progress) error {
	r, h := newRun(&c, db, claims, p), newHistory(len(c.Plan.Tables))
	a, err := r.begin(ctx, h, nil)
	if err != nil {
		return err
	}
	defer func() { a.tables.noteAll() }() // of the last attempt
	if r.housekeeper, err = newHousekeeper(ctx, &c, db, p); err != nil {
		return err
	}
	for {
		if err := r.sizeFiles(); err != nil {
			return err
		}
		err := a.read(ctx)
		if err == nil {
			break
		}
		next, err := a.rewind(ctx, err)
		if err != nil {
			return a.unfinished(err)
		}
		a = next
	}
	a.claimer.logFinished()
	if err := errors.Join(h.fences.err, a.unread.err()); err != nil {
		return err
	}
	r.housekeeper.finish()
	return nil
}

// Fold reads the sources from their starts, folds them for the tables that read returns, of a database with the given
// limits, and passes each set of rows to look instead of writing it. When ctx ends, Fold returns its error, and look
// does not see the current set.
func Fold(ctx context.Context, c Config, caps sink.Caps, p *status.Progress, look func(*sink.Flush) error, read sink.ReadTables) error {
	r := newRun(&c, viewer{caps, read, look, ctx}, nil, p)
	r.dryRun = true
	a, err := r.begin(ctx, newHistory(len(c.Plan.Tables)), nil)
	if err != nil {
		return err
	}
	err = a.read(ctx)
	a.tables.noteAll()
	return cmp.Or(err, ctx.Err())
}

// A viewer is a sink that passes flushes to a function and writes nothing.
type viewer struct {
	caps sink.Caps
	read sink.ReadTables
	look func(*sink.Flush) error
	ctx  context.Context // ends the run; the context of a flush lasts longer
}

func (v viewer) Caps() sink.Caps { return v.caps }
func (v viewer) Close() error    { return nil }
func (v viewer) Tables(ctx context.Context, keys ...sink.TableKey) ([]schema.Table, error) {
	return v.read(ctx, keys...)
}
func (v viewer) Flush(_ context.Context, f *sink.Flush) (sink.Result, error) {
	if err := v.ctx.Err(); err != nil {
		return sink.Result{}, err
	}
	return sink.Result{}, v.look(f)
}

// A run is the state that its parts share. It does not change once the run has begun.
type run struct {
	cfg         *Config
	id          string
	db          sink.Sink
	dryRun      bool // nothing is written, and no set is split for the database
	claims      sink.Claims
	p           *status.Progress
	names       *feed.Names // of fields, in all sources
	feedNames   feedNames
	pool        *source.Pool
	limit       *rate.Limiter // of lines read from all sources; nil: no limit
	housekeeper *housekeeper
}

func newRun(c *Config, db sink.Sink, claims sink.Claims, p *status.Progress) *run {
	if claims == nil {
		claims = unclaimed{}
	}
	c.Restart.FromStart = c.Restart.FromStart || c.Restart.Rebuild
	r := &run{cfg: c, id: rand.Text(), db: db, claims: claims, p: p, names: c.Plan.Names(), pool: source.NewPool(), limit: newLimiter(c.MaxRate), housekeeper: &housekeeper{}}
	r.feedNames = c.Feed.names(r.names)
	return r
}

func (r *run) readTables(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
	return r.cfg.Retry.Tables(r.db.Tables)(ctx, wanted...)
}

func (r *run) readCheckpoints(ctx context.Context, lanes []string) ([]sink.Checkpoint, error) {
	return sink.Retried(ctx, r.cfg.Retry, func() ([]sink.Checkpoint, error) { return r.claims.Checkpoints(ctx, lanes...) })
}

// sizeFiles records the sizes of the files that an attempt reads to their ends.
func (r *run) sizeFiles() error {
	sizes := map[string]int64{}
	for _, spec := range r.cfg.Sources {
		if r.cfg.Source.Follow || r.cfg.Kind.Type(spec) != source.File {
			return nil
		}
		name, err := r.cfg.Kind.NameOf(spec)
		if err != nil {
			return err
		}
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() { // otherwise reading reports the error
			sizes[name] = info.Size()
		}
	}
	r.p.SetFiles(sizes)
	return nil
}

// unclaimed implements [sink.Claims] for a run that resumes nothing.
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
