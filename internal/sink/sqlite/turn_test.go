package sqlite

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTurn_PausesForOthers: flushes without pauses release the lock for 20 ms at most five times a second; flushes with
// pauses add none.
func TestTurn_PausesForOthers(t *testing.T) {
	for _, c := range []struct{ work, pause, longest, paused time.Duration }{
		{work: 3 * time.Millisecond, longest: 210 * time.Millisecond, paused: 20 * time.Millisecond},
		{work: time.Second, longest: time.Second, paused: 20 * time.Millisecond},
		{work: 30 * time.Millisecond, pause: 25 * time.Millisecond, longest: 30 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			var held time.Duration // since others last had a chance
			var turns turn
			for range 100 {
				before := time.Now()
				turns.yield()
				added := time.Since(before)
				if added+c.pause >= 20*time.Millisecond {
					held = 0
				}
				if added != 0 && added != c.paused {
					t.Fatalf("%+v: it paused for %v", c, added)
				}
				time.Sleep(c.work)
				if held += c.work; held > c.longest {
					t.Fatalf("%+v: others have waited for %v", c, held)
				}
				turns.released = time.Now()
				time.Sleep(c.pause)
			}
		})
	}
}
