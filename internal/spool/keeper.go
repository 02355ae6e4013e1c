package spool

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A level is how much of a log is not committed. Any goroutine may ask and tell.
type level struct {
	gauge   func(bytes int64)
	changed chan struct{} // takes one value when there may be more room in the log

	mu   sync.Mutex // held for a moment
	end  int64      // of the log
	safe int64      // all before it is committed
}

func newLevel(safe, end int64, gauge func(int64)) *level {
	gauge(end - safe)
	return &level{gauge: gauge, changed: make(chan struct{}, 1), safe: safe, end: end}
}

// appended hears of the log's end.
func (l *level) appended(end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = end
	l.gauge(l.end - l.safe)
}

// committed hears that all lines before an offset are.
func (l *level) committed(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.safe = max(l.safe, at)
	l.gauge(l.end - l.safe)
	signal(l.changed)
}

// committedTo returns the offset before which all lines are committed.
func (l *level) committedTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.safe
}

// left returns the bytes that are not committed.
func (l *level) left() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end - l.safe
}

// drained reports whether all lines are committed.
func (l *level) drained() bool { return l.left() == 0 }

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

// A keeper syncs a log, and removes what is committed of it. One goroutine at a time has it.
type keeper struct {
	log      *Log
	captures *Captures // where segments go when they are done with, or nil
	level    *level
	period   time.Duration
	requests chan chan<- error // for empty
	logger   *slog.Logger
	// captureFull says that there is no room on the captures' disk. The intake reads it.
	captureFull atomic.Bool
}

// run works each period, and when it is asked, until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	tick := time.NewTicker(k.period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := k.log.Sync(); err != nil {
				return err
			}
			if err := k.forget(false); err != nil {
				return err
			}
		case reply := <-k.requests:
			reply <- k.forget(true)
		case <-ctx.Done():
			return k.log.Sync()
		}
	}
}

// empty has the keeper remove all that is committed, the segment that is appended to as well.
// Nothing may be appended meanwhile.
func (k *keeper) empty(ctx context.Context) error {
	reply := make(chan error, 1)
	select {
	case k.requests <- reply:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forget removes the segments whose lines are committed. final says that nothing is being
// appended. Where the captures' disk is full they stay for now.
func (k *keeper) forget(final bool) error {
	var keep func(time.Time, io.Reader) error
	if k.captures != nil {
		keep = k.captures.Add
	}
	before := k.log.Size()
	err := k.log.Forget(k.level.committedTo(), final, keep)
	if k.log.Size() < before {
		signal(k.level.changed)
	}
	if k.captures != nil && IsFull(err) {
		if !k.captureFull.Swap(true) {
			k.logger.Warn("the capture's disk is full: its lines stay where they are until there is room")
		}
		return nil
	}
	k.captureFull.Store(false)
	return err
}
