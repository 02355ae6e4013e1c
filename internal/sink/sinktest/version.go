package sinktest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/foldtest"
)

func keepNull(o *fold.Options)   { o.Null = fold.KeepNull }
func fillOnly(o *fold.Options)   { o.FillOnly = true }
func addColumns(o *fold.Options) { o.UnknownFields = fold.AddUnknown }

// options are changes to a run's options.
type options = []func(*fold.Options)

func byColumn(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope }
func byRow(o *fold.Options)    { o.Version, o.Scope = "v", fold.RowScope }

// versionTests: each column has the value of the newest message that had it, in whatever order messages come.
var versionTests = []test{
	{"ATableThatGrowsAColumnEachTime", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		for n := range 100 {
			r.Flush(fmt.Sprintf(`{"id":1,"v":%d,"c%d":%d}`, n, n, n), fmt.Sprintf(`{"id":2,"v":%d,"op":"delete"}`, n), `{"id":1,"v":0,"late":"x"}`)
		}
		Expect(t, db, "SELECT id, v, late, c0, c30, c99 FROM t", "1|99|x|0|30|99")
	}},
	{"TombstonesExpire", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		r.Flush(`{"id":1,"v":5,"a":"x"}`, `{"id":1,"v":6,"op":"delete"}`, `{"id":2,"v":1,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_versions WHERE gone IS NOT NULL", "1")
		r.Flush(`{"id":1,"v":5,"a":"again"}`)
		Expect(t, db, "SELECT id FROM t", "2")
		r.FlushAs(func(f *sink.Flush) { f.Tombstones = -10 * time.Second }, `{"id":3,"v":1,"a":"x"}`) // as if ten seconds had passed
		Expect(t, db, "SELECT count(*) FROM weir_versions WHERE gone IS NOT NULL", "0")
		r.Flush(`{"id":1,"v":5,"a":"again"}`)
		Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "2", "3")
	}},
	{"RandomBatchesEqualThePlainFold", func(t *testing.T, db Database) {
		Seeds(t, 16, func(t *testing.T, rnd *rand.Rand) {
			lines := versionedFeed(rnd, 20+rnd.IntN(200))
			if rnd.IntN(2) == 0 {
				inRuns(t, db, rnd, lines, 2, false, byColumn)
				return
			}
			if rnd.IntN(2) == 0 { // a database may compare versions itself if all are integers
				for i, line := range lines {
					lines[i] = notWhole.ReplaceAllString(line, `"v":$1`)
				}
			}
			inRuns(t, db, rnd, lines, 1, false, byRow)
		})
	}},
	{"RunsAtOnceEqualThePlainFold", func(t *testing.T, db Database) {
		Seeds(t, 12, func(t *testing.T, rnd *rand.Rand) {
			if rnd.IntN(3) > 0 {
				inRuns(t, db, rnd, versionedFeed(rnd, 50+rnd.IntN(300)), 2+rnd.IntN(2), true, byColumn)
				return
			}
			var lines []string
			ids := 1 + rnd.IntN(20)
			for v := range 50 + rnd.IntN(300) { // in row scope values that only older messages have are lost, and so are deletes
				lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%d,"a":"a%[2]d","b":"b%[2]d","c":"c%[2]d"}`, rnd.IntN(ids), v))
			}
			inRuns(t, db, rnd, lines, 2+rnd.IntN(2), true, byRow)
		})
	}},
}

var notWhole = regexp.MustCompile(`"v":"?(\d+)(?:\.0)?"?`)

// versionedFeed returns messages with distinct versions.
func versionedFeed(rnd *rand.Rand, n int) (lines []string) {
	ids := 1 + rnd.IntN(8)
	for _, v := range rnd.Perm(n) {
		line := fmt.Sprintf(`{"id":%d,"v":%s`, rnd.IntN(ids), []string{"%d", `"%d"`, "%d.0"}[rnd.IntN(3)])
		line = fmt.Sprintf(line, v+1)
		if rnd.IntN(6) == 0 {
			lines = append(lines, line+`,"op":"delete"}`)
			continue
		}
		for _, c := range []string{"a", "b", "c"} {
			switch rnd.IntN(5) {
			case 0:
				line += fmt.Sprintf(`,%q:null`, c)
			case 1, 2:
				line += fmt.Sprintf(`,%q:"%s%d"`, c, c, v+1)
			}
		}
		lines = append(lines, line+"}")
	}
	return append(lines, fmt.Sprintf(`{"id":1000,"v":"%d.0","a":"a","b":"b","c":"c"}`, n+1)) // every column exists
}

// PlainFold is a simple model of folding messages by their versions.
func PlainFold(t *testing.T, lines []string, rowScope bool) []string {
	t.Helper()
	return plainRows(t, lines, foldtest.Rules{Version: "v", RowScope: rowScope}, func(row map[string]foldtest.Value) string {
		v, err := strconv.ParseFloat(row["v"].Text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(v)
	}, "a", "b", "c")
}

// inRuns: several runs of different jobs write a feed's messages, each some of them, in turn, or at the same time with
// some duplicated. A single run writes all of them in order.
func inRuns(t *testing.T, db Database, rnd *rand.Rand, lines []string, runs int, atOnce bool, by func(*fold.Options)) {
	parts := make([][]string, runs)
	for _, i := range rnd.Perm(len(lines)) {
		for range 1 + rnd.IntN(8)/7 {
			w := rnd.IntN(runs)
			parts[w] = append(parts[w], lines[i])
		}
	}
	if runs == 1 {
		parts[0] = lines
	}
	var wg sync.WaitGroup
	var turns []func() bool // each writes something, if something is left
	for w, rest := range parts {
		r, rnd := BeginJob(t, db, fmt.Sprint("job ", w), by), rand.New(rand.NewPCG(rnd.Uint64(), 1))
		r.Sink = Retry(r.Sink, time.Minute, func(*sink.Error) {})
		turn := func() bool {
			n := min(1+rnd.IntN(40), len(rest))
			if _, err := r.TryFlush(rest[:n]...); err != nil {
				t.Error(err)
				return false
			}
			rest = rest[n:]
			return len(rest) > 0
		}
		if turns = append(turns, turn); atOnce {
			wg.Go(func() {
				for turn() {
				}
			})
		}
	}
	wg.Wait()
	for left := turns; !atOnce && len(left) > 0; {
		if w := rnd.IntN(len(left)); !left[w]() {
			left = append(left[:w:w], left[w+1:]...)
		}
	}
	Expect(t, db, "SELECT id, CAST(v AS REAL), a, b, c FROM t ORDER BY id", PlainFold(t, lines, rowScope(by))...)
	if t.Failed() {
		for _, part := range parts {
			t.Log(strings.Join(part, "\n"))
		}
	}
	db.Exec(t, "DROP TABLE t")
}

func rowScope(by func(*fold.Options)) bool {
	o := fold.Options{}
	by(&o)
	return o.Scope == fold.RowScope
}
