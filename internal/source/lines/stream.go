package lines

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// stopWait is how long an interrupted read, which may still have data, may take after Stop.
const stopWait = 100 * time.Millisecond

// A Stream reads a lane on its own goroutine, one block ahead. One goroutine at a time calls Next or NextEvent.
type Stream struct {
	Name string
	Ctx  context.Context // ends with Stop or End

	cancel    context.CancelFunc
	produce   func() error // calls Send until the lane ends; io.EOF is its end
	interrupt func() bool
	start     sync.Once
	events    chan source.Event // closed after err is set
	err       error
	ended     context.Context // Next is not called any more
	end       context.CancelFunc
	stuck     chan struct{} // closed if a read hangs after Stop
	stop      sync.Once
}

// NewStream returns a stream that has not started to read. interrupt unblocks a hanging read, and reports whether it
// can.
func NewStream(name string, produce func() error, interrupt func() bool) *Stream {
	s := &Stream{Name: name, produce: produce, interrupt: interrupt, events: make(chan source.Event), stuck: make(chan struct{})}
	s.ended, s.end = context.WithCancel(context.Background())
	s.Ctx, s.cancel = context.WithCancel(s.ended)
	return s
}

// Next returns the next block. The caller owns it until Release. It returns io.EOF at the end, any other error after
// the lines before it, and ctx's error as soon as ctx ends; in that case it may be called again.
func (s *Stream) Next(ctx context.Context) (*source.Block, error) {
	e, err := s.NextEvent(ctx)
	return e.Block, err
}

// NextEvent is like Next, but also returns what a connection asks for.
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
	case <-s.stuck:
		return source.Event{}, io.EOF
	case <-ctx.Done():
		return source.Event{}, ctx.Err()
	}
}

// Go starts reading; without it, the first Next does.
func (s *Stream) Go() { s.start.Do(func() { go s.run() }) }

// run produces blocks until the stream ends or is closed.
func (s *Stream) run() {
	s.err = s.produce()
	switch {
	case s.ended.Err() != nil:
		s.err = fmt.Errorf("read %s: %w", s.Name, fs.ErrClosed)
	case s.Ctx.Err() != nil:
		s.err = io.EOF
	}
	close(s.events)
}

// Cancel ends reading soon.
func (s *Stream) Cancel() { s.cancel() }

// Send passes an event to Next.
func (s *Stream) Send(e source.Event) error {
	e.Lane = s.Name
	select {
	case s.events <- e:
		return nil
	case <-s.ended.Done():
		return s.ended.Err()
	}
}

// Stop ends reading: Next returns what was read before, and then io.EOF. Any goroutine may call it.
func (s *Stream) Stop() {
	s.cancel()
	if !s.interrupt() {
		time.AfterFunc(stopWait, func() { s.stop.Do(func() { close(s.stuck) }) })
	}
}

// End ends reading at once. It waits until the goroutine has ended, unless that hangs, and reports whether it has.
func (s *Stream) End() (ended bool) {
	s.end()
	s.start.Do(func() {
		s.err = fs.ErrClosed
		close(s.events)
	})
	if !s.interrupt() {
		return false
	}
	for e := range s.events { // until run has ended
		if e.Block != nil {
			e.Block.Release()
		}
	}
	return true
}
