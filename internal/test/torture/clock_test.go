package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testpg"
)

// readClock is where time.Now reads the clocks.
var readClock = regexp.MustCompile(`(?m)^\tsec, nsec, mono := \w+\(\)\n`)

// jumpingClock builds weir with a wall clock that jumps every 300 ms by as many seconds as TEST_JUMPS says. The
// monotonic clock is not affected, as when a machine's clock is set.
func jumpingClock(t *testing.T) (weir string) {
	t.Helper()
	dir := t.TempDir()
	check := func(out []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	root := strings.TrimSpace(check(exec.Command("go", "env", "GOROOT").Output()))
	original := filepath.Join(root, "src", "time", "time.go")
	source := check(os.ReadFile(original))
	if n := len(readClock.FindAllString(source, -1)); n != 1 {
		t.Fatalf("this version of Go reads the clock in another way: %d times in %s", n, original)
	}
	source = readClock.ReplaceAllString(source, "${0}\tsec += mono / 3e8 % 1e3 * jumps()\n")
	source = strings.Replace(source, "import (", "import (\n	\"syscall\"", 1) + `
func jumps() (seconds int64) {
	text, _ := syscall.Getenv("TEST_JUMPS")
	n, _ := atoi(text)
	return int64(n)
}`
	overlay, err := Overlay(dir, map[string]string{original: source})
	check(nil, err)
	weir = filepath.Join(dir, "weir")
	check(exec.Command("go", "build", "-pgo=off", "-overlay", overlay, "-o", weir, "../../../cmd/weir").CombinedOutput())
	return weir
}

// TestClock_Jumps: batches are due by the monotonic clock, and nothing else depends on the time of day.
func TestClock_Jumps(t *testing.T) {
	times(t)
	t.Parallel()
	weir := jumpingClock(t)
	for _, kind := range []string{"sqlite file -3600", "postgres tcp 3600", "postgres tcp -3600", "sqlite spool 3600", "sqlite spool -3600"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var database, source, jumps string
			fmt.Sscan(kind, &database, &source, &jumps)
			sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
				to := ""
				if database == "postgres" {
					to = testpg.New(t)
				}
				const lines = 6000 // three seconds
				tr := newTrial(t, rnd, "", to, "normal", lines)
				tr.Program = weir
				switch source {
				case "file":
					tr.args = append([]string{"sync", "feed.jsonl", "--max-rate", "2000"}, tr.args...)
				default:
					tr.dial("2000/s")
				}
				if source == "spool" {
					tr.args = append(tr.args, "--spool", "spool")
				}
				c := tr.Command(append(tr.args, "--summary", "json")...)
				c.Env = append(c.Env, "TEST_JUMPS="+jumps)
				c.Start()
				tr.completes(c)
				var sum struct {
					Batches int
					Seconds float64
				}
				tr.Check(json.Unmarshal([]byte(c.Out()), &sum))
				t.Logf("%d batches in %.1f s", sum.Batches, sum.Seconds)
				// A batch is due at most every 20 ms; a busy machine writes fewer.
				if sum.Seconds < 2.5 || sum.Seconds > 60 || sum.Batches < 3 || float64(sum.Batches) > sum.Seconds/0.02+10 {
					t.Errorf("%d batches in %.1f seconds, by weir's clock, of a feed that takes three", sum.Batches, sum.Seconds)
				}
			})
		})
	}
}
