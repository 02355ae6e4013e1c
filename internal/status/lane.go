package status

import (
	"slices"
	"time"

	"github.com/weirsync/weir/internal/fold"
)

// A Lane counts what is read from a source.
type Lane struct {
	p         *Progress
	state     Source
	base      int64 // state.Lines when it was opened
	baseBytes int64 // state.Bytes when it was opened
	start     int64 // offset in bytes when it was opened
	opened    Time
	settled   int64 // part of state.Lines that was committed, or never will be
	place     func() (offset, size int64)
	lag       func() int64
	connected func() bool
}

// Open opens the counts of a source. They continue if the source was read before.
func (p *Progress) Open(source string, kind Kind) *Lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.begun, p.trouble = true, Stall{} // the database has answered
	if l := p.lane(source); l != nil {
		l.state.Open, l.base, l.baseBytes = true, l.state.Lines, l.state.Bytes
		return l
	}
	l := &Lane{p: p, opened: now(), state: Source{Source: source, Kind: kind, Open: true}}
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

// snapshot returns the counts of a copy of the lane, and adds those of a file to the sums.
func (l *Lane) snapshot(files *Files) Source {
	s := l.state
	s.Pending = max(0, s.Lines-l.settled)
	if l.place != nil { // bytes that were read ahead of the counts are not included
		s.Offset, s.Size = l.place()
		s.Offset = min(s.Offset, l.start+s.Bytes-l.baseBytes)
		files.Offset, files.Size, files.Before = files.Offset+s.Offset, files.Size+s.Size, files.Before+min(l.start, s.Offset)
		if s.Kind == File {
			s.SecondsLeft = secondsLeft(now().Sub(l.opened).Seconds(), s.Offset-l.start, s.Size-s.Offset)
		}
	}
	if l.lag != nil {
		s.LagRecords = new(l.lag())
	}
	if l.connected != nil && s.Open && l.connected() {
		s.Connections = 1
	}
	return s
}

// Partition sets the partition of the source, and functions that return how many of its records are not committed and
// whether its broker is connected. They must be safe for concurrent use, as in Locate.
func (l *Lane) Partition(topic, number string, lag func() int64, connected func() bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.state.Topic, l.state.Number, l.lag, l.connected = topic, number, lag, connected
}

// Close records that no more is read of a source. Of a file, only the sums remain.
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

// Remove records that a source is not read, because another run has taken it over or it cannot be opened. Only the sums
// of its counts remain.
func (l *Lane) Remove() {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.settle(l.state.Lines, false)
	p.lanes = slices.DeleteFunc(p.lanes, func(other *Lane) bool { return other == l })
}

// Settle records that all lines read are committed, or else that those that are not never will be. The source may be
// read again.
func (l *Lane) Settle(committed bool) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.settle(l.state.Lines, committed)
}

// Read counts lines. message is true if at least one of them was a message. at is the timestamp of the last of them, or
// zero.
func (l *Lane) Read(lines, bytes int64, message bool, at time.Time) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []*Counts{&l.state.Counts, &p.state.Counts} {
		c.Lines += lines
		c.Bytes += bytes
		if message {
			c.LastMessage = now()
		}
		if !at.IsZero() {
			c.FeedTime = Time{at}
		}
	}
}

// Committed records how many of the lines read since Open are committed.
func (l *Lane) Committed(lines int64) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.settle(l.base+lines, true)
}

// settle records that the lines up to a number are committed, or never will be. l.p must be locked.
func (l *Lane) settle(lines int64, committed bool) {
	n := max(0, lines-l.settled)
	l.settled += n
	l.p.settled += n
	if committed {
		l.state.Committed += n
		l.p.state.Committed += n
	}
}

// Reject counts a rejected line of the source.
func (l *Lane) Reject(r *fold.Reject) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	l.state.Rejected++
	p.state.Rejected++
	p.noteReject(&l.state, r)
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
		l.state.Connections = int64(n)
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
func (p *Progress) FetchFailed() { p.update(func(*Snapshot) { p.kafka.FetchErrors++ }) }

// Rebalanced counts a change of the partitions that the group has assigned.
func (p *Progress) Rebalanced() { p.update(func(*Snapshot) { p.kafka.Rebalances++ }) }

// Grouped sets whether the run is a member of its group, and how many partitions the group divides. A member without a
// partition is ready, because it is a standby.
func (p *Progress) Grouped(joined bool, partitions int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kafka.GroupPartitions, p.kafka.WaitingForGroup = int64(partitions), !joined
	switch {
	case joined:
		p.waiting, p.state.begun = Time{}, true
	case p.waiting.IsZero():
		p.waiting = now()
	}
}

// Fenced counts a flush that failed because other members of the group took over partitions.
func (p *Progress) Fenced() { p.update(func(*Snapshot) { p.kafka.Fenced++ }) }

// SenderFailed counts a sender that was disconnected because of an error.
func (p *Progress) SenderFailed() { p.update(func(s *Snapshot) { s.SenderErrors++ }) }

// Reconnected counts a connection to a feed after a lost one.
func (p *Progress) Reconnected() { p.update(func(s *Snapshot) { s.Reconnects++ }) }
