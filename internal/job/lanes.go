package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
)

// A start is a source of the run, and where it continues.
type start struct {
	spec, name string // as source.Name has it
	unnamed    bool   // no run resumes it
	resumes    bool   // a run can continue where an earlier one ended
	repeats    bool   // the run itself can read it again
	cp         sink.Checkpoint
	from       position
	accepted   bool // it continues by --accept-settings
}

// A lane is a source that is open: what is read in order, and resumed by itself.
type lane struct {
	start
	log    *slog.Logger
	stream *source.Stream
	spool  *spool.Queue // nil where there is none
	blocks blocks       // the stream, or the spool
	begin  position     // of what blocks gives first
	// committed is the resume value of the feed in the database: a connection that is made
	// from now on begins there: what was only read is lost if the program ends.
	committed atomic.Pointer[string]

	reading laneReading // the reader's
	flushed laneFlushed // the flusher's
}

const (
	// maxLanes is how many lanes a set takes at most.
	maxLanes = 1000
	// claimChunk is how many sources are claimed at a time: each claim is a round trip.
	claimChunk = 200
)

// An opener claims the sources, opens them and puts their lines into the pool.
type opener struct {
	*run
	scans *scanPool

	mu    sync.Mutex
	lanes []*lane
	spool *spool.Queue // of the one lane that has one
}

// open opens sources one after the other, each when the one before it was read; files that
// are followed are read at the same time.
func (o *opener) open(ctx context.Context, starts []start) error {
	g, each := errgroup.WithContext(ctx)
	for len(starts) > 0 && ctx.Err() == nil {
		n := min(claimChunk, len(starts))
		now, err := o.take(ctx, starts[:n])
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		starts = starts[n:]
		for _, s := range now {
			if o.Source.Follow && len(o.Sources) > 1 {
				g.Go(func() error { return o.source(each, s) })
			} else if err := o.source(ctx, s); err != nil {
				return err
			}
		}
	}
	return g.Wait()
}

// take claims sources, and returns those of which there is something to read.
func (o *opener) take(ctx context.Context, starts []start) (now []start, err error) {
	var names []string
	for _, s := range starts {
		if !s.accepted && source.Finished(s.spec, o.Source, s.from.mark.Source) {
			o.skip(&s)
			continue
		}
		if now = append(now, s); !s.unnamed {
			names = append(names, s.name)
		}
	}
	if len(now) == 0 {
		return nil, nil
	}
	found, err := o.claims.Take(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, s := range now {
		if s.unnamed {
			continue
		}
		// The flush that empties the table forgets the checkpoints of the sources to come.
		if at := found[0]; (at.Seq != s.cp.Seq || at.Run != s.cp.Run) && !(o.Rebuild && at.Seq == 0) {
			return nil, sink.ErrChanged{Err: fmt.Errorf("another run has read %s meanwhile", s.name)}
		}
		found = found[1:]
	}
	return now, nil
}

// skip counts a source that had been read to its end before.
func (o *opener) skip(s *start) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished++
	o.finishedRejected += s.cp.Rejected
}

// source reads a source to its end.
func (o *opener) source(ctx context.Context, s start) error {
	l, err := o.openLane(ctx, s)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.lanes = append(o.lanes, l)
	o.mu.Unlock()
	if err := o.scans.signal(ctx, l, opened, nil); err != nil {
		return errors.Join(err, l.stream.Close())
	}
	if l.stream.Done() {
		o.skip(&s)
		err = io.EOF
	} else {
		o.logStart(l)
		err = o.read(ctx, l)
	}
	if closing := l.stream.Close(); err == io.EOF {
		err = closing
	}
	if ctx.Err() != nil {
		return err
	}
	return o.scans.signal(ctx, l, ended, err)
}

// logStart logs where a source continues.
func (o *opener) logStart(l *lane) {
	switch from := &l.from; {
	case from.mark.Feed.Resume != "":
		l.log.Info(fmt.Sprintf("%s: resuming after %s %s", l.name, o.Feed.ResumeField, from.mark.Feed.Resume))
	case from.offset > 0 && l.stream.Start() != "":
		l.log.Info(fmt.Sprintf("%s: resuming after line %d (byte %d)", l.name, from.line, from.offset))
	}
	if at := l.stream.Addr(); at != nil {
		l.log.Info(fmt.Sprintf("%s: senders connect to %s", l.name, at))
	}
}

// read puts the blocks of a lane into the pool, until an error or its end.
func (o *opener) read(ctx context.Context, l *lane) error {
	var spooling sync.WaitGroup
	defer spooling.Wait()
	if l.spool != nil {
		spooling.Go(func() { l.spool.Run(ctx) })
	}
	for {
		b, err := l.blocks.Next(ctx)
		if err == nil {
			err = o.scans.put(ctx, l, b)
		}
		if err != nil {
			return err
		}
	}
}

// openLane opens a source where it continues.
func (o *opener) openLane(ctx context.Context, s start) (*lane, error) {
	l := &lane{start: s, log: o.Log.With("source", s.name)}
	l.committed.Store(&s.from.mark.Feed.Resume)
	opt := o.Source
	opt.Pool = o.pool
	opt.Log = l.log
	opt.Whole = func(line []byte) bool {
		_, err := feed.NewScanner(&feed.Names{}).Scan(line)
		return err == nil
	}
	opt.Reconnects = func() { o.p.Reconnects.Add(1) }
	opt.Settle = o.Feed.resumes(s.name) // else it cannot be asked for more
	if o.Feed.Hello != nil {
		opt.Hello = func() ([]byte, error) {
			if l.spool.Durable() {
				return o.Feed.Hello(l.spool.Resume()) // what is on disk need not come again
			}
			return o.Feed.Hello(*l.committed.Load())
		}
	}
	var err error
	if l.stream, err = source.Open(ctx, s.spec, opt, s.from.mark.Source); err != nil {
		return nil, err
	}
	l.blocks, l.begin.mark.Feed = l.stream, s.from.mark.Feed
	if at := l.stream.Start(); at != "" {
		l.begin.line, l.begin.offset, l.begin.mark.Source = s.from.line, s.from.offset, at
	}
	if l.spool, err = o.openSpool(l, o.Job); err != nil {
		return nil, errors.Join(err, l.stream.Close())
	}
	if l.spool != nil {
		o.spool, l.blocks = l.spool, l.spool
	}
	if l.spool.Durable() {
		l.begin.mark.Source = l.spool.Start()
	}
	return l, nil
}

// close ends what lasts until all is committed.
func (o *opener) close() error {
	if o.spool == nil {
		return nil
	}
	return o.spool.Close()
}

// period is how long a line of the lane waits at most before it is written; 0 is no limit.
func (l *lane) period(c *Config) time.Duration {
	if c.BatchPeriod == 0 && (l.stream.Waits() || c.MaxRate > 0) {
		return livePeriod
	}
	return c.BatchPeriod
}
