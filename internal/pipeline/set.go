package pipeline

import (
	"bytes"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// A set is what one flush writes. It is passed from the reader to the flusher and back.
type set struct {
	*fold.Set
	due     due
	lanes   []setLane
	ended   []*lane // claims to release when the set is committed
	rebuild bool    // the tables are emptied first
	filled  bool    // its memory was full
	// resumes are the values from which an envelope says that its source can be resumed, as JSON, in order. They are
	// printed once the set is committed. The values of --resume-field are in the marks of lanes.
	resumes     [][]byte
	resumeBytes int
}

// due tells when a set must be written although it is not full.
type due struct {
	first  time.Time     // when its first line arrived
	period time.Duration // longest that this waits: the shortest period of the lanes; 0: no limit
	urgent bool          // it is written after period even if there is more to read; see lane.urgent
}

// in returns how long the set may still wait. behind reports that there is more to read.
func (d *due) in(behind bool) time.Duration {
	period := d.period
	if behind && !d.urgent {
		period = max(period, catchUpPeriod)
	}
	return time.Until(d.first.Add(period))
}

// setLane is a lane of a set, and how far it is read when the set is committed.
type setLane struct {
	lane *lane
	cp   sink.Checkpoint // without the lines that the database rejects
	pos  position        // that cp was made from
	tally
}

// tally counts the lines of a lane by result.
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

// resume adds a value from which the source resumes after the last folded line.
func (s *set) resume(value []byte) {
	s.resumes = append(s.resumes, bytes.Clone(value))
	s.resumeBytes += len(value) + resumeOverhead
}

// resumeOverhead is about what a value takes in addition to its bytes.
const resumeOverhead = 64

// isEmpty reports whether there is nothing to write. A lane that is unnamed has no checkpoint to write.
func (s *set) isEmpty() bool {
	for i := range s.lanes {
		if !s.lanes[i].lane.unnamed {
			return false
		}
	}
	return s.Rows() == 0 && len(s.Rejects) == 0 && !s.Truncates()
}
