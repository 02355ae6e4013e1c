package spool

import (
	"context"
	"sync"
	"time"
)

// A level is how much of a log is not committed. Any goroutine may ask and tell.
type level struct {
	log     *Log
	gauge   func(bytes int64)
	changed chan struct{} // takes one value when there may be more room in the log

	mu   sync.Mutex // held for a moment
	safe int64      // all before it is committed
}

func newLevel(log *Log, safe int64, gauge func(int64)) *level {
	l := &level{log: log, gauge: gauge, changed: make(chan struct{}, 1), safe: safe}
	l.appended()
	return l
}

// appended notes that the log has grown.
func (l *level) appended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gauge(l.log.End() - l.safe)
}

// committed notes that all lines before an offset are.
func (l *level) committed(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.safe = max(l.safe, at)
	l.gauge(l.log.End() - l.safe)
	signal(l.changed)
}

// committedTo returns the offset before which all lines are committed.
func (l *level) committedTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.safe
}

// left returns the bytes that are not committed.
func (l *level) left() int64 { return l.log.End() - l.committedTo() }

// wait waits until there may be more room, but no longer than d.
func (l *level) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
