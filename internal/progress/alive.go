package progress

import "time"

// Writing is a flush that is under way.
type Writing struct {
	Began time.Time // whatever was retried since; zero: no flush is under way
	Rows  int
	Sent  int       // rows that the database has been sent
	tried time.Time // when it began, or was last retried
}

// Flushing notes that a flush of some rows is under way, until [Progress.FlushEnded].
func (p *Progress) Flushing(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.state.Writing = Writing{Began: now, Rows: rows, tried: now}
}

// Sent notes how many rows of the flush that is under way the database has been sent.
func (p *Progress) Sent(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Writing.Sent = min(rows, p.state.Writing.Rows)
}

// FlushEnded notes that no flush is under way.
func (p *Progress) FlushEnded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Writing = Writing{}
}

// Step notes that the reader is alive, until it is called with false.
func (p *Progress) Step(now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.step = time.Time{}
	if now {
		p.state.step = time.Now()
	}
}

// Unmoved returns what has not moved, and for how long: a flush that is neither done nor tried
// again, or the reader while no flush is under way.
func (s *Snapshot) Unmoved(now time.Time) (what string, since time.Duration) {
	switch {
	case !s.Writing.Began.IsZero():
		return "a flush", now.Sub(s.Writing.tried)
	case !s.step.IsZero():
		return "reading", now.Sub(s.step)
	}
	return "", 0
}
