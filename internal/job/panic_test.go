package job_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/source"
)

// isPanic demands an error of a fault of weir that begins with a text, and has another one in its stack.
func isPanic(t *testing.T, err error, begins, stack string) {
	t.Helper()
	if !errors.As(err, new(*source.PanicError)) || !strings.HasPrefix(err.Error(), begins) || !strings.Contains(err.Error(), stack) {
		t.Errorf("%v, want %s and the stack with %s", err, begins, stack)
	}
}

// TestSync_PanicOfTheFold: the run ends with an error that names the line and has the stack, what was committed
// before stays, and the next run continues there.
func TestSync_PanicOfTheFold(t *testing.T) {
	path, dest := filepath.Join(t.TempDir(), "feed.jsonl"), filepath.Join(t.TempDir(), "t.db")
	write(t, path, []string{`{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`, `{"id":"d"}`, `{"id":"e"}`})
	c := configOf(t, path, "table")
	c.BatchRows, c.BatchPeriod = 2, 0
	onEachLine(&c, func(line string) {
		if line == `{"id":"d"}` {
			panic("a fault of weir")
		}
	})
	p, err := runToEnd(t, c, dest, nil)
	isPanic(t, err, path+" lines 4 to 5: weir itself failed", "panic_test.go")
	if did := p.Snapshot(); did.Lines != 5 {
		t.Errorf("%d lines were read, want 5", did.Lines)
	}
	has(t, dest, "2|0", "SELECT (SELECT max(line) FROM weir_checkpoints) || '|' || (SELECT count(*) FROM weir_rejects)")
	onEachLine(&c, func(string) {})
	succeeds(t, c, dest, nil)
	has(t, dest, "5", "SELECT count(*) FROM t")
}

// TestSync_PanicOfASource: what was read before weir fails is good, and is written: while a source reads, while a block is
// scanned beside the fold, and when all lines of one are folded, where the last one is named.
func TestSync_PanicOfASource(t *testing.T) {
	records := func(e source.Event, all ...source.Record) source.Event {
		e.Block.Records = all
		return e
	}
	behind := func(e source.Event) source.Event {
		e.Block.At = func(int) source.Cursor { panic("a fault of weir") }
		return e
	}
	for name, test := range map[string]struct {
		fails         func(b *bubble) source.Event
		begins, stack string
		lines         int64
	}{
		"in Next": {func(*bubble) source.Event {
			return ends("a", source.Guard(func() error { panic("a fault of weir") }))()
		}, "", "panic_test.go", 1},
		"of the scan": {func(b *bubble) source.Event {
			return records(b.data("a", 3)(), source.Record{Offset: 7, End: 1 << 40}, source.Record{Offset: 8, End: 1 << 41})
		}, "a offsets 7 to 8: weir itself failed", "scanRecords", 3},
		"behind the last line": {func(b *bubble) source.Event { return behind(b.data("a", 3)()) }, "a lines 2 to 2: weir itself failed", "panic_test.go", 2},
		"behind the last record": {func(b *bubble) source.Event {
			e := b.data("a", 3)()
			return behind(records(e, source.Record{Offset: 7, End: len(e.Block.Data)}))
		}, "a offsets 7 to 7: weir itself failed", "panic_test.go", 2},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(b *bubble) {
				b.BatchRows = 1
				var at source.Cursor
				b.steps = []func() source.Event{opened("a", &at), b.data("a", 1), func() source.Event { return test.fails(b) }}
				isPanic(t, b.run(), test.begins, test.stack)
				if n, lines := b.rows(), b.p.Snapshot().Lines; n != 1 || lines != test.lines {
					t.Errorf("%d rows and %d lines, want 1 and %d", n, lines, test.lines)
				}
			})
		})
	}
}
