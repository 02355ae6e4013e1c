package source

import (
	"context"
	"io"
	"sync"
)

// A Source brings the lines of lanes. A lane is what is read in order and resumed by itself: a
// file, a connection, a partition. Lanes may come and end while the source is read.
type Source interface {
	// Next returns the next event. It returns io.EOF when no lane is left and none will come,
	// another error that ends all lanes, and ctx's error as soon as ctx ends.
	Next(ctx context.Context) (Event, error)
	// Stop ends reading: Next returns what was read before of lanes that cannot be read again, and
	// then io.EOF. Any goroutine may call it.
	Stop()
	// Close ends reading. It must not run together with Next.
	Close() error
}

// An Event is something that happened to a lane.
type Event struct {
	Kind EventKind
	Lane string // its name; a checkpoint is kept under it
	// Begin is Opened's: it has the lane read from a point, and returns it. io.EOF says that it was read to its end
	// before and has not changed since. The goroutine that calls Next calls it, before the next Next; a lane that may
	// not be read is not begun.
	Begin func(ctx context.Context, from Point) (Lane, error)
	// Block is Data's. It is the receiver's until its Release.
	Block *Block
	// Reached is Barrier's: it is called once, with the point to resume after. A job calls it when all lines before the
	// Barrier are committed, on the goroutine that folds lines, which folds nothing meanwhile: it must not wait. A spool
	// calls it when they are on disk, with Resume alone. For that, and for a lane that was not begun, the goroutine that
	// calls Next calls it. If the run ends first, nobody does.
	Reached func(Point)
	// Err is Closing's: why the lane ended early.
	Err error
}

// EventKind says what has happened.
type EventKind int

const (
	// Data brings lines of a lane that was begun.
	Data EventKind = iota
	// Opened offers a lane. A lane that has ended may be offered again.
	Opened
	// Barrier asks for the point to resume after: see Reached.
	Barrier
	// Closing says that no more lines of a lane come for now.
	Closing
	// Lost says that a lane is somebody else's: its claim is released, and the fence tells whether
	// what was read of it may still be written.
	Lost
)

// A Point is from where a lane continues; the zero value is its start.
type Point struct {
	Cursor Cursor
	Resume string // the value after which a feed is asked to resume
}

// A Lane is one that was begun. What else a job may know of it, and ask of it, are optional interfaces, which [As]
// finds: [Sized], [Lagging], [Acker], [Dropper], [Addressed].
type Lane interface {
	Begun() Begun
}

// Begun says how a lane is read, from when it was begun.
type Begun struct {
	At     Cursor // where it begins: the point's cursor, or "" for a lane that cannot go back
	Offset int64  // of At, where that is not the point's
	Waits  bool   // it may make its reader wait: all but regular files that are not followed
	Kept   bool   // its lines are kept on disk until they are committed
	Once   bool   // no run can read it again: a FIFO or a device
}

// A Stream is a lane that is read by itself; see [Series].
type Stream interface {
	Lane
	// NextEvent returns Data or Barrier. It returns io.EOF at the lane's end.
	NextEvent(ctx context.Context) (Event, error)
	Stop() // is that of [Source]
	Close() error
}

// Series returns a source of lanes that are read one after the other. begin has each read from a
// point; with io.EOF, it returns one that has nothing more.
func Series(names []string, begin func(ctx context.Context, name string, from Point) (Stream, error)) Source {
	return &series{names: names, begin: begin}
}

type series struct {
	names  []string // that are left, the one at hand included
	begin  func(ctx context.Context, name string, from Point) (Stream, error)
	opened bool // the first of names

	mu      sync.Mutex
	stream  Stream // nil until it is begun
	stopped bool
}

func (s *series) Next(ctx context.Context) (e Event, err error) {
	stream, stopped := s.state()
	switch {
	case len(s.names) == 0, stream == nil && stopped:
		return e, io.EOF
	case !s.opened:
		s.opened = true
		return Event{Kind: Opened, Lane: s.names[0], Begin: s.beginFirst}, nil
	}
	err = io.EOF
	if stream != nil {
		e, err = stream.NextEvent(ctx)
	}
	if err == nil || ctx.Err() != nil {
		return e, err
	}
	if _, stopped := s.state(); stopped {
		return e, io.EOF
	}
	closing := s.Close()
	if err == io.EOF {
		err = closing
	}
	e = Event{Kind: Closing, Lane: s.names[0], Err: err}
	s.names, s.opened = s.names[1:], false
	return e, nil
}

// beginFirst has the first of names read.
func (s *series) beginFirst(ctx context.Context, from Point) (Lane, error) {
	stream, err := s.begin(ctx, s.names[0], from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream = stream; stream != nil && s.stopped {
		stream.Stop()
	}
	return stream, err
}

func (s *series) state() (stream Stream, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream, s.stopped
}

func (s *series) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped = true; s.stream != nil {
		s.stream.Stop()
	}
}

// Close ends the lane at hand.
func (s *series) Close() error {
	stream, _ := s.state()
	if stream == nil {
		return nil
	}
	err := stream.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = nil
	return err
}
