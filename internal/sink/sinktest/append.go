package sinktest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// noKey makes each message a row of its own.
func noKey(o *fold.Options) { o.Key = []string{} }

// appendTests: tables without a key, to which rows are appended.
var appendTests = []test{
	{"InTheOrderOfTheFeed", func(t *testing.T, db Database) {
		var feed, want []string
		for i := range 1000 {
			feed, want = append(feed, fmt.Sprintf(`{"a":%d}`, i*7919%100)), append(want, fmt.Sprint(i*7919%100))
		}
		r := Begin(t, db, noKey)
		Counts(t, r.Flush(feed...), 1000, 0, 0, 0)
		Counts(t, r.Flush(feed...), 1000, 0, 0, 0)
		Expect(t, db, "SELECT a FROM t", slices.Concat(want, want)...)
	}},
	{"OneOfManyRowsIsRejected", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (n INTEGER CHECK (n <> 777), u INTEGER UNIQUE)")
		r := Begin(t, db, noKey)
		var feed []string
		for i := range 1000 {
			feed = append(feed, fmt.Sprintf(`{"n":%d}`, i))
		}
		feed[10], feed[990] = `{"u":1}`, `{"u":1}`
		Counts(t, r.Flush(feed...), 998, 0, 0, 0)
		Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "778", "991")
		Expect(t, db, "SELECT count(*), sum(n) FROM t", fmt.Sprintf("998|%d", 999*1000/2-777-10-990))
	}},
	{"RandomFeed", func(t *testing.T, db Database) {
		Seeds(t, testcheck.Rounds(6, 20), func(t *testing.T, rnd *rand.Rand) { randomAppends(t, db, rnd) })
	}},
	{"Sums", func(t *testing.T, db Database) {
		r := Begin(t, db, noKey)
		r.Flush(`{"a":1,"b":"x"}`, `{"a":1.50}`)
		r.Flush(`{"a":1,"b":"x"}`, `{"a":"text","c":{"z":1,"a":[1.0]}}`)
		r.Flush(`{"c":"no JSON"}`)
		i := inspect(t, db)
		for _, want := range []struct {
			is    string
			lines []string
		}{
			{"equal", lines{`{"a":"text","c":{"a":[1.0],"z":1}}`, `{"a":1.5}`, `{"a":1,"b":"x"}`, `{"c":"no JSON"}`, `{"b":"x","a":1}`}},
			{"fewer", lines{`{"a":1,"b":"x"}`}},
			{"others", lines{`{"a":"text","c":{"a":[1],"z":1}}`, `{"a":1.5}`, `{"a":1,"b":"y"}`, `{"c":"no JSON"}`, `{"b":"x","a":1}`}},
			{"others", lines{`{"a":"text","c":{"a":[1],"z":1}}`, `{"a":1.5}`, `{"a":1,"b":null}`, `{"c":"no JSON","b":"x"}`, `{"b":"x","a":1}`}},
		} {
			have, of, err := i.Sums(t.Context(), sealed(t, i, lines{}, nil, want.lines...))
			is := "others"
			switch {
			case have == of:
				is = "equal"
			case have.Rows != of.Rows:
				is = "fewer"
			}
			if is != want.is || err != nil {
				t.Errorf("%s: %s, want %s: %v", want.lines, is, want.is, err)
			}
		}
	}},
}

// randomAppends writes a feed in random batches, with failing calls and ending runs, and some messages several times.
func randomAppends(t *testing.T, db Database, rnd *rand.Rand) {
	constrained := rnd.IntN(2) == 0 && db.Has(Shared)
	if constrained {
		db.Exec(t, "CREATE TABLE t (a INTEGER CHECK (a < 8), b TEXT DEFAULT 'd', u INTEGER UNIQUE)")
	}
	begin := func() *Run { return Setup{Options: all(noKey), Constrained: constrained}.Begin(t, db) }
	r := begin()
	var want, bad []string
	seen := map[int]bool{}
	for line := 1; line <= 60; {
		var some []string
		for range 1 + rnd.IntN(12) {
			a, u := rnd.IntN(10), rnd.IntN(40)
			text, b, unique := fmt.Sprintf(`"a":%d`, a), "NULL", "NULL"
			if rnd.IntN(2) == 0 {
				b = fmt.Sprint("b", rnd.IntN(3))
				text += fmt.Sprintf(`,"b":%q`, b)
			} else if constrained {
				b = "d"
			}
			if rnd.IntN(3) == 0 {
				unique = fmt.Sprint(u)
				text += `,"u":` + unique
			} else {
				u = -1
			}
			switch {
			case rnd.IntN(10) == 0:
				text = "no JSON"
				bad = append(bad, fmt.Sprint(line))
			case constrained && (a >= 8 || u >= 0 && seen[u]):
				bad = append(bad, fmt.Sprint(line))
			default:
				seen[u] = true
				want = append(want, fmt.Sprintf("%d|%s|%s", a, b, unique))
			}
			if text != "no JSON" {
				text = "{" + text + "}"
			}
			some = append(some, text)
			line++
		}
		switch rnd.IntN(4) {
		case 0:
			r.again(r.failing([]Moment{Before, Within, After}[rnd.IntN(3)], some...))
		case 1:
			r.Flush(some...)
			r.End()
			r = begin()
		default:
			r.Flush(some...)
		}
	}
	have := Rows(t, db, "SELECT a, b, u FROM t")
	if constrained { // rows around a rejected one may come in another order
		slices.Sort(want)
		slices.Sort(have)
	}
	if !slices.Equal(have, want) {
		t.Errorf("the table has\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", bad...)
	r.drop(db)
	for _, table := range []string{"rejects", "checkpoints", "jobs"} {
		db.Exec(t, "DELETE FROM weir_"+table)
	}
}
