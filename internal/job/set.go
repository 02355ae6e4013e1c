package job

import (
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// A set is what one flush writes. It goes from the reader to the flusher and back.
type set struct {
	*fold.Set
	first   time.Time     // when the first line came in
	period  time.Duration // how long it waits at most: the shortest of its lanes; 0 is no limit
	lanes   []setLane
	ended   []*lane // their claims are released when the set is committed
	rebuild bool    // the tables are emptied first

	stopPrefetch func() // waits until nobody reads the rows
}

// setLane is a lane of a set, and how far the lane is read when the set is committed.
type setLane struct {
	lane      *lane
	cp        sink.Checkpoint // with all but what the database rejects
	pos       position        // the same
	restart   bool            // the rejects that are kept of the source are replaced
	tentative bool            // the position is kept only when a message was taken
	tally
}

// tally counts what became of the lines of a lane.
type tally struct {
	folded   int64 // in this run
	rejected int64
}

func newSet(tables int) *set { return &set{Set: fold.NewSet(tables)} }

func (s *set) reset() {
	s.Reset()
	clear(s.lanes)
	clear(s.ended)
	*s = set{Set: s.Set, lanes: s.lanes[:0], ended: s.ended[:0]}
}

// isEmpty reports whether there is nothing to write: no run resumes a lane that is unnamed.
func (s *set) isEmpty() bool {
	for i := range s.lanes {
		if !s.lanes[i].lane.unnamed {
			return false
		}
	}
	return s.Rows() == 0 && len(s.Rejects) == 0 && !s.Truncates()
}
