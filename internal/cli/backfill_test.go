package cli_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirsync/weir/internal/testweir"
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
			intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
				t.Parallel()
				feed, half := backfillFeed(rand.New(rand.NewPCG(seed, 0)), 2000)
				l, fresh := testweir.New(t, to(t)), testweir.New(t, to(t))
				l.Write("weir.yaml", fmt.Sprintf(backfillTables, top, ""))
				l.Write("feed.jsonl", string(feed[:half]))
				l.Start("sync", "--config", "weir.yaml", "--to", l.To).Exit(0)

				l.Write("weir.yaml", fmt.Sprintf(backfillTables, top, backfillNew))
				l.Write("feed.jsonl", string(feed))
				l.Start("sync", "--config", "weir.yaml", "--to", l.To).Exit(2)
				fill := []string{"sync", "--config", "weir.yaml", "--to", l.To, "--tables", "positions", "--job", "fill", "--max-rate", "2000/s"}
				next := []string{"sync", "--config", "weir.yaml", "--to", l.To, "--accept-settings", "--max-rate", "1000/s"}
				if top == "" {
					l.Start(fill...).Exit(0)
					l.Start(next...).Exit(0)
				} else {
					filling, running := l.Start(fill...), l.Start(next...)
					running.Exit(0)
					filling.Exit(0)
				}

				fresh.Write("weir.yaml", fmt.Sprintf(backfillTables, top, backfillNew))
				fresh.Write("feed.jsonl", string(feed))
				fresh.Start("sync", "--config", "weir.yaml", "--to", fresh.To).Exit(0)
				for _, query := range []string{"SELECT * FROM flights ORDER BY id", "SELECT * FROM positions ORDER BY id, leg"} {
					if got, want := l.Ask(query), fresh.Ask(query); got != want || len(want) < 100 {
						t.Errorf("%s:\n%s\nwant\n%s", query, got, want)
					}
				}
			})
		})
	}
}
