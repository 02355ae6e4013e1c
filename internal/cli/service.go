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
	p        *status.Progress
	ready    sync.Once
}

// report reports to the service manager, if there is one, until stop is called.
func (r *syncRun) report(ctx context.Context) (_ *reporter, stop func()) {
	m, err := service.Connect(r.lookupEnv)
	if err != nil {
		r.log.Warn(err.Error())
	}
	if m == nil {
		return nil, func() {}
	}
	rep := &reporter{tell: m.Tell, watchdog: m.Watchdog, p: r.p}
	reporting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		rep.run(reporting, ctx.Done())
	}()
	return rep, func() {
		cancel()
		<-done
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

// run reports until ctx ends. stopping is closed when the run must stop.
func (r *reporter) run(ctx context.Context, stopping <-chan struct{}) {
	every := reportEvery
	if r.watchdog > 0 {
		every = min(every, r.watchdog/4)
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		_ = r.tell(r.state()) // a failed report does not end the run
		select {
		case <-t.C:
		case <-stopping:
			stopping = nil
			_ = r.tell("STOPPING=1")
		case <-ctx.Done():
			if stopping != nil {
				_ = r.tell("STOPPING=1")
			}
			return
		}
	}
}

// state reports what the run does and, if it waits or makes progress, that it is alive. A flush without progress counts
// as alive for half of the watchdog's time.
func (r *reporter) state() string {
	s := r.p.Snapshot()
	what, unmoved := s.Unmoved(time.Now())
	if r.watchdog > 0 && unmoved >= r.watchdog/2 {
		return fmt.Sprintf("STATUS=%s has not moved for %v", what, unmoved.Round(time.Second))
	}
	status := s.NotReady()
	if status == "" {
		status = quantity.Count(s.Lines, "line")
		if s.Rejected > 0 {
			status += ", " + quantity.Grouped(s.Rejected) + " rejected"
		}
		if what := partitions(&s); what != "" {
			status += ", " + what
		}
		if !s.LastCommit.IsZero() {
			status += ", last commit " + s.LastCommit.Format(time.TimeOnly)
		}
	}
	if r.watchdog > 0 {
		return "STATUS=" + status + "\nWATCHDOG=1"
	}
	return "STATUS=" + status
}
