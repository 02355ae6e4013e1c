package progress

import (
	"strings"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// A Cause says why a run is stalled. It is one of Causes, so a metric may have it as a label.
type Cause string

// Why a run is stalled.
const (
	DatabaseUnavailable Cause = "database"          // calls fail, and are retried
	NoGroup             Cause = "group"             // the run waits to be a member of its consumer group
	SlowFlush           Cause = "flush"             // one runs for longer than its rows explain: a lock, or a slow database
	SpoolFull           Cause = "spool_full"        // up to its limit
	SpoolDiskFull       Cause = "spool_disk_full"   // there is no room on the spool's disk
	CaptureDiskFull     Cause = "capture_disk_full" // there is no room on the capture's disk
)

// Causes are all causes, the one to show first before the others: a spool fills because of what comes
// before it.
var Causes = []Cause{DatabaseUnavailable, NoGroup, SlowFlush, CaptureDiskFull, SpoolDiskFull, SpoolFull}

// LongFlush is after how long people are told how far a flush is.
const LongFlush = time.Second

// A flush counts as stalled after slowFlush and slowRow for each of its rows: a large batch is no stall. The
// slowest that was measured, a table of six times the memory (docs/dev/stories.md), took 0.12 ms a row.
const (
	slowFlush = 10 * time.Second
	slowRow   = 200 * time.Microsecond
)

// slowJoin is after how long waiting for the group counts as stalled: a group may wait for a member that is dead.
const slowJoin = 10 * time.Second

const waitingForGroup = "waiting for the group"

// A Stall is a reason for which lines are not read or not written, and since when.
type Stall struct {
	Cause Cause
	Text  string // for people, without the time
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

// stalls are what may stall a run.
type stalls struct {
	step        time.Time // when the reader last did anything, if only to find nothing to do; zero: it has ended
	trouble     Stall     // calls of the database fail, and are retried
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

// Stalls returns why the run is stalled now, in the order of Causes.
func (s *Snapshot) Stalls() (all []Stall) {
	slow := Stall{Cause: SlowFlush, Text: "waiting for a flush to end (another session's lock, or a slow database)", Since: s.Writing.Began}
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

// Pause notes why reading pauses: [CaptureDiskFull], [SpoolDiskFull] or [SpoolFull]; "" says that it does not.
func (p *Progress) Pause(why Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.paused = Stall{Cause: why, Text: pauses[why], Since: time.Now()}
}
