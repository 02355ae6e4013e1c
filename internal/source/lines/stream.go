package lines

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/weirsync/weir/internal/source"
)

// A Stream hands over what a goroutine of its own reads of a lane, one block ahead. One goroutine
// at a time calls Next or NextEvent.
type Stream struct {
	Name string
	Ctx  context.Context // ends with Stop

	cancel  context.CancelFunc
	produce func() error // calls Send until the lane ends; io.EOF is its end
	start   sync.Once
	events  chan source.Event // closed after err is set
	err     error
}

// NewStream returns a stream that has not begun to read.
func NewStream(name string, produce func() error) *Stream {
	s := &Stream{Name: name, produce: produce, events: make(chan source.Event)}
	s.Ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Next returns the next block, which is the caller's until its Release. It returns
// io.EOF at the end, another error after the lines before it, and ctx's error
// as soon as ctx ends; in that case it may be called again.
func (s *Stream) Next(ctx context.Context) (*source.Block, error) {
	e, err := s.NextEvent(ctx)
	return e.Block, err
}

// NextEvent is Next for all that comes: blocks, and what a connection asks for.
func (s *Stream) NextEvent(ctx context.Context) (source.Event, error) {
	if err := ctx.Err(); err != nil {
		return source.Event{}, err
	}
	s.Go()
	select {
	case e, ok := <-s.events:
		if !ok {
			return source.Event{}, s.err
		}
		return e, nil
	case <-ctx.Done():
		return source.Event{}, ctx.Err()
	}
}

// Go begins to read, which else the first Next does.
func (s *Stream) Go() { s.start.Do(func() { go s.run() }) }

// run hands out blocks until the stream ends or is closed.
func (s *Stream) run() {
	s.err = source.Guard(s.produce)
	if s.Ctx.Err() != nil {
		s.err = fmt.Errorf("read %s: %w", s.Name, fs.ErrClosed)
	}
	close(s.events)
}

// Cancel has reading end soon.
func (s *Stream) Cancel() { s.cancel() }

// Send hands an event to Next.
func (s *Stream) Send(e source.Event) error {
	e.Lane = s.Name
	select {
	case s.events <- e:
		return nil
	case <-s.Ctx.Done():
		return s.Ctx.Err()
	}
}

// Stop ends reading. interrupt makes a read return that waits, and reports whether it will: then
// Stop waits until the goroutine has ended, and reports so.
func (s *Stream) Stop(interrupt func() bool) (ended bool) {
	s.cancel()
	s.start.Do(func() {
		s.err = fs.ErrClosed
		close(s.events)
	})
	if !interrupt() {
		return false
	}
	for e := range s.events { // until run has ended
		if e.Block != nil {
			e.Block.Release()
		}
	}
	return true
}
