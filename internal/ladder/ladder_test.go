package ladder

import (
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/report"
	"github.com/weirsync/weir/internal/sink"
)

// TestAdvise_IsTheSafestOfTheFastest that keep to what is wanted.
func TestAdvise_IsTheSafestOfTheFastest(t *testing.T) {
	setting := func(level sink.Level, period, lag time.Duration, rate float64) Setting {
		return Setting{Level: level, Period: period, Lag: lag, Lost: (&Postgres{fsync: true}).Lost(level), Flushes: enough, Cost: Cost{Rate: report.Spread{Median: rate}}}
	}
	sweep := []Setting{
		setting("off", time.Second, time.Second, 200),
		setting("normal", time.Second, 1500*time.Millisecond, 100),
		setting("normal", 5*time.Second, 6*time.Second, 150),
		setting("full", time.Second, 1500*time.Millisecond, 91),
		setting("full", 100*time.Millisecond, 200*time.Millisecond, 40),
	}
	few := setting("full", 200*time.Millisecond, 300*time.Millisecond, 1000)
	few.Flushes = enough - 1
	sweep = append(sweep, few)
	f := func(lag time.Duration, unsafe bool, level sink.Level, rate float64) {
		t.Helper()
		c := Config{Lag: lag, Unsafe: unsafe}
		got := c.advise(sweep)
		if level == "" {
			if got != nil {
				t.Errorf("lag %s: %s at %v", lag, got.Level, got.Rate.Median)
			}
			return
		}
		if got == nil || got.Level != level || got.Rate.Median != rate {
			t.Errorf("lag %s, unsafe %v: %+v, want %s at %v", lag, unsafe, got, level, rate)
		}
	}
	f(2*time.Second, true, "full", 91)     // within a tenth of normal
	f(10*time.Second, true, "normal", 150) // full is too slow for its safety
	f(10*time.Second, false, "full", 91)
	f(time.Second, false, "full", 40)
	f(time.Millisecond, false, "", 0)
	for i := range sweep {
		sweep[i].Lost = (&Postgres{}).Lost(sweep[i].Level)
	}
	f(2*time.Second, false, "", 0) // a server without fsync keeps nothing safe
	f(2*time.Second, true, "full", 91)
}

// TestLadder_SaysWhatItDidNotCount where it may have been better.
func TestLadder_SaysWhatItDidNotCount(t *testing.T) {
	setting := func(flushes int, rate float64) Setting {
		return Setting{Flushes: flushes, Cost: Cost{Rate: report.Spread{Median: rate}}}
	}
	for _, c := range []struct {
		r    Result
		says bool
	}{
		{Result{Advice: new(setting(enough, 100)), Sweep: []Setting{setting(enough-1, 200)}}, true},
		{Result{Advice: new(setting(enough, 100)), Sweep: []Setting{setting(enough-1, 101), setting(enough, 200)}}, false},
		{Result{Sweep: []Setting{setting(enough-1, 1)}}, true},
		{Result{Sweep: []Setting{setting(enough, 1)}}, false},
	} {
		if text := c.r.adviceText(); strings.Contains(text, "fewer than 10 flushes") != c.says {
			t.Error(text)
		}
	}
}
