package pipeline

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

// An event is an event of a lane for the reader.
type event struct {
	lane          *lane
	of            source.Event
	*source.Block // the lines; use it and not of.Block, which pace cuts
	lines         []feed.Line
	fields        []feed.Field  // of all lines
	ready         chan struct{} // receives one value when the block is scanned
	folded        chan struct{} // closed when a long block is folded
}

// maxScanners is the maximum number of blocks scanned at a time. The fold, on one core, takes more than half as long as
// a scan.
const maxScanners = 4

// longBlock is the size in bytes from which a block is scanned and folded alone: at most the next block is scanned
// ahead, and its memory is not reused.
const longBlock = 1 << 20

// A scanPool is the stage between the sources and the reader. It scans blocks on several cores and returns them in the
// order in which they were put in. Two cores take a fifth less time for a hot feed than one; BenchmarkSync/hot with
// -cpu 1,2 shows it.
type scanPool struct {
	scanners []*feed.Scanner
	limit    *rate.Limiter // of lines; nil: no limit
	work     chan *event
	events   chan *event // closed after err is set
	err      error
	free     chan *event
}

func newScanPool(names *feed.Names, limit *rate.Limiter) *scanPool {
	n := min(runtime.GOMAXPROCS(0), maxScanners)
	p := &scanPool{limit: limit, work: make(chan *event), events: make(chan *event, n), free: make(chan *event, n+2)}
	for range n {
		p.scanners = append(p.scanners, feed.NewScanner(names))
	}
	return p
}

// run scans the blocks that produce puts into the pool, until produce returns.
func (p *scanPool) run(produce func() error) {
	var scanning sync.WaitGroup
	for _, scan := range p.scanners {
		scanning.Go(func() {
			for e := range p.work {
				e.scan(scan)
				e.ready <- struct{}{}
			}
		})
	}
	p.err = produce()
	close(p.work)
	scanning.Wait()
	close(p.events)
}

// put adds an event of a lane, until folding ends. Only the opener calls it. When reading ends, lines
// that are not due yet are added at once, unless they can be read again.
func (p *scanPool) put(reading, folding context.Context, l *lane, of source.Event) (err error) {
	if of.Kind != source.Data {
		e := p.spare()
		e.lane, e.of = l, of
		e.ready <- struct{}{}
		select {
		case p.events <- e:
			return nil
		case <-folding.Done():
			return folding.Err()
		}
	}
	for b, rest := (*source.Block)(nil), of.Block; rest != nil; {
		b, rest = p.pace(reading, rest)
		if p.limit != nil && reading.Err() != nil && l.rereadable() == byThisRun && !l.src.Waits { // a FIFO waits
			l.countUnfoldedBlocks(b, rest)
			return reading.Err()
		}
		e := p.spare()
		e.lane, e.of, e.Block = l, of, b
		folded := chan struct{}(nil) // b and e must not be used after they are handed on
		if len(b.Data) > longBlock {
			folded = make(chan struct{})
		}
		e.folded = folded
		select {
		case p.events <- e:
			p.work <- e
		case <-folding.Done():
			l.countUnfoldedBlocks(b, rest)
			return folding.Err()
		}
		if folded == nil {
			continue
		}
		select {
		case <-folded:
		case <-folding.Done():
			return folding.Err()
		}
	}
	return nil
}

// newLimiter returns a limiter of lines, or nil for a rate of 0. It allows nothing at the start, and at most one
// second's lines after a pause.
func newLimiter(perSecond float64) *rate.Limiter {
	if perSecond == 0 {
		return nil
	}
	l := rate.NewLimiter(rate.Limit(perSecond), int(min(math.Ceil(perSecond), math.MaxInt32)))
	l.AllowN(time.Now(), l.Burst())
	return l
}

// piece is the number of parts of a second. The lines of a part are waited for together: the clock is too coarse for
// single lines.
const piece = 10

// pace cuts off the next lines of a block, and waits until they are due or reading ends. rest is nil after the last
// lines.
func (p *scanPool) pace(reading context.Context, b *source.Block) (due, rest *source.Block) {
	if p.limit == nil || len(b.Data) == 0 {
		return b, nil
	}
	n, end := b.Lines(1 + p.limit.Burst()/piece)
	if p.limit.WaitN(reading, n) != nil || end == len(b.Data) {
		return b, nil
	}
	return b.Cut(end), b
}

func (p *scanPool) spare() *event {
	select {
	case e := <-p.free:
		return e
	default:
		return &event{ready: make(chan struct{}, 1)}
	}
}

// release releases an event and its block.
func (p *scanPool) release(e *event) {
	if e.Block != nil {
		e.Release()
		if e.folded != nil {
			e.lines, e.fields = nil, nil
			close(e.folded)
		}
	}
	*e = event{lines: e.lines[:0], fields: e.fields[:0], ready: e.ready}
	select {
	case p.free <- e:
	default:
	}
}

// discard releases the events left in the pool and counts their lines.
func (p *scanPool) discard() {
	for e := range p.events {
		if <-e.ready; e.Block != nil {
			e.lane.countUnfolded(e.count(), e.size(len(e.Data)))
		}
		p.release(e)
	}
}

// scan cuts the block into lines and scans each of them.
func (e *event) scan(scan *feed.Scanner) {
	if e.Oversize > 0 {
		return
	}
	if e.Records != nil {
		e.scanRecords(scan)
		return
	}
	for text := e.Data; len(text) > 0; {
		line, rest, _ := bytes.Cut(text, newline)
		e.lines = append(e.lines, feed.Line{})
		e.fields = e.lines[len(e.lines)-1].Scan(scan, e.fields, line)
		text = rest
	}
}

// scanRecords scans each record of the block.
func (e *event) scanRecords(scan *feed.Scanner) {
	at := 0
	for i := range e.Records {
		r := &e.Records[i]
		e.lines = append(e.lines, feed.Line{})
		l := &e.lines[i]
		e.fields = l.Scan(scan, e.fields, e.Data[at:r.End-1])
		at, l.Blank, l.Deletes = r.End, false, r.Kind == source.Tombstone
		if err := recordErrors[r.Kind]; err != nil {
			l.Err = err
		}
	}
}

// recordErrors are the errors of records that cannot be messages.
var recordErrors = [...]error{
	source.NoValue: feed.Errorf(feed.NotObject, "a record without a value (--tombstones-by-key FIELD deletes the row of its key)"),
	source.Binary:  feed.Errorf(feed.NotJSON, "Avro or Protobuf in the wire format of a schema registry: only JSON is read; in Kafka Connect set value.converter to org.apache.kafka.connect.json.JsonConverter"),
	source.TooLong: feed.Errorf(feed.TooLong, "a record over --max-line"),
}

var newline = []byte{'\n'}
