// Package backoff computes waits between retries: each is up to twice as long as the one before, with jitter, so
// clients that failed together do not retry together.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Replacement is how long a rejected login or certificate that worked before is retried: replacing it takes a while,
// because both sides must change.
const Replacement = 5 * time.Minute

// A Backoff is a sequence of waits.
type Backoff struct {
	Min time.Duration // maximum of the first wait
	Max time.Duration // maximum of all waits

	next time.Duration // maximum of the next wait; 0 means Min
}

// Next returns the next wait: between half of its maximum and the maximum, but at most left. ok is false if nothing is
// left.
func (b *Backoff) Next(left time.Duration) (wait time.Duration, ok bool) {
	if left <= 0 {
		return 0, false
	}
	longest := max(b.next, b.Min)
	b.next = min(2*longest, b.Max)
	return min(longest/2+rand.N(longest/2+1), left), true
}

// Reset restarts the sequence after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Sleep waits, or returns ctx's error if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
