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

// An event is what the reader gets of a lane.
type event struct {
	lane          *lane
	of            source.Event
	*source.Block // of that
	lines         []feed.Line
	fields        []feed.Field  // of all lines
	ready         chan struct{} // takes one value when the block is scanned
	folded        chan struct{} // closed when the block, a long one, is folded
	failed        error         // of the scan
}

// maxScanners is how many blocks are scanned at a time at most. The fold, which one
// core does, takes longer than half of a scan.
const maxScanners = 4

// longBlock is the length in bytes from which on a block is scanned and folded alone, with
// nothing scanned before the fold needs it but what comes next, and keeps no memory afterwards.
const longBlock = 1 << 20

// A scanPool is the stage between the sources and the reader: blocks are scanned on cores
// of their own, and come out in the order in which they were put in. Two cores take a fifth
// less time for a hot feed than one; BenchmarkSync/hot with -cpu 1,2 shows it.
type scanPool struct {
	scanners []*feed.Scanner
	limit    *rate.Limiter // of lines; nil is no limit
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

// run scans what produce puts into the pool, until it returns.
func (p *scanPool) run(produce func() error) {
	var scanning sync.WaitGroup
	for _, scan := range p.scanners {
		scanning.Go(func() {
			for e := range p.work {
				e.failed = source.Guard(func() error { e.scan(scan); return nil })
				e.ready <- struct{}{}
			}
		})
	}
	p.err = produce()
	close(p.work)
	scanning.Wait()
	close(p.events)
}

// put adds an event of a lane, until folding ends. Several goroutines may. Lines that are not due
// when reading ends are added at once, unless they can be read again.
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
		if p.limit != nil && reading.Err() != nil && l.rereadable() == byThisRun && !l.begun.Waits { // a FIFO waits
			l.countUnfoldedBlock(b)
			l.countUnfoldedBlock(rest)
			return reading.Err()
		}
		e := p.spare()
		e.lane, e.of, e.Block = l, of, b
		folded := chan struct{}(nil) // b and e are not ours when they are handed on
		if len(b.Data) > longBlock {
			folded = make(chan struct{})
		}
		e.folded = folded
		select {
		case p.events <- e:
			p.work <- e
		case <-folding.Done():
			l.countUnfoldedBlock(b)
			l.countUnfoldedBlock(rest)
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

// pace cuts off the lines of a block that are read next, and waits until they are due, or until
// reading ends. rest is nil behind the last.
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

// release gives an event and its block back.
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

// discard releases what is left in the pool, when nobody takes it any more, and counts its lines.
func (p *scanPool) discard() {
	for e := range p.events {
		if <-e.ready; e.Block != nil {
			e.lane.countUnfolded(e.count(), e.size(len(e.Data)))
		}
		p.release(e)
	}
}

// scan cuts the block into lines and scans each.
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
		at, l.Blank = r.End, false
		switch r.Kind {
		case source.Tombstone:
			l.Deletes = true
		case source.NoValue:
			l.Err = errNoValue
		case source.Binary:
			l.Err = errBinary
		case source.TooLong:
			l.Err = errTooLong
		}
	}
}

// What is wrong with records that cannot be messages.
var (
	errNoValue = feed.Errorf(feed.NotObject, "a record without a value (--tombstones-by-key FIELD deletes the row of its key)")
	errBinary  = feed.Errorf(feed.NotJSON, "Avro or Protobuf in the wire format of a schema registry: only JSON is read; in Kafka Connect set value.converter to org.apache.kafka.connect.json.JsonConverter")
	errTooLong = feed.Errorf(feed.TooLong, "a record over --max-line")
)

var newline = []byte{'\n'}
