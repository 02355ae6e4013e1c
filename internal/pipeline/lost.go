package pipeline

import (
	"errors"

	"github.com/weirsync/weir/internal/sink"
)

// rememberedFlushes is how many flushes are remembered at least. If the database is restored to before them, lost lines
// cannot be named.
const rememberedFlushes = 1000

// A flushLog remembers the last flushes if there are lanes that cannot be read again. After the database is restored to
// an earlier state, it tells which lines are lost. The flusher owns it.
type flushLog struct {
	flushes      int64   // number of committed flushes
	unrepeatable []*lane // lanes that cannot be read again
}

// laneFlush is a flush that wrote a lane.
type laneFlush struct {
	number int64 // of the flush, from 1
	read   int64 // lines of the lane that this attempt had read by then
}

// note records that the last committed flush wrote a lane up to l.flushed.
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

// noteLost finds out which lines a restore of the database has lost: the lines of every flush after the last one that
// the database still has of the lane in the error.
func (f *flushLog) noteLost(s *set, err error) {
	var behind sink.BehindError // otherwise no committed line is lost
	if !errors.As(err, &behind) {
		return
	}
	found := int64(0) // number of that flush; 0 if it is not remembered
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
