package torture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	feeds "github.com/weirsync/weir/internal/test/bench"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// TestMemory_LongLines: the peak is at most one and a half times the buffer, 64 MiB, and ten times the longest line.
func TestMemory_LongLines(t *testing.T) {
	times(t)
	const longest = 15 << 20
	pad := strings.Repeat("x", longest)
	escaped := strings.Repeat(`\u0041`, longest/6)
	for name, line := range map[string]func(i int) string{
		"escapes": func(i int) string { return fmt.Sprintf(`{"id":%d,"a":"%s"}`, i, escaped[:len(escaped)-60]) },
		"fields":  func(i int) string { return fmt.Sprintf(`{"id":%d%s}`, i, strings.Repeat(`,"a":1`, longest/6-10)) },
		"both": func(i int) string {
			return fmt.Sprintf(`{"id":%d%s,"b":%q}`, i, strings.Repeat(`,"a":1`, 60_000), pad[:longest-400_000])
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := testweir.New(t, "t.db")
			var feed strings.Builder
			for i := range 4 {
				feed.WriteString(line(i) + "\n")
			}
			f.Write("feed.jsonl", feed.String())
			c := f.Start("sync", "feed.jsonl", "--to", "t.db", "--buffer", "1MiB", "-q")
			peak := c.Peak()
			c.Exit(map[bool]int{true: 3}[name == "fields"])
			t.Logf("%.1f MiB", float64(peak)/(1<<20))
			if most := int64(3<<20/2 + 64<<20 + 10*longest); peak > most {
				t.Errorf("%d bytes, want at most %d", peak, most)
			}
		})
	}
}

// TestFault_Memory runs weir with less and less memory for its data. With the promised memory it succeeds; with less
// it may end at any moment, and nothing is lost. If the C library creates a thread, its whole stack limit counts as
// data (8 MiB is usual), and the number of threads is random: so the stacks are small.
func TestFault_Memory(t *testing.T) {
	times(t)
	sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
		ended := map[int]int{}
		for kilobytes := 160_000; kilobytes > 20_000; kilobytes -= 20_000 {
			tr := newTrial(t, rnd, "file", "", "full", 20000)
			c := tr.Command(append(tr.args, "--buffer", "16MiB", "--batch-rows", "300")...).Under("sh", "-c", fmt.Sprintf(`ulimit -s 512; ulimit -d %d; exec "$0" "$@"`, kilobytes)).Start()
			code := c.Wait()
			ended[code]++
			if kilobytes == 160_000 && code != 3 { // 3: the feed has bad lines
				t.Errorf("with %d kB: exit %d\n%s", kilobytes, code, c.Log())
			}
			tr.verify()
			tr.completes(tr.start())
		}
		t.Logf("exit codes: %s", strings.TrimPrefix(fmt.Sprint(ended), "map"))
		if len(ended) < 2 {
			t.Error("did not exercise: memory was never short")
		}
	})
}

// TestMemory_LargeBatches: batches that fill the buffer take at most one and a half times the buffer and 64 MiB, for
// rows of any shape.
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
