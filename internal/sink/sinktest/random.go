package sinktest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
)

// SeedVariable names the environment variable that has the random tests run
// with one seed alone, such as 7, or with a range of them, such as 1000-1999.
const SeedVariable = "TEST_SEED"

// Seeds runs f with n seeds, or with those in [SeedVariable].
func Seeds(t *testing.T, n uint64, f func(t *testing.T, rnd *rand.Rand)) {
	first, last := uint64(1), n
	if s := os.Getenv(SeedVariable); s != "" {
		from, to, isRange := strings.Cut(s, "-")
		if !isRange {
			to = from
		}
		var err, lastErr error
		first, err = strconv.ParseUint(from, 10, 64)
		last, lastErr = strconv.ParseUint(to, 10, 64)
		if err := errors.Join(err, lastErr); err != nil {
			t.Fatal(err)
		}
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("%s=%d", SeedVariable, seed), func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// randomTests: random feeds in random batches, with answers that get lost and
// runs that end, against the fold in its plainest form.
var randomTests = []test{
	{"EqualsThePlainFold", func(t *testing.T, db Database) {
		Seeds(t, 20, func(t *testing.T, rnd *rand.Rand) {
			lines := randomFeed(rnd, 50+rnd.IntN(400))
			want := plainRows(t, lines, foldtest.Rules{}, nil, columns...)
			r := Begin(t, db)
			start, lost, ends := r.cp().Line, 0, 0
			for rest := lines; len(rest) > 0; {
				n := min(1+rnd.IntN(1+rnd.IntN(60)), len(rest))
				r.Fold(rest[:n]...)
				rest = rest[n:]
				f := r.Seal()
				switch rnd.IntN(6) {
				case 0: // the commit did not happen, and is tried again
					f.BeforeCommit = func([]fold.Reject) error { return errStop }
					if _, err := r.Sink.Flush(t.Context(), f); err == nil {
						t.Fatal("the flush ended well")
					}
					f.BeforeCommit = nil
				case 1: // it happened, and is sent again
					if _, err := r.Sink.Flush(t.Context(), f); err != nil {
						t.Fatal(err)
					}
					lost++
				}
				if _, err := r.Send(f); err != nil {
					t.Fatal(err)
				}
				if rnd.IntN(10) == 0 { // the run ends, the next one resumes
					r.End()
					r = Begin(t, db)
					rest = lines[r.cp().Line-start:]
					ends++
				}
			}
			if len(lines) > 200 && lost+ends == 0 {
				t.Error("did not exercise: no answer was lost and no run ended")
			}
			Expect(t, db, "SELECT id, text, whole, real, flag, late FROM t ORDER BY id", want...)
			Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
			r.End()
			db.Exec(t, "DROP TABLE t")
		})
	}},
}

// columns are those of random feeds.
var columns = []string{"text", "whole", "real", "flag", "late"}

// randomFeed makes messages.
func randomFeed(rnd *rand.Rand, n int) (lines []string) {
	texts := []string{"", "a", "007", "1.50", " 7", "Zürich", "日本", "😀", "'", "null", "true", "-0", "1e5", "%s", `\\N`, `\\.`}
	ids := 1 + rnd.IntN(n/4)
	for i := range n {
		line := fmt.Sprintf([]string{`{"id":%d`, `{"id":"%d"`, `{"\u0069d":%d`}[rnd.IntN(3)], 1000+rnd.IntN(ids))
		if i > 0 && rnd.IntN(8) == 0 {
			lines = append(lines, line+`,"op":"delete"}`)
			continue
		}
		for _, name := range columns {
			if i > 0 && rnd.IntN(2) == 0 || name == "late" && i < n/2 {
				continue
			}
			var value string
			switch k := rnd.IntN(10); {
			case k == 0 && i > 0:
				value = "null"
			case name == "whole":
				value = strconv.Itoa(rnd.IntN(3) - 1)
			case name == "real":
				value = fmt.Sprintf("%d.25", rnd.IntN(3))
			case name == "flag":
				value = strconv.FormatBool(rnd.IntN(2) == 0)
			default:
				value = `"` + texts[rnd.IntN(len(texts))] + `"`
			}
			line += fmt.Sprintf(`,%q:%s`, name, value)
		}
		lines = append(lines, line+"}")
	}
	// One message more, so that every column is there.
	return append(lines, `{"id":9999,"text":"end","whole":1,"real":0.5,"flag":true,"late":"end"}`)
}

// plainRows are the rows that lines fold into, as Expect wants them: the id, by which they
// are in order, what first makes of a row, and the columns.
func plainRows(t *testing.T, lines []string, r foldtest.Rules, first func(map[string]foldtest.Value) string, columns ...string) (rows []string) {
	t.Helper()
	r.Key, r.DeleteField, r.DeleteValue, r.MaxColumns = []string{"id"}, "op", "delete", 100
	table := foldtest.NewTable(r, foldtest.Limits{})
	for _, line := range lines {
		if err := table.Apply([]byte(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	byID := map[int]string{}
	for _, row := range table.Rows() {
		id, err := strconv.Atoi(row["id"].Text)
		if err != nil {
			t.Fatal(err)
		}
		cells := []string{row["id"].Text}
		if first != nil {
			cells = append(cells, first(row))
		}
		for _, c := range columns {
			if v, ok := row[c]; ok {
				cells = append(cells, v.Text)
			} else {
				cells = append(cells, "NULL")
			}
		}
		byID[id] = strings.Join(cells, "|")
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		rows = append(rows, byID[id])
	}
	return rows
}
