package job_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestRejects_OneFileForManyDatabases: each has marks of its own, though the jobs are of one
// name; and a mark of a file that was moved away says nothing of the next one.
func TestRejects_OneFileForManyDatabases(t *testing.T) {
	dir := t.TempDir()
	feed, file := filepath.Join(dir, "feed.jsonl"), filepath.Join(dir, "rejects")
	sync := func(db, line string, through func(sink.Sink) sink.Sink) {
		t.Helper()
		f, err := os.OpenFile(feed, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, line); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := runUntil(t, configOf(t, feed, "file:"+file), filepath.Join(dir, db), through, never); (err != nil) != (through != nil) {
			t.Fatal(err)
		}
	}
	has := func(want string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range regexp.MustCompile(`"raw":"(.*?)"`).FindAllSubmatch(text, -1) {
			got = append(got, string(m[1]))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the file has %q, want %s\n%s", got, want, text)
		}
	}
	sync("a.db", `{"id":1}`+"\none\n", nil)
	sync("b.db", "two\n", nil)
	has("one one two")
	sync("a.db", "", nil)
	has("one one two two")
	torn := crashIn(1)
	sync("a.db", "three\n", torn)
	sync("b.db", "", nil)
	has("one one two two three three")
	sync("a.db", "", nil)
	has("one one two two three three") // one of b's, and a's again
	if err := os.Rename(file, file+".old"); err != nil {
		t.Fatal(err)
	}
	sync("a.db", "four\nfive\nsix\nseven\neight\nnine\n", nil)
	sync("b.db", "", torn)
	sync("b.db", "", nil)
	has("four five six seven eight nine four five six seven eight nine")
}

var errCrash = errors.New("crash")

// crashIn has the program end in its nth flush, after the rejects were written and before
// the commit.
func crashIn(n int) func(sink.Sink) sink.Sink {
	return faulty(sinktest.Flushes(func(c sinktest.Call) (f sinktest.Fault) {
		if c.N == n {
			f.At, f.Err = sinktest.Within, errCrash
		}
		return f
	}))
}

// TestRejects_OneFileForMany: the file has each bad line once, whichever source it is of,
// and wherever a run breaks.
func TestRejects_OneFileForMany(t *testing.T) {
	for first := range 7 {
		for second := range 7 {
			dir := t.TempDir()
			var sources []string
			for _, name := range []string{"a", "b"} {
				path := filepath.Join(dir, name)
				sources = append(sources, path)
				if err := os.WriteFile(path, []byte("bad "+name+"1\n"+`{"id":"`+name+`"}`+"\nbad "+name+"2\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(dir, "rejects")
			for n, order := range [][]string{sources, {sources[1], sources[0]}, sources, sources} {
				c := configOf(t, "", "file:"+file)
				c.Sources, c.BatchRows, c.BatchPeriod = order, 1, 0
				left := []int{first, second, 0, 0}[n]
				_, err := runUntil(t, c, filepath.Join(dir, "t.db"), crashIn(left), never)
				if err != nil && left == 0 {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range []string{"bad a1", "bad a2", "bad b1", "bad b2"} {
				if n := strings.Count(string(got), `"`+bad+`"`); n != 1 {
					t.Errorf("breaking in flushes %d and %d: %q is in the file %d times\n%s", first, second, bad, n, got)
				}
			}
		}
	}
}

// TestRejects_DropsMoreThanItReadsAtOnce: what a flush left that did not commit is taken out
// whole, from between lines of others and from the end.
func TestRejects_DropsMoreThanItReadsAtOnce(t *testing.T) {
	const lines, text = 60, 60_000
	dir := t.TempDir()
	file := filepath.Join(dir, "rejects")
	var feed strings.Builder
	for n := range lines {
		fmt.Fprintf(&feed, "bad %d %s\n", n, strings.Repeat("\x7f", text)) // one character in JSON each
	}
	path := filepath.Join(dir, "feed.jsonl")
	if err := os.WriteFile(path, []byte(feed.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := configOf(t, path, "file:"+file)
	c.Source.MaxLine, c.Buffer, c.BatchPeriod = 1<<20, 32<<20, time.Minute
	sync := func(db string, through func(sink.Sink) sink.Sink) {
		t.Helper()
		if _, err := runUntil(t, c, filepath.Join(dir, db), through, never); (err != nil) != (through != nil) {
			t.Fatal(err)
		}
	}
	torn := crashIn(2) // the first flush makes the mark
	sync("a.db", torn)
	sync("b.db", nil)
	sync("a.db", nil)
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n := range lines { // of each database
		if times := bytes.Count(got, fmt.Appendf(nil, `"raw":"bad %d `, n)); times != 2 {
			t.Errorf("line %d is in the file %d times, want 2", n, times)
		}
	}
	for line := range bytes.Lines(got) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !json.Valid(line) {
			t.Errorf("a line is damaged: %.60s…", line)
		}
	}
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	sync("c.db", torn)
	sync("c.db", nil)
	now, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if grew := now.Size() - was.Size(); grew < lines*text || grew > lines*(text+1000) {
		t.Errorf("the file grew by %d bytes: what was left at its end is still there", grew)
	}
}

// small looks at the batches on their way to a database.
type small struct {
	sink.Sink
	t       *testing.T
	most    int // bytes of rejects in a batch
	batches int
}

func (d *small) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	size := 0
	for i := range f.Rejects {
		size += f.Rejects[i].Bytes()
	}
	if d.batches++; size > d.most {
		d.t.Errorf("a flush has %d bytes of rejects, want %d at most", size, d.most)
	}
	return d.Sink.Flush(ctx, f)
}

// TestRejects_LargeOnesAreHandedOver: they do not fill the buffer, for they take more than
// their room while they are written.
func TestRejects_LargeOnesAreHandedOver(t *testing.T) {
	const line = 60_000
	feed := filepath.Join(t.TempDir(), "feed")
	if err := os.WriteFile(feed, bytes.Repeat([]byte(strings.Repeat("x", line)+"\n"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, maxLine := range []int{1 << 20, line - 1} {
		c := configOf(t, feed, "table")
		c.Source.MaxLine, c.Buffer, c.BatchPeriod = maxLine, 8<<20, time.Minute
		d := &small{t: t, most: int(c.Buffer/8) + line + 1000}
		if _, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), func(db sink.Sink) sink.Sink { d.Sink = db; return d }, never); err != nil {
			t.Fatal(err)
		}
		if d.batches < 100*line/d.most {
			t.Errorf("did not exercise: %d batches", d.batches)
		}
	}
}
