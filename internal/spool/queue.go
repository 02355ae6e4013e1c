package spool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// Folders say where the lines of a live feed are kept on disk. The zero value is nowhere.
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

// Config is what a Queue is made by.
type Config struct {
	Folders
	Period time.Duration // between two syncs of the log
	Pool   *source.Pool  // of memory for what is read from the disk

	// Of the checkpoint by which the source is resumed, with the point that it is begun from:
	Job, Source string
	Seq         int64

	FromStart bool // the checkpoint does not count
	Repeats   bool // the feed can be asked again for what came after a resume value
	// LastResume returns the last resume value among lines, "" where there is none. It is
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

const (
	maxSegment = 64 << 20 // bytes of a queue's segment
	minSegment = 64 << 10
	segments   = 8         // that a queue has room for at least
	captureAge = time.Hour // of a segment, where all are kept
)

// A Queue is a source around a source of one lane. Every line is put on disk before it is handed
// on, and stays there until it is committed. A reader that keeps up gets the blocks from memory;
// one that does not gets them from the disk, in order. Offsets are those of the log, in which lines of all
// connections and runs follow each other; so a line has one place, whoever reads it.
//
// Run fills the queue, on a goroutine of its own; one other calls Next, and any calls Committed.
// None of them waits for a sync of the log, but where its next segment is begun.
type Queue struct {
	in    source.Source
	c     Config
	begun chan struct{} // closed when all that is below is made

	log     *Log
	path    string // of its folder
	id      string // of the log
	folders []string

	level    *level
	handover *handover
	intake   *intake // Run's
	keeper   *keeper // Run's, and then Close's

	dir      *Dir // nil where the log is in the captures'
	captures *Captures
	stopped  context.Context    // ends with Stop
	stop     context.CancelFunc // of that
	taken    chan struct{}      // closed when all that was read of the source is in the queue
	ended    chan struct{}      // closed when Run has ended

	failing sync.Mutex
	failed  error // of the disk
	told    bool  // Next has returned it
}

var _ source.Source = (*Queue)(nil)

// NewQueue returns the queue of a source. Its log is opened when the source's lane is begun.
func NewQueue(in source.Source, c Config) *Queue {
	q := &Queue{in: in, c: c, begun: make(chan struct{}), taken: make(chan struct{}), ended: make(chan struct{})}
	q.stopped, q.stop = context.WithCancel(context.Background())
	return q
}

// begin opens the log, and has the source begin its lane behind what that holds.
func (q *Queue) begin(ctx context.Context, from source.Point, begin func(context.Context, source.Point) (source.Lane, error)) (l source.Lane, err error) {
	if err := q.openFolders(); err != nil {
		return nil, err
	}
	return q.beginIn(ctx, from, begin)
}

// beginIn is begin in folders that are open.
func (q *Queue) beginIn(ctx context.Context, from source.Point, begin func(context.Context, source.Point) (source.Lane, error)) (l source.Lane, err error) {
	if err = q.open(from); err == nil {
		if q.durable() {
			from.Resume = q.log.Resume() // what is on disk need not come again
		}
		l, err = begin(ctx, from)
	}
	if err != nil {
		if q.log != nil {
			err = errors.Join(err, q.log.Close())
		}
		return nil, errors.Join(err, q.closeFolders())
	}
	if q.durable() {
		b := l.Begun()
		b.Kept, b.At, b.Offset = true, q.cursor(q.handover.next), q.handover.next
		l = &keptLane{l, q, b}
	}
	close(q.begun)
	return l, nil
}

// A keptLane is the lane of a queue that is durable.
type keptLane struct {
	inner source.Lane
	q     *Queue
	begun source.Begun
}

var (
	_ source.Wrapper = (*keptLane)(nil)
	_ source.Acker   = (*keptLane)(nil)
)

// Begun implements source.Lane.
func (l *keptLane) Begun() source.Begun { return l.begun }

// Inner implements source.Wrapper.
func (l *keptLane) Inner() source.Lane { return l.inner }

// Committed implements source.Acker.
func (l *keptLane) Committed(c source.Cursor) { l.q.committed(c) }

func (q *Queue) openFolders() (err error) {
	if q.c.Dir != "" {
		if q.dir, err = OpenDir(q.c.Dir); err != nil {
			return fmt.Errorf("the spool: %w", err)
		}
	}
	if q.c.Capture != "" {
		if q.captures, err = OpenCaptures(q.c.Capture, q.c.KeepCaptures); err != nil {
			return errors.Join(fmt.Errorf("the capture: %w", err), q.closeFolders())
		}
	}
	return nil
}

// open opens the log in the folders. One of them may be nil.
func (q *Queue) open(from source.Point) (err error) {
	c, dir := &q.c, q.dir
	q.path = c.Dir
	age, size, most, gauge := time.Duration(0), min(max(c.Max/segments, minSegment), maxSegment), c.Max, c.Gauge
	if dir != nil {
		q.folders = append(q.folders, c.Dir)
	}
	if q.captures != nil {
		q.folders, age = append(q.folders, c.Capture), captureAge
	}
	if dir == nil {
		q.path = filepath.Join(c.Capture, ownDir)
		dir, most, size, gauge = q.captures.Dir, 0, maxSegment, func(int64) {}
	}
	if q.log, err = Open(dir, size, age); err != nil {
		return q.explain(err)
	}
	if lost := q.log.Lost(); lost > 0 {
		c.Log.Warn(fmt.Sprintf("the spool %s: its last %d bytes were not synced when the last run ended, and are incomplete: they were cut off", q.path, lost))
	}
	_, next := q.log.Bounds()
	if most > 0 {
		if next, err = place(q.log, c, from, q.path); err != nil {
			return err
		}
		q.id = q.log.Meta().ID
	}
	_, end := q.log.Bounds()
	if next < end {
		c.Log.Info(fmt.Sprintf("%d bytes in %s are written first", end-next, q.path))
	}
	q.handover, q.level = newHandover(next, end), newLevel(next, end, gauge)
	q.keeper = &keeper{log: q.log, captures: q.captures, level: q.level, period: c.Period, requests: make(chan chan<- error), logger: c.Log}
	q.intake = &intake{in: q.in, lane: c.Source, log: q.log, max: most, handover: q.handover, level: q.level, keeper: q.keeper,
		cursors: q.cursors, lastResume: c.LastResume, fail: q.fail, paused: c.Paused}
	return nil
}

// durable reports whether lines stay in the queue until they are committed, and need not be asked
// for again when they are there. Else they are captured alone.
func (q *Queue) durable() bool { return q.id != "" }

// Run reads the source until it or ctx ends, and then waits until Next has returned all of it.
func (q *Queue) Run(ctx context.Context) {
	defer close(q.ended)
	select {
	case <-q.begun:
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if err := q.keeper.run(ctx); err != nil {
			q.fail(err)
			cancel()
		}
	})
	waits := ctx // of the intake for the reader
	if q.durable() {
		var cancel context.CancelFunc
		waits, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(q.stopped, cancel)()
	}
	q.handover.finish(source.Guard(func() error { return q.intake.run(ctx, waits) }))
	close(q.taken)
	select {
	case <-q.handover.over:
	case <-ctx.Done():
	}
	cancel()
	keeping.Wait()
}

// Next implements source.Source.
func (q *Queue) Next(ctx context.Context) (e source.Event, err error) {
	select {
	case <-q.begun:
		return q.next(ctx)
	default:
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
		if q.durable() && q.stopped.Err() != nil { // what is on disk stays there for the next run
			select {
			case <-q.taken:
				return none, cmp.Or(q.failure(), io.EOF)
			case <-ctx.Done():
				return none, ctx.Err()
			}
		}
		e, disk, err := q.handover.take()
		switch {
		case e != nil:
			return *e, nil
		case err != nil:
			select { // the last sync may fail
			case <-q.ended:
			case <-ctx.Done():
				return none, ctx.Err()
			}
			if failed := q.failure(); failed != nil {
				err = failed
			}
			return none, err
		case disk.from < disk.to:
			return q.read(disk)
		}
		stopped := q.stopped.Done()
		if !q.durable() {
			stopped = nil
		}
		select {
		case <-q.handover.changed:
		case <-stopped:
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// read returns lines that are on disk.
func (q *Queue) read(of stretch) (e source.Event, err error) {
	b, err := q.c.Pool.Fill(func(p []byte) (int, error) {
		n, err := q.log.ReadLines(p, of.from)
		return int(min(int64(n), of.to-of.from)), err
	})
	if err != nil {
		q.fail(err)
		return e, q.failure()
	}
	q.handover.moveTo(of.from + int64(len(b.Data)))
	b.Offset, b.At, b.Conn = of.from, q.cursors(of.from), of.conn
	return source.Event{Lane: q.c.Source, Block: b}, nil
}

// committed hears that all lines before a cursor of the queue are.
func (q *Queue) committed(c source.Cursor) {
	if m := readMark(c); m.Spool == q.id {
		q.level.committed(m.At)
	}
}

// Stop implements source.Source. What the source has read is put into the queue yet.
func (q *Queue) Stop() {
	q.in.Stop()
	q.stop()
}

// Close closes the source, after Run. What is in the queue stays open until Finish.
func (q *Queue) Close() error { return q.in.Close() }

// Finish ends the queue when all that can be committed is. What is committed of it goes, unless the
// disk failed.
func (q *Queue) Finish() error {
	select {
	case <-q.begun:
	default:
		return nil
	}
	if left := q.level.left(); left > 0 {
		q.c.Log.Info(fmt.Sprintf("%d bytes stay in the spool for the next run", left))
	}
	if q.failed == nil {
		return errors.Join(q.keeper.forget(true), q.log.Close(), q.closeFolders())
	}
	_ = q.log.Close() // what it says comes of what has failed
	if q.told {
		return q.closeFolders()
	}
	return errors.Join(q.failed, q.closeFolders())
}

func (q *Queue) closeFolders() (err error) {
	if q.dir != nil {
		err = q.dir.Close()
	}
	if q.captures != nil {
		err = errors.Join(err, q.captures.Close())
	}
	return err
}

// fail ends the queue for an error of the disk.
func (q *Queue) fail(err error) {
	q.failing.Lock()
	defer q.failing.Unlock()
	if q.failed != nil {
		return
	}
	q.failed = q.explain(err)
	for _, dir := range q.folders {
		if _, gone := os.Stat(dir); errors.Is(gone, fs.ErrNotExist) {
			q.failed = fmt.Errorf("the folder %s was removed or renamed during the run: %w", dir, err)
			break
		}
	}
	q.handover.abort(q.failed)
}

// explain returns an error of the log for people.
func (q *Queue) explain(err error) error {
	err = fmt.Errorf("the spool %s: %w", q.path, err)
	if !errors.As(err, new(*DamageError)) {
		return err
	}
	after := "sync them by themselves, and then start this run again"
	if q.c.Repeats {
		after = "the next run asks the feed again for what is not committed"
	}
	return fmt.Errorf("%w: move %s/*.jsonl to another folder: %s", err, q.path, after)
}

// failure returns why the queue failed, for Next.
func (q *Queue) failure() error {
	q.failing.Lock()
	defer q.failing.Unlock()
	q.told = q.failed != nil
	return q.failed
}

// A mark is what a cursor of a durable queue holds.
type mark struct {
	Spool string `json:"spool"` // the log's ID
	At    int64  `json:"at"`
}

// cursor returns the cursor of an offset, "" where there is none.
func (q *Queue) cursor(at int64) source.Cursor {
	if q.id == "" {
		return ""
	}
	text, _ := json.Marshal(mark{q.id, at}) // a string and a number
	return source.Cursor(text)
}

// cursors returns those of a block that begins at an offset; nil are the source's.
func (q *Queue) cursors(at int64) func(end int) source.Cursor {
	if q.id == "" {
		return nil
	}
	return func(end int) source.Cursor { return q.cursor(at + int64(end)) }
}

// readMark reads a cursor; that of another source has no name of a log.
func readMark(c source.Cursor) (m mark) {
	if c == "" || json.Unmarshal([]byte(c), &m) != nil {
		return mark{}
	}
	return m
}
