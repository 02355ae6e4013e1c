package progress

import "time"

// Writing is the current flush.
type Writing struct {
	Began time.Time // does not change on retries; zero: no flush is running
	Rows  int
	Sent  int       // rows sent to the database so far
	tried time.Time // when it began or was last retried
}

// Flushing records that a flush begins. It lasts until [Progress.FlushEnded].
func (p *Progress) Flushing(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.state.Writing = Writing{Began: now, Rows: rows, tried: now}
}

// Sent records how many rows of the current flush were sent to the database.
func (p *Progress) Sent(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Writing.Sent = min(rows, p.state.Writing.Rows)
}

// FlushEnded records that the flush has ended.
func (p *Progress) FlushEnded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Writing = Writing{}
}

// Step records that the reader is alive. Step(false) records that it has ended.
func (p *Progress) Step(now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.step = time.Time{}
	if now {
		p.state.step = time.Now()
	}
}

// Unmoved returns what makes no progress, and for how long: a flush that neither ends nor is retried, or, if there is
// no flush, the reader.
func (s *Snapshot) Unmoved(now time.Time) (what string, since time.Duration) {
	switch {
	case !s.Writing.Began.IsZero():
		return "a flush", now.Sub(s.Writing.tried)
	case !s.step.IsZero():
		return "reading", now.Sub(s.step)
	}
	return "", 0
}
