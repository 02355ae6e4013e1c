package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSync_FullDiskPromisesWhatIsTrue: the same command resumes with a file; of stdin weir says how many lines
// were read and not committed.
func TestSync_FullDiskPromisesWhatIsTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("strace takes long under the race detector")
	}
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed: no write can be made to fail")
	}
	const lines, resumes = 6000, "the same command resumes where it stopped"
	var feed strings.Builder
	for i := range lines {
		fmt.Fprintf(&feed, `{"id":"%d"}`+"\n", i)
	}
	for _, source := range []string{"feed.jsonl", "-"} {
		t.Run(source, func(t *testing.T) {
			l := newLive(t, "t.db")
			l.check(os.WriteFile(filepath.Join(l.dir, "feed.jsonl"), []byte(feed.String()), 0o600))
			sync := []string{filepath.Join(l.dir, "weir"), "sync", source, "--table", "t", "--to", "t.db", "--batch-rows", "40", "--summary", "json"}
			c := exec.Command("strace", append([]string{"-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=ENOSPC:when=150+"}, sync...)...)
			var stdout, stderr bytes.Buffer
			c.Dir, c.Stdin, c.Stdout, c.Stderr = l.dir, strings.NewReader(feed.String()), &stdout, &stderr
			_ = c.Run() // its exit code tells
			var summary struct{ Lines, Uncommitted int64 }
			l.check(json.Unmarshal(stdout.Bytes(), &summary))
			committed := l.ask("SELECT line FROM weir_checkpoints")
			if c.ProcessState.ExitCode() != 1 || committed == "0" || fmt.Sprint(summary.Lines-summary.Uncommitted) != committed {
				t.Errorf("exit code %d; %d lines, of which %d were not committed, but %s were", c.ProcessState.ExitCode(), summary.Lines, summary.Uncommitted, committed)
			}
			said, want := stderr.String(), "free some space and run weir again"
			lost := fmt.Sprintf("lines of stdin that were read and not committed: %d. They are lost unless they are sent again", summary.Uncommitted)
			if fromFile := source != "-"; !strings.Contains(said, want) || strings.Contains(said, resumes) != fromFile || strings.Contains(said, lost) == fromFile {
				t.Error(said)
			}
		})
	}
}
