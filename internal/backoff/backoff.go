// Package backoff has the waits between tries: each up to twice as long as the one before, and
// with jitter, so that many who failed at one moment do not try again at one moment.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Replacement is for how long a login or a certificate is tried again that was good before and is refused: whoever
// replaces it does so on both sides, one after the other.
const Replacement = 5 * time.Minute

// A Backoff is a sequence of waits.
type Backoff struct {
	Min time.Duration // the longest that the first wait takes
	Max time.Duration // the longest that any takes

	next time.Duration // the longest that the next takes; 0: Min
}

// Next returns the next wait: between half of the longest and the longest. It is none, and the
// sequence stays where it is, when it could take longer than what is left of a limit.
func (b *Backoff) Next(left time.Duration) (wait time.Duration, ok bool) {
	longest := max(b.next, b.Min)
	if longest > left {
		return 0, false
	}
	b.next = min(2*longest, b.Max)
	return longest/2 + rand.N(longest/2+1), true
}

// Reset begins the sequence again, after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Sleep waits, unless ctx ends first: then it returns ctx's error.
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
