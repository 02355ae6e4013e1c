package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/status"
)

// A runLog logs why a run stalls, what a stopping run waits for, and what is not stored. Each is logged when it comes
// up, and at most once a minute or, of a flush, every ten seconds.
type runLog struct {
	log      *slog.Logger
	plan     *settings.Plan
	stopping context.Context // ends with the signal that stops the run
	mu       sync.Mutex
	last     map[string]time.Time          // when each was logged
	stalled  map[status.Cause]status.Stall // that were logged
	named    map[status.NoteKind]int       // names that were logged
}

func newRunLog(ctx context.Context, log *slog.Logger, plan *settings.Plan) *runLog {
	return &runLog{log: log, plan: plan, stopping: ctx, last: map[string]time.Time{}, stalled: map[status.Cause]status.Stall{}, named: map[status.NoteKind]int{}}
}

// shortWait is how long a wait for another session must last to be logged.
const shortWait = 10 * time.Second

func (l *runLog) stalls(s *status.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := map[status.Cause]bool{}
	for _, st := range s.Stalled {
		now[st.Cause] = true
		text := st.String()
		if st.Err != nil {
			text += ": " + st.Err.Error()
		}
		if brief := st.Err != nil && !st.Err.Unavailable() && s.Time.Sub(st.Since) < shortWait; !brief && l.isDue(string(st.Cause), logLater) {
			l.stalled[st.Cause] = st
			l.log.Warn(text, stallFields(&st)...)
		}
	}
	for cause, st := range l.stalled {
		if !now[cause] {
			delete(l.stalled, cause)
			l.log.Info("stall ended: "+st.String(), stallFields(&st)...)
		}
	}
}

func (l *runLog) watch(s *status.Snapshot) {
	l.stalls(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Writing != nil && s.Writing.Search != "" && l.isDue("search", logEvery) {
		l.log.Info(s.Writing.Search)
	}
	failure := s.Unavailable().Err
	if what := writing(s); what != "" && l.stopping.Err() != nil && (failure == nil || !failure.Unavailable()) && l.isDue("stop", logEvery) {
		l.log.Info("stopping when this is done: "+what+"; a second signal ends the run at once", "flush_rows", s.Writing.Rows, "flush_sent_rows", s.Writing.Sent)
	}
	for _, n := range s.NoteTexts() {
		if len(n.Counts) > l.named[n.Kind] && l.isDue(string(n.Kind), logLater) {
			l.named[n.Kind] = len(n.Counts)
			text, warn := noteText(&n, l.plan)
			logNote(l.log, text, warn)
		}
	}
}

// isDue reports whether something was last logged long enough ago, and records that it is logged now.
func (l *runLog) isDue(what string, every time.Duration) bool {
	if last, ok := l.last[what]; ok && time.Since(last) < every-status.Tick/2 {
		return false
	}
	l.last[what] = time.Now()
	return true
}

func stallFields(st *status.Stall) []any {
	return []any{"reason", string(st.Cause), "seconds", int64(time.Since(st.Since.Time).Seconds())}
}
