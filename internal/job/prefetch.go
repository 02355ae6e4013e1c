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
	"github.com/weirsync/weir/internal/sink"
)

// When rows are prefetched.
const (
	PrefetchAuto = "auto"
	PrefetchOn   = "on"
	PrefetchOff  = "off"
)

const (
	rowReaders  = 8 // connections that read at a time: a disk answers many questions at once
	readerChunk = 64

	// A flush of at least judgedRows that takes the driver's SlowRow for each of them waits for
	// a disk.
	judgedRows = 1000
	// After disableAfter flushes that are not 10 % faster, prefetching pauses for
	// retryAfter flushes.
	disableAfter, retryAfter = 3, 50
	// After judgeAfter flushes two are written without, of which the second is judged: what the first one waited for
	// may be over, and where all is in memory reading ahead takes a CPU 1.6 times the work of the MERGE.
	judgeAfter = 100
)

// A prefetch decides whether rows are read before they are written, and reads those of one set while the one
// before it is written, where the driver has readers.
type prefetch struct {
	mode string
	slow time.Duration                                 // see [sink.Driver]
	open func(context.Context) (sink.RowReader, error) // nil: the driver has none

	reading sync.Mutex // one batch at a time
	pool    []sink.RowReader

	mu     sync.Mutex
	on     bool
	before time.Duration // a row took when it was off
	futile int           // flushes in a row that were not faster
	left   int           // flushes to go before it is tried again, or while it is on before one is without it
}

// wanted reports whether the next set is to be prefetched.
func (p *prefetch) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode == PrefetchOn || p.mode == PrefetchAuto && p.on
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
	case !p.on && perRow >= p.slow:
		p.on, p.before, p.futile, p.left = true, perRow, 0, judgeAfter
	case p.on:
		if p.futile++; perRow < p.before*9/10 {
			p.futile = 0
		}
		switch p.left--; {
		case p.futile == disableAfter:
			p.on, p.left = false, retryAfter
		case p.left == 0:
			p.on, p.left = false, 1 // whose rows may have been read by then
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
		if p.open != nil && s.Rows() > 0 && p.wanted() {
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
