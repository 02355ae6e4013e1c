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
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestRejects_TheFileIsOfOneJob: what a crash left behind the committed lines is cut off; another database has no
// part in the file; and one that was moved away is made again.
func TestRejects_TheFileIsOfOneJob(t *testing.T) {
	dir := t.TempDir()
	feed, file := filepath.Join(dir, "feed.jsonl"), filepath.Join(dir, "rejects")
	sync := func(db, line string, through func(sink.Sink) sink.Sink) error {
		t.Helper()
		f, err := os.OpenFile(feed, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		testcheck.NoError(t, err)
		if _, err := io.WriteString(f, line); err != nil {
			t.Fatal(err)
		}
		f.Close()
		_, err = runUntil(t, configOf(t, feed, "file:"+file), filepath.Join(dir, db), through, never)
		return err
	}
	has := func(want string) {
		t.Helper()
		text, err := os.ReadFile(file)
		testcheck.NoError(t, err)
		var got []string
		for line := range bytes.Lines(text) {
			var l struct{ Raw string }
			if err := json.Unmarshal(line, &l); err != nil {
				t.Errorf("a line is damaged: %q", line)
			}
			got = append(got, l.Raw)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("the file has %q, want %s", got, want)
		}
	}
	for _, step := range []struct {
		db, line string
		through  func(sink.Sink) sink.Sink
		want     string // of the error
		has      string
	}{
		{"a.db", `{"id":1}` + "\none\n", nil, "", "one"},
		{"a.db", "two\n" + strings.Repeat("x", 60_000) + "\n", crashIn(1), errCrash.Error(), "one two " + strings.Repeat("x", 60_000)},
		{"b.db", "", nil, `lines that job "t" wrote beside another database`, "one two " + strings.Repeat("x", 60_000)},
		{"a.db", "", nil, "", "one two " + strings.Repeat("x", 60_000)},
	} {
		if err := sync(step.db, step.line, step.through); step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("into %s: %v, want %q", step.db, err, step.want)
		}
		has(step.has)
	}
	testcheck.NoError(t, os.Rename(file, file+".old"))
	if err := sync("a.db", "three\n", nil); err != nil {
		t.Error(err)
	}
	has("three")
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
				testcheck.NoError(t, os.WriteFile(path, []byte("bad "+name+"1\n"+`{"id":"`+name+`"}`+"\nbad "+name+"2\n"), 0o600))
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
			testcheck.NoError(t, err)
			for _, bad := range []string{"bad a1", "bad a2", "bad b1", "bad b2"} {
				if n := strings.Count(string(got), `"`+bad+`"`); n != 1 {
					t.Errorf("breaking in flushes %d and %d: %q is in the file %d times\n%s", first, second, bad, n, got)
				}
			}
		}
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
	testcheck.NoError(t, os.WriteFile(feed, bytes.Repeat([]byte(strings.Repeat("x", line)+"\n"), 100), 0o600))
	for _, maxLine := range []int{1 << 20, line - 1} {
		c := configOf(t, feed, "table")
		c.Source.MaxLine, c.Buffer, c.BatchPeriod = maxLine, 8<<20, time.Minute
		d := &small{t: t, most: int(c.Buffer/8) + line + 1000}
		succeedsUntil(t, c, filepath.Join(t.TempDir(), "t.db"), func(db sink.Sink) sink.Sink { d.Sink = db; return d }, never)
		if d.batches < 100*line/d.most {
			t.Errorf("did not exercise: %d batches", d.batches)
		}
	}
}

// TestSync_OtherFormatsInPieces: what a source is does not depend on how its lines come. Five lines tell it, or its end.
func TestSync_OtherFormatsInPieces(t *testing.T) {
	for _, test := range []struct{ lines, want, rejects string }{
		{"a,b|1,2", "a: this is CSV", ""},
		{"a,b|1,2|1,2|1,2|1,2|1,2|{}", "a: this is CSV", ""},
		{"{| 1|}", "a: this is JSON over several lines", ""},
		{"PK\x03\x04|{}", "a: this is a zip archive", ""},
		{`a,b|1,2|{"id":1}`, "", "2"},
		{`a,b|1,2|{"id":1}|1,2|1,2|1,2|1,2`, "", "6"},
		{"a,b", "", "1"},
		{"a,b|1", "", "2"},
	} {
		for _, pieces := range []bool{false, true} {
			dest := filepath.Join(t.TempDir(), "t.db")
			c := configOf(t, "", "table")
			c.Sources, c.BatchPeriod, c.Feed = nil, 0, job.Feed{}
			pool, offset, at := source.NewPool(), int64(0), source.Cursor("")
			p := &partitions{steps: []func() source.Event{opened("a", &at)}, pool: pool}
			blocks := []string{strings.ReplaceAll(test.lines, "|", "\n") + "\n"}
			if pieces {
				blocks = strings.SplitAfter(strings.ReplaceAll(test.lines, "|", "\n")+"\n", "\n")
			}
			for _, text := range blocks {
				if text == "" {
					continue
				}
				p.steps = append(p.steps, func() source.Event {
					b, _ := pool.Fill(func(buf []byte) (int, error) { return copy(buf, text), nil })
					b.Offset = offset
					offset += int64(len(text))
					return source.Event{Lane: "a", Block: b}
				})
			}
			p.steps = append(p.steps, func() source.Event { return source.Event{Kind: source.Closing, Lane: "a"} })
			c.SetSource(p)
			_, err := runToEnd(t, c, dest, nil)
			got, _, _ := strings.Cut(fmt.Sprint(err), ";")
			if got == "<nil>" {
				got = ""
			}
			rejects := ""
			if test.rejects != "" {
				rejects = query(t, dest, "SELECT count(*) FROM weir_rejects")
			}
			if got != test.want || rejects != test.rejects {
				t.Errorf("%q in pieces %v: %q with %s rejects, want %q with %s", test.lines, pieces, got, rejects, test.want, test.rejects)
			}
		}
	}
}
