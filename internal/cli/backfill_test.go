package cli_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/testpg"
)

// backfillTables are those of a config file at first, and a table that it gets later.
const (
	backfillTables = `%ssource: feed.jsonl
delete_when: op=delete
batch_rows: 40
tables:
%s  flights: {when: {type: [flight, both]}, key: id, columns: {id, gate: as text, n: as integer, m: as integer}}
`
	backfillNew = `  positions: {when: {type: [position, both]}, key: [id, leg], columns: {id, leg: as integer, n: as integer, m: as integer}}
`
)

// backfillFeed makes messages for both tables, with versions in no order.
func backfillFeed(r *rand.Rand, n int) (feed []byte, half int) {
	versions := r.Perm(n)
	var b bytes.Buffer
	for i := range n {
		if i == n/2 {
			half = b.Len()
		}
		kind := []string{"flight", "position", "both"}[r.IntN(3)]
		fmt.Fprintf(&b, `{"type":%q,"id":"%d","leg":%d,"v":%d`, kind, r.IntN(n/20+1), r.IntN(3), versions[i])
		switch r.IntN(8) {
		case 0:
			b.WriteString(`,"op":"delete"`)
		case 1:
			b.WriteString(`,"m":null`)
		default:
			fmt.Fprintf(&b, `,%q:%d`, []string{"gate", "n", "m"}[r.IntN(3)], i)
		}
		b.WriteString("}\n")
	}
	return b.Bytes(), half
}

// TestBackfill: a table that the config file gets later is filled by a job of its own, beside the
// live one where messages have versions, else while that rests; the tables are then those of one
// run from the start.
func TestBackfill(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for name, top := range map[string]string{"at rest": "", "versions": "version_field: v\n"} {
		t.Run(name, func(t *testing.T) {
			for kind, dest := range map[string]func() string{"sqlite": func() string { return "x.db" }, "postgres": func() string { return testpg.New(t) }} {
				t.Run(kind, func(t *testing.T) {
					feed, half := backfillFeed(rand.New(rand.NewPCG(seed, 0)), 2000)
					l, fresh := newLive(t, dest()), newLive(t, dest())
					l.write("weir.yaml", fmt.Sprintf(backfillTables, top, ""))
					l.write("feed.jsonl", string(feed[:half]))
					l.exits(0, l.start("first", "sync", "--config", "weir.yaml", "--to", l.to))

					l.write("weir.yaml", fmt.Sprintf(backfillTables, top, backfillNew))
					l.write("feed.jsonl", string(feed))
					l.exits(2, l.start("refused", "sync", "--config", "weir.yaml", "--to", l.to))
					fill := []string{"sync", "--config", "weir.yaml", "--to", l.to, "--tables", "positions", "--job", "fill", "--max-rate", "2000/s"}
					next := []string{"sync", "--config", "weir.yaml", "--to", l.to, "--accept-settings", "--max-rate", "1000/s"}
					if top == "" {
						l.exits(0, l.start("fill", fill...))
						l.exits(0, l.start("next", next...))
					} else {
						filling, running := l.start("fill", fill...), l.start("next", next...)
						l.exits(0, running)
						l.exits(0, filling)
					}

					fresh.write("weir.yaml", fmt.Sprintf(backfillTables, top, backfillNew))
					fresh.write("feed.jsonl", string(feed))
					fresh.exits(0, fresh.start("whole", "sync", "--config", "weir.yaml", "--to", fresh.to))
					for _, query := range []string{"SELECT * FROM flights ORDER BY id", "SELECT * FROM positions ORDER BY id, leg"} {
						if got, want := l.ask(query), fresh.ask(query); got != want || len(want) < 100 {
							t.Errorf("%s:\n%s\nwant\n%s", query, got, want)
						}
					}
				})
			}
		})
	}
}

func (l *live) write(name, text string) {
	l.t.Helper()
	l.check(os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600))
}

// exits waits for a program and demands its exit code.
func (l *live) exits(code int, c *exec.Cmd) {
	l.t.Helper()
	_ = c.Wait()
	if got := c.ProcessState.ExitCode(); got != code {
		l.t.Fatalf("%v exited with %d:\n%s%s%s%s", c.Args, got, l.log("first"), l.log("refused"), l.log("fill"), l.log("next"))
	}
}
