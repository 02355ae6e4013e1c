package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/weirsync/weir/internal/status"
)

// logStalls logs when a run stalls and when it continues, until ctx ends.
func logStalls(ctx context.Context, p *status.Progress, log *slog.Logger, outage *outageLog) {
	logged, searched := map[status.Cause]status.Stall{}, time.Time{}
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		outage.note()
		s, now := p.Snapshot(), map[status.Cause]bool{}
		if what := s.Writing.Search(); what != "" && time.Since(searched) >= logEvery {
			searched = time.Now()
			log.Info(what, "messages", s.Writing.Searching.Messages, "written", s.Writing.Searching.Written, "rejected", s.Writing.Searching.Rejected)
		}
		for _, st := range s.Stalls() {
			now[st.Cause] = true
			if _, again := logged[st.Cause]; again || st.Cause == status.DatabaseUnavailable {
				continue
			}
			logged[st.Cause] = st
			log.Warn(st.String(), plainField, st.Text, "reason", string(st.Cause), "seconds", int64(time.Since(st.Since).Seconds()))
		}
		for cause, st := range logged {
			if !now[cause] {
				delete(logged, cause)
				log.Info("stall ended: "+st.String(), plainField, "stall ended: "+st.Text, "reason", string(cause), "seconds", int64(time.Since(st.Since).Seconds()))
			}
		}
	}
}

// logStop logs what a stopping run is waiting for, until it has ended.
func logStop(ctx context.Context, ended <-chan struct{}, p *status.Progress, log *slog.Logger) {
	select {
	case <-ctx.Done():
	case <-ended:
		return
	}
	var said time.Time
	t := time.NewTicker(status.LongFlush)
	defer t.Stop()
	for {
		s := p.Snapshot()
		failure := s.Unavailable().Err
		if what := writing(&s); what != "" && (failure == nil || !failure.Unavailable()) && time.Since(said) >= logEvery {
			said = time.Now()
			log.Info("stopping when this is done: "+what+"; a second signal ends the run at once",
				plainField, "stopping when the flush is done; a second signal ends the run at once", "flush_rows", s.Writing.Rows, "flush_sent_rows", s.Writing.Sent)
		}
		select {
		case <-t.C:
		case <-ended:
			return
		}
	}
}
