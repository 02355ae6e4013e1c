package job_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
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
			inMemory(t, func(b *bubble) {
				b.Source.Follow, b.BatchPeriod = true, test.period
				onEachLine(&b.Config, func(string) { time.Sleep(250 * time.Millisecond) })
				var at source.Cursor
				b.steps = []func() source.Event{opened("a", &at)}
				for n := range 128 { // 32 seconds
					b.steps = append(b.steps, b.data("a", n))
				}
				b.steps = append(b.steps, func() source.Event {
					time.Sleep(time.Hour)
					return ends("a", nil)()
				})
				begun, got := time.Now(), ""
				b.p.Observe(func(progress.Flush) { got += fmt.Sprint(time.Since(begun).Round(time.Second), " ") })
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
	inMemory(t, func(b *bubble) {
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
	inMemory(t, func(b *bubble) {
		b.MaxRate = perSecond
		var seen []time.Time
		onEachLine(&b.Config, func(line string) {
			if want := fmt.Sprintf(`{"id":%d}`, len(seen)); line != want {
				t.Errorf("%s, want %s", line, want)
			}
			seen = append(seen, time.Now())
		})
		first, second := numbered(0, lines), numbered(lines, lines)
		var at source.Cursor
		begun := time.Now()
		b.steps = []func() source.Event{opened("a", &at), b.text("a", 0, first), func() source.Event {
			time.Sleep(time.Minute)
			return b.text("a", int64(len(first)), second)()
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

// TestSync_LongBlocksOfSourcesThatEnd: sources that wait until long blocks are folded do not block a run that ends
// because another source has failed.
func TestSync_LongBlocksOfSourcesThatEnd(t *testing.T) {
	inMemory(t, func(b *bubble) {
		b.Sources, b.Source.Follow = []string{"a", "b", "c", "d", "bad"}, true
		onEachLine(&b.Config, func(string) { time.Sleep(time.Hour) })
		broken := errors.New("it broke")
		b.SetSource(func(names []string) source.Source {
			p, at := newPartitions(), new(source.Cursor)
			p.steps = []func() source.Event{opened(names[0], at)}
			for range 3 {
				p.steps = append(p.steps, p.text(names[0], 0, `{"id":1}`+strings.Repeat(" ", 1<<20)+"\n"))
			}
			if strings.HasSuffix(names[0], "bad") {
				p.steps = []func() source.Event{p.steps[0], func() source.Event {
					time.Sleep(time.Minute)
					return ends(names[0], broken)()
				}}
			}
			return p
		})
		if err := b.run(); !errors.Is(err, broken) {
			t.Error(err)
		}
	})
}

// expires makes rows of table t expire two days after their last change.
func expires(c *job.Config) {
	c.Tables[0].Fit = func(l *schema.Limits, t *schema.Table) error { return l.AddStamp(t, "moved", schema.UpdateStamp) }
	c.Tables[0].Expire = &job.Expire{After: 48 * time.Hour, Of: []string{"moved"}}
}

// expired returns how many rows a run has removed.
func expired(p *progress.Progress) int64 {
	s := p.Snapshot()
	return s.Tables[0].Expired
}

// TestExpire_WhileAFeedIsSilent: an old row is removed within a minute, although nothing is read.
func TestExpire_WhileAFeedIsSilent(t *testing.T) {
	inMemory(t, func(b *bubble) {
		expires(&b.Config)
		is := func(want int64, when string) {
			t.Helper()
			if got := b.rows(); got != want {
				t.Errorf("%s there are %d rows, want %d", when, got, want)
			}
		}
		var at source.Cursor
		b.steps = []func() source.Event{
			opened("a", &at), b.data("a", 1),
			func() source.Event {
				time.Sleep(48 * time.Hour)
				is(1, "after two days")
				time.Sleep(time.Minute + time.Second)
				is(0, "a minute later")
				return b.data("a", 2)()
			},
			func() source.Event {
				time.Sleep(47 * time.Hour)
				is(1, "after another message")
				return b.data("a", 3)() // updates the stamp
			},
			func() source.Event {
				time.Sleep(47 * time.Hour)
				is(1, "after a message that changed the row")
				return ends("a", nil)()
			},
		}
		if err := b.run(); err != nil || expired(b.p) != 1 {
			t.Errorf("%d rows expired, %v", expired(b.p), err)
		}
	})
}

// locked makes every removal of old rows fail as if locked, and counts the calls.
func locked(n *int) sinktest.Faults {
	return func(c sinktest.Call) (f sinktest.Fault) {
		if c.Method == "Expire" {
			*n++
			f.Err = &sink.Error{Class: sink.Transient, Reason: "locked", Err: errors.New("somebody holds a lock")}
		}
		return f
	}
}

// TestExpire_FailureDoesNotDelayTheFeed: messages are written while old rows cannot be removed, and the run ends.
func TestExpire_FailureDoesNotDelayTheFeed(t *testing.T) {
	inMemory(t, func(b *bubble) {
		expires(&b.Config)
		b.through = faulty(locked(new(int)))
		var at source.Cursor
		b.steps = []func() source.Event{opened("a", &at)}
		for n := range 100 {
			b.steps = append(b.steps, b.data("a", n), func() source.Event {
				time.Sleep(time.Second)
				return b.data("a", n)()
			})
		}
		b.steps = append(b.steps, ends("a", nil))
		testcheck.NoError(t, b.run())
		if s := b.p.Snapshot(); s.Lines != 200 || s.Batches < 100 || s.Tables[0].Expired != 0 {
			t.Errorf("%+v", s)
		}
		if strings.Count(b.said, "somebody holds a lock") != 1 || !strings.Contains(b.said, `old rows are left in table "t": the next run removes them`) {
			t.Errorf("it said:\n%s", b.said)
		}
	})
}

// TestExpire_AnErrorEndsTheRun: an error that is not transient ends the run.
func TestExpire_AnErrorEndsTheRun(t *testing.T) {
	path, dest := filepath.Join(t.TempDir(), "feed.jsonl"), filepath.Join(t.TempDir(), "t.db")
	write(t, path, []string{`{"id":1,"n":1}`})
	c := configOf(t, path, "fail")
	c.Tables[0].Expire = &job.Expire{After: time.Hour, Of: []string{"n"}}
	if _, err := runUntil(t, c, dest, nil, never); err == nil || !strings.Contains(err.Error(), `removing old rows of table "t": column "n" of table "t" is INTEGER: rows cannot expire by it`) {
		t.Errorf("%v", err)
	}
}

// TestExpire_AtTheStartAndTheEndOfAFile: old rows are removed in steps, even if calls fail, and at the start even if
// the file was read before.
func TestExpire_AtTheStartAndTheEndOfAFile(t *testing.T) {
	const rows = 2500
	seen := map[bool]string{true: "2020-05-15 13:30:00.123", false: time.Now().UTC().Format("2006-01-02 15:04:05")}
	var feed []string
	for n := range rows {
		feed = append(feed, fmt.Sprintf(`{"id":"%d","n":%d,"seen":%q}`, n, n, seen[n%5 > 0]))
	}
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, feed)
	both(t, func(t *testing.T, dest string) {
		execSQL(t, dest, "CREATE TABLE t (id VARCHAR(20) PRIMARY KEY, n INTEGER, seen TIMESTAMP)")
		c := configOf(t, path, "fail")
		c.BatchPeriod = 0
		c.Tables[0].Expire = &job.Expire{After: 48 * time.Hour, Of: []string{"seen"}, Every: time.Hour}
		var failed atomic.Int64
		faults := sinktest.RandomFaults(rand.New(rand.NewPCG(1, 1)))
		sync := func(want string) {
			t.Helper()
			p, err := runUntil(t, c, dest, func(db sink.Sink) sink.Sink {
				return sink.Retry(sinktest.Faulty(db, func(c sinktest.Call) sinktest.Fault {
					f := faults(c)
					if f.Err != nil && c.Method == "Expire" {
						failed.Add(1)
					}
					return f
				}), time.Minute, func(*sink.Error) {})
			}, never)
			testcheck.NoError(t, err)
			has(t, dest, want, "SELECT count(*) || '|' || min(n) || '|' || max(n) FROM t")
			if failed.Load() == 0 && expired(p) == 0 {
				t.Error("no row expired")
			}
		}
		sync("500|0|2495")
		execSQL(t, dest, "UPDATE t SET seen = '"+seen[true]+"' WHERE n < 1000")
		sync("300|1000|2495")
		if failed.Load() == 0 {
			t.Error("did not exercise: no step failed")
		}
	})
}

// TestExpire_AStopLeavesTheRest: a stopped run ends, even if old rows are left.
func TestExpire_AStopLeavesTheRest(t *testing.T) {
	inMemory(t, func(b *bubble) {
		expires(&b.Config)
		tries, at := 0, source.Cursor("")
		b.through = faulty(locked(&tries))
		ctx, stop := context.WithTimeout(b.Context(), 72*time.Hour)
		defer stop()
		b.steps = []func() source.Event{opened("a", &at), b.data("a", 1), func() source.Event {
			<-ctx.Done()
			return b.data("a", 2)()
		}}
		if err := b.runUntil(ctx); err != nil || tries < 3 || strings.Contains(b.said, "old rows are left") {
			t.Errorf("it ended with %v after %d tries, and said:\n%s", err, tries, b.said)
		}
	})
}
