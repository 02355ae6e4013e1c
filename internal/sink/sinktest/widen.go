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
	"github.com/weirsync/weir/internal/testcheck"
)

// wideningTests: a column that becomes wider keeps its values.
var wideningTests = append(feedTests(feedTest{name: "TypesDoNotDependOnTheBatch",
	lines: lines{`{"id":1,"a":null,"b":1,"c":true,"d":1}`, `{"id":2,"a":true,"b":2.5,"c":null,"d":9007199254740993}`, `{"id":3,"a":"x","b":9007199254740992,"c":false,"d":0.5}`},
	query: "SELECT id, CAST(a AS TEXT), b, c, CAST(d AS TEXT) FROM t ORDER BY id", want: rows{"1|NULL|1|true|1", "2|true|2.5|NULL|9007199254740993", "3|x|9.007199254740992e+15|false|0.5"},
}), []test{
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
				// Both begin before there is a table; the second knows nothing of what
				// the first makes.
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
	{"RunsInTurn", func(t *testing.T, db Database) {
		// Each run knows the columns as it last saw them; the other one has added or widened them since.
		for _, c := range []struct {
			first, second string
			turns         []string // of the first run, of the second, and so on
			query         string
			want          []string
		}{
			{`{"id":1,"v":1}`, `{"id":3,"v":1}`,
				[]string{`{"id":1,"v":2,"whole":1,"real":0.5,"huge":1}`, `{"id":4,"v":2,"whole":1.5,"real":9007199254740993,"huge":12345678901234567890.5}`, ``, `{"id":2,"v":2,"whole":2.25,"real":7,"huge":0.5}`},
				"SELECT id, CAST(whole AS TEXT), CAST(real AS TEXT), CAST(huge AS TEXT), (SELECT id FROM t WHERE whole = 1 AND real = 0.5 AND huge = 1) AS first FROM t WHERE id IN (2, 4) ORDER BY id",
				[]string{"2|2.25|7|0.5|1", "4|1.5|9007199254740993|12345678901234567890.5|1"}},
			{`{"id":1,"v":1,"n":0.5}`, `{"id":3,"v":1,"n":0.5}`,
				[]string{`{"id":1,"v":2,"n":12345678901234567890.5}`, `{"id":4,"v":2,"n":0.1234567890123456}`, ``, `{"id":2,"v":2,"n":0.1234567890123457}`},
				"SELECT id, n FROM t WHERE id > 1 ORDER BY id", []string{"2|0.1234567890123457", "3|0.5", "4|0.1234567890123456"}},
			// One run's large integers do not change the column's type, and the other one's reals must not make it one of doubles.
			{`{"id":1,"v":1,"n":1}`, `{"id":2,"v":1,"n":2}`, []string{`{"id":3,"v":1,"n":1152921504606846977}`, `{"id":4,"v":1,"n":7.5}`, `{"id":5,"v":1,"n":true}`, `{"id":6,"v":1,"n":0.1234567890123456789}`},
				"SELECT id, n FROM t ORDER BY id", []string{"1|1", "2|2", "3|1152921504606846977", "4|7.5", "5|true", "6|0.1234567890123456789"}},
			{`{"id":1,"v":1,"n":null,"w":12345678901234567890.5}`, `{"id":2,"v":1,"n":null,"w":1}`, []string{`{"id":3,"v":1,"n":1}`, `{"id":4,"v":1,"n":"x","w":"x"}`, `{"id":5,"v":1,"n":2,"w":2.5}`},
				"SELECT id FROM t WHERE n IN ('1', '2') AND (w IS NULL OR w = '2.5') ORDER BY id", []string{"3", "5"}},
		} {
			for _, by := range []options{nil, {byColumn}} {
				runs := []*Run{BeginJob(t, db, "a", by...), nil}
				runs[0].Flush(c.first)
				runs[1] = BeginJob(t, db, "b", by...)
				runs[1].Flush(c.second) // the next rows may be new too
				for i, line := range c.turns {
					if line != "" {
						runs[i%2].Flush(line)
					}
				}
				Expect(t, db, c.query, c.want...)
				runs[0].End()
				runs[1].End()
				db.Exec(t, "DROP TABLE t")
			}
		}
	}},
	{"ACommitThatFailedWidensNothing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"v":1}`)
		f := r.failing(Within, `{"id":2,"v":1152921504606846977}`)
		r.again(f)
		r.End()
		r = Begin(t, db)
		r.Flush(`{"id":3,"v":0.5}`)
		Expect(t, db, "SELECT id, CAST(v AS TEXT) FROM t ORDER BY id", "1|1", "2|1152921504606846977", "3|0.5")
	}},
	{"AChangeThatFailedAndThatAnotherRunMade", func(t *testing.T, db Database) {
		a, b := BeginJob(t, db, "a"), BeginJob(t, db, "b")
		for i, lines := range [][2]string{{`{"id":1,"v":1}`, `{"id":2,"v":1}`}, {`{"id":3,"w":1}`, `{"id":4,"w":1}`}, {`{"id":5,"w":"x"}`, `{"id":6,"w":"x"}`}} {
			f := a.failing(Within, lines[0])
			b.Flush(lines[1])
			f.BeforeCommit = nil
			if _, err := a.Send(f); err != nil {
				t.Fatalf("change %d: %v", i, err)
			}
			Expect(t, db, "SELECT count(DISTINCT tableid) FROM weir_checkpoints", "1")
		}
		Expect(t, db, "SELECT id, v, w FROM t ORDER BY id", "1|1|NULL", "2|1|NULL", "3|NULL|1", "4|NULL|1", "5|NULL|x", "6|NULL|x")
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
	{"OnlyColumnsThatWereAddedAreWidened", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, theirs INTEGER)")
		r := Begin(t, db, addColumns)
		r.Flush(`{"id":1,"ours":1,"theirs":1}`)
		r.Flush(`{"id":1,"ours":"x"}`, `{"id":2,"ours":"lost","theirs":"x"}`)
		r.End()
		r = Begin(t, db) // fields that the table has no column for are ignored
		r.Flush(`{"id":3,"ours":{"k":1},"new":1}`, `{"id":4,"theirs":1.5}`)
		Expect(t, db, "SELECT id, theirs, CAST(ours AS TEXT) FROM t ORDER BY id", "1|1|x", `3|NULL|{"k":1}`)
		Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "3", "5")
	}},
}...)

// kinds are values of each kind that makes another type of column, and their text in a
// column of texts.
var kinds = []struct{ value, text string }{
	{"null", "NULL"}, {"true", "true"}, {"7", "7"}, {"1152921504606846977", "1152921504606846977"}, {"2.5", "2.5"},
	{"12345678901234567890.5", "12345678901234567890.5"}, {`"007"`, "007"}, {`{"k":[1]}`, `{"k":[1]}`},
}

// spread writes the values a and b of column v, and then a text, with the help of next,
// which returns the run for the nth of them, and expects that none is changed.
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

// runEach makes a run for each flush, after the one before has ended.
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

// awkwardDoubles are doubles of all sizes, many of which have their shortest decimal on
// the border to the next double, where readers and printers differ.
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
		// An odd number of 54 bits is half way between two mantissas; five times five … make
		// its decimal short.
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
