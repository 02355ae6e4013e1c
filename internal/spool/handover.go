package spool

import (
	"context"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// memoryWait is how long a reader that has all lines before a block may take to fetch it from memory. After that it
// reads the block from disk.
const memoryWait = 10 * time.Millisecond

// A handover connects the intake of a queue, which calls publish, give and finish, with its reader, which calls take
// and moveTo.
type handover struct {
	changed chan struct{} // has a value when there is something new for the reader
	taken   chan struct{} // has a value when an offer was taken

	mu    sync.Mutex   // held briefly
	next  int64        // offset of the reader's next line
	end   int64        // after the last line that the reader may read from disk
	conns []connection // that sent the lines from next on, oldest first
	offer offer
	ended error // returned after all lines
}

// An offer is an event that the reader may take from memory. The zero value has no event.
type offer struct {
	event *source.Event
	at    int64 // offset of its lines in the log
	size  int64 // their size; 0 if they are not in the log
}

// A connection is a [source.Block.Conn], with the offset of its first line.
type connection struct {
	at   int64
	conn int
}

// newHandover returns a handover for a log that already holds an earlier run's lines, from next to end.
func newHandover(next, end int64) *handover {
	return &handover{changed: make(chan struct{}, 1), taken: make(chan struct{}, 1), next: next, end: end,
		conns: []connection{{at: next}}}
}

// publish offers a block whose lines are on disk. It reports whether the reader took it. If the reader did not take it
// in time, or had earlier lines to read, it reads the lines from disk.
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
	soon := time.NewTimer(memoryWait)
	defer soon.Stop()
	select {
	case <-h.taken:
		return true
	case <-soon.C:
	case <-ctx.Done():
	}
	return !h.withdraw()
}

// give passes on an event that is not on disk. It comes after all lines that are.
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

// withdraw cancels an offer, and reports whether it had not been taken.
func (h *handover) withdraw() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.offer.event != nil
	if h.offer = (offer{}); !left {
		<-h.taken
	}
	return left
}

// finish makes the reader end with err after all lines.
func (h *handover) finish(err error) {
	h.mu.Lock()
	h.ended = err
	h.mu.Unlock()
	signal(h.changed)
}

// take returns what the reader gets next: an event, or the lines of one connection to read from disk, or the end, or
// nothing yet.
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

// A stretch is a part of the log with lines of one connection.
type stretch struct {
	from, to int64 // offsets
	conn     int   // see [source.Block]; 0 for lines of an earlier run
}

// unread returns the lines on disk that the reader gets next.
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

// moveTo records that the reader has read the lines before an offset from disk.
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
