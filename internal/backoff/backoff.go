// Package backoff computes the waits between retries. Each is up to twice as long as the previous one, with jitter, so
// clients that failed together do not retry together.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Replacement is how long a rejected login or certificate is retried if it worked before. Whoever replaces one does so
// on both sides, one after the other.
const Replacement = 5 * time.Minute

// A Backoff is a sequence of waits. The zero value of next starts it at Min.
type Backoff struct {
	Min time.Duration // upper bound of the first wait
	Max time.Duration // upper bound of every wait

	next time.Duration // upper bound of the next wait; 0: Min
}

// Next returns the next wait: random, between half of the current bound and the bound. ok is false if the wait could
// exceed left. The sequence then does not advance.
func (b *Backoff) Next(left time.Duration) (wait time.Duration, ok bool) {
	longest := max(b.next, b.Min)
	if longest > left {
		return 0, false
	}
	b.next = min(2*longest, b.Max)
	return longest/2 + rand.N(longest/2+1), true
}

// Reset restarts the sequence, after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Sleep waits for d. It returns ctx's error if ctx ends first.
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
