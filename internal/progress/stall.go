package progress

import "time"

// A Cause says why a run is stalled. It is one of Causes, so a metric may have it as a label.
type Cause string

// Why a run is stalled.
const (
	DatabaseUnavailable Cause = "database"          // calls fail, and are retried
	SlowFlush           Cause = "flush"             // one runs for longer than its rows explain: a lock, or a slow database
	SpoolFull           Cause = "spool_full"        // up to its limit
	SpoolDiskFull       Cause = "spool_disk_full"   // there is no room on the spool's disk
	CaptureDiskFull     Cause = "capture_disk_full" // there is no room on the capture's disk
)

// Causes are all causes, the one to show first before the others: a spool fills because of what comes
// before it.
var Causes = []Cause{DatabaseUnavailable, SlowFlush, CaptureDiskFull, SpoolDiskFull, SpoolFull}

// LongFlush is after how long people are told how far a flush is.
const LongFlush = time.Second

// A flush counts as stalled after slowFlush and slowRow for each of its rows: a large batch is no fault. The
// slowest that was measured, a table of six times the memory (docs/dev/stories.md), took 0.12 ms a row.
const (
	slowFlush = 10 * time.Second
	slowRow   = 200 * time.Microsecond
)

// A Stall is a reason for which lines are not read or not written, and since when.
type Stall struct {
	Cause Cause
	Text  string // for people, without the time
	Since time.Time
}

// String is what all say of a stall: log, status line, page and /readyz.
func (s Stall) String() string {
	return s.Text + ", for " + time.Since(s.Since).Round(time.Second).String()
}

// Stalls returns why the run is stalled now, in the order of Causes.
func (s *Snapshot) Stalls() (all []Stall) {
	switch {
	case s.Trouble != "":
		all = append(all, Stall{DatabaseUnavailable, "waiting for the database (" + s.Trouble + ")", s.TroubleSince})
	case s.Unreachable != "":
		all = append(all, Stall{DatabaseUnavailable, "the database cannot be reached (" + s.Unreachable + ")", s.UnreachableSince})
	}
	if !s.FlushBegan.IsZero() && time.Since(s.FlushBegan) >= slowFlush+time.Duration(s.FlushRows)*slowRow {
		all = append(all, Stall{SlowFlush, "waiting for a flush to end (another session's lock, or a slow database)", s.FlushBegan})
	}
	switch s.Paused {
	case CaptureDiskFull:
		all = append(all, Stall{CaptureDiskFull, "the capture's disk is full: reading pauses until it has room", s.PausedSince})
	case SpoolDiskFull:
		all = append(all, Stall{SpoolDiskFull, "the spool's disk is full: reading pauses until it has room", s.PausedSince})
	case SpoolFull:
		all = append(all, Stall{SpoolFull, "the spool is full: reading pauses until the database has taken some of it", s.PausedSince})
	}
	return all
}

// Pause notes why reading pauses; "" says that it does not.
func (p *Progress) Pause(why Cause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Paused, p.state.PausedSince = why, time.Now()
}
