package job_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
)

var errCrash = errors.New("crash")

// crashIn has the program end in its nth flush, after the rejects were written and before
// the commit.
func crashIn(n int) func(sink.Sink) sink.Sink {
	return faulty(nth(n, sinktest.Fault{At: sinktest.Within, Err: errCrash}))
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

// TestRejects_LargeOnesAreHandedOver: they do not fill the buffer, for they take more than
// their room while they are written.
func TestRejects_LargeOnesAreHandedOver(t *testing.T) {
	const line = 60_000
	feed := filepath.Join(t.TempDir(), "feed")
	testcheck.NoError(t, os.WriteFile(feed, bytes.Repeat([]byte(strings.Repeat("x", line)+"\n"), 100), 0o600))
	for _, maxLine := range []int{1 << 20, line - 1} {
		c := configOf(t, feed, "table")
		c.Source.MaxLine, c.Buffer, c.BatchPeriod = maxLine, 8<<20, time.Minute
		most, batches := int(c.Buffer/8)+line+1000, 0
		succeeds(t, c, filepath.Join(t.TempDir(), "t.db"), sinktest.Flushes(func(call sinktest.Call) (f sinktest.Fault) {
			size := 0
			for i := range call.Flush.Rejects {
				size += call.Flush.Rejects[i].Bytes()
			}
			if batches++; size > most {
				t.Errorf("a flush has %d bytes of rejects, want %d at most", size, most)
			}
			return f
		}))
		if batches < 100*line/most {
			t.Errorf("did not exercise: %d batches", batches)
		}
	}
}
