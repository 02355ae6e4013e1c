package pipeline

import (
	"context"
	"time"
)

// A setBuilder owns the set that the reader fills, and exchanges it with the flusher for an empty one.
type setBuilder struct {
	*run
	set      *set
	full     chan<- *set
	free     chan *set
	tables   *tables
	settings *settings
	open     map[*lane]bool // being read
	rebuild  rebuild
}

// rebuild tells whether the tables are to be emptied.
type rebuild int

const (
	noRebuild   rebuild = iota
	rebuildDue          // the next set empties them
	rebuildDone         // a set that empties them was handed over
)

// rejectShare is the share of its memory that a set may fill with rejected lines: 1/rejectShare. A driver copies them
// to write them.
const rejectShare = 4

func (b *setBuilder) mostBytes() int64 { return b.cfg.Buffer / 2 }

// isFull reports whether the current set has no room left. A set may exceed its limits by one line.
func (b *setBuilder) isFull() bool {
	s, rows, bytes := b.set, b.cfg.BatchRows, b.mostBytes()
	return rows > 0 && s.Rows() >= rows || int64(s.Bytes()) >= bytes || int64(s.RejectBytes()+s.resumeBytes) >= bytes/rejectShare
}

// hasRoomFor reports whether the current set has a lane or can add it.
func (b *setBuilder) hasRoomFor(l *lane) bool {
	return l.reading.inSet > 0 || b.dryRun || len(b.set.lanes) < maxLanes && len(b.set.ended) < maxLanes
}

// eagerRows is how many rows a set has at least when it is written before it is full. At most one of manyPerRepeat
// messages may have a key that another message had.
const eagerRows, manyPerRepeat = 100_000, 64

// isEager reports whether to write the current set before it is full: nearly all of its messages made rows of their
// own, so a larger set would not save writes, and the flusher is idle. Otherwise a load of new rows would fold and
// write in turns, which takes 1.2 times as long.
func (b *setBuilder) isEager() bool {
	if len(b.free) == 0 || b.dryRun {
		return false
	}
	rows := b.set.Rows()
	return rows >= eagerRows && (b.set.Messages()-int64(rows))*manyPerRepeat < int64(rows)
}

// startPeriod notes that a line of a lane waits to be written.
func (b *setBuilder) startPeriod(l *lane) {
	d := &b.set.due
	if d.first.IsZero() {
		d.first = time.Now()
	}
	if l.period > 0 && (d.period == 0 || l.period < d.period) {
		d.period = l.period
	}
	d.urgent = d.urgent || l.urgent
}

// laneIndex returns the index that a lane has, or would get, in the current set.
func (b *setBuilder) laneIndex(l *lane) int {
	if l.reading.inSet == 0 {
		return len(b.set.lanes)
	}
	return l.reading.inSet - 1
}

// addLane adds a lane to the current set, so its checkpoint is written.
func (b *setBuilder) addLane(l *lane) {
	if l.reading.inSet == 0 {
		b.set.lanes = append(b.set.lanes, setLane{lane: l})
		l.reading.inSet = len(b.set.lanes)
	}
}

// handOver completes the set, gives it to the flusher, and waits for an empty one. It does nothing if there is nothing
// to write.
func (b *setBuilder) handOver(flushing context.Context) error {
	s := b.set
	s.rebuild = b.rebuild == rebuildDue && len(s.lanes) > 0
	if s.isEmpty() && len(s.resumes) == 0 && len(s.ended) == 0 && !s.rebuild {
		s.due = due{}
		return nil
	}
	s.filled = int64(s.Bytes()) >= b.mostBytes()
	if err := b.addCheckpoints(s); err != nil {
		return err
	}
	if s.rebuild {
		b.rebuild = rebuildDone
	}
	now := time.Now()
	for _, batch := range s.Batches {
		batch.Time = now
	}
	b.tables.folders.Seal(s.Set)
	b.tables.noteUnmet()
	b.tables.noteIgnored()
	select {
	case b.full <- s:
	case <-flushing.Done():
		return flushing.Err()
	}
	select {
	case b.set = <-b.free:
		b.set.Grow(len(b.tables.folders))
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}

// addCheckpoints gives each lane of a set its checkpoint, with the next sequence number, and removes the lane from the
// current set.
func (b *setBuilder) addCheckpoints(s *set) error {
	settings, err := b.settings.text()
	if err != nil {
		return err
	}
	for i := range s.lanes {
		l := s.lanes[i].lane
		r := &l.reading
		cp, err := r.pos.checkpoint()
		if err != nil {
			return err
		}
		if r.seq == 0 {
			if b.rebuild == rebuildDone && l.cp.Run != b.id { // emptying the tables has removed its checkpoint
				l.cp.Seq = 0
			}
			r.seq = l.cp.Seq
		}
		r.seq++
		r.inSet = 0
		cp.Seq, cp.Settings = r.seq, settings
		s.lanes[i] = setLane{lane: l, cp: cp, pos: r.pos, tally: r.tally}
	}
	return nil
}

// commitAll writes the current set and waits until everything folded is committed and the claims of ended lanes are
// released.
func (b *setBuilder) commitAll(flushing context.Context) error {
	if err := b.handOver(flushing); err != nil {
		return err
	}
	select {
	case s := <-b.free: // no set is being written
		b.free <- s
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}
