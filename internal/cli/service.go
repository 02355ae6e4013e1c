package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/service"
	"github.com/weirsync/weir/internal/status"
)

// reportEvery is the longest time between two reports to the service manager.
const reportEvery = 5 * time.Second

// A reporter reports the state of a run to the service manager. It is nil if there is none.
type reporter struct {
	tell     func(state string) error
	watchdog time.Duration
	reported status.Time
	ready    sync.Once
}

// report connects to the service manager, if there is one, and reports the end of ctx until stop is called.
func (r *syncRun) report(ctx context.Context) (_ *reporter, stop func()) {
	m, err := service.Connect(r.lookupEnv)
	if err != nil {
		r.log.Warn(err.Error())
	}
	if m == nil {
		return nil, func() {}
	}
	forget := context.AfterFunc(ctx, func() { _ = m.Tell("STOPPING=1") }) // a failed report does not end the run
	return &reporter{tell: m.Tell, watchdog: m.Watchdog}, func() {
		if forget() {
			_ = m.Tell("STOPPING=1")
		}
		_ = m.Close()
	}
}

// started reports that the service has started: the settings are valid, or the run is waiting for the database to check
// them.
func (r *reporter) started() {
	if r != nil {
		r.ready.Do(func() { _ = r.tell("READY=1") })
	}
}

// watch reports a snapshot if it is due.
func (r *reporter) watch(s *status.Snapshot) {
	if r == nil {
		return
	}
	every := reportEvery
	if r.watchdog > 0 {
		every = min(every, r.watchdog/4)
	}
	if s.Time.Sub(r.reported) > every-status.Tick/2 {
		r.reported = s.Time
		_ = r.tell(r.state(s))
	}
}

// state reports what the run does and, if it waits or makes progress, that it is alive. A flush without progress counts
// as alive for half of the watchdog's time.
func (r *reporter) state(s *status.Snapshot) string {
	what, unmoved := s.Unmoved()
	if r.watchdog > 0 && unmoved >= r.watchdog/2 {
		return fmt.Sprintf("STATUS=%s has not moved for %v", what, unmoved.Round(time.Second))
	}
	text := s.NotReady
	if text == "" {
		text = quantity.Count(s.Lines, "line")
		if s.Rejected > 0 {
			text += ", " + quantity.Grouped(s.Rejected) + " rejected"
		}
		if what := partitions(s); what != "" {
			text += ", " + what
		}
		if !s.LastCommit.IsZero() {
			text += ", last commit " + s.LastCommit.Local().Format(time.TimeOnly)
		}
	}
	if r.watchdog > 0 {
		return "STATUS=" + text + "\nWATCHDOG=1"
	}
	return "STATUS=" + text
}
