package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testweir"
)

// tapped is what a tap writes of a log of changes, from behind one of them on: each stream with its schema, and a state now
// and then.
func tapped(changes []string, rnd *rand.Rand, from, upto int) string {
	var b strings.Builder
	for _, stream := range []string{"a", "b"} {
		fmt.Fprintf(&b, `{"type":"SCHEMA","stream":%q,"schema":{"type":"object","properties":{"id":{"type":"integer"},"n":{"type":"integer"},"at":{"type":["null","string"],"format":"date-time"}}},"key_properties":["id"]}`+"\n", stream)
	}
	for n := from; n < upto; n++ {
		fmt.Fprintln(&b, changes[n])
		if rnd.IntN(50) == 0 || n == from+20 || n+1 == len(changes) {
			fmt.Fprintf(&b, `{"type":"STATE","value":{"upto":%d}}`+"\n", n+1)
		}
	}
	return b.String()
}

// TestSinger_Killed: targets are killed that have printed a state, and the tap resumes there: nothing is lost that came before
// a printed state.
func TestSinger_Killed(t *testing.T) {
	testcheck.Only(t)
	t.Parallel()
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		t.Parallel()
		sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
			f, changes, state := testweir.New(t, to(t)), make([]string, 4000), 0
			for n := range changes { // most rows are in few of them: a later one does not hide that one is lost
				more := []string{"", "", "", "", `,"at":null`, `,"_sdc_deleted_at":"2024-01-02T03:04:05Z"`, fmt.Sprintf(`,"at":"2024-01-02 03:04:%02d+00"`, rnd.IntN(60))}[rnd.IntN(7)]
				changes[n] = fmt.Sprintf(`{"type":"RECORD","stream":%q,"record":{"id":%d,"n":%d%s}}`, []string{"a", "b"}[rnd.IntN(2)], rnd.IntN(2000), n, more)
			}
			for kills := 4; state < len(changes); kills-- {
				upto := len(changes)
				if kills > 0 {
					upto = state + 30 + rnd.IntN(600)
				}
				c := f.Command("sync", "--envelope", "singer", "--to", f.To, "--batch-period", "20ms", "--batch-rows", "300", "-q")
				in, err := c.StdinPipe()
				f.Check(err)
				out, printed := io.Pipe()
				c.Stdout = printed
				c.Start()
				go func(text string) {
					if _, err := io.WriteString(in, text); err == nil && kills <= 0 { // else the target is killed
						_ = in.Close()
					}
				}(tapped(changes, rnd, state, upto))
				go func() { c.Wait(); _ = printed.Close() }()
				before := state
				for lines := bufio.NewScanner(out); lines.Scan(); {
					var now struct{ Upto int }
					f.Check(json.Unmarshal(lines.Bytes(), &now))
					if now.Upto <= state {
						t.Errorf("the state %d comes behind %d", now.Upto, state)
					}
					if state = now.Upto; kills > 0 {
						go c.Kill() // which waits until all that the target prints is read
					}
				}
				if code := c.Wait(); state == before || kills <= 0 && code != 0 {
					t.Fatalf("exit %d, the last state is %d\n%s", code, state, c.Log())
				}
			}
			f.Write("all.jsonl", tapped(changes, rnd, 0, len(changes)))
			f.Start("verify", "all.jsonl", "--envelope", "singer", "--to", f.To).Exit(0)
		})
	})
}
