package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
)

// TestBatches_AreFilledWhileTheRunIsBehind: a batch of a followed file or of Kafka is written after its period if there
// is nothing more to read, otherwise after a longer one. A configured period always applies.
func TestBatches_AreFilledWhileTheRunIsBehind(t *testing.T) {
	for name, test := range map[string]struct {
		period time.Duration
		want   string // times at which batches are written
	}{
		"by itself":     {0, "10s 20s 30s 32s"},
		"with a period": {time.Second, "1s"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.Source.Follow, b.BatchPeriod = true, test.period
				var at source.Cursor
				b.steps = []func() source.Event{opened("a", &at)}
				for n := range 128 { // 32 seconds
					b.steps = append(b.steps, func() source.Event {
						e := b.data("a", n)()
						e.Block.At = func(int) source.Cursor {
							time.Sleep(250 * time.Millisecond)
							return ""
						}
						return e
					})
				}
				b.steps = append(b.steps, func() source.Event {
					time.Sleep(time.Hour)
					return ends("a", nil)()
				})
				begun, got := time.Now(), ""
				b.p.Observe(func(*status.Flush) { got += fmt.Sprint(time.Since(begun).Round(time.Second), " ") })
				if err := b.run(); err != nil || !strings.HasPrefix(got, test.want+" ") {
					t.Errorf("written after %s, want %s: %v", got, test.want, err)
				}
			})
		})
	}
}

// numbered returns lines with consecutive ids.
func numbered(from, lines int) string {
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, `{"id":%d}`+"\n", from+i)
	}
	return text.String()
}

// TestStop_WhatWasReadIsWritten: when a run is stopped, lines that a source cannot send again are written at once, even
// if the rate does not allow them yet, including lines that arrive meanwhile.
func TestStop_WhatWasReadIsWritten(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.MaxRate, b.BatchRows = 100, 30
		var at source.Cursor
		first := numbered(0, 350)
		ctx, stop := context.WithCancel(b.Context())
		b.steps = []func() source.Event{opened("a", &at), b.text("a", 0, first), b.text("a", int64(len(first)), numbered(350, 10))}
		time.AfterFunc(time.Second, stop)
		begun := time.Now()
		if err := b.runUntil(ctx); err != nil || b.rows() != 360 || time.Since(begun) != time.Second {
			t.Errorf("%d rows of 360 lines after %v, %v", b.rows(), time.Since(begun), err)
		}
	})
}

// TestMaxRate_AtEveryInstant: in any period, at most the lines of that period and of one more second are read, also in
// a small file and after a pause. No line is lost or reordered.
func TestMaxRate_AtEveryInstant(t *testing.T) {
	const perSecond, lines = 100, 350
	inBubble(t, func(b *bubble) {
		b.MaxRate = perSecond
		var seen []time.Time // when each line was folded
		folded := func(text string, before int) func() source.Event {
			return func() source.Event {
				e := b.text("a", 0, text)()
				e.Block.At = func(end int) source.Cursor {
					for len(seen) < before+strings.Count(text[:end], "\n") {
						seen = append(seen, time.Now())
					}
					return ""
				}
				return e
			}
		}
		first, second := numbered(0, lines), numbered(lines, lines)
		var at source.Cursor
		begun := time.Now()
		b.steps = []func() source.Event{opened("a", &at), folded(first, 0), func() source.Event {
			time.Sleep(time.Minute)
			return folded(second, lines)()
		}, ends("a", nil)}
		if err := b.run(); err != nil || len(seen) != 2*lines {
			t.Errorf("%d lines came, %v", len(seen), err)
		}
		for i, from := range seen {
			for n, to := range seen[i:] {
				if most := perSecond + int(to.Sub(from).Seconds()*perSecond) + 1; n > most {
					t.Fatalf("%d lines within %v: at most %d", n, to.Sub(from), most)
				}
			}
		}
		// Nothing is allowed at the start, and one second's lines after the pause.
		if took, want := seen[2*lines-1].Sub(begun), time.Minute+(2*lines-perSecond)*time.Second/perSecond; took < want || took > want+time.Second {
			t.Errorf("it took %v, want %v", took, want)
		}
	})
}
