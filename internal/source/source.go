package source

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// A Source reads lines from lanes. A lane is read in order and resumed separately: a file, a connection, a partition.
// Lanes may appear and end while the source is read.
type Source interface {
	// Next returns the next event. It returns io.EOF when no lane is left and none will appear, any other error that
	// ends all lanes, and ctx's error as soon as ctx ends.
	Next(ctx context.Context) (Event, error)
	// Stop ends reading. Next then returns what was already read from lanes that cannot be reread, and then io.EOF. Any
	// goroutine may call it.
	Stop()
	// Close ends reading. It must not run together with Next.
	Close() error
}

// An Event is something that happened to a lane.
type Event struct {
	Kind EventKind
	Lane string // its name, which is also its checkpoint's key
	// Begin is set for Opened. It starts reading the lane from a point, and returns the lane. io.EOF means that the
	// lane was already read to its end and has not changed since. It is called before the next Next. A lane that may
	// not be read is not begun.
	Begin func(ctx context.Context, from Point) (Lane, error)
	// Block is set for Data. The receiver owns it until Release.
	Block *Block
	// Reached is set for Barrier. It is called once, with the point to resume after. The pipeline calls it when all
	// lines before the Barrier are committed, on the goroutine that folds lines, so it must not block. A spool calls it when
	// they are on disk, with only Resume set. For a spool, and for a lane that was not begun, the goroutine that calls
	// Next calls it. It is not called if the run ends first.
	Reached func(Point)
	// Err is set for Closing: why the lane ended early.
	Err error
}

// EventKind classifies an event.
type EventKind int

const (
	// Data carries lines of a lane that was begun.
	Data EventKind = iota
	// Opened offers a lane. A lane that has ended may be offered again.
	Opened
	// Barrier asks for the point to resume after; see Reached.
	Barrier
	// Closing reports that no more lines of a lane will come for now.
	Closing
	// Lost reports that another member owns the lane now. Its claim is released, and the fence decides whether lines
	// already read may still be written.
	Lost
)

// A Point is where a lane continues; the zero value is its start.
type Point struct {
	Cursor Cursor
	Resume string // the value after which the feed resumes
}

// A Lane describes a lane from the point where it was begun. What a lane lacks is nil.
type Lane struct {
	At     Cursor // where it begins, or "" if the lane cannot be rewound
	Offset int64  // At's offset, if the source knows it
	Resume string // of Spooled: after what the feed resumes
	Waits  bool   // its reader may have to wait: true except for regular files that are not followed
	Type   Type   // FIFO or Spooled; otherwise it is of its source's type

	// Raw returns how many raw bytes were read, and how many there are now (0: unknown). Any goroutine may call it.
	Raw func() (offset, size int64)
	// Committed learns that all lines before a cursor are committed. The goroutine that commits them calls it.
	Committed func(Cursor)
	// Drop drops a connection, by [Block].Conn, giving a reason, and reconnects.
	Drop func(conn int, why error)
	Addr net.Addr // to which others connect
	// Of a partition of a topic. Any goroutine may call Lag and Connected.
	Topic, Number string
	Lag           func() int64 // uncommitted records
	Connected     func() bool  // whether more can arrive
}

// A Stream is a lane that can be read without a Source; see [Series].
type Stream interface {
	Lane() Lane
	// NextEvent returns Data or Barrier. It returns io.EOF at the lane's end.
	NextEvent(ctx context.Context) (Event, error)
	Stop() // see [Source]
	Close() error
}

// Series returns a source that reads lanes one after the other. begin starts one at a point. With io.EOF, it returns a
// stream that has nothing more.
func Series(names []string, begin func(ctx context.Context, name string, from Point) (Stream, error)) Source {
	return &series{names: names, begin: begin}
}

type series struct {
	names  []string // lanes left, including the current one
	begin  func(ctx context.Context, name string, from Point) (Stream, error)
	opened bool // Opened was sent for the first name

	mu      sync.Mutex
	stream  Stream // nil until begun
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

// beginFirst begins the first of names.
func (s *series) beginFirst(ctx context.Context, from Point) (Lane, error) {
	stream, err := s.begin(ctx, s.names[0], from)
	if stream == nil {
		return Lane{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream = stream; s.stopped {
		stream.Stop()
	}
	return stream.Lane(), err
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

// Close ends the current lane.
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

// Optional interfaces of a [Source]. The pipeline finds them by type assertion.

// A Catalog knows its lanes as soon as it is open, before it offers them. Every source of type [Partition] is one.
type Catalog interface {
	Source
	Lanes() []string
	// Ends returns the lanes' end offsets when the source was opened. A run passes the first source's Ends as
	// [Options].Ends to the sources that it opens later.
	Ends() map[string]int64
}

// A Member is a source whose lanes a group divides among the runs of one job: the group, not the run, assigns them. A
// run that loses lanes to another joins again, with a new source.
type Member interface {
	Source
	// Join prepares to join the group, before the first Next. It returns where lanes without a checkpoint begin,
	// including lanes that other members will read.
	Join(ctx context.Context, g Group) (map[string]Lane, error)
	// Leads reports whether the run reads the first of all lanes, as far as it knows. Any goroutine may call it.
	Leads() bool
}

// A Group is what a [Member] has to know about the group's shared state.
type Group struct {
	Database string // ID of the database that all members write to
	// Known reports whether a lane has a checkpoint.
	Known func(lane string) bool
	// Cursors returns the current cursors in the lanes' checkpoints.
	Cursors func(ctx context.Context, lanes []string) ([]Cursor, error)
}

// ErrNewLane ends a source if a lane appears, or is assigned to a [Member], that did not exist when the source was
// opened.
var ErrNewLane = errors.New("there is a new partition")

// ErrNameTaken ends a [Member] if another member of the group has its name. The next one joins without a name.
var ErrNameTaken = errors.New("joining again without a name")
