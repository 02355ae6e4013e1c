package status

import (
	"slices"
	"sync"
	"time"
)

const (
	// Tick is the time between two snapshots of Watch, which may be a little early.
	Tick = 500 * time.Millisecond
	// Rates cover ratesOver, if the run has lasted that long: they are differences to one of the samples, which are
	// sampleEvery apart.
	ratesOver   = 10 * time.Second
	sampleEvery = time.Second
	// The charts have moments from the start of the run, one a second at first. When there are maxMoments, every second
	// one is kept, until they are lastStep apart: an hour.
	maxMoments = 225
	lastStep   = 16 * time.Second
)

// Watch calls each function with a snapshot, now and every half second, until stop is called, which waits for the last
// call.
func (p *Progress) Watch(each ...func(*Snapshot)) (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		t := time.NewTicker(Tick)
		defer t.Stop()
		for {
			s := p.Snapshot()
			p.keep(&s)
			for _, f := range each {
				f(&s)
			}
			select {
			case <-t.C:
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		watching.Wait()
	})
}

// history is what rates and charts are computed from.
type history struct {
	samples []Snapshot    // of the last seconds, oldest first
	every   time.Duration // between two moments
	moments []Moment      // oldest first
}

// A Moment is a point of the charts.
type Moment struct {
	At      Time
	Written int64    // rows, since the start of the run
	Lag     *float64 // in seconds, or in Kafka's records; nil: unknown
	Pending int64
}

// keep adds a snapshot to the history if it is due.
func (p *Progress) keep(s *Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const due = Tick / 2
	if n := len(p.samples); n == 0 || s.Time.Sub(p.samples[n-1].Time) > sampleEvery-due {
		p.samples = append(p.samples, *s)
		p.samples = p.samples[max(0, len(p.samples)-int(ratesOver/sampleEvery)-1):]
	}
	p.every = max(p.every, sampleEvery)
	if n := len(p.moments); n > 0 && s.Time.Sub(p.moments[n-1].At) <= p.every-due {
		return
	}
	p.moments = append(p.moments, s.moment())
	switch {
	case len(p.moments) <= maxMoments:
	case p.every < lastStep:
		p.every *= 2
		kept := p.moments[:0]
		for i := 0; i < len(p.moments); i += 2 {
			kept = append(kept, p.moments[i])
		}
		p.moments = kept
	default:
		p.moments = p.moments[1:]
	}
}

func (s *Snapshot) moment() Moment {
	m := Moment{At: s.Time, Written: s.Written(), Lag: s.LagSeconds, Pending: s.Pending}
	switch {
	case s.Kafka != nil && s.Kafka.WaitingForGroup:
		m.Lag = nil
	case s.Kafka != nil:
		m.Lag = new(float64(s.Kafka.LagRecords))
	}
	return m
}

// History returns the moments up to a snapshot, from the start of the run or an hour ago.
func (p *Progress) History(s *Snapshot) []Moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.moments)
	if len(all) == 0 {
		all = append(all, Moment{At: s.Started})
	}
	for len(all) > 1 && s.Time.Sub(all[len(all)-1].At) < sampleEvery {
		all = all[:len(all)-1] // a rate over a shorter time is noise
	}
	return append(all, s.moment())
}

// rateBegin returns the snapshot at the beginning of the period that rates cover: of the start of the run if it has
// ended or there is no other. p must be locked.
func (p *Progress) rateBegin(at Time) Snapshot {
	begin := Snapshot{Time: p.state.Started}
	for _, s := range p.samples {
		if p.ended || at.Sub(s.Time) < sampleEvery {
			break
		}
		if begin = s; at.Sub(s.Time) <= ratesOver {
			break
		}
	}
	return begin
}

// rate computes the rates since an earlier snapshot, and lags.
func (s *Snapshot) rate(since *Snapshot) {
	s.RateSeconds = max(s.Time.Sub(since.Time).Seconds(), 1e-3)
	s.Counts.rate(since.Counts, s.RateSeconds, s.Time)
	lanes := map[string]Counts{}
	for i := range since.Lanes {
		lanes[since.Lanes[i].Source] = since.Lanes[i].Counts
	}
	for i := range s.Lanes {
		s.Lanes[i].rate(lanes[s.Lanes[i].Source], s.RateSeconds, s.Time)
	}
	for i := range s.Tables {
		t, before := &s.Tables[i], int64(0)
		if i < len(since.Tables) { // otherwise it was added later
			before = since.Tables[i].Written()
		}
		t.RowsPerSecond = perSecond(t.Written()-before, s.RateSeconds)
		s.RowsPerSecond += t.RowsPerSecond
	}
}

func (c *Counts) rate(since Counts, seconds float64, at Time) {
	c.LinesPerSecond, c.BytesPerSecond = perSecond(c.Lines-since.Lines, seconds), perSecond(c.Bytes-since.Bytes, seconds)
	if !c.FeedTime.IsZero() {
		c.LagSeconds = new(max(0, at.Sub(c.FeedTime).Seconds())) // a feed's clock may be ahead
	}
}

// perSecond returns a rate. n may be negative if a source is read again.
func perSecond(n int64, seconds float64) float64 { return float64(max(0, n)) / seconds }
