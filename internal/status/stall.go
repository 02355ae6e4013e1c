package status

import (
	"strings"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// A Cause is why a run is stalled. Metrics use it as a label, so it must be one of Causes.
type Cause string

// The causes.
const (
	DatabaseUnavailable Cause = "database"          // calls fail and are retried
	NoGroup             Cause = "group"             // the run is waiting to join its consumer group
	SlowFlush           Cause = "flush"             // a flush takes longer than its rows explain: a lock, or a slow database
	SpoolFull           Cause = "spool_full"        // the limit is reached
	SpoolDiskFull       Cause = "spool_disk_full"   // no space on the spool's disk
	CaptureDiskFull     Cause = "capture_disk_full" // no space on the capture's disk
)

// Causes are all causes, in the order in which they are shown: a spool fills up because of an earlier one.
var Causes = []Cause{DatabaseUnavailable, NoGroup, SlowFlush, CaptureDiskFull, SpoolDiskFull, SpoolFull}

// LongFlush is the duration from which the progress of a flush is shown.
const LongFlush = time.Second

// A flush is stalled after slowFlush plus slowRow for each of its rows, so a large batch is not. The slowest measured
// flush, of a table of six times the memory (docs/dev/stories.md), took 0.12 ms a row.
const (
	slowFlush = 10 * time.Second
	slowRow   = 200 * time.Microsecond
)

// slowJoin is the time from which joining the group counts as stalled. A group may wait for a dead member.
const slowJoin = 10 * time.Second

const waitingForGroup = "waiting for the group"

// A Stall is why lines are not read or not written, and since when.
type Stall struct {
	Cause Cause
	Text  string // in words, without the time
	Since time.Time
	Err   *sink.Error // the last failure, if the cause is DatabaseUnavailable
}

// String returns the text and how long the stall has lasted, as log, status line and /readyz show it.
func (s Stall) String() string {
	if lasts := time.Since(s.Since).Round(time.Second); lasts > 0 {
		return s.Text + ", for " + lasts.String()
	}
	return s.Text
}

// stalls has the state from which stalls are computed.
type stalls struct {
	step        time.Time // when the reader last did anything, even if it found nothing to do; zero: it has ended
	trouble     Stall     // database calls fail and are retried
	unreachable Stall     // a query between flushes failed
	paused      Stall     // reading pauses
}

// failed sets the stall's reason. A stall that has begun keeps its start.
func (s *Stall) failed(e *sink.Error) {
	if s.Err == nil {
		s.Since = time.Now()
	}
	s.Cause, s.Text, s.Err = DatabaseUnavailable, "waiting for the database ("+strings.ReplaceAll(e.Reason, "_", " ")+")", e
}

// Stalls returns why the run is stalled, in the order of Causes.
func (s *Snapshot) Stalls() (all []Stall) {
	slow := Stall{Cause: SlowFlush, Text: "waiting for a flush to end (another session's lock, or a slow database)", Since: s.Writing.Began}
	if s.Writing.Search() != "" { // which takes its time, and makes progress
		slow.Since = s.Writing.tried
	}
	database := s.Unavailable()
	if database.Err != nil || slow.Since.IsZero() || time.Since(slow.Since) < slowFlush+time.Duration(s.Writing.Rows)*slowRow {
		slow = Stall{}
	}
	group := Stall{Cause: NoGroup, Text: waitingForGroup, Since: s.Group.Waiting}
	if group.Since.IsZero() || time.Since(group.Since) < slowJoin {
		group = Stall{}
	}
	for _, stall := range []Stall{database, group, slow, s.paused} {
		if stall.Text != "" {
			all = append(all, stall)
		}
	}
	return all
}

// Unavailable returns the stall with the cause [DatabaseUnavailable], or the zero Stall.
func (s *stalls) Unavailable() Stall {
	if s.trouble.Err != nil {
		return s.trouble
	}
	return s.unreachable
}

var pauses = map[Cause]string{
	CaptureDiskFull: "the capture's disk is full: reading pauses until it has room",
	SpoolDiskFull:   "the spool's disk is full: reading pauses until it has room",
	SpoolFull:       "the spool is full: reading pauses until the database has taken some of it",
}

// Pause sets why reading pauses: [CaptureDiskFull], [SpoolDiskFull] or [SpoolFull]. "" resumes it.
func (p *Progress) Pause(why Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.paused = Stall{Cause: why, Text: pauses[why], Since: time.Now()}
}
