package status

import "time"

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

// A flush is stalled after slowFlush plus slowRow for each of its rows, so a large batch is not. The slowest measured
// flush, of a table of six times the memory (docs/dev/stories.md), took 0.12 ms a row.
const (
	slowFlush = 10 * time.Second
	slowRow   = 200 * time.Microsecond
)

const (
	slowJoin  = 10 * time.Second // from then on, joining the group counts as stalled; it may wait for a dead member
	longPause = time.Second      // a pause counts after it
)

const waitingForGroup = "waiting for the group"

// String returns the text and how long the stall has lasted, as log, status line and /readyz show it.
func (s Stall) String() string {
	if lasts := now().Sub(s.Since).Round(time.Second); lasts > 0 {
		return s.Text + ", for " + lasts.String()
	}
	return s.Text
}

// stalled has what stalls are computed from.
type stalled struct {
	trouble     Stall // database calls fail and are retried
	unreachable Stall // a query between flushes failed
	paused      Stall // reading pauses
}

// stalls returns why the run is stalled, in the order of Causes. p must be locked.
func (p *Progress) stalls(at Time) []Stall {
	all := []Stall{}
	database := p.trouble
	if database.Err == nil {
		database = p.unreachable
	}
	if database.Err != nil {
		all = append(all, database)
	}
	if !p.waiting.IsZero() && at.Sub(p.waiting) >= slowJoin {
		all = append(all, Stall{Cause: NoGroup, Text: waitingForGroup, Since: p.waiting})
	}
	if w := p.state.Writing; w != nil && database.Err == nil {
		if at.Sub(w.tried) >= slowFlush+time.Duration(w.Rows)*slowRow {
			all = append(all, Stall{Cause: SlowFlush, Text: "waiting for a flush to end (another session's lock, or a slow database)", Since: w.tried})
		}
	}
	if p.paused.Cause != "" && at.Sub(p.paused.Since) >= 0 {
		all = append(all, p.paused)
	}
	return all
}

var pauses = map[Cause]string{
	CaptureDiskFull: "the capture's disk is full: reading pauses until it has room",
	SpoolDiskFull:   "the spool's disk is full: reading pauses until it has room",
	SpoolFull:       "the spool is full: reading pauses until the database has taken some of it",
}

// Pause sets why reading pauses: [CaptureDiskFull], [SpoolDiskFull] or [SpoolFull]. "" resumes it. A pause that
// continues keeps its start.
func (p *Progress) Pause(why Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if why != p.paused.Cause {
		p.paused = Stall{Cause: why, Text: pauses[why], Since: Time{now().Add(longPause)}}
	}
}
