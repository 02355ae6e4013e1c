package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirsync/weir/internal/fold"
)

// A RowReader is a further connection to the database, which reads the rows that a
// batch will change, so that the flush finds them in memory. It is used by one
// goroutine at a time.
type RowReader interface {
	Read(ctx context.Context, b *fold.Batch, rows []*fold.Row) error
	Close() error
}

// When rows are prefetched.
const (
	PrefetchAuto = "auto"
	PrefetchOn   = "on"
	PrefetchOff  = "off"
)

const (
	rowReaders  = 8 // connections that read at a time: a disk answers many questions at once
	readerChunk = 64

	// A flush of at least judgedRows that takes slowRow for each of them waits for
	// a disk: in memory a row takes 3 to 15 µs. SQLite on a disk of 19,000 reads a
	// second takes 100, and prefetching made that slower.
	judgedRows = 1000
	slowRow    = 200 * time.Microsecond
	// After disableAfter flushes that are not 10 % faster, prefetching pauses for
	// retryAfter flushes.
	disableAfter, retryAfter = 3, 50
)

// A prefetch reads the rows of one set while the one before it is written.
type prefetch struct {
	mode string
	open func(context.Context) (RowReader, error)

	reading sync.Mutex // one batch at a time
	pool    []RowReader

	mu     sync.Mutex
	on     bool
	before time.Duration // a row took when it was off
	futile int           // flushes in a row that were not faster
	left   int           // flushes to go before it is tried again
}

// wanted reports whether the next batch is to be prefetched.
func (p *prefetch) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open != nil && (p.mode == PrefetchOn || p.mode == PrefetchAuto && p.on)
}

// flushed takes how long a flush took, and decides about the next ones.
func (p *prefetch) flushed(rows int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rows < judgedRows {
		return
	}
	perRow := took / time.Duration(rows)
	switch {
	case !p.on && p.left > 0:
		p.left--
	case !p.on && perRow >= slowRow:
		p.on, p.before, p.futile = true, perRow, 0
	case p.on && perRow < p.before*9/10:
		p.futile = 0
	case p.on:
		if p.futile++; p.futile == disableAfter {
			p.on, p.left = false, retryAfter
		}
	}
}

// read reads the rows of a set. What goes wrong is the flush's to find.
func (p *prefetch) read(ctx context.Context, s *fold.Set) error {
	p.reading.Lock()
	defer p.reading.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for len(p.pool) < rowReaders {
		r, err := p.open(ctx)
		if err != nil {
			if len(p.pool) == 0 {
				return err
			}
			break
		}
		p.pool = append(p.pool, r)
	}
	for _, b := range s.Batches {
		if err := p.readBatch(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// readBatch reads the rows of a batch by all connections.
func (p *prefetch) readBatch(ctx context.Context, b *fold.Batch) error {
	rows := b.Sorted()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range p.pool {
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

// stop has no further batch prefetched.
func (p *prefetch) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = PrefetchOff
}

// close ends the connections.
func (p *prefetch) close() error {
	var err error
	for _, r := range p.pool {
		err = errors.Join(err, r.Close())
	}
	p.pool = nil
	return err
}

// pass hands sets from the reader to the flusher. Where prefetching is wanted, it starts to
// read their rows first; that continues while they are written.
func (p *prefetch) pass(ctx context.Context, in <-chan *set, out chan<- *set, log *slog.Logger) {
	defer close(out)
	for s := range in {
		s.stopPrefetch = func() {}
		if s.Rows() > 0 && p.wanted() {
			reading, cancel := context.WithCancel(ctx)
			var done sync.WaitGroup
			done.Go(func() {
				if err := p.read(reading, s.Set); err != nil && reading.Err() == nil {
					log.Warn(fmt.Sprintf("prefetch stops for this run: %v", err))
					p.stop()
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
