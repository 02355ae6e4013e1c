package ladder

import (
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
)

// TestAdvise_IsTheSafestOfTheFastest that keep to what is wanted.
func TestAdvise_IsTheSafestOfTheFastest(t *testing.T) {
	setting := func(level sink.Level, period, lag time.Duration, rate float64) Setting {
		return Setting{Level: level, Period: period, Lag: lag, Cost: Cost{Rate: rate}}
	}
	sweep := []Setting{
		setting("off", time.Second, time.Second, 200),
		setting("normal", time.Second, 1500*time.Millisecond, 100),
		setting("normal", 5*time.Second, 6*time.Second, 150),
		setting("full", time.Second, 1500*time.Millisecond, 91),
		setting("full", 100*time.Millisecond, 200*time.Millisecond, 40),
	}
	f := func(lag time.Duration, safe bool, level sink.Level, rate float64) {
		t.Helper()
		c := Config{Lag: lag, Safe: safe}
		got := c.advise(sweep)
		if level == "" {
			if got != nil {
				t.Errorf("lag %s: %s at %v", lag, got.Level, got.Rate)
			}
			return
		}
		if got == nil || got.Level != level || got.Rate != rate {
			t.Errorf("lag %s, safe %v: %+v, want %s at %v", lag, safe, got, level, rate)
		}
	}
	f(2*time.Second, false, "full", 91)     // within a tenth of normal
	f(10*time.Second, false, "normal", 150) // full is too slow for its safety
	f(10*time.Second, true, "full", 91)
	f(time.Second, false, "full", 40)
	f(time.Millisecond, false, "", 0)
}
