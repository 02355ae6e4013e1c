package progress

import "time"

// Flushing notes that a flush of some rows is under way, until [Progress.FlushEnded].
func (p *Progress) Flushing(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.state.Flushing, p.state.FlushBegan, p.state.FlushRows, p.state.FlushSent = now, now, rows, 0
}

// Sent notes how many rows of the flush that is under way the database has been sent.
func (p *Progress) Sent(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.FlushSent = min(rows, p.state.FlushRows)
}

// FlushEnded notes that no flush is under way.
func (p *Progress) FlushEnded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Flushing, p.state.FlushBegan, p.state.FlushRows, p.state.FlushSent = time.Time{}, time.Time{}, 0, 0
}

// Step notes that the reader is alive, until it is called with false.
func (p *Progress) Step(now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Step = time.Time{}
	if now {
		p.state.Step = time.Now()
	}
}

// Unmoved returns what has not moved, and for how long: a flush that is neither done nor tried
// again, or the reader while no flush is under way.
func (s *Snapshot) Unmoved(now time.Time) (what string, since time.Duration) {
	switch {
	case !s.Flushing.IsZero():
		return "a flush", now.Sub(s.Flushing)
	case !s.Step.IsZero():
		return "reading", now.Sub(s.Step)
	}
	return "", 0
}
