package cli

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
)

// TestCountStored: the database is asked at the start and once a minute where metrics are served, and
// at the end where they are written to a file, even when the run was cancelled; every five seconds until it
// has answered.
func TestCountStored(t *testing.T) {
	f := func(o logOptions, want ...time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			began, failed := time.Now(), errors.New("failed")
			var asked []time.Duration
			err := o.countStored(ctx, func(ctx context.Context) error {
				if ctx.Err() == nil {
					asked = append(asked, time.Since(began))
				}
				if at := time.Since(began); 60*time.Second <= at && at < 70*time.Second {
					return failed
				}
				return nil
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
	f(logOptions{metricsAddr: ":0"}, 0, 60*time.Second, 65*time.Second, 70*time.Second, 130*time.Second)
	f(logOptions{metricsAddr: ":0", metricsFile: "f"}, 0, 60*time.Second, 65*time.Second, 70*time.Second, 130*time.Second, 150*time.Second)
}

// TestStoredRejects_DatabaseIsUnavailable: a run that has nothing to write is not ready, either.
func TestStoredRejects_DatabaseIsUnavailable(t *testing.T) {
	e := &env{log: slog.New(slog.DiscardHandler), lookupEnv: func(string) (string, bool) { return "", false }}
	to, err := e.destination("postgres://weir@127.0.0.1:1/x?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	p := progress.New("t")
	p.Open("f", progress.Waiting)
	run := &syncRun{env: e, to: to, p: p, metrics: newMetrics(&job.Config{}, p)}
	if err := run.storedRejects(t.Context()); err == nil {
		t.Error("a database that is missing has answered")
	}
	if s := p.Snapshot(); s.NotReady() != "the database cannot be reached (connection), for 0s" {
		t.Errorf("not ready: %q", s.NotReady())
	}
}
