package cli_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/testweir"
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
			l := testweir.New(t, "t.db")
			l.Write("feed.jsonl", feed.String())
			run := l.Command("sync", source, "--table", "t", "--to", "t.db", "--batch-rows", "40", "--summary", "json").Under("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=ENOSPC:when=150+")
			run.Stdin = strings.NewReader(feed.String())
			said := run.Start().Exit(1)
			var summary struct{ Lines, Uncommitted int64 }
			l.Check(json.Unmarshal([]byte(run.Out()), &summary))
			committed := l.Ask("SELECT line FROM weir_checkpoints")
			if committed == "0" || fmt.Sprint(summary.Lines-summary.Uncommitted) != committed {
				t.Errorf("%d lines, of which %d were not committed, but %s were", summary.Lines, summary.Uncommitted, committed)
			}
			want := "free some space and run weir again"
			lost := fmt.Sprintf("lines of stdin that were read and not committed: %d. They are lost unless they are sent again", summary.Uncommitted)
			if fromFile := source != "-"; !strings.Contains(said, want) || strings.Contains(said, resumes) != fromFile || strings.Contains(said, lost) == fromFile {
				t.Error(said)
			}
		})
	}
}
