package status

import (
	"slices"
	"time"

	"github.com/weirsync/weir/internal/fold"
)

// Kind tells how a source is read.
type Kind int

// The kinds of sources.
const (
	File      Kind = iota // to its end
	Waiting               // until more comes: stdin, a FIFO, a followed file
	Dialed                // weir connects to it
	Listening             // others connect to weir
	Partition             // of a Kafka topic
)

// LaneState has the counts of a source.
type LaneState struct {
	Source      string
	Kind        Kind
	Open        bool
	Connections int // open connections; at most one if weir connects
	// Of a partition:
	Topic, Number string
	Lag           int64 // records that are not committed

	Lines, Bytes int64 // read
	Rejected     int64 // lines
	Pending      int64 // lines read but not committed
	// Offset is how many raw bytes were read, and Size how many there are. Both are 0 if unknown.
	Offset, Size int64
	LastMessage  time.Time // when it was read
	FeedTime     time.Time // timestamp of the last message that has one
}

// A Lane counts what is read from a source.
type Lane struct {
	p         *Progress
	state     LaneState
	base      int64 // state.Lines when it was opened
	baseBytes int64 // state.Bytes when it was opened
	start     int64 // offset in bytes when it was opened
	committed int64 // part of state.Lines
	place     func() (offset, size int64)
	lag       func() int64
	connected func() bool
}

// Open opens the counts of a source. They continue if the source was read before.
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

// Locate sets the function that returns the raw bytes read of the source and its size. start is the offset when it was
// opened. place must be safe for concurrent use, and may still be running when Close returns.
func (l *Lane) Locate(start int64, place func() (offset, size int64)) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.start, l.place = start, place
}

// located returns the offset and size of the source in raw bytes. Bytes that were read ahead of the counts are not
// included.
func (l *Lane) located() (offset, size int64) {
	if l.place == nil {
		return 0, 0
	}
	offset, size = l.place()
	return min(offset, l.start+l.state.Bytes-l.baseBytes), size
}

// Partition sets the partition of the source, and functions that return how many of its records are not committed and
// whether its broker is connected. They must be safe for concurrent use, as in Locate.
func (l *Lane) Partition(topic, number string, lag func() int64, connected func() bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.state.Topic, l.state.Number, l.lag, l.connected = topic, number, lag, connected
}

// Close records that a source was read to its end. Of a file, only the sums remain.
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

// Remove records that another run has taken over a source. Only the sums of its counts remain.
func (l *Lane) Remove() {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.commit(l.state.Lines)
	p.lanes = slices.DeleteFunc(p.lanes, func(other *Lane) bool { return other == l })
}

// Drop records that lines read but not committed never will be. The source may be read again.
func (l *Lane) Drop() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.commit(l.state.Lines)
}

// Read counts lines. message is true if at least one of them was a message. at is the timestamp of the last of them, or
// zero.
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

// Committed records how many of the lines read since Open are committed.
func (l *Lane) Committed(lines int64) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.commit(l.base + lines)
}

// commit is Committed with l.p locked.
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

// SetConnections sets how many connections of a source are open.
func (p *Progress) SetConnections(source string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.lane(source); l != nil {
		l.state.Connections = n
	}
}

// lane returns a source, or nil. p must be locked.
func (p *Progress) lane(source string) *Lane {
	i := slices.IndexFunc(p.lanes, func(l *Lane) bool { return l.state.Source == source })
	if i < 0 {
		return nil
	}
	return p.lanes[i]
}

// FetchFailed counts a failed fetch from Kafka.
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

// Grouped sets whether the run is a member of its group, and how many partitions the group divides. A member without a
// partition is ready, because it is a standby.
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

// Fenced counts a flush that failed because other members of the group took over partitions.
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

// Reconnect counts a reconnection.
func (p *Progress) Reconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Reconnects++
}
