package job

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirsync/weir/internal/fold"
)

// A Reader is a further connection to the database, which reads the rows that a
// batch will change, so that the flush finds them in memory. It is used by one
// goroutine at a time.
type Reader interface {
	Read(ctx context.Context, b *fold.Batch, rows []*fold.Row) error
	Close() error
}

// When rows are read ahead.
const (
	PrefetchAuto = "auto"
	PrefetchOn   = "on"
	PrefetchOff  = "off"
)

const (
	readers     = 8 // connections that read at a time: a disk answers many questions at once
	readerChunk = 64

	// A flush of at least judgedRows that takes slowRow for each of them waits for
	// a disk: in memory a row takes 3 to 15 µs. SQLite on a disk of 19,000 reads a
	// second takes 100, and reading ahead made that slower.
	judgedRows = 1000
	slowRow    = 200 * time.Microsecond
	// After disableAfter flushes that are not 10 % faster, prefetching pauses for
	// retryAfter flushes.
	disableAfter, retryAfter = 3, 50
)

// A prefetch reads the rows of one set while the one before it is written.
type prefetch struct {
	mode string
	open func(context.Context) (Reader, error)

	reading sync.Mutex // one batch at a time
	pool    []Reader

	mu     sync.Mutex
	on     bool
	before time.Duration // a row took when it was off
	futile int           // flushes in succession that were not faster
	left   int           // flushes to go before it is tried again
}

// wanted reports whether the next batch is to be read ahead.
func (a *prefetch) wanted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open != nil && (a.mode == PrefetchOn || a.mode == PrefetchAuto && a.on)
}

// flushed hears how long a flush took, and decides about the next ones.
func (a *prefetch) flushed(rows int, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if rows < judgedRows {
		return
	}
	perRow := took / time.Duration(rows)
	switch {
	case !a.on && a.left > 0:
		a.left--
	case !a.on && perRow >= slowRow:
		a.on, a.before, a.futile = true, perRow, 0
	case a.on && perRow < a.before*9/10:
		a.futile = 0
	case a.on:
		if a.futile++; a.futile == disableAfter {
			a.on, a.left = false, retryAfter
		}
	}
}

// read reads the rows of a batch. What goes wrong is the flush's to find.
func (a *prefetch) read(ctx context.Context, b *fold.Batch) error {
	a.reading.Lock()
	defer a.reading.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for len(a.pool) < readers {
		r, err := a.open(ctx)
		if err != nil {
			if len(a.pool) == 0 {
				return err
			}
			break
		}
		a.pool = append(a.pool, r)
	}
	rows := b.Sorted()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range a.pool {
		g.Go(func() error {
			for {
				from := int(next.Add(readerChunk)) - readerChunk
				if from >= len(rows) {
					return nil
				}
				if err := r.Read(ctx, b, rows[from:min(from+readerChunk, len(rows))]); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// stop has no further batch read ahead.
func (a *prefetch) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode = PrefetchOff
}

// close ends the connections.
func (a *prefetch) close() error {
	var err error
	for _, r := range a.pool {
		err = errors.Join(err, r.Close())
	}
	a.pool = nil
	return err
}

// pass hands sets from the reader to the flusher. Where it is wanted, their rows are read
// on the way, and on while they are written.
func (a *prefetch) pass(ctx context.Context, in <-chan *set, out chan<- *set, warn func(string, ...any)) {
	defer close(out)
	for s := range in {
		s.stopPrefetch = func() {}
		if s.readsDominate = s.batch.Rows() > 0 && a.wanted(); s.readsDominate {
			reading, cancel := context.WithCancel(ctx)
			var done sync.WaitGroup
			done.Go(func() {
				if err := a.read(reading, &s.batch); err != nil && reading.Err() == nil {
					warn("rows are no longer read before they are written: %v", err)
					a.stop()
				}
			})
			s.stopPrefetch = func() { cancel(); done.Wait() }
		}
		select {
		case out <- s:
		case <-ctx.Done():
			s.stopPrefetch()
			return
		}
	}
}
