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
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/memory"
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

// inMemory runs in a bubble, with a database in memory and a source whose steps may ask how
// many rows there are.
func inMemory(t *testing.T, through func(sink.Sink) sink.Sink, steps func(p *partitions, rows func() int64) []func() source.Event, change ...func(*job.Config)) (p *progress.Progress, warned string) {
	synctest.Test(t, func(t *testing.T) {
		driver := memory.NewDriver()
		db, err := driver.Open(t.Context(), "db", sink.Options{Log: logtest.New(t)})
		testcheck.NoError(t, err)
		claims, err := driver.OpenClaims(t.Context(), "db", "t", sink.Options{Log: logtest.New(t)})
		testcheck.NoError(t, err)
		c := configOf(t, "", "fail")
		c.Sources = nil
		c.Log = logtest.To(func(text string) { warned += text + "\n" })
		expires(&c)
		for _, change := range change {
			change(&c)
		}
		in := &partitions{pool: source.NewPool()}
		in.steps = steps(in, func() int64 {
			in, err := driver.Inspect(t.Context(), "db", sink.Options{Log: logtest.New(t)})
			testcheck.NoError(t, err)
			_, rows, err := in.Sample(t.Context(), "t", 0)
			testcheck.NoError(t, err)
			return rows
		})
		c.SetSource(in)
		if through != nil {
			db = through(db)
		}
		p = progress.New("t")
		if err := job.Run(t.Context(), c, db, claims, p); err != nil {
			t.Error(err)
		}
	})
	return p, warned
}

// TestExpire_WhileAFeedIsSilent: a row goes when it is old, in a minute at most, though
// nothing is read.
func TestExpire_WhileAFeedIsSilent(t *testing.T) {
	var at source.Cursor
	p, _ := inMemory(t, nil, func(p *partitions, rows func() int64) []func() source.Event {
		is := func(want int64, when string) {
			t.Helper()
			if got := rows(); got != want {
				t.Errorf("%s there are %d rows, want %d", when, got, want)
			}
		}
		return []func() source.Event{
			opened("a", &at), p.data("a", 1),
			func() source.Event {
				time.Sleep(48 * time.Hour)
				is(1, "after two days")
				time.Sleep(time.Minute + time.Second)
				is(0, "a minute later")
				return p.data("a", 2)()
			},
			func() source.Event {
				time.Sleep(47 * time.Hour)
				is(1, "after another message")
				return p.data("a", 3)() // moves the stamp
			},
			func() source.Event {
				time.Sleep(47 * time.Hour)
				is(1, "after a message that changed the row")
				return source.Event{Kind: source.Closing, Lane: "a"}
			},
		}
	})
	if n := expired(p); n != 1 {
		t.Errorf("%d rows expired", n)
	}
}

// TestExpire_AFailureHoldsNothingUp: messages are written while old rows cannot be removed,
// and the run ends.
func TestExpire_AFailureHoldsNothingUp(t *testing.T) {
	failing := func(c sinktest.Call) (f sinktest.Fault) {
		if c.Method == "Expire" {
			f.Err = &sink.Error{Class: sink.Transient, Reason: "locked", Err: errors.New("somebody holds a lock")}
		}
		return f
	}
	var at source.Cursor
	p, warned := inMemory(t, faulty(failing), func(p *partitions, rows func() int64) []func() source.Event {
		steps := []func() source.Event{opened("a", &at)}
		for n := range 100 {
			steps = append(steps, p.data("a", n), func() source.Event {
				time.Sleep(time.Second)
				return p.data("a", n)()
			})
		}
		return append(steps, func() source.Event { return source.Event{Kind: source.Closing, Lane: "a"} })
	})
	if s := p.Snapshot(); s.Lines != 200 || s.Batches < 100 || s.Tables[0].Expired != 0 {
		t.Errorf("%+v", s)
	}
	if strings.Count(warned, "somebody holds a lock") != 1 || !strings.Contains(warned, `old rows are left in table "t": the next run removes them`) {
		t.Errorf("it warned:\n%s", warned)
	}
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
	for kind, dest := range destinations(t) {
		t.Run(kind, func(t *testing.T) {
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
				if got := query(t, dest, "SELECT count(*) || '|' || min(n) || '|' || max(n) FROM t"); got != want {
					t.Errorf("the table is %s, want %s", got, want)
				}
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
}

// TestExpire_AStopLeavesTheRest: a run that is stopped ends, whatever is left.
func TestExpire_AStopLeavesTheRest(t *testing.T) {
	path, dest := filepath.Join(t.TempDir(), "feed.jsonl"), filepath.Join(t.TempDir(), "t.db")
	write(t, path, []string{`{"id":1,"n":1}`})
	c := configOf(t, path, "fail")
	expires(&c)
	c.Log = logtest.To(func(line string) {
		if strings.Contains(line, "old rows are left") {
			t.Error("it gave up, and did not stop")
		}
	})
	stopped, stop := context.WithCancel(t.Context())
	db := openSink(t, dest)
	defer db.Close()
	p, n := progress.New("t"), 0
	endless := faulty(func(c sinktest.Call) (f sinktest.Fault) {
		if c.Method == "Expire" {
			if n++; n == 3 {
				stop()
			}
			f.Err = &sink.Error{Class: sink.Transient, Reason: "locked", Err: errors.New("somebody holds a lock")}
		}
		return f
	})
	if err := job.Run(stopped, c, endless(db), openClaims(t, dest), p); err != nil || n < 3 {
		t.Errorf("it ended with %v after %d tries", err, n)
	}
}
