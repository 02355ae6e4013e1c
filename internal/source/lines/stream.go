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

// stopWait is how long a read may take that hangs when reading is stopped, but may have data.
const stopWait = 100 * time.Millisecond

// A Stream hands over what a goroutine of its own reads of a lane, one block ahead. One goroutine
// at a time calls Next or NextEvent.
type Stream struct {
	Name string
	Ctx  context.Context // of reading: ends with Stop or End

	cancel    context.CancelFunc
	produce   func() error // calls Send until the lane ends; io.EOF is its end
	interrupt func() bool
	start     sync.Once
	events    chan source.Event // closed after err is set
	err       error
	ended     context.Context // nobody calls Next any more
	end       context.CancelFunc
	stuck     chan struct{} // closed when reading was stopped, but hangs
	stop      sync.Once
}

// NewStream returns a stream that has not begun to read. interrupt makes a read return that hangs,
// and reports whether it will.
func NewStream(name string, produce func() error, interrupt func() bool) *Stream {
	s := &Stream{Name: name, produce: produce, interrupt: interrupt, events: make(chan source.Event), stuck: make(chan struct{})}
	s.ended, s.end = context.WithCancel(context.Background())
	s.Ctx, s.cancel = context.WithCancel(s.ended)
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
	case <-s.stuck:
		return source.Event{}, io.EOF
	case <-ctx.Done():
		return source.Event{}, ctx.Err()
	}
}

// Go begins to read, which else the first Next does.
func (s *Stream) Go() { s.start.Do(func() { go s.run() }) }

// run hands out blocks until the stream ends or is closed.
func (s *Stream) run() {
	s.err = source.Guard(s.produce)
	switch {
	case s.ended.Err() != nil:
		s.err = fmt.Errorf("read %s: %w", s.Name, fs.ErrClosed)
	case s.Ctx.Err() != nil:
		s.err = io.EOF
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

// End ends reading at once. It waits until the goroutine has ended, unless that hangs, and reports
// whether it has.
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
