package spool

import (
	"context"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// patience is how long a reader that has all lines before a block may take to fetch it from
// memory, before it is left to be read from the disk.
const patience = 10 * time.Millisecond

// A handover is between the intake of a queue, which calls publish, give and finish, and its
// reader, which calls take and moveTo.
type handover struct {
	changed chan struct{} // takes one value when there is something for the reader to see
	taken   chan struct{} // takes one value for an offer that was taken

	mu    sync.Mutex   // held for a moment
	next  int64        // offset of the line that the reader gets next
	end   int64        // behind the last line that it may read from the disk
	conns []connection // that brought the lines from next on, the first of them and those after it
	offer offer
	ended error // comes after all lines
}

// An offer is an event that the reader may have from memory; none has no event.
type offer struct {
	event *source.Event
	at    int64 // offset of its lines on the disk
	size  int64 // of these; 0 for what is not on the disk
}

// A connection is one of [source.Block.Conn], and the offset of its first line.
type connection struct {
	at   int64
	conn int
}

// newHandover returns one with lines on the disk that an earlier run has put there.
func newHandover(next, end int64) *handover {
	return &handover{changed: make(chan struct{}, 1), taken: make(chan struct{}, 1), next: next, end: end,
		conns: []connection{{at: next}}}
}

// publish hands over a block whose lines are on the disk. It reports whether the reader has taken
// it: if it has not, for it was not soon or had lines before it to read, it reads them there.
func (h *handover) publish(ctx context.Context, o offer) (taken bool) {
	h.mu.Lock()
	h.end = o.at + o.size
	if conn := o.event.Block.Conn; conn != h.conns[len(h.conns)-1].conn {
		h.conns = append(h.conns, connection{o.at, conn})
	}
	keepsUp := h.next == o.at
	if keepsUp {
		h.offer = o
	}
	h.mu.Unlock()
	signal(h.changed)
	if !keepsUp {
		return false
	}
	soon := time.NewTimer(patience)
	defer soon.Stop()
	select {
	case <-h.taken:
		return true
	case <-soon.C:
	case <-ctx.Done():
	}
	return !h.withdraw()
}

// give hands over an event that is not to be read from the disk: after all lines that are there.
func (h *handover) give(ctx context.Context, o offer) error {
	h.mu.Lock()
	h.offer = o
	h.mu.Unlock()
	signal(h.changed)
	select {
	case <-h.taken:
		return nil
	case <-ctx.Done():
	}
	if h.withdraw() {
		return ctx.Err()
	}
	return nil
}

// withdraw takes an offer back, and reports whether it was not taken.
func (h *handover) withdraw() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.offer.event != nil
	if h.offer = (offer{}); !left {
		<-h.taken
	}
	return left
}

// finish has the reader end with err when it has all lines.
func (h *handover) finish(err error) {
	h.mu.Lock()
	h.ended = err
	h.mu.Unlock()
	signal(h.changed)
}

// take returns what the reader gets next: an event, or where it finds lines of one connection on the
// disk, or the end, or nothing yet.
func (h *handover) take() (e *source.Event, disk stretch, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.offer
	switch {
	case o.event != nil && o.at == h.next:
		h.offer = offer{}
		h.next += o.size
		h.end = max(h.end, h.next)
		h.taken <- struct{}{}
		return o.event, disk, nil
	case h.next < h.end:
		return nil, h.unread(), nil
	case o.event == nil:
		err = h.ended
	}
	return nil, disk, err
}

// A stretch is a part of the log whose lines one connection has brought.
type stretch struct {
	from, to int64 // offsets
	conn     int   // see [source.Block]; 0 for lines of an earlier run
}

// unread returns the lines on the disk that the reader gets next.
func (h *handover) unread() stretch {
	for len(h.conns) > 1 && h.conns[1].at <= h.next {
		h.conns = h.conns[1:]
	}
	s := stretch{h.next, h.end, h.conns[0].conn}
	if len(h.conns) > 1 {
		s.to = min(s.to, h.conns[1].at)
	}
	return s
}

// moveTo notes that the reader has read the lines before an offset from the disk.
func (h *handover) moveTo(next int64) {
	h.mu.Lock()
	h.next = next
	h.mu.Unlock()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
