package cli

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestCountStored: the database is asked at the start and once a minute where metrics are served, and
// at the end where they are written to a file, even when the run was cancelled.
func TestCountStored(t *testing.T) {
	f := func(o logOptions, want ...time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			began, failed := time.Now(), errors.New("failed")
			var asked []time.Duration
			err := o.countStored(ctx, func(ctx context.Context) {
				if ctx.Err() == nil {
					asked = append(asked, time.Since(began))
				}
			}, func() error {
				time.Sleep(150 * time.Second)
				cancel()
				return failed
			})
			if err != failed || !slices.Equal(asked, want) {
				t.Errorf("%+v: asked after %v, %v; want %v", o, asked, err, want)
			}
		})
	}
	f(logOptions{})
	f(logOptions{metricsFile: "f"}, 150*time.Second)
	f(logOptions{metricsAddr: ":0"}, 0, time.Minute, 2*time.Minute)
	f(logOptions{metricsAddr: ":0", metricsFile: "f"}, 0, time.Minute, 2*time.Minute, 150*time.Second)
}
