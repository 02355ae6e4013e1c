package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestMemory_LongLines: the peak is at most one and a half times the buffer, 64 MiB, and ten times
// the longest line.
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
			dir := t.TempDir()
			self, err := os.Executable()
			if err == nil {
				err = os.Symlink(self, filepath.Join(dir, "weir"))
			}
			var feed strings.Builder
			for i := range 4 {
				feed.WriteString(line(i) + "\n")
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "feed.jsonl"), []byte(feed.String()), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			c := exec.Command(filepath.Join(dir, "weir"), "sync", "feed.jsonl", "--to", "t.db", "--buffer", "1MiB", "-q")
			c.Dir = dir
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			peak := peakOf(c.Process.Pid, ended)
			if code, want := c.ProcessState.ExitCode(), map[bool]int{true: 3}[name == "fields"]; code != want {
				t.Errorf("exit %d, want %d", code, want)
			}
			t.Logf("%.1f MiB", float64(peak)/(1<<20))
			if most := int64(3<<20/2 + 64<<20 + 10*longest); peak > most {
				t.Errorf("%d bytes, want at most %d", peak, most)
			}
		})
	}
}

// peakOf returns the most memory that a program has had, in bytes, when it has ended. What the
// system counts for a child includes its parent's at the fork.
func peakOf(pid int, ended <-chan error) (bytes int64) {
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, text, ok := strings.Cut(string(status), "VmHWM:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			bytes = max(bytes, kilobytes<<10)
		}
		select {
		case <-ended:
			return bytes
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestFault_Memory runs weir with less and less memory for its data: with what it promises
// to need it runs through; with less it may end at any instant, and nothing is lost. The stack of
// each thread counts as data at its whole limit where the C library makes it (8 MiB is usual), and
// how many threads there are is chance: hence the small stacks.
func TestFault_Memory(t *testing.T) {
	times(t)
	sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
		ended := map[int]int{}
		for kilobytes := 160_000; kilobytes > 20_000; kilobytes -= 20_000 {
			tr := newTrial(t, rnd, "file", "", "full", 20000)
			c := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -s 512; ulimit -d %d; exec "$0" "$@"`, kilobytes), tr.path("weir"))
			c.Args = append(append(c.Args, tr.args...), "--buffer", "16MiB", "--batch-rows", "300")
			c.Dir = tr.dir
			out, _ := c.CombinedOutput()
			code := c.ProcessState.ExitCode()
			ended[code]++
			if kilobytes == 160_000 && code != 3 { // 3: the feed has bad lines
				t.Errorf("with %d kB: exit %d\n%s", kilobytes, code, out)
			}
			tr.verify()
			again, errs := tr.start()
			if all, to := tr.done(again, errs, nil), tr.verify(); !all || to != len(tr.feed) {
				t.Fatalf("with %d kB: the next run ended after line %d\n%s", kilobytes, to, errs)
			}
		}
		t.Logf("exit codes: %s", strings.TrimPrefix(fmt.Sprint(ended), "map"))
		if len(ended) < 2 {
			t.Error("did not exercise: memory was never short")
		}
	})
}
