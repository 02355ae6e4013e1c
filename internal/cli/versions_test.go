package cli_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testweir"
)

// TestVersions_TwoSyncsInAnyOrderGiveOneTable shuffles the messages of a feed with
// versions over six files. Two syncs of three runs each write them at the same time,
// and some runs are killed: the table is the fold of the messages by their versions.
func TestVersions_TwoSyncsInAnyOrderGiveOneTable(t *testing.T) {
	testcheck.Only(t)
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		sinktest.Seeds(t, 2, func(t *testing.T, rnd *rand.Rand) {
			l := testweir.New(t, to(t))
			want := writeVersioned(l, rnd, 12000, 6)
			var syncs sync.WaitGroup
			for job := range 2 {
				seed := rnd.Uint64()
				syncs.Go(func() { syncVersioned(l, job, rand.New(rand.NewPCG(seed, 1))) })
			}
			syncs.Wait()
			l.Has(want, "SELECT id, CAST(v AS INTEGER), a, b, c FROM t ORDER BY id")
			l.Has("0", "SELECT count(*) FROM weir_rejects")
		})
	})
}

// syncVersioned runs one of two syncs, each of half of the files.
func syncVersioned(l *testweir.Folder, job int, rnd *rand.Rand) {
	for file := 3 * job; file < 3*job+3; file++ {
		name := fmt.Sprintf("part%d.jsonl", file)
		args := []string{"sync", name, "--table", "t", "--to", l.To, "--version-field", "v", "--delete-when", "op=delete",
			"--batch-rows", fmt.Sprint(20 + rnd.IntN(300)), "-q"}
		for kill := rnd.IntN(2) == 0; ; kill = false {
			c := l.Start(args...)
			if kill {
				time.AfterFunc(time.Duration(20+rnd.IntN(200))*time.Millisecond, c.Kill)
			}
			if code := c.Wait(); code == 0 {
				break
			} else if !kill {
				l.Errorf("%s: exit %d\n%s", name, code, c.Log())
				return
			}
		}
	}
}

// writeVersioned writes messages of as many versions into files, at random, and
// returns the rows that they make in the order of these.
func writeVersioned(l *testweir.Folder, rnd *rand.Rand, messages, files int) string {
	const ids = 40
	columns := []string{"a", "b", "c"}
	rows := make([][]string, ids)
	var lines []string
	for v := range messages {
		id := rnd.IntN(ids)
		line := fmt.Sprintf(`{"id":%d,"v":%d`, id, v)
		if rnd.IntN(10) == 0 {
			rows[id] = nil
			lines = append(lines, line+`,"op":"delete"}`+"\n")
			continue
		}
		if rows[id] == nil {
			rows[id] = []string{"", "NULL", "NULL", "NULL"}
		}
		rows[id][0] = fmt.Sprint(v)
		for i, c := range columns {
			switch rnd.IntN(8) {
			case 0:
				line += fmt.Sprintf(`,%q:null`, c)
				rows[id][i+1] = "NULL"
			case 1, 2:
				value := fmt.Sprintf("%s%d", c, v)
				line += fmt.Sprintf(`,%q:%q`, c, value)
				rows[id][i+1] = value
			}
		}
		lines = append(lines, line+"}\n")
	}
	rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	for file := range files {
		part := lines[file*len(lines)/files : (file+1)*len(lines)/files]
		l.Check(os.WriteFile(filepath.Join(l.Dir, fmt.Sprintf("part%d.jsonl", file)), []byte(strings.Join(part, "")), 0o600))
	}
	var want []string
	for id, r := range rows {
		if r != nil {
			want = append(want, fmt.Sprintf("%d|%s", id, strings.Join(r, "|")))
		}
	}
	return strings.Join(want, " ")
}

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
