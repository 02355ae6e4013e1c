package torture

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestFault_Memory runs weir with less and less memory for its data: with what it promises
// to need it runs through; with less it may end at any instant, and nothing is lost.
func TestFault_Memory(t *testing.T) {
	times(t)
	sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
		ended := map[int]int{}
		for kilobytes := 160_000; kilobytes > 20_000; kilobytes -= 20_000 {
			tr := newTrial(t, rnd, "file", "", "full", 20000)
			c := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -d %d; exec "$0" "$@"`, kilobytes), tr.path("weir"))
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
