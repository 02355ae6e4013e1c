package job_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
)

// expires has rows of the table t expire two days after they last changed.
func expires(c *job.Config) {
	c.Tables[0].Fit = func(l *schema.Limits, t *schema.Table) error { return l.AddStamp(t, "moved", schema.UpdateStamp) }
	c.Tables[0].Expire = &job.Expire{After: 48 * time.Hour, Of: []string{"moved"}}
}

// expired is how many rows a run has removed.
func expired(p *progress.Progress) int64 {
	s := p.Snapshot()
	return s.Tables[0].Expired
}

// TestExpire_WhileAFeedIsSilent: a row goes when it is old, in a minute at most, though
// nothing is read.
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
				return b.data("a", 3)() // moves the stamp
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

// locked has it fail to remove old rows, for now.
func locked(n *int) sinktest.Faults {
	return func(c sinktest.Call) (f sinktest.Fault) {
		if c.Method == "Expire" {
			*n++
			f.Err = &sink.Error{Class: sink.Transient, Reason: "locked", Err: errors.New("somebody holds a lock")}
		}
		return f
	}
}

// TestExpire_FailureDoesNotDelayTheFeed: messages are written while old rows cannot be removed,
// and the run ends.
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

// TestExpire_AnErrorEndsTheRun where it does not go away.
func TestExpire_AnErrorEndsTheRun(t *testing.T) {
	path, dest := filepath.Join(t.TempDir(), "feed.jsonl"), filepath.Join(t.TempDir(), "t.db")
	write(t, path, []string{`{"id":1,"n":1}`})
	c := configOf(t, path, "fail")
	c.Tables[0].Expire = &job.Expire{After: time.Hour, Of: []string{"n"}}
	if _, err := runUntil(t, c, dest, nil, never); err == nil || !strings.Contains(err.Error(), `removing old rows of table "t": column "n" of table "t" is INTEGER: rows cannot expire by it`) {
		t.Errorf("%v", err)
	}
}

// TestExpire_AtTheStartAndTheEndOfAFile: in steps, also when calls fail, and at the start
// also where the file has been read before.
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

// TestExpire_AStopLeavesTheRest: a run that is stopped ends, whatever is left.
func TestExpire_AStopLeavesTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, []string{`{"id":1,"n":1}`})
	c := configOf(t, path, "fail")
	expires(&c)
	c.Log = logtest.To(func(line string) {
		if strings.Contains(line, "old rows are left") {
			t.Error("it gave up, and did not stop")
		}
	})
	n := 0
	var tries atomic.Int64
	fails := locked(&n)
	_, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), faulty(func(c sinktest.Call) sinktest.Fault {
		f := fails(c)
		tries.Store(int64(n))
		return f
	}), func(*progress.Progress) bool { return tries.Load() >= 3 })
	if err != nil || n < 3 {
		t.Errorf("it ended with %v after %d tries", err, n)
	}
}
