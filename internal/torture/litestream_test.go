package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testweir"
)

// litestream returns the path of Litestream, which .ci/needs builds.
func litestream(t *testing.T) string {
	t.Helper()
	testcheck.Only(t)
	path, err := filepath.Abs("../../.bin/litestream")
	if err == nil {
		_, err = os.Stat(path)
	}
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}

// TestLitestream_LargeBatch: Litestream follows a database into which a large batch is loaded and then updated, and what
// it restores is equal.
func TestLitestream_LargeBatch(t *testing.T) {
	program, f := litestream(t), testweir.New(t, "t.db")
	weir := func(args ...string) string {
		t.Helper()
		run := f.Start(args...)
		run.Exit(0)
		return run.Out()
	}
	const rows = 300_000
	feed := func(name string, n, value int) string {
		var b strings.Builder
		for i := range 2 * n { // each row twice, so that all are in one batch
			fmt.Fprintf(&b, `{"id":%d,"a":"%s","n":%d}`+"\n", i/2, strings.Repeat("x", 200), value+i)
		}
		f.Write(name, b.String())
		return name
	}
	weir("sync", feed("first.jsonl", 10, 0), "--to", "t.db", "--table", "t", "--buffer", "1GiB", "-q")
	f.Program = program
	replica := "file://" + f.Path("replica")
	replicate := f.Start("replicate", "t.db", replica)
	f.Program = f.Path("weir")
	weir("sync", feed("load.jsonl", rows, 1), "--to", "t.db", "--table", "t", "--buffer", "1GiB", "-q")
	weir("sync", feed("update.jsonl", rows/3, 7), "--to", "t.db", "--table", "t", "--buffer", "1GiB", "-q")
	replicate.Signal(os.Interrupt) // it replicates the rest first
	replicate.Wait()
	f.Program = program
	weir("restore", "-o", "copy.db", replica)
	f.Program = f.Path("weir")
	weir("verify", "first.jsonl", "load.jsonl", "update.jsonl", "--to", "copy.db", "--table", "t")
	status := func(db string) string { return weir("status", "--to", db, "--json") }
	if want, got := status("t.db"), status("copy.db"); got != want {
		t.Errorf("the status of the copy:\n%s\nwant\n%s\n%s", got, want, replicate.Log())
	}
}
