package job

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
)

// scanned is a block whose lines are cut and scanned ahead of the fold.
type scanned struct {
	*source.Block
	lines  []feed.Line
	fields []feed.Field  // of all lines
	ready  chan struct{} // takes one value when the block is scanned
}

// maxScanners is how many blocks are scanned at a time at most. The fold, which one
// core does, takes longer than half of a scan.
const maxScanners = 4

// longBlock is the length in bytes from which on a block is scanned and folded alone, with
// nothing read ahead of the fold but what comes next, and leaves no memory behind.
const longBlock = 1 << 20

// ahead is the stage between a source and the fold: blocks are scanned on cores of
// their own, and folded in the order of the source. Two cores take a fifth less
// time for a hot feed than one; BenchmarkSync/hot with -cpu 1,2 shows it.
type ahead struct {
	stream   blocks
	scanners []*feed.Scanner
	blocks   chan *scanned // closed after err is set
	err      error
	free     chan *scanned
	folded   chan struct{} // takes one value when a long block is folded

	limit *rate.Limiter // of lines; nil is no limit
}

// blocks is where lines come from: a stream, or its spool.
type blocks interface {
	Next(ctx context.Context) (*source.Block, error)
	Release(b *source.Block)
}

func newAhead(stream blocks, names *feed.Names, limit *rate.Limiter) *ahead {
	n := min(runtime.GOMAXPROCS(0), maxScanners)
	a := &ahead{stream: stream, limit: limit, blocks: make(chan *scanned, n), free: make(chan *scanned, n+2), folded: make(chan struct{}, 1)}
	for range n {
		a.scanners = append(a.scanners, feed.NewScanner(names))
	}
	return a
}

// run hands blocks to the scanners until the source or ctx ends.
func (a *ahead) run(ctx context.Context) {
	work := make(chan *scanned)
	var scanning sync.WaitGroup
	for _, scan := range a.scanners {
		scanning.Go(func() {
			for s := range work {
				s.scan(scan)
				s.ready <- struct{}{}
			}
		})
	}
	a.err = a.read(ctx, work)
	close(work)
	scanning.Wait()
	close(a.blocks)
}

func (a *ahead) read(ctx context.Context, work chan<- *scanned) error {
	for {
		b, err := a.stream.Next(ctx)
		if err != nil {
			return err
		}
		for rest := b; rest != nil; {
			if b, rest, err = a.pace(ctx, rest); err != nil {
				return err
			}
			s := a.spare()
			s.Block = b
			long := len(b.Data) > longBlock // b is not ours when it is handed on
			select {
			case a.blocks <- s:
				work <- s
			case <-ctx.Done():
				return ctx.Err()
			}
			if !long {
				continue
			}
			select {
			case <-a.folded:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// newLimiter returns a limiter of lines, nil for a rate of 0. It has nothing to give at the
// start, and at most a second's lines after a pause.
func newLimiter(perSecond float64) *rate.Limiter {
	if perSecond == 0 {
		return nil
	}
	l := rate.NewLimiter(rate.Limit(perSecond), int(min(math.Ceil(perSecond), math.MaxInt32)))
	l.AllowN(time.Now(), l.Burst())
	return l
}

// piece is the part of a second whose lines are waited for together: waiting for single
// lines would be limited by the clock.
const piece = 10

// pace cuts off the lines of a block that are read next, and waits until they are due. rest is
// nil behind the last.
func (a *ahead) pace(ctx context.Context, b *source.Block) (due, rest *source.Block, err error) {
	if a.limit == nil {
		return b, nil, nil
	}
	n, end := 0, 0
	for most := 1 + a.limit.Burst()/piece; n < most && end < len(b.Data); n++ {
		if i := bytes.IndexByte(b.Data[end:], '\n'); i >= 0 {
			end += i + 1
		} else {
			end = len(b.Data)
		}
	}
	if err := a.limit.WaitN(ctx, n); err != nil {
		return nil, nil, err
	}
	if end == len(b.Data) {
		return b, nil, nil
	}
	return b.Cut(end), b, nil
}

func (a *ahead) spare() *scanned {
	select {
	case s := <-a.free:
		return s
	default:
		return &scanned{ready: make(chan struct{}, 1)}
	}
}

// release gives a block back.
func (a *ahead) release(s *scanned) {
	long := len(s.Data) > longBlock
	a.stream.Release(s.Block)
	s.Block, s.lines, s.fields = nil, s.lines[:0], s.fields[:0]
	if long {
		s.lines, s.fields = nil, nil
		a.folded <- struct{}{}
	}
	select {
	case a.free <- s:
	default:
	}
}

// scan cuts the block into lines and scans each.
func (s *scanned) scan(scan *feed.Scanner) {
	if s.Oversize > 0 {
		return
	}
	for data := s.Data; len(data) > 0; {
		text, rest, _ := bytes.Cut(data, newline)
		s.lines = append(s.lines, feed.Line{})
		s.fields = s.lines[len(s.lines)-1].Scan(scan, s.fields, text)
		data = rest
	}
}

var newline = []byte{'\n'}
