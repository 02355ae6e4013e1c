package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

// A housekeeper executes the user's SQL ([Config.Every]) between flushes, in all attempts of a run. A statement that
// fails is logged and counted, and tried again after its period: it never ends the run. The flusher owns it.
type housekeeper struct {
	ctx   context.Context // ends with the signal that stops the run
	db    sink.Housekeeper
	tasks []task
	tick  <-chan time.Time // when to look for tasks that are due; nil: there are none
	// leads reports whether this run is the member of its consumer group that executes the tasks; nil: it is in no
	// group.
	leads func() bool
	p     *status.Progress
	log   *slog.Logger
}

type task struct {
	mapping.PeriodicSQL
	due time.Time
}

// housekeeperTick is how often tasks are looked at. One that is due sooner than in half of it is executed.
const housekeeperTick = time.Second

// newHousekeeper returns the housekeeper of a run that begins now.
func newHousekeeper(ctx context.Context, c *Config, db sink.Sink, p *status.Progress) (*housekeeper, error) {
	h := &housekeeper{ctx: ctx, p: p, log: c.Log}
	if len(c.Every) == 0 {
		return h, nil
	}
	var err error
	if h.db, err = sink.As[sink.Housekeeper](db, "execute SQL of yours"); err != nil {
		return nil, fmt.Errorf("every: %w", err)
	}
	for _, e := range c.Every {
		h.tasks = append(h.tasks, task{e, time.Now().Add(e.Period)})
	}
	h.tick = time.Tick(housekeeperTick)
	return h, nil
}

func (h *housekeeper) run() {
	for i := range h.tasks {
		if t := &h.tasks[i]; time.Until(t.due) < housekeeperTick/2 {
			h.execute(t)
			t.due = time.Now().Add(t.Period)
		}
	}
}

// finish executes all tasks at the end of a run that has read its sources to their ends.
func (h *housekeeper) finish() {
	for i := range h.tasks {
		h.execute(&h.tasks[i])
	}
}

// execute executes the statements of a task, until the run is stopped. A stop cancels the current one.
func (h *housekeeper) execute(t *task) {
	if h.leads != nil && !h.leads() {
		return
	}
	for _, s := range t.Statements {
		if h.ctx.Err() != nil {
			return
		}
		began := time.Now()
		err := h.db.Execute(h.ctx, s.SQL)
		if err != nil && h.ctx.Err() != nil {
			return
		}
		h.p.Executed(err == nil)
		if took := time.Since(began).Round(time.Millisecond); err == nil {
			h.log.Debug(fmt.Sprintf("every %v: %s (%v)", t.Period, s.SQL, took))
		} else {
			h.log.Warn(fmt.Sprintf("every %v: %s: %v; it is tried again after that time", t.Period, s.SQL, err))
		}
	}
}
