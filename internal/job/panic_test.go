package job_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/source"
)

// panicky is a mapper that fails at a line, when it has half of its changes.
type panicky struct {
	job.Mapper
	at string
}

func (p panicky) Map(l *feed.Line, from string, at fold.Place) ([]fold.TableChange, int, error) {
	if string(l.Text) == p.at {
		panic("a fault of weir")
	}
	return p.Mapper.Map(l, from, at)
}

// TestSync_PanicOfTheFold: the run ends with an error that names the line and has the stack, what was committed
// before stays, and the next run continues there.
func TestSync_PanicOfTheFold(t *testing.T) {
	path, dest := filepath.Join(t.TempDir(), "feed.jsonl"), filepath.Join(t.TempDir(), "t.db")
	write(t, path, []string{`{"t.id":"a","t.n":1}`, `{"t.id":"b","t.n":2}`, `{"t.id":"c","t.n":3}`, `{"t.id":"d","t.n":4}`, `{"t.id":"e","t.n":5}`})
	c := tablesConfig(t, path, "t")
	c.BatchRows = 2
	router := c.NewMapper
	c.NewMapper = func(names *feed.Names, limits schema.Limits) (job.Mapper, error) {
		m, err := router(names, limits)
		return panicky{m, `{"t.id":"d","t.n":4}`}, err
	}
	p, err := runToEnd(t, c, dest, nil)
	if want := path + " lines 4 to 5: weir itself failed"; !errors.As(err, new(*source.PanicError)) || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "panic_test.go") {
		t.Errorf("%v, want %s and the stack", err, want)
	}
	if did := p.Snapshot(); did.Lines != 5 {
		t.Errorf("%d lines were read, want 5", did.Lines)
	}
	if got := query(t, dest, "SELECT (SELECT max(line) FROM weir_checkpoints) || '|' || (SELECT count(*) FROM weir_rejects)"); got != "2|0" {
		t.Errorf("the checkpoint is %s, want line 2 without rejects", got)
	}
	c.NewMapper = router
	if _, err := runToEnd(t, c, dest, nil); err != nil {
		t.Fatal(err)
	}
	if got := query(t, dest, "SELECT count(*) FROM t"); got != "5" {
		t.Errorf("%s rows after the next run, want 5", got)
	}
}

// TestSync_PanicOfAScan: the same of a block that is scanned beside the fold.
func TestSync_PanicOfAScan(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "t.db")
	c := configOf(t, "", "fail")
	c.Sources, c.BatchPeriod, c.BatchRows = nil, 0, 1
	p := &partitions{pool: source.NewPool()}
	var a source.Cursor
	p.steps = []func() source.Event{opened("a", &a), p.data("a", 1), p.data("a", 2), func() source.Event {
		e := p.data("a", 3)()
		e.Block.Records = []source.Record{{Offset: 7, End: 1 << 40}, {Offset: 8, End: 1 << 41}} // which are not there
		return e
	}, p.data("a", 4)}
	c.SetSource(p)
	_, err := runToEnd(t, c, dest, nil)
	if want := "a offsets 7 to 8: weir itself failed"; !errors.As(err, new(*source.PanicError)) || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "scanRecords") {
		t.Errorf("%v, want %s and the stack", err, want)
	}
	if got := query(t, dest, "SELECT n FROM t"); got != "2" {
		t.Errorf("the table has %s, want what was read before", got)
	}
}

// TestSync_PanicBehindTheLastLine: all lines of the block are folded when weir fails, so the last one is named.
func TestSync_PanicBehindTheLastLine(t *testing.T) {
	for _, records := range []bool{true, false} {
		c := configOf(t, "", "fail")
		c.Sources, c.BatchPeriod = nil, 0
		p := &partitions{pool: source.NewPool()}
		var a source.Cursor
		p.steps = []func() source.Event{opened("a", &a), func() source.Event {
			e := p.data("a", 1)()
			if records {
				e.Block.Records = []source.Record{{Offset: 7, End: len(e.Block.Data)}}
			}
			e.Block.At = func(int) source.Cursor { panic("a fault of weir") }
			return e
		}}
		c.SetSource(p)
		did, err := runToEnd(t, c, filepath.Join(t.TempDir(), "t.db"), nil)
		want := "a lines 1 to 1: weir itself failed"
		if records {
			want = "a offsets 7 to 7: weir itself failed"
		}
		if !errors.As(err, new(*source.PanicError)) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if n := did.Snapshot().Lines; n != 1 {
			t.Errorf("%d lines were read, want 1", n)
		}
	}
}

// TestSync_PanicOfASource: what it brought before is good, and is written.
func TestSync_PanicOfASource(t *testing.T) {
	dest := filepath.Join(t.TempDir(), "t.db")
	c := configOf(t, "", "fail")
	c.Sources, c.BatchPeriod = nil, 0
	p := &partitions{pool: source.NewPool()}
	var a source.Cursor
	p.steps = []func() source.Event{opened("a", &a), p.data("a", 1), func() source.Event {
		return source.Event{Kind: source.Closing, Lane: "a", Err: source.Guard(func() error { panic("a fault of weir") })}
	}}
	c.SetSource(p)
	if _, err := runToEnd(t, c, dest, nil); !errors.As(err, new(*source.PanicError)) {
		t.Errorf("%v, want the panic", err)
	}
	if got := query(t, dest, "SELECT n FROM t"); got != "1" {
		t.Errorf("the table has %s, want what was read before", got)
	}
}
