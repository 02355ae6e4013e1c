package job

import (
	"errors"

	"github.com/weirsync/weir/internal/sink"
)

// rememberedFlushes is how far a database can be restored, at least, for the lines that
// are lost to be named.
const rememberedFlushes = 1000

// A flushLog has the last flushes, while there are lanes that cannot be read again: of a database that is restored to an
// earlier state, it tells which of their lines are lost. It is the flusher's.
type flushLog struct {
	flushes      int64   // that were committed
	unrepeatable []*lane // that cannot be read again
}

// laneFlush is a flush that had a lane.
type laneFlush struct {
	number int64 // among all flushes, from 1
	read   int64 // lines of the lane that this attempt had read by then
}

// note notes that the flush which was committed last had a lane, of which l.flushed tells how far it was read.
func (f *flushLog) note(l *lane) {
	of := &l.flushed
	if l.rereadable() != byThisRun && of.last == nil {
		f.unrepeatable = append(f.unrepeatable, l)
	}
	if len(f.unrepeatable) == 0 {
		return
	}
	if of.last = append(of.last, laneFlush{f.flushes, of.pos.read}); len(of.last) == 2*rememberedFlushes {
		of.last = append(of.last[:0], of.last[rememberedFlushes:]...)
	}
}

// noteLost works out which lines a restore of the database has lost: the lines of every flush after the last one that the
// database still has of the lane in the error.
func (f *flushLog) noteLost(s *set, err error) {
	var behind sink.BehindError // else nothing that was committed is lost
	if !errors.As(err, &behind) {
		return
	}
	found := int64(0) // the number of that flush; 0 where it is not remembered
	for i := range s.lanes {
		last := s.lanes[i].lane.flushed.last
		if n := len(last) - int(behind.Want-behind.Found); s.lanes[i].lane.name == behind.Lane && n > 0 {
			found = last[n-1].number
		}
	}
	for _, l := range f.unrepeatable {
		l.flushed.safe = 0
		for _, at := range l.flushed.last {
			if at.number <= found {
				l.flushed.safe = at.read
			}
		}
	}
}
