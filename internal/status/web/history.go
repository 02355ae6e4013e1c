package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/status"
)

// history keeps the data of the charts: one moment per second at first, later one every 8 seconds for an hour.
type history struct {
	mu      sync.Mutex
	step    time.Duration
	moments []moment // oldest first
}

// A moment is the state of a run at one time.
type moment struct {
	at      time.Time
	rows    int64   // since the start of the run
	lag     float64 // in seconds, or in Kafka records; 0 if unknown
	pending int64
}

const (
	maxMoments = 450
	firstStep  = time.Second
	lastStep   = 8 * time.Second
)

// momentOf returns the current state of a run.
func momentOf(s *status.Snapshot, now time.Time) moment {
	m := moment{at: now, pending: s.Pending}
	for i := range s.Tables {
		m.rows += s.Tables[i].Total()
	}
	if !s.FeedTime.IsZero() {
		m.lag = status.Lag(s.FeedTime).Seconds()
	}
	if records, ok := s.LagRecords(); ok {
		m.lag = float64(records)
	}
	return m
}

// Sample adds the current moment to the charts if one is due.
func (s *Site) Sample() {
	h, now := &s.history, time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.step == 0 {
		h.step = firstStep
	}
	if n := len(h.moments); n > 0 && now.Sub(h.moments[n-1].at) < h.step {
		return
	}
	did := s.Progress.Snapshot()
	h.moments = append(h.moments, momentOf(&did, now))
	s.rates.since(sampleOf(&did, now), did.Start) // for the first visit of the page
	switch {
	case len(h.moments) <= maxMoments:
	case h.step < lastStep: // keep every second moment
		h.step *= 2
		kept := h.moments[:0]
		for i := 0; i < len(h.moments); i += 2 {
			kept = append(kept, h.moments[i])
		}
		h.moments = kept
	default:
		h.moments = h.moments[1:]
	}
}

// sampleUntil samples until ctx ends.
func (s *Site) sampleUntil(ctx context.Context) {
	for tick := time.NewTicker(firstStep); ; {
		s.Sample()
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// upTo returns the moments up to now, from the start of the run or an hour ago.
func (h *history) upTo(now moment, start time.Time) []moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Clone(h.moments)
	if len(all) == 0 {
		all = append(all, moment{at: start})
	}
	for len(all) > 1 && now.at.Sub(all[len(all)-1].at) < firstStep {
		all = all[:len(all)-1] // a rate over a shorter time is noise
	}
	return append(all, now)
}
