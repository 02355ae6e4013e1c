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

// TestNext_Limit: no wait may end after the limit, and a refused one does not advance the sequence.
func TestNext_Limit(t *testing.T) {
	b := Backoff{Min: time.Second, Max: time.Minute}
	if _, ok := b.Next(time.Second - 1); ok {
		t.Error("it may end after the limit")
	}
	if _, ok := b.Next(time.Second); !ok {
		t.Error("it always ends before the limit, and is refused")
	}
	if _, ok := b.Next(2*time.Second - 1); ok {
		t.Error("the second may end after the limit")
	}
	if wait, ok := b.Next(2 * time.Second); !ok || wait < time.Second {
		t.Errorf("the second is %v, %v", wait, ok)
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
