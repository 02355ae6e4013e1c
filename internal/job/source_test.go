package job_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
)

// partitions is a source whose lanes come and end as its steps say, each of which runs in Next.
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

// opened offers a lane, and takes from where it is begun.
func opened(lane string, at *source.Cursor) func() source.Event {
	return func() source.Event {
		return source.Event{Kind: source.Opened, Lane: lane, Begin: func(_ context.Context, from source.Point) (source.Begun, error) {
			*at = from.Cursor
			return source.Begun{At: from.Cursor, Waits: true}, nil
		}}
	}
}

// data brings a line of a lane, whose cursor after it is a number.
func (p *partitions) data(lane string, number int) func() source.Event {
	return func() source.Event {
		line := fmt.Sprintf(`{"id":"%s","n":%d}`+"\n", lane, number)
		b, _ := p.pool.Fill(func(buf []byte) (int, error) { return copy(buf, line), nil })
		b.At = func(int) source.Cursor { return source.Cursor(fmt.Sprint(number)) }
		return source.Event{Lane: lane, Block: b}
	}
}

// TestSync_LanesComeAndEnd: a lane that somebody waits for is committed and free before he is
// answered, while others are read; it may come back. One that was lost is free at once.
func TestSync_LanesComeAndEnd(t *testing.T) {
	for kind, dest := range destinations(t) {
		t.Run(kind, func(t *testing.T) {
			c := configOf(t, "", "fail")
			c.Sources, c.BatchPeriod = nil, 0
			p := &partitions{pool: source.NewPool()}
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
			answered := make(chan bool)
			p.steps = []func() source.Event{
				opened("a", &a), p.data("a", 1), opened("b", &b), p.data("b", 2), p.data("a", 3),
				func() source.Event {
					return source.Event{Kind: source.Closing, Lane: "a", Done: func() {
						if got := query(t, dest, "SELECT n || '|' || (SELECT max(line) FROM weir_checkpoints WHERE source = 'a') FROM t WHERE id = 'a'"); got != "3|2" {
							t.Errorf("when the lane is handed over its row and line are %s", got)
						}
						free("a")
						close(answered)
					}}
				},
				func() source.Event { <-answered; return p.data("b", 4)() },
				opened("a", &again), p.data("a", 5),
				func() source.Event { return source.Event{Kind: source.Lost, Lane: "b"} },
				func() source.Event { return source.Event{Kind: source.Closing, Lane: "a"} },
			}
			c.SetSource(p)
			succeeds(t, c, dest, nil)
			if a != "" || b != "" || again != "3" {
				t.Errorf("the lanes were begun at %q and %q, and then at %q", a, b, again)
			}
			free("a")
			free("b")
			if got := query(t, dest, "SELECT sum(n) || '|' || count(*) FROM t"); got != "9|2" {
				t.Errorf("the table is %s", got)
			}
		})
	}
}

// TestSync_LanesComeBackBeforeTheyAreCommitted: such a lane continues where it was read to, and no
// flush that has it is taken for one that was committed before.
func TestSync_LanesComeBackBeforeTheyAreCommitted(t *testing.T) {
	for _, ends := range []source.Kind{source.Closing, source.Lost} {
		for _, rebuild := range []bool{false, true} {
			for kind, dest := range destinations(t) {
				t.Run(fmt.Sprintf("%s kind=%d rebuild=%t", kind, ends, rebuild), func(t *testing.T) {
					c := configOf(t, "", "fail")
					c.Sources, c.BatchPeriod, c.BatchRows, c.Rebuild = nil, 0, 2, rebuild
					p := &partitions{pool: source.NewPool()}
					var a, b, again source.Cursor
					p.steps = []func() source.Event{
						opened("a", &a), p.data("a", 1), opened("b", &b), p.data("b", 2), p.data("a", 3),
						func() source.Event { return source.Event{Kind: ends, Lane: "a"} },
						opened("a", &again), p.data("a", 4), p.data("b", 5),
					}
					c.SetSource(p)
					succeeds(t, c, dest, nil)
					if a != "" || again != "3" {
						t.Errorf("the lane was begun at %q, and then at %q", a, again)
					}
					if got := query(t, dest, "SELECT sum(n) || '|' || count(*) FROM t"); got != "9|2" {
						t.Errorf("the table is %s", got)
					}
				})
			}
		}
	}
}

// TestSync_NothingIsWrittenTwice: a block whose last line fills a batch leaves nothing for the next.
func TestSync_NothingIsWrittenTwice(t *testing.T) {
	for kind, dest := range destinations(t) {
		t.Run(kind, func(t *testing.T) {
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
}

// TestSync_LostLinesAreCountedByLane: of lanes that are not in each flush, those lines are named
// that were committed after the last flush which the database still has.
func TestSync_LostLinesAreCountedByLane(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "t.db")
	c := configOf(t, "", "fail")
	c.Sources, c.BatchPeriod, c.BatchRows = nil, 0, 1
	p := &partitions{pool: source.NewPool()}
	var at source.Cursor
	p.steps = []func() source.Event{
		opened("stdin", &at), opened("a", &at),
		p.data("stdin", 1), p.data("a", 2), p.data("stdin", 3), p.data("a", 4), p.data("stdin", 5), p.data("stdin", 6), p.data("a", 7),
	}
	c.SetSource(p)
	faults := sinktest.Flushes(func(call sinktest.Call) (f sinktest.Fault) {
		for _, l := range call.Flush.Lanes {
			if l.Source == "a" && call.N == 7 { // it was in all flushes but the first and the sixth
				f.Err = sink.BehindError{Lane: "a", Found: 1, Want: l.Checkpoint.Seq - 1}
			}
		}
		return f
	})
	_, err := runToEnd(t, c, dest, faults)
	if err == nil || !strings.Contains(err.Error(), "lines of stdin that were read and not committed: 3. They are lost unless they are sent again") {
		t.Error(err)
	}
}
