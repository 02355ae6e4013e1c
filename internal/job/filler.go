package job

import (
	"context"
	"math"
	"time"
)

// A filler has the set that the reader fills, and gives it to the flusher for an empty one.
type filler struct {
	set      *set
	full     chan<- *set
	free     chan *set
	limits   setLimits
	folding  *folding
	settings *keptSettings
	open     map[*lane]bool // lanes that are being read
	rebuild  rebuild
}

// rebuild is whether the tables are to be emptied.
type rebuild int

const (
	noRebuild   rebuild = iota
	rebuildDue          // by the next set
	rebuildDone         // a set was handed over that empties them
)

// setLimits are what a set has at most, except for one line more.
type setLimits struct {
	rows    int // 0 is no limit
	bytes   int64
	lanes   int
	eagerly bool // it may be written before it is full
}

func limitsOf(c *Config, looks bool) setLimits {
	l := setLimits{rows: c.BatchRows, bytes: c.Buffer / 2, lanes: maxLanes, eagerly: !looks}
	if looks {
		l.lanes = math.MaxInt
	}
	return l
}

// rejectShare is the part of its memory that a set fills with rejected lines. A driver
// holds them again while it writes them, and each is garbage when it is written.
const rejectShare = 4

// isFull reports whether the set at hand has no room left.
func (f *filler) isFull() bool {
	s, most := f.set, &f.limits
	return most.rows > 0 && s.Rows() >= most.rows || int64(s.Bytes()) >= most.bytes || int64(s.RejectBytes()+s.resumeBytes) >= most.bytes/rejectShare
}

// hasRoomFor reports whether the set at hand has a lane, or takes another one.
func (f *filler) hasRoomFor(l *lane) bool {
	return l.reading.inSet > 0 || len(f.set.lanes) < f.limits.lanes && len(f.set.ended) < f.limits.lanes
}

// eagerRows is how many rows are written at once, at least, if there is room for more; of manyPerRepeat messages
// not one has a key that another had before.
const eagerRows, manyPerRepeat = 100_000, 64

// isEager reports whether the set at hand may be written although there is room for more: nearly all of its messages
// became rows of their own, so a larger set would write as many, and the database has nothing to do. A load of
// rows that are all new would else fold and write in turns (1.2 of the time).
func (f *filler) isEager() bool {
	if len(f.free) == 0 || !f.limits.eagerly {
		return false
	}
	rows := f.set.Rows()
	return rows >= eagerRows && (f.set.Messages()-int64(rows))*manyPerRepeat < int64(rows)
}

// startPeriod notes when the first line of the set came in, and how long it waits.
func (f *filler) startPeriod(l *lane) {
	s := f.set
	if s.first.IsZero() {
		s.first = time.Now()
	}
	if l.period > 0 && (s.period == 0 || l.period < s.period) {
		s.period = l.period
	}
	s.prompt = s.prompt || l.prompt
}

// laneIndex returns the index of a lane in the set at hand, or the one that it would get.
func (f *filler) laneIndex(l *lane) int {
	if l.reading.inSet == 0 {
		return len(f.set.lanes)
	}
	return l.reading.inSet - 1
}

// addLane adds a lane to the set at hand, which writes its checkpoint.
func (f *filler) addLane(l *lane) {
	if l.reading.inSet == 0 {
		f.set.lanes = append(f.set.lanes, setLane{lane: l})
		l.reading.inSet = len(f.set.lanes)
	}
}

// handOver gives the set to the flusher, and takes an empty one. It does nothing
// where there is nothing to write.
func (f *filler) handOver(flushing context.Context) error {
	s := f.set
	s.rebuild = f.rebuild == rebuildDue && len(s.lanes) > 0
	if s.isEmpty() && len(s.resumes) == 0 && len(s.ended) == 0 && !s.rebuild {
		s.first, s.period, s.prompt = time.Time{}, 0, false
		return nil
	}
	for i := range s.lanes {
		l := &s.lanes[i]
		r := &l.lane.reading
		cp, err := r.pos.checkpoint()
		if err != nil {
			return err
		}
		r.seq++
		r.inSet = 0
		cp.Seq, cp.Settings = r.seq, f.settings.text
		*l = setLane{lane: l.lane, cp: cp, pos: r.pos, replaces: r.replaces, tentative: r.tentative, tally: r.tally}
		r.replaces = false
	}
	if s.rebuild { // which forgets the other lanes' checkpoints
		f.rebuild = rebuildDone
		for l := range f.open {
			if l.reading.seq == l.cp.Seq {
				l.reading.seq = 0
			}
		}
	}
	now := time.Now()
	for _, b := range s.Batches {
		b.Time = now
	}
	f.folding.folders.Seal(s.Set)
	f.folding.countUnmet()
	if fresh := f.folding.countIgnored(); s.period > 0 { // else the summary names them
		f.folding.warnIgnored(fresh)
	}
	select {
	case f.full <- s:
	case <-flushing.Done():
		return flushing.Err()
	}
	select {
	case f.set = <-f.free:
		f.set.Grow(len(f.folding.folders))
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}

// commitAll writes the set at hand, and waits until all that was folded is committed, and the claims of lanes that
// have ended are released.
func (f *filler) commitAll(flushing context.Context) error {
	if err := f.handOver(flushing); err != nil {
		return err
	}
	select {
	case s := <-f.free: // no set is on its way
		f.free <- s
		return nil
	case <-flushing.Done():
		return flushing.Err()
	}
}
