package job_test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestBatches_ByMemory: a file is folded as far as memory allows; if all of its rows are new, waiting would save nothing,
// and batches are written while it is read.
func TestBatches_ByMemory(t *testing.T) {
	const messages = 240_000
	for name, test := range map[string]struct {
		repeats     int // messages of each id
		buffer      int64
		least, most int64 // batches
	}{
		"in one batch":                   {2, 1 << 30, 1, 1},
		"all rows are new":               {1, 1 << 30, 2, 3},
		"as much as the buffer may hold": {2, 8 << 20, 2, 20},
	} {
		t.Run(name, func(t *testing.T) {
			feed := make([]string, messages)
			for i := range feed {
				feed[i] = fmt.Sprintf(`{"id":%d,"a":%d}`, i/test.repeats, i)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "feed.jsonl")
			write(t, path, feed)
			c := configOf(t, path, "fail")
			c.BatchRows, c.BatchPeriod, c.Buffer = 0, 0, test.buffer
			dest := filepath.Join(dir, "t.db")
			p, _ := runAll(t, c, dest)
			if got := p.Snapshot().Batches; got < test.least || got > test.most {
				t.Errorf("%d batches, want %d to %d", got, test.least, test.most)
			}
			if got, want := query(t, dest, "SELECT count(*) || ' ' || max(a) FROM t"), fmt.Sprint(messages/test.repeats, " ", messages-1); got != want {
				t.Errorf("the table is %s, want %s", got, want)
			}
		})
	}
}
