package pipeline_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
)

// torn is a program that ends in a flush, after the rejects were written and before the
// commit.
type torn struct {
	sink.Sink
	left int
}

func (d *torn) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if d.left--; d.left > 0 {
		return d.Sink.Flush(ctx, f)
	}
	if err := f.BeforeCommit(f.Batch.Rejects, &f.Checkpoint); err != nil {
		return sink.Result{}, err
	}
	return sink.Result{}, errCrash
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
				_, err := runUntil(t, c, filepath.Join(dir, "t.db"), func(db sink.Sink) sink.Sink {
					if left == 0 {
						return db
					}
					return &torn{db, left}
				}, never)
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
