package torture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	feeds "github.com/weirsync/weir/internal/bench"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// TestMemory_LargeBatches: batches that fill the buffer take no more than one and a half times of it and 64 MiB, whatever
// the shape of the rows.
func TestMemory_LargeBatches(t *testing.T) {
	times(t)
	for name, feed := range map[string]func(io.Writer) error{
		"wide":     func(w io.Writer) error { return feeds.Hot(w, 400_000, 300_000, 1) },
		"distinct": func(w io.Writer) error { return feeds.Distinct(w, 400_000, 1) },
		"narrow": func(w io.Writer) error {
			for i := range 1_500_000 {
				if _, err := fmt.Fprintf(w, `{"id":%d,"a":%d,"b":"v%d"}`+"\n", i*7919%1_000_000, i, i); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := testweir.New(t, "")
			file, err := os.Create(f.Path("feed.jsonl"))
			f.Check(err)
			w := bufio.NewWriter(file)
			f.Check(errors.Join(feed(w), w.Flush(), file.Close()))
			for kind, dest := range map[string]string{"sqlite": "t.db", "postgres": testpg.New(t)} {
				for _, buffer := range []int64{16, 64} { // MiB
					os.Remove(f.Path("t.db"))
					run := f.Start("sync", "feed.jsonl", "--to", dest, "--table", fmt.Sprintf("t%d", buffer), "--job", fmt.Sprint(buffer), "--buffer", fmt.Sprintf("%dMiB", buffer), "-q")
					peak, most := run.Peak(), buffer<<20*3/2+64<<20
					run.Exit(0)
					t.Logf("%s, %d MiB: %.1f MiB of %d", kind, buffer, float64(peak)/(1<<20), most>>20)
					if peak > most {
						t.Errorf("%s, --buffer %dMiB: %d bytes, want at most %d", kind, buffer, peak, most)
					}
				}
			}
		})
	}
}
