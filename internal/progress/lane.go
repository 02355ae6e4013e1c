package progress

import (
	"slices"
	"time"

	"github.com/weirsync/weir/internal/fold"
)

// Kind says how a source is read.
type Kind int

// How a source is read.
const (
	File      Kind = iota // to its end
	Waiting               // it waits for more: stdin, a FIFO, a file that is followed
	Dialed                // by a connection that weir makes
	Listening             // by connections that others make
	Partition             // of a topic of Kafka
)

// LaneState has the counts of a source.
type LaneState struct {
	Source      string
	Kind        Kind
	Open        bool
	Connections int // that exist: one at most of a source that weir connects to
	// Of a partition:
	Topic, Number string
	Lag           int64 // records that are not committed

	Lines, Bytes int64 // that were read
	Rejected     int64 // lines
	Pending      int64 // lines that were read and are not committed
	// Offset is how many raw bytes were read, and Size how many there are; 0 where that is
	// not known.
	Offset, Size int64
	LastMessage  time.Time // when it was read
	FeedTime     time.Time // of the last message that named one
}

// A Lane counts what is read of a source.
type Lane struct {
	p         *Progress
	state     LaneState
	base      int64 // state.Lines when it was opened
	baseBytes int64 // state.Bytes then
	start     int64 // the byte at which it began then
	committed int64 // of state.Lines
	place     func() (offset, size int64)
	lag       func() int64
	connected func() bool
}

// Open returns the counts of a source that is opened: those that it had where it was read before.
func (p *Progress) Open(source string, kind Kind) *Lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Begun, p.state.trouble = true, Stall{} // the database has answered
	if l := p.lane(source); l != nil {
		l.state.Open, l.base, l.baseBytes = true, l.state.Lines, l.state.Bytes
		return l
	}
	l := &Lane{p: p, state: LaneState{Source: source, Kind: kind, Open: true}}
	p.lanes = append(p.lanes, l)
	return l
}

// Locate has place say how many raw bytes of the source were read, and how many there are; it began
// at a byte. Any goroutine may call place, also one that has begun to look before Close.
func (l *Lane) Locate(start int64, place func() (offset, size int64)) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.start, l.place = start, place
}

// located is how many raw bytes of the source are behind the run, and how many there are: what was
// read ahead of the counts is not among them.
func (l *Lane) located() (offset, size int64) {
	if l.place == nil {
		return 0, 0
	}
	offset, size = l.place()
	return min(offset, l.start+l.state.Bytes-l.baseBytes), size
}

// Partition says what partition of a topic the source is, and how it is asked how many of its records
// are not committed, and whether they can come. Any goroutine may call these, as in Locate.
func (l *Lane) Partition(topic, number string, lag func() int64, connected func() bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.state.Topic, l.state.Number, l.lag, l.connected = topic, number, lag, connected
}

// Close notes that a source was read to its end. Of a file, whose counts are complete, only the
// sums stay.
func (l *Lane) Close() {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.state.Open, l.state.Connections, l.place = false, 0, nil
	if l.state.Kind == File {
		p.endFile(l)
		p.lanes = slices.DeleteFunc(p.lanes, func(other *Lane) bool { return other == l })
	}
}

// Remove notes that a source is another run's now: only the sums of its counts stay.
func (l *Lane) Remove() {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.commit(l.state.Lines)
	p.lanes = slices.DeleteFunc(p.lanes, func(other *Lane) bool { return other == l })
}

// Drop notes that what was read and not committed never will be: the source may be read again.
func (l *Lane) Drop() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.commit(l.state.Lines)
}

// Read counts lines. message says that one of them at least was a message, and at is the time that
// the last one of them named, if it did.
func (l *Lane) Read(lines, bytes int64, message bool, at time.Time) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.state.Lines += lines
	l.state.Bytes += bytes
	p.state.Lines += lines
	p.state.Bytes += bytes
	if message {
		now := time.Now()
		l.state.LastMessage, p.state.LastMessage = now, now
	}
	if !at.IsZero() {
		l.state.FeedTime, p.state.FeedTime = at, at
	}
}

// Committed notes how many of the lines that were read since Open are committed.
func (l *Lane) Committed(lines int64) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.commit(l.base + lines)
}

// commit is Committed. l.p is locked.
func (l *Lane) commit(lines int64) {
	if lines > l.committed {
		l.p.committed += lines - l.committed
		l.committed = lines
	}
}

// Reject counts a rejected line of the source.
func (l *Lane) Reject(r *fold.Reject) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.state.Rejected++
	p.state.Rejected++
	p.noteReject(l.state.Source, r)
	if r.Table < 0 {
		p.state.Unassigned[r.Reason]++
		return
	}
	p.tables[r.Table].Rejected[r.Reason]++
}

// SetConnections notes how many connections of a source exist.
func (p *Progress) SetConnections(source string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lane(source); l != nil {
		l.state.Connections = n
	}
}

// lane returns a source, nil where there is none. p is locked.
func (p *Progress) lane(source string) *Lane {
	i := slices.IndexFunc(p.lanes, func(l *Lane) bool { return l.state.Source == source })
	if i < 0 {
		return nil
	}
	return p.lanes[i]
}

// FetchFailed counts a fetch of Kafka's that failed.
func (p *Progress) FetchFailed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.FailedFetches++
}

// Rebalanced counts a change of the partitions that the group has assigned.
func (p *Progress) Rebalanced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Group.Rebalances++
}

// Grouped notes whether the run is a member of its group, which divides so many partitions, or waits to be one. A member
// without a partition is ready: it is a reserve.
func (p *Progress) Grouped(joined bool, partitions int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := &p.state.Group
	switch g.Partitions = partitions; {
	case joined:
		g.Waiting, p.state.Begun = time.Time{}, true
	case g.Waiting.IsZero():
		g.Waiting = time.Now()
	}
}

// Fenced counts a flush that found partitions taken over by other members of the group.
func (p *Progress) Fenced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Group.Fenced++
}

// SenderFailed counts a sender that was disconnected because of an error.
func (p *Progress) SenderFailed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.SenderErrors++
}

// Reconnect counts a connection that is made again.
func (p *Progress) Reconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Reconnects++
}
