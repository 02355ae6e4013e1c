package spool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/lockfile"
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
	// LastResume returns the last resume value among lines, or ""; nil: lines have none.
	LastResume func(lines []byte) string

	Log    *slog.Logger
	Gauge  func(bytes int64)  // called with the number of uncommitted bytes in the spool
	Paused func(status.Cause) // called repeatedly: why reading pauses, or ""
}

const (
	maxSegment = 64 << 20 // bytes of a spool's segment
	minSegment = 64 << 10
	segments   = 8                     // the minimum for which a spool has room
	captureAge = time.Hour             // age at which a segment of captures ends
	roomPoll   = 10 * time.Millisecond // how often a log that has no room is tried again
)

// A Keeper is a source that keeps the lines of another one, which has one lane, in a log on disk. If there is a folder
// for [Captures], committed segments are compressed into it.
//
// With a folder for a spool, one goroutine appends lines to the log, and Next reads them from there. Offsets are then
// positions in the log, in which the lines of all connections and runs follow each other. Without one, Next appends
// blocks of the other source before it returns them. In both cases another goroutine syncs the log each period, and
// removes what is committed. Nobody waits for it while there is room.
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
	log         *Log        // nil before
	closers     []io.Closer // of the folders' locks, and of log
	archive     Archive
	captureFull atomic.Bool
	tidying     sync.Mutex
	working     sync.WaitGroup // the goroutines that tidy and fill

	// With a spool:
	filled context.Context // ends when everything read from the source is in the log; nil without a spool
	rest   []source.Event  // of the source, after all lines; set before filled ends, as ended is
	ended  error           // why the source ended
	next   int64           // offset of the next line to read
	fresh  int64           // where this run's lines begin
	resume string          // the last resume value in the log; owned by fill's goroutine
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

// begin opens the log, and begins the source's lane after its last line.
func (k *Keeper) begin(ctx context.Context, from source.Point, begin func(context.Context, source.Point) (source.Lane, error)) (l source.Lane, err error) {
	if err = k.open(); err == nil && k.c.Dir != "" {
		from.Resume, err = k.seek(from)
	}
	if err == nil {
		l, err = begin(ctx, from)
	}
	if err != nil {
		return l, cmp.Or(err, k.close())
	}
	k.working.Go(func() {
		for backoff.Sleep(k.stopped, k.c.Period) == nil {
			k.tidy(false)
		}
	})
	if k.c.Dir == "" {
		k.log.Commit(math.MaxInt64) // nothing is read from it
		return l, nil
	}
	k.log.Gauge = k.c.Gauge
	k.log.Commit(k.next)
	filled, end := context.WithCancel(context.Background())
	k.resume, k.fresh, k.filled = from.Resume, k.log.end, filled
	k.working.Go(func() {
		defer end()
		k.fill()
	})
	l.Type, l.At, l.Offset, l.Resume = source.Spooled, k.log.cursor(k.next), k.next, from.Resume
	l.Committed = func(c source.Cursor) {
		if to := readCursor(c); to.Spool == k.log.Meta.ID {
			k.log.Commit(to.At)
		}
	}
	return l, nil
}

// open locks the folders, and opens the log: in the spool's folder, or in the captures' if there is no spool.
func (k *Keeper) open() (err error) {
	size, most, age := int64(maxSegment), int64(math.MaxInt64), time.Duration(0)
	if k.c.Capture != "" {
		err = k.lock(filepath.Join(k.c.Capture, ownDir), k.c.Capture)
		k.archive, age = captures(k.c.Capture).add, captureAge
	}
	if err == nil && k.c.Dir != "" {
		err = k.lock(k.c.Dir, k.c.Dir)
		size, most = min(max(k.c.Max/segments, minSegment), maxSegment), k.c.Max
	}
	if err != nil {
		return err
	}
	if k.log, err = Open(k.fs, size, most, age); err != nil {
		return k.explain(err)
	}
	k.closers = append(k.closers, k.log)
	if lost := k.log.Lost; lost > 0 {
		k.c.Log.Warn(fmt.Sprintf("the spool %s: its end was not synced when the last run ended, and is incomplete: %s were cut off", k.path, quantity.Bytes(lost)))
	}
	return nil
}

// seek finds the first uncommitted line, and returns the last resume value on disk, so these lines need not be resent.
// The default is the checkpoint's.
func (k *Keeper) seek(from source.Point) (resume string, err error) {
	if k.next, err = k.startOffset(from); err != nil {
		return "", err
	}
	end := k.log.end
	if end > k.next {
		k.c.Log.Info(fmt.Sprintf("%s in %s: written first", quantity.Bytes(end-k.next), k.path))
	}
	resume = from.Resume
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

// block returns the lines of one origin from an offset on, up to to or before, never those of two runs of the program.
func (k *Keeper) block(at, to int64) (*source.Block, error) {
	if at < k.fresh {
		to = k.fresh
	}
	var of Origin
	b, err := k.c.Pool.Fill(func(p []byte) (n int, err error) {
		n, of, err = k.log.Read(p, at, to)
		return n, err
	})
	if err != nil {
		return nil, err
	}
	if b.Offset, b.Next, b.Oversize = at, at+int64(len(b.Data)), of.Oversize; at >= k.fresh {
		b.Conn = int(of.Conn)
	}
	b.At = func(end int) source.Cursor { return k.log.cursor(at + int64(end)) }
	return b, nil
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

// fill appends the source's lines to the log until the source ends. After Stop it does not wait for room any more.
func (k *Keeper) fill() {
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
	if !bytes.HasSuffix(lines, []byte("\n")) {
		lines = append(lines[:len(lines):len(lines)], '\n')
	}
	for {
		err := k.log.Append(lines, Origin{b.Oversize, uint32(b.Conn)})
		if err != errFull && !IsFull(err) {
			if k.c.Paused(""); err != nil {
				k.fail(err)
			}
			return err
		}
		k.tidy(false)
		for wait := true; wait; wait = k.captureFull.Load() { // on the same disk, captures get room first
			k.c.Paused(k.pauseCause(err))
			if backoff.Sleep(k.stopped, roomPoll) != nil {
				if k.c.Paused(""); !k.c.Repeats {
					k.c.Log.Warn("stopped while there was no room: the lines that were read last are lost")
				}
				return io.EOF
			}
		}
	}
}

// pauseCause returns what is full, by the error of [Log.Append].
func (k *Keeper) pauseCause(err error) status.Cause {
	switch {
	case k.c.Dir == "", k.captureFull.Load():
		return status.CaptureDiskFull
	case err == errFull:
		return status.SpoolFull
	}
	return status.SpoolDiskFull
}

// Next implements [source.Source].
func (k *Keeper) Next(ctx context.Context) (source.Event, error) {
	if k.filled != nil {
		return k.read(ctx)
	}
	e, err := k.in.Next(ctx)
	if begin := e.Begin; begin != nil && k.log == nil {
		e.Begin = func(ctx context.Context, from source.Point) (source.Lane, error) { return k.begin(ctx, from, begin) }
	} else if err == nil && e.Kind == source.Data {
		err = k.append(e.Block)
	}
	return e, cmp.Or(context.Cause(k.failed), err)
}

// read returns what comes next from the spool. After Stop, what is on disk stays there for the next run.
func (k *Keeper) read(ctx context.Context) (none source.Event, err error) {
	for {
		failed, stopped, ended := context.Cause(k.failed), k.stopped.Err() != nil, k.filled.Err() != nil
		_, _, end, _ := k.log.bounds() // after ended
		switch {
		case failed != nil:
			return none, failed
		case !stopped && k.next < end:
			b, err := k.block(k.next, end)
			if err != nil {
				k.fail(err)
				continue
			}
			k.next += int64(len(b.Data))
			return source.Event{Lane: k.c.Source, Block: b}, nil
		case !stopped && ended && len(k.rest) > 0:
			e := k.rest[0]
			k.rest = k.rest[1:]
			return e, nil
		case ended:
			return none, k.ended
		}
		select {
		case <-k.log.grown:
		case <-k.filled.Done(): // soon after Stop, too
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// Stop implements [source.Source]. What the source has already read is still written to the spool.
func (k *Keeper) Stop() { k.stop() }

// Close implements [source.Source]. It removes committed lines from disk and compresses captured ones.
func (k *Keeper) Close() error {
	k.stop()
	k.working.Wait()
	err := k.in.Close()
	if k.log != nil {
		if _, committed, end, _ := k.log.bounds(); k.filled != nil && end > committed {
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

// lock locks the folder at path for this process. It creates the folder if it is missing. Errors call it name.
func (k *Keeper) lock(path, name string) error {
	// Only for the owner: the lines may hold anything that the feed does.
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	f, err := lockfile.Open(filepath.Join(path, "lock"))
	if err != nil {
		return err
	}
	k.closers = append(k.closers, f)
	busy, err := f.Lock(0)
	if busy {
		err = fmt.Errorf("another run uses the folder %s: name another one", name)
	}
	return err
}

// close closes what is open.
func (k *Keeper) close() (err error) {
	for _, c := range slices.Backward(k.closers) {
		err = errors.Join(err, c.Close())
	}
	k.closers = nil
	return err
}
