package backoff

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestNext_DoublesUpToTheLongest(t *testing.T) {
	b := Backoff{Min: 5 * time.Millisecond, Max: 5 * time.Second}
	for range 2 {
		longest := b.Min
		for i := range 30 {
			wait, ok := b.Next(math.MaxInt64)
			if !ok || wait < longest/2 || wait > longest {
				t.Fatalf("wait %d is %v (%v), want %v to %v", i, wait, ok, longest/2, longest)
			}
			longest = min(2*longest, b.Max)
		}
		b.Reset()
	}
}

func TestNext_HasJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		b := Backoff{Min: time.Second, Max: time.Second}
		wait, _ := b.Next(time.Second)
		seen[wait] = true
	}
	if len(seen) < 90 {
		t.Errorf("100 first waits have %d lengths", len(seen))
	}
}

// TestNext_Limit: the last wait ends at the limit, so what has 5 seconds is tried for 5 seconds.
func TestNext_Limit(t *testing.T) {
	b := Backoff{Min: time.Second, Max: time.Minute}
	if wait, ok := b.Next(time.Millisecond); !ok || wait != time.Millisecond {
		t.Errorf("with a millisecond left it waits %v, %v", wait, ok)
	}
	if _, ok := b.Next(0); ok {
		t.Error("it waits with nothing left")
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start = time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("stopped: %v after %v", err, time.Since(start))
		}
	})
}
