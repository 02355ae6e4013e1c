// Package job reads sources, folds their lines and writes what that makes with the
// sources' checkpoints.
//
// A run ([Run]) makes attempts ([attempt]) to read all sources from the checkpoints that the
// database has, until one succeeds. What it is to do is fixed ([Config], [run]); what it learns
// stays over its attempts ([history]).
//
// Goroutines do the work of an attempt, each with state of its own: the opener claims the
// sources and reads blocks of lines ([opener], [claimer]), scanners cut and scan these
// ([scanPool]), the reader folds them in order into a set ([reader], [folding], [filler]), and
// the flusher writes it ([flusher]) while the reader fills another. A set has one owner at a
// time, and when both are full reading pauses. What else needs the database meanwhile takes
// [turns] with the flusher: the removal of old rows ([expiry]), dead letters ([outbox]), and
// tables that a message names first ([tableAdder]).
package job

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
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
)

// Config is what a run does: a field for each thing that can be set. A run does not change it, but Mapping.New
// remembers the tables that messages add.
type Config struct {
	Kind    source.Kind    // of all Sources
	Sources []string       // as source.Kinds.Expand returns them
	Source  source.Options // without the run's own
	Feed    Feed
	// Job is what the checkpoints are kept under: each source is a lane of it. stdin is one
	// only with ResumeStdin, else no run resumes it.
	Job         string
	ResumeStdin bool
	// Tables are those that the sources' messages are applied to, parents before their
	// children.
	Tables  []Table
	Mapping Mapping
	// Resume is called with each value from which the source resumes, as JSON, that the envelope of
	// a mapping names, in order, when all that came before it is committed. nil: with none.
	Resume func(value []byte) error

	BatchRows int // a set has at most; 0 is no limit
	// BatchPeriod is the longest a line waits before it is written. 0 chooses: 1 s for connections, a piped stdin
	// and rate-limited sources; 1 s for followed files, FIFOs and Kafka too, but up to 10 s while they are behind; no
	// limit for other files.
	BatchPeriod time.Duration
	MaxRate     float64 // lines a second that are read at most; 0 is no limit
	Buffer      int64   // bytes of memory for both sets
	Spool       spool.Folders
	// Tombstones is how long the version of a delete is remembered.
	Tombstones time.Duration

	Rejects RejectRules
	Restart Restart
	Log     *slog.Logger
}

// A Restart is how a run continues that does not just continue where the last one ended.
type Restart struct {
	FromStart bool // read from the start, over the rows that exist; once, whatever the run has to read again
	Rebuild   bool // the same into emptied tables
	// AcceptSettings continues from checkpoints of other settings, or of tables that were
	// recreated.
	AcceptSettings bool
	// Backfill returns the command that fills new tables of the job, for people; nil: there is
	// none.
	Backfill func(tables []string) string
	// Again returns the command of this run with one more flag, for people; nil: there is none.
	Again func(flag ...string) string
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
	c.Restart.FromStart = c.Restart.FromStart || c.Restart.Rebuild
	r, h := newRun(&c, db, claims, p), newHistory(c.Tables)
	a, err := r.begin(ctx, h, nil)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, r.rejects.close())
		a.folding.countPassed(p)
	}()
	if r.rejects, err = c.Rejects.To.open(); err != nil {
		return err
	}
	if r.expiry, err = newExpiry(db, h.tables, p, c.Log); err != nil {
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
	return errors.Join(h.fences.err, a.unread.err())
}

// Fold reads the sources from their starts, folds them for tables of a database with
// these limits, and has each set of rows looked at in place of a flush. When ctx ends, so
// does Fold with its error, and what was read until then is not looked at. read returns a table that a
// message adds, as the database has it.
func Fold(ctx context.Context, c Config, tables []schema.Table, caps sink.Caps, p *progress.Progress, look func(*sink.Flush) error, read sink.ReadTables) error {
	r := newRun(&c, viewer{caps, read, look, ctx}, unclaimed{}, p)
	r.looks = true
	a, err := r.newAttempt(newHistory(c.Tables), nil, tables)
	if err != nil {
		return err
	}
	err = a.read(ctx)
	a.folding.countPassed(p)
	return cmp.Or(err, ctx.Err())
}

// A viewer is a database of which nothing is known but its limits: what would be written is looked at.
type viewer struct {
	caps sink.Caps
	read sink.ReadTables
	look func(*sink.Flush) error
	ctx  context.Context // ends the run; a flush's own lasts longer
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

// A run is what its parts share. It does not change once the run has begun.
type run struct {
	cfg       *Config
	id        string
	db        sink.Sink
	looks     bool // nothing is written: a set is all that is read
	claims    sink.Claims
	p         *progress.Progress
	names     *feed.Names // of the fields, in all sources
	feedNames feedNames
	pool      *source.Pool
	limit     *rate.Limiter // of lines read, all sources together; nil: none
	rejects   *rejectFile   // the flusher's while an attempt lasts
	expiry    *expiry
	nulled    map[string]int64 // values that count as null, by TABLE.COLUMN; the reader's
}

func newRun(c *Config, db sink.Sink, claims sink.Claims, p *progress.Progress) *run {
	r := &run{cfg: c, id: rand.Text(), db: db, claims: claims, p: p, names: cmp.Or(c.Mapping.Names, &feed.Names{}), pool: source.NewPool(), limit: newLimiter(c.MaxRate), expiry: &expiry{}, nulled: map[string]int64{}}
	r.feedNames = c.Feed.names(r.names)
	return r
}

// sizeFiles notes how large the files are that an attempt is to read to their ends.
func (r *run) sizeFiles() error {
	sizes := map[string]int64{}
	for _, spec := range r.cfg.Sources {
		if r.cfg.Source.Follow || !r.cfg.Kind.Traits(spec).Stored() {
			return nil
		}
		name, err := r.cfg.Kind.NameOf(spec)
		if err != nil {
			return err
		}
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() { // else reading says what is wrong
			sizes[name] = info.Size()
		}
	}
	r.p.SetFiles(sizes)
	return nil
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
