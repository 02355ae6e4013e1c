package spool

import (
	"context"
	"sync"
	"time"
)

// A level tracks how much of a log is not committed. Any goroutine may use it.
type level struct {
	log     *Log
	gauge   func(bytes int64)
	changed chan struct{} // has a value when there may be more room in the log

	mu   sync.Mutex // held briefly
	safe int64      // everything before it is committed
}

func newLevel(log *Log, safe int64, gauge func(int64)) *level {
	l := &level{log: log, gauge: gauge, changed: make(chan struct{}, 1), safe: safe}
	l.appended()
	return l
}

// appended must be called after the log has grown.
func (l *level) appended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gauge(l.log.End() - l.safe)
}

// committed records that all lines before an offset are committed.
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

// left returns the number of uncommitted bytes.
func (l *level) left() int64 { return l.log.End() - l.committedTo() }

// wait waits until there may be more room, at most d.
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
