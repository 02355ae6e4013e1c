package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/source"
)

// Folders are the folders that keep a live feed's lines on disk.
type Folders struct {
	// Dir is the folder for uncommitted lines; "": none. Reading pauses when it holds Max bytes.
	Dir string
	Max int64
	// Capture is the folder for all lines, compressed; "": none. They are removed after KeepCaptures; 0: never.
	Capture      string
	KeepCaptures time.Duration
}

// Config configures a [Queue] or a [Capture].
type Config struct {
	Folders
	Period time.Duration // between syncs of the log
	Pool   *source.Pool  // for blocks read from disk

	// From the checkpoint at which the source resumes:
	Job, Source string
	Seq         int64

	FromStart bool // ignore the checkpoint
	Repeats   bool // the feed can resend what came after a resume value
	// LastResume returns the last resume value among lines, or "". Only one goroutine calls it.
	LastResume func(lines []byte) string

	Log   *slog.Logger
	Gauge func(bytes int64) // called with the number of uncommitted bytes in the log
	// Paused is called when reading has paused for a second, when the reason changes, and when reading resumes.
	Paused func(Pause)
}

// A Pause is why reading is paused.
type Pause int

// The reasons.
const (
	Reading         Pause = iota // not paused
	Full                         // the log has reached its limit
	DiskFull                     // the log's disk is full
	CaptureDiskFull              // the captures' disk is full
)

// Keep returns a source that keeps the lines of in, which has one lane: a [Queue], or a [Capture] if there is no folder
// for a queue. Close it after the last commit.
func Keep(in source.Source, c Config) source.Source {
	if c.Dir == "" {
		return NewCapture(in, c)
	}
	return NewQueue(in, c)
}

// A beginFunc is the Begin of a [source.Event].
type beginFunc = func(context.Context, source.Point) (source.Lane, error)

// A Queue is a source that wraps a source of one lane. It writes every line, except one over MaxLine, to disk before
// Next returns it, and keeps it until it is committed. A reader that keeps up gets blocks from memory; otherwise it
// reads them from disk, in order. Offsets are positions in the log, in which the lines of all connections and runs
// follow each other.
//
// A goroutine fills the queue until the source ends. One goroutine calls Next; any may call Committed. Neither waits
// for a sync of the log.
type Queue struct {
	in      source.Source
	c       Config
	store   *store
	stopped context.Context // ends with Stop
	stop    context.CancelFunc

	// Nil until the lane is begun:
	handover *handover
	filled   chan struct{} // closed when everything read from the source is in the queue
}

// NewQueue returns a queue for a source. It opens its log when the source's lane is begun.
func NewQueue(in source.Source, c Config) *Queue {
	q := &Queue{in: in, c: c, store: newStore(&c)}
	q.stopped, q.stop = context.WithCancel(q.store.running)
	return q
}

// begin opens the log, and begins the source's lane after its last line.
func (q *Queue) begin(ctx context.Context, from source.Point, begin beginFunc) (source.Lane, error) {
	if err := q.store.open(); err != nil {
		return nil, err
	}
	return q.beginOpen(ctx, from, begin)
}

// beginOpen is begin after the log was opened.
func (q *Queue) beginOpen(ctx context.Context, from source.Point, begin beginFunc) (l source.Lane, err error) {
	s := q.store
	next, err := startOffset(s.log, &q.c, from, s.path())
	if err == nil {
		if end := s.log.End(); next < end {
			q.c.Log.Info(fmt.Sprintf("%s in %s: written first", quantity.BinaryBytes(end-next), s.path()))
		}
		from.Resume = s.log.Resume() // what is on disk need not be resent
		l, err = begin(ctx, from)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.start(next, q.c.Gauge)
	q.handover, q.filled = newHandover(next, s.log.End()), make(chan struct{})
	go q.fill()
	b := l.Begun()
	b.Kept, b.At, b.Offset = true, s.log.cursor(next), next
	return &keptLane{l, q, b}, nil
}

// A keptLane is a queue's lane.
type keptLane struct {
	inner source.Lane
	q     *Queue
	begun source.Begun
}

var (
	_ source.Wrapper = (*keptLane)(nil)
	_ source.Acker   = (*keptLane)(nil)
)

// Begun implements [source.Lane].
func (l *keptLane) Begun() source.Begun { return l.begun }

// Inner implements [source.Wrapper].
func (l *keptLane) Inner() source.Lane { return l.inner }

// Committed implements [source.Acker].
func (l *keptLane) Committed(c source.Cursor) { l.q.committed(c) }

// fill reads the source until it ends.
func (q *Queue) fill() {
	defer close(q.filled)
	in := &intake{in: q.in, c: &q.c, store: q.store, handover: q.handover}
	q.handover.finish(source.Guard(func() error { return in.run(q.store.running, q.stopped) }))
}

// Next implements source.Source.
func (q *Queue) Next(ctx context.Context) (e source.Event, err error) {
	if q.handover != nil {
		return q.next(ctx)
	}
	e, err = q.in.Next(ctx)
	if begin := e.Begin; begin != nil {
		e.Begin = func(ctx context.Context, from source.Point) (source.Lane, error) { return q.begin(ctx, from, begin) }
	}
	return e, err
}

// next is Next after the lane was begun.
func (q *Queue) next(ctx context.Context) (none source.Event, err error) {
	for {
		if failed := q.store.failure(); failed != nil {
			return none, failed
		}
		if q.stopped.Err() != nil { // what is on disk stays there for the next run
			select {
			case <-q.filled:
				return none, cmp.Or(q.store.failure(), io.EOF)
			case <-ctx.Done():
				return none, ctx.Err()
			}
		}
		e, disk, err := q.handover.take()
		switch {
		case e != nil:
			return *e, nil
		case err != nil:
			q.store.stop() // the last sync may fail
			return none, cmp.Or(q.store.failure(), err)
		case disk.from < disk.to:
			return q.read(disk)
		}
		select {
		case <-q.handover.changed:
		case <-q.stopped.Done(): // or the disk has failed
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// read reads lines from disk.
func (q *Queue) read(of stretch) (e source.Event, err error) {
	log := q.store.log
	b, err := q.c.Pool.Fill(func(p []byte) (int, error) {
		n, err := log.ReadLines(p, of.from)
		return int(min(int64(n), of.to-of.from)), err
	})
	if err != nil {
		q.store.fail(err)
		return e, q.store.failure()
	}
	q.handover.moveTo(of.from + int64(len(b.Data)))
	b.Offset, b.At, b.Conn = of.from, log.cursors(of.from), of.conn
	return source.Event{Lane: q.c.Source, Block: b}, nil
}

// committed records that all lines before one of the queue's cursors are committed.
func (q *Queue) committed(c source.Cursor) {
	if to := readCursor(c); to.Spool == q.store.log.Meta().ID {
		q.store.level.committed(to.At)
	}
}

// Stop implements source.Source. What the source has already read is still written to the queue.
func (q *Queue) Stop() {
	q.in.Stop()
	q.stop()
}

// Close implements source.Source. It removes committed lines from disk, unless the disk has failed.
func (q *Queue) Close() error {
	q.store.stop()
	if q.handover == nil {
		return q.in.Close()
	}
	<-q.filled
	if left := q.store.level.left(); left > 0 {
		q.c.Log.Info(quantity.BinaryBytes(left) + " in the spool: left for the next run")
	}
	return q.store.closeWith(q.in)
}
