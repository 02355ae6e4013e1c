package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/service"
)

// reportEvery is how often a service manager is told how a run is, at least.
const reportEvery = 5 * time.Second

// A reporter tells the service manager how a run is. nil is for one that nobody manages.
type reporter struct {
	tell     func(state string) error
	watchdog time.Duration
	p        *progress.Progress
	ready    sync.Once
}

// report reports to the manager of the service, if there is one, until stop.
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

// started says that the service has started: its settings are good, as far as the database was
// needed to tell, or the database is waited for.
func (r *reporter) started() {
	if r != nil {
		r.ready.Do(func() { _ = r.tell("READY=1") })
	}
}

// run reports until ctx ends. stopping is closed when the run is to end.
func (r *reporter) run(ctx context.Context, stopping <-chan struct{}) {
	every := reportEvery
	if r.watchdog > 0 {
		every = min(every, r.watchdog/4)
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		_ = r.tell(r.state()) // a manager that does not listen is no reason to end
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

// state says what the run does, and that it is alive: it waits, or it moves. A flush may take half of
// the watchdog's time before that is left out.
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
