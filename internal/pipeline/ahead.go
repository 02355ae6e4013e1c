package pipeline

import (
	"bytes"
	"context"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/source"
)

// scanned is a block whose lines were cut and scanned on a goroutine of their
// own, ahead of the fold: on two cores that takes a third off a hot feed.
type scanned struct {
	*source.Block
	lines  []scannedLine
	fields []feed.Field
}

// A scannedLine is one line of a block.
type scannedLine struct {
	end, next int   // in the block's data: of the line, and of the one after it
	fields    int   // how many of the block's fields are those up to this line
	blank     bool  // it is passed over
	err       error // of the scan
}

// scannedAhead is how many blocks wait for the fold.
const scannedAhead = 2

// ahead is the stage between a source and the fold.
type ahead struct {
	stream *source.Stream
	blocks chan *scanned // closed after err is set
	err    error
	free   chan *scanned
}

func newAhead(stream *source.Stream) *ahead {
	return &ahead{stream: stream, blocks: make(chan *scanned, scannedAhead), free: make(chan *scanned, scannedAhead+2)}
}

// run scans blocks until the source or ctx ends.
func (a *ahead) run(ctx context.Context) {
	defer close(a.blocks)
	var scan feed.Scanner
	for {
		b, err := a.stream.Next(ctx)
		if err != nil {
			a.err = err
			return
		}
		s := a.spare()
		s.Block = b
		if b.Oversize == 0 {
			s.scan(&scan)
		}
		select {
		case a.blocks <- s:
		case <-ctx.Done():
			a.err = ctx.Err()
			return
		}
	}
}

func (a *ahead) spare() *scanned {
	select {
	case s := <-a.free:
		return s
	default:
		return &scanned{}
	}
}

// release gives a block back.
func (a *ahead) release(s *scanned) {
	a.stream.Release(s.Block)
	s.Block, s.lines, s.fields = nil, s.lines[:0], s.fields[:0]
	select {
	case a.free <- s:
	default:
	}
}

// scan cuts the block into lines and scans each.
func (s *scanned) scan(scan *feed.Scanner) {
	for at := 0; at < len(s.Data); {
		l := scannedLine{end: len(s.Data), next: len(s.Data)}
		if n := bytes.IndexByte(s.Data[at:], '\n'); n >= 0 {
			l.end, l.next = at+n, at+n+1
		}
		line := s.Data[at:l.end]
		if l.blank = fold.Blank(line); !l.blank {
			var fields []feed.Field
			if fields, l.err = scan.Append(s.fields, line); l.err == nil {
				s.fields = fields
			}
		}
		l.fields = len(s.fields)
		s.lines = append(s.lines, l)
		at = l.next
	}
}
