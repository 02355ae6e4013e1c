package progress_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/progress"
)

// TestStalls_ALargeFlushMayTakeLonger than one of a few rows, before the run counts as stalled.
func TestStalls_ALargeFlushMayTakeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(rows int, after time.Duration, want bool) {
			p := progress.New("t")
			p.Flushing(rows)
			time.Sleep(after)
			s := p.Snapshot()
			if all := s.Stalls(); (len(all) == 1 && all[0].Cause == progress.SlowFlush) != want {
				t.Errorf("%d rows, after %v: %v", rows, after, all)
			}
			p.FlushEnded()
			if s := p.Snapshot(); len(s.Stalls()) > 0 {
				t.Errorf("after its end: %v", s.Stalls())
			}
		}
		f(1, 9*time.Second, false)
		f(1, 11*time.Second, true)
		f(1_000_000, 200*time.Second, false)
		f(1_000_000, 211*time.Second, true)
	})
}
