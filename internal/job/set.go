package job

import (
	"bytes"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// A set is what one flush writes. It goes from the reader to the flusher and back.
type set struct {
	*fold.Set
	first   time.Time     // when the first line came in
	period  time.Duration // how long it waits at most: the shortest of its lanes; 0 is no limit
	prompt  bool          // it is written after that time although there is more to read; see lane.prompt
	lanes   []setLane
	ended   []*lane // their claims are released when the set is committed
	rebuild bool    // the tables are emptied first
	// resumes are values from which the source resumes once the set is committed, as JSON, in order.
	resumes     [][]byte
	resumeBytes int
}

// setLane is a lane of a set, and how far the lane is read when the set is committed.
type setLane struct {
	lane     *lane
	cp       sink.Checkpoint // without the database's rejects
	pos      position        // that cp was made from
	replaces bool            // the rejects that are kept of the source are replaced
	// tentative: the position is written only if a message was accepted, so that a run with other settings can start
	// over.
	tentative bool
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
	clear(s.resumes)
	*s = set{Set: s.Set, lanes: s.lanes[:0], ended: s.ended[:0], resumes: s.resumes[:0]}
}

// resume adds a value from which the source resumes after the last line that was folded.
func (s *set) resume(value []byte) {
	s.resumes = append(s.resumes, bytes.Clone(value))
	s.resumeBytes += len(value) + resumeOverhead
}

// resumeOverhead is about what a value takes beside its bytes.
const resumeOverhead = 64

// isEmpty reports whether there is nothing to write: no run resumes a lane that is unnamed, unless its lines are
// removed where they were kept.
func (s *set) isEmpty() bool {
	for i := range s.lanes {
		if l := s.lanes[i].lane; !l.unnamed || l.resends() != nil {
			return false
		}
	}
	return s.Rows() == 0 && len(s.Rejects) == 0 && !s.Truncates()
}
