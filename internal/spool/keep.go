package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// Folders are the folders that keep a live feed's lines on disk.
type Folders struct {
	// Dir is the folder for uncommitted lines; "": none. Reading pauses when it holds Max bytes.
	Dir string
	Max int64
	// Capture is the folder for all lines, compressed; "": none.
	Capture string
}

// Config configures a [Keeper].
type Config struct {
	Folders
	Period time.Duration // between syncs of the log
	Pool   *source.Pool  // for blocks read from disk

	// From the checkpoint at which the source resumes:
	Job, Source string
	Seq         int64

	FromStart bool // ignore the checkpoint
	Repeats   bool // the feed can resend what came after a resume value
	// LastResume returns the last resume value among lines, or "".
	LastResume func(lines []byte) string

	Log   *slog.Logger
	Gauge func(bytes int64) // called with the number of uncommitted bytes in the spool
	// Paused is called when reading has paused for a second, when the cause changes, and, with "", when reading resumes.
	Paused func(status.Cause)
}

const (
	maxSegment = 64 << 20 // bytes of a spool's segment
	minSegment = 64 << 10
	segments   = 8                     // the minimum for which a spool has room
	captureAge = time.Hour             // age at which a segment of captures ends
	roomPoll   = 50 * time.Millisecond // how often a log that has no room is tried again
	pauseAfter = time.Second           // how long a pause lasts before it is reported
)

// A Keeper is a source that keeps the lines of another one, which has one lane, in a log on disk. If there is a folder
// for [Captures], committed segments are compressed into it.
//
// With a folder for a spool, one goroutine appends lines to the log, and Next reads them from there. Offsets are then
// positions in the log, in which the lines of all connections and runs follow each other. Without one, Next appends
// blocks of the other source before it returns them. In both cases another goroutine syncs the log each period, and
// removes what is committed. Nobody waits for it.
type Keeper struct {
	in   source.Source
	c    Config
	path string // the log's folder
	fs   FS     // at path

	failed  context.Context // ends when the disk fails; its cause says why
	setFail context.CancelCauseFunc
	stopped context.Context // ends with Stop, or when the disk fails
	stop    context.CancelFunc

	// Set when the lane is begun:
	log         *Log // nil before
	folders     []io.Closer
	archive     func(began time.Time, content io.WriterTo) error // nil: no captures
	captureFull atomic.Bool
	tidying     sync.Mutex
	working     sync.WaitGroup // the goroutines of fill and tidyUp

	// With a spool:
	filled chan struct{}  // closed when everything read from the source is in the log; nil without a spool
	rest   []source.Event // of the source, after all lines; set before filled is closed, as ended is
	ended  error          // why the source ended
	next   int64          // offset of the next line to read
	fresh  int64          // offset of this run's lines
	resume string         // the last resume value in the log; owned by fill's goroutine
}

// Keep returns a source that keeps the lines of in. Its folders are locked when the lane is begun. Close it after the
// last commit.
func Keep(in source.Source, c Config) *Keeper {
	k := &Keeper{in: in, c: c, path: cmp.Or(c.Dir, filepath.Join(c.Capture, ownDir))}
	k.fs = Folder(k.path)
	k.failed, k.setFail = context.WithCancelCause(context.Background())
	k.stopped, k.stop = context.WithCancel(k.failed)
	context.AfterFunc(k.stopped, in.Stop)
	return k
}

type beginFunc = func(context.Context, source.Point) (source.Lane, error)

// begin opens the log, and begins the source's lane after its last line.
func (k *Keeper) begin(ctx context.Context, from source.Point, begin beginFunc) (l source.Lane, err error) {
	if err = k.open(); err == nil && k.c.Dir != "" {
		from.Resume, err = k.seek(from)
	}
	if err == nil {
		l, err = begin(ctx, from)
	}
	if err != nil {
		return l, errors.Join(err, k.close())
	}
	k.working.Go(k.tidyUp)
	if k.c.Dir == "" {
		k.log.Commit(math.MaxInt64) // nothing is read from it
		return l, nil
	}
	k.log.Gauge = k.c.Gauge
	k.log.Commit(k.next)
	k.resume, k.fresh, k.filled = from.Resume, k.log.end, make(chan struct{})
	k.working.Go(k.fill)
	l.Type, l.At, l.Offset = source.Spooled, k.log.cursor(k.next), k.next
	l.Committed = func(c source.Cursor) {
		if to := readCursor(c); to.Spool == k.log.Meta.ID {
			k.log.Commit(to.At)
		}
	}
	return l, nil
}

// open locks the folders, and opens the log: in the spool's folder, or in the captures' if there is no spool.
func (k *Keeper) open() (err error) {
	size, age := int64(maxSegment), time.Duration(0)
	if k.c.Capture != "" {
		captures, err := OpenCaptures(k.c.Capture)
		if err != nil {
			return fmt.Errorf("the capture: %w", err)
		}
		k.folders, k.archive, age = append(k.folders, captures), captures.Add, captureAge
	}
	if k.c.Dir != "" {
		locked, err := lock(k.c.Dir, k.c.Dir)
		if err != nil {
			return fmt.Errorf("the spool: %w", err)
		}
		k.folders = append(k.folders, locked)
		size = min(max(k.c.Max/segments, minSegment), maxSegment)
	}
	log, err := Open(k.fs, size, age)
	if err != nil {
		return k.explain(err)
	}
	if k.log = log; k.c.Dir != "" {
		log.Max = k.c.Max
	}
	if log.Lost > 0 {
		k.c.Log.Warn(fmt.Sprintf("the spool %s: its end was not synced when the last run ended, and is incomplete: %s were cut off", k.path, quantity.Bytes(log.Lost)))
	}
	return nil
}

// seek finds the first uncommitted line, and returns the last resume value on disk, so these lines need not be resent.
// The default is the checkpoint's.
func (k *Keeper) seek(from source.Point) (string, error) {
	var err error
	if k.next, err = startOffset(k.log, &k.c, from, k.path); err != nil {
		return "", err
	}
	resume, end := from.Resume, k.log.end
	if end > k.next {
		k.c.Log.Info(fmt.Sprintf("%s in %s: written first", quantity.Bytes(end-k.next), k.path))
	}
	for at := k.next; at < end && k.c.LastResume != nil; {
		b, err := k.block(at, end)
		if err != nil {
			return "", k.explain(err)
		}
		resume = cmp.Or(k.c.LastResume(b.Data), resume)
		at += int64(len(b.Data))
		b.Release()
	}
	return resume, nil
}

// block returns the lines of one origin from an offset on, up to to or before.
func (k *Keeper) block(at, to int64) (*source.Block, error) {
	var of Origin
	b, err := k.c.Pool.Fill(func(p []byte) (n int, err error) {
		n, of, err = k.log.Read(p, at, to)
		return n, err
	})
	if err != nil {
		return nil, err
	}
	b.Offset, b.Oversize, b.Conn = at, of.Oversize, int(of.Conn)
	b.At = func(end int) source.Cursor { return k.log.cursor(at + int64(end)) }
	return b, nil
}

// tidyUp tidies the log each period.
func (k *Keeper) tidyUp() {
	tick := time.NewTicker(k.c.Period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.tidy(false)
		case <-k.stopped.Done():
			return
		}
	}
}

// tidy syncs the log, and removes the segments whose lines are committed. If the captures' disk is full they stay for
// now.
func (k *Keeper) tidy(final bool) {
	k.tidying.Lock()
	defer k.tidying.Unlock()
	err, full := k.log.Sync(), false
	if err == nil {
		err = k.log.Forget(final, k.archive)
		full = IsFull(err)
	}
	if wasFull := k.captureFull.Swap(full); full && !wasFull {
		k.c.Log.Warn("the capture's disk is full: its lines stay where they are until there is room")
	} else if err != nil && !full {
		k.fail(err)
	}
}

// fill appends the source's lines to the log until it ends. After Stop it does not wait for room any more.
func (k *Keeper) fill() {
	defer close(k.filled)
	for k.ended == nil {
		e, err := k.in.Next(context.Background())
		switch {
		case err != nil:
			k.ended = err
		case e.Kind == source.Data:
			if k.c.LastResume != nil {
				k.resume = cmp.Or(k.c.LastResume(e.Block.Data), k.resume)
			}
			k.ended = k.append(e.Block)
			e.Block.Release()
		case e.Kind == source.Barrier: // everything before it is on disk
			e.Reached(source.Point{Resume: k.resume})
		default:
			k.rest = append(k.rest, e)
		}
	}
}

// append appends a block to the log; of an oversized line, its beginning. It waits while there is no room; after Stop it
// then returns io.EOF. A disk error ends the run.
func (k *Keeper) append(b *source.Block) error {
	lines := b.Data
	if n := len(lines); n == 0 || lines[n-1] != '\n' {
		lines = append(lines[:n:n], '\n')
	}
	begun, reported := time.Now(), status.Cause("")
	defer func() {
		if reported != "" {
			k.c.Paused("")
		}
	}()
	poll := time.NewTicker(roomPoll)
	defer poll.Stop()
	for {
		err := k.log.Append(lines, Origin{b.Oversize, uint32(b.Conn)})
		why := k.pauseCause(err)
		if why == "" {
			return err
		}
		if why != reported && time.Since(begun) >= pauseAfter {
			reported = why
			k.c.Paused(why)
		}
		k.tidy(false)
		select {
		case <-poll.C:
		case <-k.stopped.Done():
			return io.EOF
		}
	}
}

// pauseCause returns what is full, by the error of [Log.Append], or "". Any other error ends the run.
func (k *Keeper) pauseCause(err error) status.Cause {
	switch full := IsFull(err); {
	case full && k.c.Dir == "", err == errFull && k.captureFull.Load():
		return status.CaptureDiskFull
	case full:
		return status.SpoolDiskFull
	case err == errFull:
		return status.SpoolFull
	}
	if err != nil {
		k.fail(err)
	}
	return ""
}

// Next implements [source.Source].
func (k *Keeper) Next(ctx context.Context) (source.Event, error) {
	if k.filled != nil {
		return k.read(ctx)
	}
	e, err := k.in.Next(ctx)
	switch begin := e.Begin; {
	case begin != nil && k.log == nil:
		e.Begin = func(ctx context.Context, from source.Point) (source.Lane, error) { return k.begin(ctx, from, begin) }
	case err == nil && e.Kind == source.Data:
		if err = k.append(e.Block); err == io.EOF && !k.c.Repeats {
			lines, _ := e.Block.Lines(len(e.Block.Data))
			k.c.Log.Warn(fmt.Sprintf("stopped while the capture's disk was full: %d lines that were read last are lost", lines))
		}
	}
	return e, cmp.Or(context.Cause(k.failed), err)
}

// read returns what comes next from the spool. After Stop, what is on disk stays there for the next run.
func (k *Keeper) read(ctx context.Context) (none source.Event, err error) {
	for {
		ended := false
		select {
		case <-k.filled:
			ended = true
		default:
		}
		failed, stopped := context.Cause(k.failed), k.stopped.Err() != nil
		switch _, _, end, _ := k.log.bounds(); {
		case failed != nil:
			return none, failed
		case !stopped && k.next < end:
			return k.readLines(end)
		case !stopped && ended && len(k.rest) > 0:
			e := k.rest[0]
			k.rest = k.rest[1:]
			return e, nil
		case ended:
			return none, k.ended
		}
		select {
		case <-k.log.grown:
		case <-k.filled: // soon after Stop, too
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

func (k *Keeper) readLines(end int64) (e source.Event, err error) {
	if k.next < k.fresh {
		end = k.fresh
	}
	b, err := k.block(k.next, end)
	if err != nil {
		k.fail(err)
		return e, context.Cause(k.failed)
	}
	if k.next < k.fresh {
		b.Conn = 0 // of an earlier run
	}
	k.next += int64(len(b.Data))
	return source.Event{Lane: k.c.Source, Block: b}, nil
}

// Stop implements [source.Source]. What the source has already read is still written to the spool.
func (k *Keeper) Stop() { k.stop() }

// Close implements [source.Source]. It removes committed lines from disk and compresses captured ones, unless the disk
// has failed.
func (k *Keeper) Close() error {
	k.stop()
	k.working.Wait()
	err := k.in.Close()
	if k.log != nil && k.failed.Err() == nil {
		if _, committed, end, _ := k.log.bounds(); end > committed {
			k.c.Log.Info(quantity.Bytes(end-committed) + " in the spool: left for the next run")
		}
		k.tidy(true)
	}
	err = errors.Join(err, k.close())
	return cmp.Or(context.Cause(k.failed), err)
}

// fail records a disk error, if it is the first, and stops the source.
func (k *Keeper) fail(err error) { k.setFail(k.explain(err)) }

// explain adds advice to an error of the log.
func (k *Keeper) explain(err error) error {
	err = fmt.Errorf("the spool %s: %w", k.path, err)
	if !errors.As(err, new(*DamageError)) {
		return err
	}
	after := "sync them separately, and then start this run again"
	if k.c.Repeats {
		after = "the next run asks the feed again for what is not committed"
	}
	return fmt.Errorf("%w: move %s/*.jsonl to another folder: %s", err, k.path, after)
}

// close closes the log and the folders, as far as they are open.
func (k *Keeper) close() (err error) {
	if k.log != nil {
		err = k.log.Close()
	}
	for _, f := range k.folders {
		err = errors.Join(err, f.Close())
	}
	k.folders = nil
	return err
}
