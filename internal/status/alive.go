package status

import (
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
)

// Writing is the current flush.
type Writing struct {
	Began time.Time // does not change on retries; zero: no flush is running
	Rows  int
	Sent  int       // rows sent to the database so far
	tried time.Time // when it began, was last retried, or last wrote a piece of a search
	// Searching is how far the search for messages that the database rejects has come; zero: none is running.
	Searching sink.Searching
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

// Searching records how far the current flush's search for rejected messages has come.
func (p *Progress) Searching(now sink.Searching) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Writing.Searching, p.state.Writing.tried = now, time.Now()
}

// Search says how far the search for rejected messages has come; "" if none is running.
func (w *Writing) Search() string {
	s := &w.Searching
	if s.Messages == 0 {
		return ""
	}
	return fmt.Sprintf("searching for rejected rows: %s of %s written, %s rejected",
		quantity.Grouped(int64(s.Written)), quantity.Count(int64(s.Messages), "message"), quantity.Grouped(int64(s.Rejected)))
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
