package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// statements is a sink that executes the user's SQL by calling do.
type statements struct {
	sink.Sink
	do func(ctx context.Context, sql string) error
}

func (s statements) Execute(ctx context.Context, sql string) error { return s.do(ctx, sql) }

// TestEvery_AfterEachPeriodAndAtTheEnd: statements are executed after each of their periods, whatever becomes of them,
// and once more at the end of the source, but not after a signal.
func TestEvery_AfterEachPeriodAndAtTheEnd(t *testing.T) {
	for _, test := range []struct {
		name   string
		stops  bool
		fails  error
		want   string
		failed int64
	}{
		{"to the end", false, nil, "a 10m b 25m a 20m a 30m a 35m b 35m", 0},
		{"if they fail", false, errors.New("no such table"), "a 10m b 25m a 20m a 30m a 35m b 35m", 6},
		{"until a signal", true, nil, "a 10m b 25m a 20m a 30m", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.Every = []mapping.PeriodicSQL{{Period: 10 * time.Minute, Statements: []mapping.Statement{{SQL: "a"}}},
					{Period: 25 * time.Minute, Statements: []mapping.Statement{{SQL: "b"}}}}
				begun, want := time.Now(), strings.Fields(test.want)
				var got []string
				b.through = func(db sink.Sink) sink.Sink {
					return statements{db, func(_ context.Context, sql string) error {
						got = append(got, fmt.Sprintf("%s %.0fm", sql, time.Since(begun).Minutes()))
						return test.fails
					}}
				}
				ctx, stop := context.WithCancel(b.Context())
				var at source.Cursor
				b.steps = []func() source.Event{opened("a", &at), b.data("a", 1), func() source.Event {
					time.Sleep(35 * time.Minute)
					if test.stops {
						stop()
					}
					return b.data("a", 2)()
				}, ends("a", nil)}
				testcheck.NoError(t, b.runUntil(ctx))
				slices.Sort(got)
				var pairs []string
				for i := 0; i < len(want); i += 2 {
					pairs = append(pairs, want[i]+" "+want[i+1])
				}
				slices.Sort(pairs)
				s := b.p.Snapshot()
				if !slices.Equal(got, pairs) || s.Executed.Failed != test.failed || s.Executed.OK+s.Executed.Failed != int64(len(got)) {
					t.Errorf("executed %v, want %v: %+v", got, pairs, s.Executed)
				}
				if strings.Count(b.said, "no such table; it is tried again") != int(test.failed) {
					t.Errorf("it said:\n%s", b.said)
				}
				stop()
			})
		})
	}
}

// TestEvery_ASignalCancels: a stopped run cancels the current statement and executes no other one.
func TestEvery_ASignalCancels(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.Every = []mapping.PeriodicSQL{{Period: time.Minute, Statements: []mapping.Statement{{SQL: "slow"}, {SQL: "next"}}}}
		ctx, stop := context.WithTimeout(b.Context(), 2*time.Minute)
		defer stop()
		var got []string
		b.through = func(db sink.Sink) sink.Sink {
			return statements{db, func(ctx context.Context, sql string) error {
				got = append(got, sql)
				<-ctx.Done()
				return ctx.Err()
			}}
		}
		var at source.Cursor
		b.steps = []func() source.Event{opened("a", &at), b.data("a", 1), func() source.Event {
			<-ctx.Done()
			return b.data("a", 2)()
		}}
		if err := b.runUntil(ctx); err != nil || !slices.Equal(got, []string{"slow"}) || strings.Contains(b.said, "tried again") {
			t.Errorf("executed %v, and ended with %v; it said:\n%s", got, err, b.said)
		}
	})
}
