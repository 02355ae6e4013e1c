package source

import (
	"context"
	"errors"
	"net"
)

// What follows are the parts that a [Lane] may have besides.

// A Sized lane says how far it was read. Any goroutine may ask.
type Sized interface {
	Size() int64      // in raw bytes now; 0 where it is not known
	RawOffset() int64 // raw bytes that were read
}

// A Lagging lane is a partition of a topic, which has an end that it is behind. Any goroutine may ask.
type Lagging interface {
	Partition() (topic, number string)
	Lag() int64      // records that are not committed
	Connected() bool // whether more can come
}

// An Acker learns that all lines before a cursor are committed, from the goroutine that commits them.
type Acker interface {
	Committed(Cursor)
}

// A Dropper drops one of its connections, by its [Block].Conn, for a reason, and reconnects.
type Dropper interface {
	Drop(conn int, why error)
}

// An Addressed lane has an address to which others connect; nil: it has none.
type Addressed interface {
	Addr() net.Addr
}

// A Wrapper is a lane around another one, whose parts it has unless it has them itself.
type Wrapper interface {
	Lane
	Inner() Lane
}

// As returns a part that a lane has. ok is false where it has none.
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

// What follows are the parts that a [Source] may have besides. The job asks for them by type assertions.

// A Catalog is a source that knows its lanes as soon as it is open, before it offers them. A source that is Divided
// is one.
type Catalog interface {
	Source
	Lanes() []string
	// Ends are the offsets at which the lanes ended when the source was opened. The first ones of a run are the
	// [Options].Ends of sources that it opens later.
	Ends() map[string]int64
}

// A Member is a source whose lanes a group divides between runs of one job: the group, not the run, says who reads
// which. A run whose lanes were given to others joins again, with a new source.
type Member interface {
	Source
	// Join prepares to be a member, before the first Next. It returns where the lanes begin of which nobody has a
	// checkpoint, also those that others will read.
	Join(ctx context.Context, g Group) (map[string]Begun, error)
}

// A Group is what a [Member] has to know of the others.
type Group struct {
	Database string // the ID of the database that all of them write to
	// Known reports whether a lane has a checkpoint.
	Known func(lane string) bool
	// Cursors returns the cursors of the lanes' checkpoints as they are now.
	Cursors func(ctx context.Context, lanes []string) ([]Cursor, error)
}

// ErrNewLane ends a source if a lane appears, or is assigned to a [Member], that did not exist when the source was opened.
var ErrNewLane = errors.New("there is a new partition")

// ErrNameTaken ends a [Member] if another member of the group has its name. The next one joins without a name.
var ErrNameTaken = errors.New("joining again without a name")

// DeadLetters is a source that can send rejected records to a place of its own.
type DeadLetters interface {
	Source
	// Owned are the names of the lanes whose letters the run may send. Any goroutine may call it.
	Owned() []string
	NewSender() (Sender, error)
}

// A Sender sends dead letters. It has to be closed.
type Sender interface {
	// Send returns the IDs of the letters that are safe there. err tells why others were not sent.
	Send(ctx context.Context, letters []Letter) (sent []int64, err error)
	// Close ends the connections, from any goroutine. A letter that is being sent fails, but may have arrived.
	Close()
}

// A Letter is a rejected record.
type Letter struct {
	ID     int64
	Lane   string
	Offset int64
	Reason string
	Text   []byte // what the database keeps of it
}
