// Package pipeline ties a source to a sink: it cuts blocks into lines, has them
// folded, decides when a batch is due, and has batches written with their
// checkpoint while the next one fills.
//
// Two goroutines do the work: one reads and folds, the other flushes. Between
// them go two batches; a batch has one owner at a time, and when both are full
// reading waits.
package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// Config is what a run does.
type Config struct {
	Sources []string // as source.Expand returns them
	Source  source.Options
	Job     string // "": each source has one of its own, stdin none
	Table   string
	Fold    fold.Options

	BatchRows int
	// BatchPeriod is how long a line waits at most before it is written; 0
	// means 1s for a source that can make its reader wait, and no limit for a
	// file.
	BatchPeriod time.Duration
	Buffer      int64 // bytes of memory for both batches

	Rejects    Rejects
	MaxRejects int64
	FromStart  bool

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
	table, err := db.Table(ctx, c.Table, c.Fold.Key)
	if err != nil {
		return err
	}
	c.Table = table.Name
	if c.Fold.Columns == "" {
		c.Fold.Columns = fold.IgnoreColumns
		if table.Made || !table.Exists {
			c.Fold.Columns = fold.AddColumns
		}
	}
	c.Fold.MaxColumns = min(c.Fold.MaxColumns, max(0, db.Caps().Columns-len(table.Columns)-len(c.Fold.Key)))
	c.Fold.Warn = c.Warn
	r := &run{Config: c, db: db, p: p, id: rand.Text(), folder: fold.NewFolder(table, c.Fold)}
	defer func() {
		err = errors.Join(err, r.Rejects.close())
		p.setIgnored(r.folder.Ignored())
	}()
	if err := r.Rejects.open(); err != nil {
		return err
	}
	for _, spec := range c.Sources {
		if ctx.Err() != nil {
			break
		}
		if err := r.source(ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

// run is the state that lasts over all sources of a run.
type run struct {
	Config
	db     sink.Sink
	p      *Progress
	id     string
	folder *fold.Folder
	// seq is that of the job's last flush; anonymous jobs of one run share
	// theirs.
	seq     int64
	batches [2]fold.Batch
}

// source syncs one source to its end.
func (r *run) source(ctx context.Context, spec string) (err error) {
	stream, cp, job, err := r.open(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	f := &feeding{run: r, stream: stream, job: job, seq: cp.Seq, pos: stream.Start(), period: r.BatchPeriod}
	f.sent, f.line = f.pos, f.pos.Line
	f.head.on = f.pos.Offset == 0
	r.p.begin(stream)
	switch {
	case stream.Done():
		r.Info("%s was read to its end before and has not changed: nothing to do", stream.Name())
		return nil
	case f.pos.Offset > 0:
		r.Info("%s: going on after line %d (byte %d)", stream.Name(), f.pos.Line, f.pos.Offset)
	}
	if f.period == 0 && stream.Live() {
		f.period = livePeriod
	}
	err = f.sync(ctx)
	r.seq = f.seq
	return err
}

// open claims the job and opens the source where the job's checkpoint says.
func (r *run) open(ctx context.Context, spec string) (*source.Stream, sink.Checkpoint, string, error) {
	var cp sink.Checkpoint
	name, err := source.Name(spec)
	if err != nil {
		return nil, cp, "", err
	}
	job := r.Job
	if job == "" && spec != "-" {
		job = name + " > " + r.Table
	}
	cp, err = r.db.Claim(ctx, job, name)
	if err != nil {
		return nil, cp, "", fmt.Errorf("job %q: %w", job, err)
	}
	if job == "" {
		cp.Seq = r.seq // this run's own
	}
	var from source.Position
	if !r.FromStart && cp.Mark != "" {
		if err := json.Unmarshal([]byte(cp.Mark), &from); err != nil {
			return nil, cp, "", fmt.Errorf("the checkpoint of job %q and %s: %w", job, name, err)
		}
	}
	if err := r.Rejects.resume(cp.Rejects); err != nil {
		return nil, cp, "", err
	}
	stream, err := source.Open(ctx, spec, r.Source, from)
	return stream, cp, job, err
}
