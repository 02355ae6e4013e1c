package torture

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

// TestLitestream_LargeBatch: Litestream replicates a database that a live run writes to, while a large batch is
// loaded and then updated. The restored database is equal.
func TestLitestream_LargeBatch(t *testing.T) {
	program, f := testcheck.Tool(t, "litestream"), testweir.New(t, "t.db")
	weir := func(args ...string) string {
		t.Helper()
		run := f.Start(args...)
		run.Exit(0)
		return run.Out()
	}
	rows := 300_000 * times(t)
	feed := func(name string, n, value int) {
		var b strings.Builder
		for i := range 2 * n { // each row twice, so all are in one batch
			fmt.Fprintf(&b, `{"id":%d,"a":"%s","n":%d}`+"\n", i/2, strings.Repeat("x", 200), value+i)
		}
		f.Write(name, b.String())
	}
	load := func(name string) {
		weir("sync", name, "--to", "t.db", "--table", "t", "--buffer", "2GiB", "-q")
	}
	feed("load.jsonl", rows, 1)
	feed("update.jsonl", rows/3, 7)
	line := func(i int) string { return fmt.Sprintf(`{"id":%d,"n":%d}`+"\n", i%1000, i) }
	f.Write("live.jsonl", line(0))
	live := f.Start("sync", "live.jsonl", "--follow", "--to", "t.db", "--batch-period", "50ms", "-q")
	f.Becomes("1", "SELECT count(*) FROM live")
	f.Program = program
	replica := "file://" + f.Path("replica")
	replicate := f.Start("replicate", "t.db", replica)
	f.Program = f.Path("weir")
	log, err := os.OpenFile(f.Path("live.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	f.Check(err)
	defer func() { _ = log.Close() }()
	loaded, fed := make(chan struct{}), make(chan int)
	go func() {
		for n := 1; ; n++ {
			select {
			case <-loaded:
				fed <- n
				return
			case <-time.After(time.Millisecond):
				if _, err := log.WriteString(line(n)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	load("load.jsonl")
	load("update.jsonl")
	close(loaded)
	f.Becomes(fmt.Sprint(<-fed-1), "SELECT max(n) FROM live")
	live.Interrupt()
	replicate.Signal(os.Interrupt) // it replicates the rest first
	replicate.Wait()
	f.Program = program
	weir("restore", "-o", "copy.db", replica)
	f.Program = f.Path("weir")
	weir("verify", "load.jsonl", "update.jsonl", "--to", "copy.db", "--table", "t")
	weir("verify", "live.jsonl", "--to", "copy.db")
	status := func(db string) string { return weir("status", "--to", db, "--json") }
	if want, got := status("t.db"), status("copy.db"); got != want {
		t.Errorf("the status of the copy:\n%s\nwant\n%s\n%s", got, want, replicate.Log())
	}
}
