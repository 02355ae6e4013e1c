package cli_test

import (
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
