//go:build unix

package job_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestSync_LostLinesOfAFIFO: what was read of a FIFO and not committed is lost, though it has a name as a file has.
func TestSync_LostLinesOfAFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	testcheck.NoError(t, syscall.Mkfifo(fifo, 0o600))
	go func() {
		var lines strings.Builder
		for i := range 30 {
			fmt.Fprintf(&lines, `{"id":"%d"}`+"\n", i)
		}
		_ = os.WriteFile(fifo, []byte(lines.String()), 0) // the run may end before
	}()
	c := configOf(t, fifo, "table")
	c.Feed, c.BatchRows, c.BatchPeriod = job.Feed{}, 10, time.Hour
	broken := errors.New("it broke")
	p, err := runUntil(t, c, filepath.Join(t.TempDir(), "t.db"), faulty(nth(2, sinktest.Fault{Err: broken})), never)
	if want := fmt.Sprintf("it broke; lines of %s that were read and not committed: 20. They", fifo); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
	if s := p.Snapshot().Stops; len(s) != 1 || s[0].Lost != 20 || s[0].Resumes {
		t.Errorf("the source was left at %+v", s)
	}
}
