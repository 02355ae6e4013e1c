package progress

import "time"

// Flushing notes that a flush is under way, until it is called with false.
func (p *Progress) Flushing(now bool) {
	p.note(&p.state.Flushing, now)
	p.note(&p.state.FlushBegan, now)
}

// Step notes that the reader is alive, until it is called with false.
func (p *Progress) Step(now bool) { p.note(&p.state.Step, now) }

func (p *Progress) note(at *time.Time, now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*at = time.Time{}
	if now {
		*at = time.Now()
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
