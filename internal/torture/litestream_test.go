package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirsync/weir/internal/testcheck"
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
	program, dir := litestream(t), t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "weir"))
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	const rows = 300_000
	feed := func(name string, n, value int) string {
		var b strings.Builder
		for i := range 2 * n { // each row twice, so that all are in one batch
			fmt.Fprintf(&b, `{"id":%d,"a":"%s","n":%d}`+"\n", i/2, strings.Repeat("x", 200), value+i)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	weir := filepath.Join(dir, "weir")
	run(weir, "sync", feed("first.jsonl", 10, 0), "--to", "t.db", "--table", "t", "--buffer", "1GiB", "-q")
	replicate := exec.Command(program, "replicate", "t.db", "file://"+filepath.Join(dir, "replica"))
	replicate.Dir = dir
	var log strings.Builder
	replicate.Stdout, replicate.Stderr = &log, &log
	if err := replicate.Start(); err != nil {
		t.Fatal(err)
	}
	run(weir, "sync", feed("load.jsonl", rows, 1), "--to", "t.db", "--table", "t", "--buffer", "1GiB", "-q")
	run(weir, "sync", feed("update.jsonl", rows/3, 7), "--to", "t.db", "--table", "t", "--buffer", "1GiB", "-q")
	if err := replicate.Process.Signal(syscall.SIGINT); err != nil { // it replicates the rest first
		t.Fatal(err)
	}
	if err := replicate.Wait(); err != nil && replicate.ProcessState.ExitCode() > 0 {
		t.Logf("litestream: %v", err)
	}
	run(program, "restore", "-o", "copy.db", "file://"+filepath.Join(dir, "replica"))
	run(weir, "verify", "first.jsonl", "load.jsonl", "update.jsonl", "--to", "copy.db", "--table", "t")
	status := func(db string) string { return run(weir, "status", "--to", db, "--json") }
	if want, got := status("t.db"), status("copy.db"); got != want {
		t.Errorf("the status of the copy:\n%s\nwant\n%s\n%s", got, want, log.String())
	}
}
