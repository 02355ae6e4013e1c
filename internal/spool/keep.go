package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	// LastResume returns the last resume value among lines, or ""; nil: lines have none.
	LastResume func(lines []byte) string

	Log   *slog.Logger
	Gauge func(bytes int64) // called with the number of uncommitted bytes in the spool
	// Paused is called when reading has paused for a second, when the cause changes, and, with "", when reading resumes.
	Paused func(status.Cause)
}

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

	failed  context.Context // ends when the disk fails; its cause says why
	setFail context.CancelCauseFunc
	running context.Context // ends with halt, or when the disk fails
	cancel  context.CancelFunc
	stopped context.Context // ends with Stop, or with running
	stop    context.CancelFunc

	// Set when the lane is begun:
	log         *Log // nil before
	folders     []io.Closer
	captures    *Captures // nil: none
	captureFull atomic.Bool
	forgetNow   chan struct{}
	keeping     sync.WaitGroup // the goroutine of keep

	// With a spool:
	filled chan struct{} // closed when everything read from the source is in the log; nil without a spool
	resume string        // the last resume value in the log; owned by fill's goroutine, as sender is
	sender int           // the connection that sent the last block; see [source.Block]
	next   int64         // offset of the next line to read
	conn   int           // that sent it
	mu     sync.Mutex    // of asides, held briefly
	asides []aside       // for Next
}

// Keep returns a source that keeps the lines of in. Its folders are locked when the lane is begun. Close it after the
// last commit.
func Keep(in source.Source, c Config) *Keeper {
	k := &Keeper{in: in, c: c, path: cmp.Or(c.Dir, filepath.Join(c.Capture, ownDir)), forgetNow: make(chan struct{}, 1)}
	k.failed, k.setFail = context.WithCancelCause(context.Background())
	k.running, k.cancel = context.WithCancel(k.failed)
	k.stopped, k.stop = context.WithCancel(k.running)
	context.AfterFunc(k.failed, in.Stop)
	return k
}

type beginFunc = func(context.Context, source.Point) (source.Lane, error)

// begin opens the log, and begins the source's lane after its last line.
func (k *Keeper) begin(ctx context.Context, from source.Point, begin beginFunc) (l source.Lane, err error) {
	if k.log == nil {
		err = k.open()
	}
	if err == nil && k.c.Dir != "" {
		l, err = k.beginSpool(ctx, from, begin)
	} else if err == nil {
		k.log.Commit(k.log.End())
		l, err = begin(ctx, from)
	}
	if err != nil {
		return l, errors.Join(err, k.close())
	}
	k.keeping.Go(func() {
		if err := k.keep(); err != nil {
			k.fail(err)
		}
	})
	return l, nil
}

func (k *Keeper) beginSpool(ctx context.Context, from source.Point, begin beginFunc) (l source.Lane, err error) {
	if k.next, err = startOffset(k.log, &k.c, from, k.path); err != nil {
		return l, err
	}
	if left := k.log.End() - k.next; left > 0 {
		k.c.Log.Info(fmt.Sprintf("%s in %s: written first", quantity.Bytes(left), k.path))
	}
	if from.Resume, err = k.lastResume(from.Resume); err != nil {
		return l, k.explain(err)
	}
	if l, err = begin(ctx, from); err != nil {
		return l, err
	}
	k.log.Gauge = k.c.Gauge
	k.log.Commit(k.next)
	k.resume, k.filled = from.Resume, make(chan struct{})
	go k.fill()
	l.Type, l.At, l.Offset = source.Spooled, k.log.cursor(k.next), k.next
	l.Committed = func(c source.Cursor) {
		if to := readCursor(c); to.Spool == k.log.Meta.ID {
			k.log.Commit(to.At)
		}
	}
	return l, nil
}

// lastResume returns the last resume value on disk, so these lines need not be resent. The default is the checkpoint's.
func (k *Keeper) lastResume(resume string) (string, error) {
	end := k.log.End()
	for at := k.next; at < end && k.c.LastResume != nil; {
		b, err := k.c.Pool.Fill(func(p []byte) (int, error) { return k.log.Read(p, at, end) })
		if err != nil {
			return "", err
		}
		resume = cmp.Or(k.c.LastResume(b.Data), resume)
		at += int64(len(b.Data))
		b.Release()
	}
	return resume, nil
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
	case err == nil && e.Kind == source.Data && e.Block.Oversize == 0: // of a longer line, only the beginning is there
		err = k.capture(ctx, &e)
	}
	return e, cmp.Or(k.failure(), err)
}

// capture appends a block's lines to the log. If Stop is called while the disk is full, it drops the block and returns
// io.EOF.
func (k *Keeper) capture(ctx context.Context, e *source.Event) error {
	err := k.append(ctx, wholeLines(e.Block))
	switch err {
	case nil:
		k.log.Commit(k.log.End()) // nothing reads them here
	case io.EOF:
		if lines, _ := e.Block.Lines(len(e.Block.Data)); !k.c.Repeats {
			k.c.Log.Warn(fmt.Sprintf("stopped while the capture's disk was full: %d lines that were read last are lost", lines))
		}
		e.Block.Release()
		*e = source.Event{}
	}
	return err
}

// read returns what comes next from the spool.
func (k *Keeper) read(ctx context.Context) (none source.Event, err error) {
	for {
		if failed := k.failure(); failed != nil {
			return none, failed
		}
		m, to := k.ahead(k.next)
		k.conn = cmp.Or(m.conn, k.conn)
		switch {
		case k.stopped.Err() != nil: // what is on disk stays there for the next run
			select {
			case <-k.filled:
				return none, cmp.Or(k.failure(), io.EOF)
			case <-ctx.Done():
				return none, ctx.Err()
			}
		case m.err != nil:
			k.halt() // the last sync may fail
			return none, cmp.Or(k.failure(), m.err)
		case m.event != nil:
			return *m.event, nil
		case k.next < to:
			return k.readLines(to)
		}
		select {
		case <-k.log.grown:
		case <-k.stopped.Done(): // or the disk has failed
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

func (k *Keeper) readLines(to int64) (e source.Event, err error) {
	at := k.next
	b, err := k.c.Pool.Fill(func(p []byte) (int, error) { return k.log.Read(p, at, to) })
	if err != nil {
		k.fail(err)
		return e, k.failure()
	}
	k.next += int64(len(b.Data))
	b.Offset, b.Conn = at, k.conn
	b.At = func(end int) source.Cursor { return k.log.cursor(at + int64(end)) }
	return source.Event{Lane: k.c.Source, Block: b}, nil
}

// Stop implements [source.Source]. What the source has already read is still written to the spool.
func (k *Keeper) Stop() {
	k.in.Stop()
	k.stop()
}

// Close implements [source.Source]. It removes committed lines from disk and compresses captured ones, unless the disk
// has failed.
func (k *Keeper) Close() error {
	k.halt()
	if k.filled != nil {
		<-k.filled
		if _, committed, end := k.log.Bounds(); end > committed {
			k.c.Log.Info(quantity.Bytes(end-committed) + " in the spool: left for the next run")
		}
	}
	err := k.in.Close()
	if k.log != nil && k.failure() == nil {
		err = errors.Join(err, k.forget(true))
	}
	if closing := k.close(); k.failure() == nil { // otherwise it has the same cause
		return errors.Join(err, closing)
	}
	return k.failure()
}
