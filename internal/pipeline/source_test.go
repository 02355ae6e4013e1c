package pipeline_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/example"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// partitions is a source whose lanes begin and end in steps. Each step runs in Next.
type partitions struct {
	steps []func() source.Event
	pool  *source.Pool
}

func (p *partitions) Next(ctx context.Context) (source.Event, error) {
	if len(p.steps) == 0 || ctx.Err() != nil {
		return source.Event{}, io.EOF
	}
	step := p.steps[0]
	p.steps = p.steps[1:]
	return step(), nil
}

func (p *partitions) Stop()        {}
func (p *partitions) Close() error { return nil }

func newPartitions() *partitions { return &partitions{pool: source.NewPool()} }

// A bubble is a job with a source of steps and a database of the example driver, in a [synctest] bubble.
type bubble struct {
	*testing.T
	pipeline.Config
	*partitions
	dest    string                    // the database's path
	through func(sink.Sink) sink.Sink // wraps the database; nil: nothing does
	p       *status.Progress

	mu   sync.Mutex
	said string
}

func inBubble(t *testing.T, do func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, Config: configOf(t, "", "fail"), partitions: newPartitions(), dest: filepath.Join(t.TempDir(), "t.db"), p: status.New("t")}
		b.Sources, b.Log = []string{"a"}, logtest.To(func(text string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said += text + "\n"
		})
		b.SetSource(func([]string) source.Source { return b.partitions })
		do(b)
	})
}

func (b *bubble) run() error { return b.runUntil(b.Context()) }

// runUntil runs the job until it ends, or the context does.
func (b *bubble) runUntil(ctx context.Context) error {
	b.Helper()
	db, err := example.Driver.Open(b.Context(), b.dest, sink.Options{Log: logtest.New(b.T)})
	testcheck.NoError(b.T, err)
	defer db.Close()
	claims, err := example.Driver.OpenClaims(b.Context(), b.dest, "t", sink.Options{Log: logtest.New(b.T)})
	testcheck.NoError(b.T, err)
	defer claims.Close()
	if b.through != nil {
		db = b.through(db)
	}
	return pipeline.Run(ctx, b.Config, db, claims, b.p)
}

// rows returns the number of rows in the table.
func (b *bubble) rows() (rows int64) {
	db, err := sql.Open("sqlite", b.dest)
	testcheck.NoError(b.T, err)
	defer db.Close()
	testcheck.NoError(b.T, db.QueryRowContext(b.Context(), "SELECT count(*) FROM t").Scan(&rows))
	return rows
}

// opened offers a lane, and records where it continues.
func opened(lane string, at *source.Cursor) func() source.Event {
	return func() source.Event {
		return source.Event{Kind: source.Opened, Lane: lane, Begin: func(_ context.Context, from source.Point) (source.Lane, error) {
			*at = from.Cursor
			return source.Lane{At: from.Cursor, Waits: true}, nil
		}}
	}
}

// data sends a line of a lane with a cursor.
func (p *partitions) data(lane string, number int) func() source.Event {
	return func() source.Event {
		e := p.text(lane, 0, fmt.Sprintf(`{"id":"%s","n":%d}`+"\n", lane, number))()
		e.Block.At = func(int) source.Cursor { return source.Cursor(fmt.Sprint(number)) }
		return e
	}
}

// text sends a block of a lane.
func (p *partitions) text(lane string, offset int64, text string) func() source.Event {
	return func() source.Event {
		b := p.pool.Block()
		b.Data, b.Offset = []byte(text), offset
		return source.Event{Lane: lane, Block: b}
	}
}

// ends ends a lane.
func ends(lane string, err error) func() source.Event {
	return func() source.Event { return source.Event{Kind: source.Closing, Lane: lane, Err: err} }
}

// TestSync_LanesComeAndEnd: if a source waits for a lane to be committed, it is committed before the answer, while
// others are read. A lost lane is released, and may come back.
func TestSync_LanesComeAndEnd(t *testing.T) {
	both(t, func(t *testing.T, dest string) {
		c := configOf(t, "", "fail")
		c.Sources, c.BatchPeriod = nil, 0
		p := newPartitions()
		var a, b, again source.Cursor
		others := openClaims(t, dest)
		defer others.Close()
		free := func(lane string) {
			t.Helper()
			if _, err := others.Take(t.Context(), lane); err != nil {
				t.Errorf("%s is not free: %v", lane, err)
			}
			if err := others.Drop(t.Context(), lane); err != nil {
				t.Error(err)
			}
		}
		answered, freed := make(chan bool), make(chan bool)
		p.steps = []func() source.Event{
			opened("a", &a), p.data("a", 1), opened("b", &b), p.data("b", 2), p.data("a", 3),
			func() source.Event {
				return source.Event{Kind: source.Barrier, Lane: "a", Reached: func(at source.Point) {
					has(t, dest, "3|2", "SELECT n || '|' || (SELECT max(line) FROM weir_checkpoints WHERE source = 'a') FROM t WHERE id = 'a'")
					if at.Cursor != "3" {
						t.Errorf("it is committed up to %q", at.Cursor)
					}
					close(answered)
				}}
			},
			func() source.Event { <-answered; return source.Event{Kind: source.Lost, Lane: "a"} },
			p.data("b", 4),
			func() source.Event {
				return source.Event{Kind: source.Barrier, Lane: "a", Reached: func(source.Point) { free("a"); close(freed) }}
			},
			func() source.Event { <-freed; return p.data("b", 4)() },
			opened("a", &again), p.data("a", 5),
			func() source.Event { return source.Event{Kind: source.Lost, Lane: "b"} },
			ends("a", nil),
		}
		c.SetSource(func([]string) source.Source { return p })
		succeeds(t, c, dest, nil)
		if a != "" || b != "" || again != "3" {
			t.Errorf("the lanes were begun at %q and %q, and then at %q", a, b, again)
		}
		free("a")
		free("b")
		has(t, dest, "9|2", "SELECT sum(n) || '|' || count(*) FROM t")
	})
}

// TestSync_LanesComeBackBeforeTheyAreCommitted: a lane that comes back continues where it ended, and a flush with it is
// not mistaken for one that was committed before.
func TestSync_LanesComeBackBeforeTheyAreCommitted(t *testing.T) {
	for _, kind := range []source.EventKind{source.Closing, source.Lost} {
		for _, rebuild := range []bool{false, true} {
			t.Run(fmt.Sprintf("kind=%d rebuild=%t", kind, rebuild), func(t *testing.T) {
				both(t, func(t *testing.T, dest string) {
					c := configOf(t, "", "fail")
					c.Sources, c.BatchPeriod, c.BatchRows, c.Restart.Rebuild = nil, 0, 2, rebuild
					p := newPartitions()
					var a, b, again source.Cursor
					p.steps = []func() source.Event{
						opened("a", &a), p.data("a", 1), opened("b", &b), p.data("b", 2), p.data("a", 3),
						func() source.Event { return source.Event{Kind: kind, Lane: "a"} },
						opened("a", &again), p.data("a", 4), p.data("b", 5),
					}
					c.SetSource(func([]string) source.Source { return p })
					succeeds(t, c, dest, nil)
					if a != "" || again != "3" {
						t.Errorf("the lane was begun at %q, and then at %q", a, again)
					}
					has(t, dest, "9|2", "SELECT sum(n) || '|' || count(*) FROM t")
				})
			})
		}
	}
}

// TestSync_NothingIsWrittenTwice: a block whose last line fills a batch leaves nothing for the next.
func TestSync_NothingIsWrittenTwice(t *testing.T) {
	both(t, func(t *testing.T, dest string) {
		path := filepath.Join(t.TempDir(), "feed.jsonl")
		write(t, path, []string{`{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":4}`})
		c := configOf(t, path, "fail")
		c.BatchRows = 2
		p, err := runToEnd(t, c, dest, nil)
		if s := p.Snapshot(); err != nil || s.Batches != 2 {
			t.Errorf("%d batches, %v", s.Batches, err)
		}
	})
}

// TestSync_LostLinesAreCountedByLane: a database that was restored says what it still has of one lane. Of the others
// all lines may be lost.
func TestSync_LostLinesAreCountedByLane(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "t.db")
	c := configOf(t, "", "fail")
	c.Sources, c.BatchPeriod, c.BatchRows = nil, 0, 1
	p := newPartitions()
	var at source.Cursor
	p.steps = []func() source.Event{
		opened("stdin", &at), opened("a", &at),
		p.data("stdin", 1), p.data("a", 2), p.data("stdin", 3), p.data("a", 4), p.data("stdin", 5), p.data("stdin", 6), p.data("a", 7),
	}
	c.SetSource(func([]string) source.Source { return p })
	faults := sinktest.Flushes(func(call sinktest.Call) (f sinktest.Fault) {
		for _, l := range call.Flush.Lanes {
			if l.Source == "a" && call.N == 7 { // it was in all flushes but the first and the sixth
				f.Err = sink.BehindError{Lane: "a", Found: 1, Want: l.Checkpoint.Seq - 1}
			}
		}
		return f
	})
	_, err := runToEnd(t, c, dest, faults)
	if err == nil || !strings.Contains(err.Error(), "lines of stdin that were read and perhaps not committed: 4. They are lost unless they are sent again") {
		t.Error(err)
	}
}
