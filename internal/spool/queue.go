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

// Folders are the folders that keep the lines of a live feed on disk.
type Folders struct {
	// Dir is a folder for the lines that are not committed yet; "" is none. With Max
	// bytes of them reading pauses.
	Dir string
	Max int64
	// Capture is a folder that keeps all lines, compressed; "" is none. After KeepCaptures
	// they are removed; 0 is never.
	Capture      string
	KeepCaptures time.Duration
}

// Config configures a [Queue] or a [Capture].
type Config struct {
	Folders
	Period time.Duration // between two syncs of the log
	Pool   *source.Pool  // of memory for what is read from the disk

	// Of the checkpoint from which the source is resumed:
	Job, Source string
	Seq         int64

	FromStart bool // the checkpoint is ignored
	Repeats   bool // the feed can be asked again for what came after a resume value
	// LastResume returns the last resume value among lines, "" if there is none. It is
	// called by one goroutine.
	LastResume func(lines []byte) string

	Log   *slog.Logger
	Gauge func(bytes int64) // gets how much of the log is not committed
	// Paused is called when reading pauses for a second or for another reason, and when it resumes.
	Paused func(Pause)
}

// A Pause is why nothing is read.
type Pause int

// Why nothing is read.
const (
	Reading         Pause = iota // it is
	Full                         // the log has as many bytes as it may
	DiskFull                     // there is no room on the log's disk
	CaptureDiskFull              // there is no room on the captures' disk
)

// Keep returns a source that keeps the lines of another one, which has one lane: as a [Queue], or
// if there is no folder for that, as a [Capture]. Close it when all that can be committed is.
func Keep(in source.Source, c Config) source.Source {
	if c.Dir == "" {
		return NewCapture(in, c)
	}
	return NewQueue(in, c)
}

// A beginFunc is the Begin of a [source.Event].
type beginFunc = func(context.Context, source.Point) (source.Lane, error)

// A Queue is a source around a source of one lane. Every line, except one over MaxLine, is written to disk before it is
// handed over, and stays there until it is committed. A reader that keeps up gets the blocks from memory;
// one that does not gets them from the disk, in order. Offsets are those of the log, in which lines of all
// connections and runs follow each other; so a line has one place, whoever reads it.
//
// A goroutine fills the queue until the source ends. One goroutine calls Next; any may call Committed. Neither waits for a
// sync of the log.
type Queue struct {
	in      source.Source
	c       Config
	store   *store
	stopped context.Context // ends with Stop
	stop    context.CancelFunc

	// Nil until the lane is begun:
	handover *handover
	filled   chan struct{} // closed when all that was read of the source is in the queue
}

// NewQueue returns the queue of a source. Its log is opened when the source's lane is begun.
func NewQueue(in source.Source, c Config) *Queue {
	q := &Queue{in: in, c: c, store: newStore(&c)}
	q.stopped, q.stop = context.WithCancel(q.store.running)
	return q
}

// begin opens the log, and has the source begin its lane behind what that holds.
func (q *Queue) begin(ctx context.Context, from source.Point, begin beginFunc) (source.Lane, error) {
	if err := q.store.open(); err != nil {
		return nil, err
	}
	return q.beginOpen(ctx, from, begin)
}

// beginOpen is begin with the log open.
func (q *Queue) beginOpen(ctx context.Context, from source.Point, begin beginFunc) (l source.Lane, err error) {
	s := q.store
	next, err := startOffset(s.log, &q.c, from, s.path())
	if err == nil {
		if end := s.log.End(); next < end {
			q.c.Log.Info(fmt.Sprintf("%s in %s: written first", quantity.BinaryBytes(end-next), s.path()))
		}
		from.Resume = s.log.Resume() // what is on disk need not come again
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

// A keptLane is the lane of a queue.
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

// next is Next when the lane is begun.
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

// read returns lines that are on disk.
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

// committed notes that all lines before a cursor of the queue are.
func (q *Queue) committed(c source.Cursor) {
	if to := readCursor(c); to.Spool == q.store.log.Meta().ID {
		q.store.level.committed(to.At)
	}
}

// Stop implements source.Source. What the source has read is put into the queue yet.
func (q *Queue) Stop() {
	q.in.Stop()
	q.stop()
}

// Close implements source.Source. What is committed is removed from the disk, unless that failed.
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
