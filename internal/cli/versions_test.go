package cli_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// TestVersions_TwoSyncsInAnyOrderGiveOneTable shuffles the messages of a feed with
// versions over six files. Two syncs of three runs each write them at the same time,
// and some runs are killed: the table is the fold of the messages by their versions.
func TestVersions_TwoSyncsInAnyOrderGiveOneTable(t *testing.T) {
	testcheck.Only(t)
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			sinktest.Seeds(t, 2, func(t *testing.T, rnd *rand.Rand) {
				l := newLive(t, "t.db")
				if kind == "postgres" {
					l.to = testpg.New(t)
				}
				want := l.writeVersioned(rnd, 12000, 6)
				var syncs sync.WaitGroup
				for job := range 2 {
					seed := rnd.Uint64()
					syncs.Go(func() { l.syncVersioned(job, rand.New(rand.NewPCG(seed, 1))) })
				}
				syncs.Wait()
				if got := l.ask("SELECT id, CAST(v AS INTEGER), a, b, c FROM t ORDER BY id"); got != want {
					t.Errorf("the table is not the fold by versions:\n%s\nwant:\n%s", got, want)
				}
				if n := l.ask("SELECT count(*) FROM weir_rejects"); n != "0" {
					t.Errorf("%s lines were rejected", n)
				}
			})
		})
	}
}

// syncVersioned runs one of two syncs, each of half of the files.
func (l *live) syncVersioned(job int, rnd *rand.Rand) {
	for file := 3 * job; file < 3*job+3; file++ {
		name := fmt.Sprintf("part%d.jsonl", file)
		args := []string{"sync", name, "--table", "t", "--to", l.to, "--version-field", "v", "--delete-when", "op=delete",
			"--batch-rows", fmt.Sprint(20 + rnd.IntN(300)), "-q"}
		for kill := rnd.IntN(2) == 0; ; kill = false {
			c := exec.Command(filepath.Join(l.dir, "weir"), args...)
			c.Dir = l.dir
			var out bytes.Buffer
			c.Stderr = &out
			if err := c.Start(); err != nil {
				l.t.Error(err)
				return
			}
			if kill {
				time.AfterFunc(time.Duration(20+rnd.IntN(200))*time.Millisecond, func() { _ = c.Process.Kill() })
			}
			if err := c.Wait(); err == nil {
				break
			} else if !kill {
				l.t.Errorf("%s: %v\n%s", name, err, out.String())
				return
			}
		}
	}
}

// writeVersioned writes messages of as many versions into files, at random, and
// returns the rows that they make in the order of these.
func (l *live) writeVersioned(rnd *rand.Rand, messages, files int) string {
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
		l.check(os.WriteFile(filepath.Join(l.dir, fmt.Sprintf("part%d.jsonl", file)), []byte(strings.Join(part, "")), 0o600))
	}
	var want []string
	for id, r := range rows {
		if r != nil {
			want = append(want, fmt.Sprintf("%d|%s", id, strings.Join(r, "|")))
		}
	}
	return strings.Join(want, "\n")
}
