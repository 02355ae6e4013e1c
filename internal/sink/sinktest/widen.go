package sinktest

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// wideningTests: a widened column keeps its values.
var wideningTests = []test{
	{"DoublesKeepTheirShortestText", func(t *testing.T, db Database) {
		doubles := awkwardDoubles(t)
		r := Begin(t, db)
		var lines []string
		for i, f := range doubles {
			lines = append(lines, fmt.Sprintf(`{"id":%d,"text":%s,"number":%[2]s}`, i, strconv.FormatFloat(f, 'e', -1, 64)))
		}
		r.Flush(lines...)
		r.Flush(`{"id":-1,"text":"x","number":0.12345678901234567890123}`)
		wrong := 0
		for _, row := range db.Query(t, "SELECT id, text, number FROM t WHERE id >= 0 ORDER BY id") {
			f := doubles[row[0].(int64)]
			want, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
			for _, cell := range row[1:] {
				got, ok := new(big.Rat).SetString(show(cell))
				if !ok || got.Cmp(want) != 0 {
					if wrong++; wrong < 10 {
						t.Errorf("%v became %v", f, cell)
					}
				}
			}
			if text := string(feed.AppendReal(nil, f)); row[1] != text {
				if wrong++; wrong < 10 {
					t.Errorf("%s became the text %v", text, row[1])
				}
			}
		}
		Expect(t, db, "SELECT count(*) FROM t", show(len(doubles)+1))
		if wrong > 0 {
			t.Errorf("%d of %d doubles became other numbers", wrong, len(doubles))
		}
	}},
	{"TwoRunsWithDifferentTypesEndWithTheUnion", func(t *testing.T, db Database) {
		for i, a := range kinds {
			for j, b := range kinds {
				if (i+2*j)%testcheck.Rounds(4, 1) != 0 {
					continue
				}
				// Both begin before the table exists; the second knows nothing about what the first creates.
				first, second := BeginJob(t, db, "first"), BeginJob(t, db, "second")
				spread(t, db, a.value, b.value, func(n int) *Run { return []*Run{first, second, first}[n] })
				second.End()
				db.Exec(t, "DROP TABLE t")
				// One after the other.
				spread(t, db, a.value, b.value, runEach(t, db))
				db.Exec(t, "DROP TABLE t")
			}
		}
	}},
	{"ColumnsAddedToATableOfOthersAreWidened", func(t *testing.T, db Database) {
		for i, a := range kinds {
			for j, b := range kinds[1:3] {
				if (i+2*j)%testcheck.Rounds(4, 1) != 0 {
					continue
				}
				theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, theirs INTEGER CHECK (theirs > 0))")
				db.Exec(t, "INSERT INTO t (id, theirs) VALUES (9, 1)")
				r := Begin(t, db, addColumns)
				spread(t, db, a.value, b.value, func(int) *Run { return r })
				db.Exec(t, "DROP TABLE t")
				theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, theirs INTEGER CHECK (theirs > 0))")
				spread(t, db, a.value, b.value, runEach(t, db, addColumns))
				db.Exec(t, "DROP TABLE t")
			}
		}
	}},
}

// kinds are values that each make another type of column, with their texts in a text column.
var kinds = []struct{ value, text string }{
	{"null", "NULL"}, {"true", "true"}, {"7", "7"}, {"1152921504606846977", "1152921504606846977"}, {"2.5", "2.5"},
	{"12345678901234567890.5", "12345678901234567890.5"}, {`"007"`, "007"}, {`{"k":[1]}`, `{"k":[1]}`},
}

// spread writes the values a and b to column v, and then a text, and expects that none is changed. next returns the run
// for the nth value.
func spread(t *testing.T, db Database, a, b string, next func(n int) *Run) {
	t.Helper()
	for n, v := range []string{a, b, `"x"`} {
		next(n).Flush(fmt.Sprintf(`{"id":%d,"v":%s}`, n, v))
	}
	var want []string
	for n, v := range []string{a, b, `"x"`} {
		text := "x"
		for _, k := range kinds {
			if k.value == v {
				text = k.text
			}
		}
		want = append(want, fmt.Sprintf("%d|%s", n, text))
	}
	rows := db.Query(t, "SELECT id, CAST(v AS TEXT) FROM t WHERE id < 3 ORDER BY id")
	for i, row := range rows {
		if got := show(row[0]) + "|" + strings.ReplaceAll(show(row[1]), `{"k": [1]}`, `{"k":[1]}`); i >= len(want) || got != want[i] {
			t.Errorf("%s and %s became %v, want %v", a, b, rows, want)
			break
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%s and %s: %d rows, want %d", a, b, len(rows), len(want))
	}
	Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
	next(0).End()
}

// runEach starts a run for each flush, after the previous one has ended.
func runEach(t *testing.T, db Database, change ...func(*fold.Options)) func(int) *Run {
	var last *Run
	return func(int) *Run {
		if last != nil {
			last.End()
		}
		last = Begin(t, db, change...)
		return last
	}
}

// awkwardDoubles are doubles of all sizes. Many have their shortest decimal on the border to the next double, where
// readers and printers differ.
func awkwardDoubles(t *testing.T) []float64 {
	doubles := []float64{1e23, 9e22, 2.003485544858745e16, 32.815236600469404, 5e-324, math.MaxFloat64, 0.1, 1e15, 999999999999999, 123456789012345680, 1e-4, 0.00001, 0.30000000000000004, 1e39, 1e38}
	for e := -1074; e < 1024; e++ {
		doubles = append(doubles, math.Ldexp(1, e))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		if f := math.Float64frombits(random.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			doubles = append(doubles, f)
		}
		doubles = append(doubles, random.Float64()*math.Pow10(random.IntN(20)), float64(random.Int64N(1e15))/1e6)
	}
	bordering := 0
	for bordering < 10_000 {
		// An odd number of 54 bits is halfway between two mantissas; factors of five make its decimal short.
		fives := int64(1)
		for range 1 + random.IntN(23) {
			fives *= 5
		}
		odd := fives * (((1<<53)/fives + random.Int64N((1<<53)/fives+1)) | 1)
		if odd>>53 != 1 {
			continue
		}
		even := odd / 2
		even += even & 1
		shift := 1 + random.IntN(77)
		f := math.Ldexp(float64(even), shift)
		border := new(big.Int).Lsh(big.NewInt(odd), uint(shift-1))
		if shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64)); shortest.Cmp(new(big.Rat).SetInt(border)) != 0 {
			continue
		}
		bordering++
		doubles = append(doubles, math.Copysign(f, float64(random.IntN(2))-0.5))
	}
	return doubles
}
