package source

import (
	"context"
	"errors"
	"net"
)

// Optional interfaces of a [Lane].

// A Sized lane knows how far it was read. Any goroutine may call its methods.
type Sized interface {
	Size() int64      // in raw bytes now; 0: unknown
	RawOffset() int64 // raw bytes read
}

// A Lagging lane is a partition of a topic, with an end offset to lag behind. Any goroutine may call its methods.
type Lagging interface {
	Partition() (topic, number string)
	Lag() int64      // uncommitted records
	Connected() bool // whether more can arrive
}

// An Acker learns that all lines before a cursor are committed. The goroutine that commits them calls it.
type Acker interface {
	Committed(Cursor)
}

// A Dropper drops one of its connections, by [Block].Conn, giving a reason, and reconnects.
type Dropper interface {
	Drop(conn int, why error)
}

// An Addressed lane has an address to which others connect; nil: none.
type Addressed interface {
	Addr() net.Addr
}

// A Wrapper wraps another lane. [As] finds the inner lane's interfaces, unless the wrapper implements them.
type Wrapper interface {
	Lane
	Inner() Lane
}

// As returns a lane's implementation of an optional interface. ok is false if it has none.
func As[T any](l Lane) (part T, ok bool) {
	for {
		if part, ok = l.(T); ok {
			return part, true
		}
		w, is := l.(Wrapper)
		if !is {
			return part, false
		}
		l = w.Inner()
	}
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
	Join(ctx context.Context, g Group) (map[string]Begun, error)
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
