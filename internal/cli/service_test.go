package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

// A run that waits is alive, however long, as is a run whose database is unavailable. A run is not alive if its flush
// neither ends nor is retried, or if its reader hangs.
func TestReporter_Watchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New("t")
		var mu sync.Mutex
		var last string
		alive := 0
		r := &reporter{watchdog: time.Minute, tell: func(state string) error {
			mu.Lock()
			defer mu.Unlock()
			if last = state; strings.Contains(state, "\nWATCHDOG=1") {
				alive++
			}
			return nil
		}}
		defer p.Watch(r.watch)()
		// during calls step every second, and expects a watchdog message every five seconds, or none.
		during := func(what string, seconds, want int, status string, step func()) {
			t.Helper()
			mu.Lock()
			alive = 0
			mu.Unlock()
			for range seconds {
				step()
				time.Sleep(time.Second)
			}
			mu.Lock()
			defer mu.Unlock()
			if alive != want || !strings.Contains(last, status) {
				t.Errorf("%s: %d signs of life, want %d; the last state is %q", what, alive, want, last)
			}
		}
		time.Sleep(time.Millisecond) // between two reports
		during("before it reads", 100, 20, "not reading yet", func() {})
		p.Open("feed", status.Waiting).Read(1200, 1, true, time.Time{})
		during("while it waits for lines", 100, 20, "STATUS=1,200 lines\n", func() { p.Step(true) })
		during("while the reader hangs", 60, 5, "reading has not moved for 1m", func() {})
		p.Flushing(1)
		during("while the database is unavailable", 1000, 200, "waiting for the database (connection), for ", func() { p.Retry(&sink.Error{Reason: "connection"}) })
		during("while the flush hangs", 60, 5, "a flush has not moved for 1m", func() { p.Step(true) })
		p.FlushEnded()
		p.Flushed(0, make([]status.TableCounts, 1), 0)
		during("after that", 10, 2, "1,200 lines, last commit ", func() { p.Step(true) })
		p.Step(false)
		during("when it has read all", 100, 20, "1,200 lines", func() {})
	})
}

// TestCountStored: if metrics are served, the database is queried at the start and once a minute, or every five seconds
// until it has answered. If they are written to a file, it is queried at the end, even if the run was canceled.
func TestCountStored(t *testing.T) {
	f := func(o settings.Output, want ...time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			began, failed := time.Now(), errors.New("failed")
			var asked []time.Duration
			err := countStored(ctx, &o, func(ctx context.Context) error {
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
	f(settings.Output{})
	f(settings.Output{MetricsFile: "f"}, 150*time.Second)
	f(settings.Output{MetricsAddr: ":0"}, 0, 60*time.Second, 65*time.Second, 70*time.Second, 130*time.Second)
	f(settings.Output{MetricsAddr: ":0", MetricsFile: "f"}, 0, 60*time.Second, 65*time.Second, 70*time.Second, 130*time.Second, 150*time.Second)
}
