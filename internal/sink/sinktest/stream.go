package sinktest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
)

// streaming is a mapping of change streams as Debezium has them: their tables, each with its own name
// there.
func streaming(t *testing.T, tables ...mapping.Table) *mapping.Mapping {
	t.Helper()
	return &mapping.Mapping{Tables: tables, Envelope: &mapping.Envelope{
		Table: []mapping.Path{path("source.schema"), path("source.table")},
		Row:   []mapping.Path{path("after")}, Old: path("before"), Absent: []string{"?"},
		DeleteWhen: when("op=d"), TruncateWhen: when("op=t"), Ignore: when("op=m"),
	}}
}

// event is a message of such a stream.
func event(op, table, before, after string) string {
	return fmt.Sprintf(`{"op":%q,"before":%s,"after":%s,"source":{"schema":"s","table":%q}}`, op, before, after, table)
}

// streamTests: change streams, with tables that are emptied on the way.
var streamTests = slices.Concat([]test{
	{"ATruncationRemovesEarlierRows", func(t *testing.T, db Database) {
		n := BeginNested(t, db, streaming(t, mapping.Table{Name: "a", Key: []string{"id"}}, mapping.Table{Name: "b", Key: []string{"id"}}), false)
		n.Feed(10, event("c", "a", "null", `{"id":1,"v":"x"}`), event("c", "b", "null", `{"id":1,"v":"x"}`), event("t", "a", "null", "null"), event("c", "a", "null", `{"id":2,"v":"y"}`))
		Expect(t, db, "SELECT id, v FROM a", "2|y")
		Expect(t, db, "SELECT id, v FROM b", "1|x")
		n.Feed(1, event("c", "a", "null", `{"id":3}`), event("c", "a", "null", `{"id":4}`))
		Counts(t, n.Flush(event("t", "a", "null", "null"), event("t", "a", "null", "null")), 0, 0, 0, 3)
		Expect(t, db, "SELECT id FROM a")
		// What comes behind it in the same flush is made of nothing.
		n.Flush(event("u", "a", "null", `{"id":5,"v":"z"}`))
		Counts(t, n.Flush(event("t", "a", "null", "null"), event("u", "a", "null", `{"id":5,"w":1}`)), 1, 0, 0, 1)
		Expect(t, db, "SELECT id, v, w FROM a", "5|NULL|1")
	}},
	{"ATruncationOfATableThatIsMissing", func(t *testing.T, db Database) {
		n := BeginNested(t, db, streaming(t, mapping.Table{Name: "a", Key: []string{"id"}}), false)
		Counts(t, n.Flush(event("t", "a", "null", "null")), 0, 0, 0, 0)
		Counts(t, n.Flush(event("t", "a", "null", "null"), event("c", "a", "null", `{"id":1}`)), 1, 0, 0, 0)
	}},
	{"ATruncationIsAppliedOnce", func(t *testing.T, db Database) {
		n := BeginNested(t, db, streaming(t, mapping.Table{Name: "a", Key: []string{"id"}}), false)
		n.Flush(event("c", "a", "null", `{"id":1}`))
		Counts(t, n.again(n.failing(After, event("t", "a", "null", "null"), event("c", "a", "null", `{"id":2}`))), 1, 0, 0, 1)
		Expect(t, db, "SELECT id FROM a", "2")
	}},
	{"AChangedKeyIsADeleteAndAnInsert", func(t *testing.T, db Database) {
		n := BeginNested(t, db, streaming(t, mapping.Table{Name: "a", Key: []string{"id"}}), false)
		n.Feed(1, event("c", "a", "null", `{"id":1,"v":"x"}`), event("u", "a", `{"id":1}`, `{"id":2,"v":"x"}`), event("u", "a", `{"id":2,"v":"x"}`, `{"id":2,"v":"y"}`))
		Expect(t, db, "SELECT id, v FROM a", "2|y")
		n.Feed(9, event("u", "a", `{"id":2}`, `{"id":3,"v":"x"}`), event("c", "a", "null", `{"id":2,"v":"z"}`), event("u", "a", `{"id":3}`, `{"id":1,"v":"?"}`))
		Expect(t, db, "SELECT id, v FROM a ORDER BY id", "1|NULL", "2|z")
	}},
	{"RandomStream", func(t *testing.T, db Database) {
		Seeds(t, 12, func(t *testing.T, rnd *rand.Rand) { randomStream(t, db, rnd) })
	}},
}, needing(Shared, []test{
	{"ARejectedRowAfterATruncation", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE a (id BIGINT PRIMARY KEY, v BIGINT CHECK (v < 9))")
		n := BeginNested(t, db, streaming(t, mapping.Table{Name: "a", Key: []string{"id"}}), false)
		n.Flush(event("c", "a", "null", `{"id":1}`))
		Counts(t, n.Flush(event("t", "a", "null", "null"), event("c", "a", "null", `{"id":3,"v":10}`), event("c", "a", "null", `{"id":4,"v":8}`)), 1, 0, 0, 1)
		Expect(t, db, "SELECT id, v FROM a", "4|8")
	}},
	{"ATruncationOfATableThatAnotherRunMade", func(t *testing.T, db Database) {
		r := Begin(t, db)
		BeginJob(t, db, "other").Flush(`{"id":1}`)
		r.Fold(`{"id":2}`)
		f := r.Seal()
		f.Batches[0].Truncated = &fold.Place{}
		res, err := r.Send(f)
		if err != nil {
			t.Fatal(err)
		}
		Counts(t, res, 1, 0, 0, 1)
		Expect(t, db, "SELECT id FROM t", "2")
	}},
}), needing(Nestable, []test{
	{"ATruncationRemovesTheChildren", func(t *testing.T, db Database) {
		for _, m := range []*mapping.Mapping{Shop(t), MergedShop(t)} {
			n := BeginNested(t, db, streaming(t, m.Tables...), false)
			n.Flush(event("c", "orders", "null", `{"id":1,"status":"new","items":[{"sku":"x","qty":1,"taxes":[{"code":"a","amount":5}]},{"sku":"y","qty":2}]}`))
			n.Flush(event("t", "orders", "null", "null"), event("c", "orders", "null", `{"id":2,"status":"new","items":[{"sku":"z"}]}`))
			shopIs(t, db, rows{"2|new"}, rows{"2|z|NULL"}, nil)
			n.drop(db)
		}
	}},
}))

// randomStream mirrors two tables whose rows come, change, change their keys and go, alone or
// together, in batches that end anywhere.
func randomStream(t *testing.T, db Database, rnd *rand.Rand) {
	names := []string{"a", "b"}
	n := BeginNested(t, db, streaming(t, mapping.Table{Name: names[0], Key: []string{"id"}}, mapping.Table{Name: names[1], Key: []string{"id"}}), rnd.IntN(2) == 0)
	tables := []map[int]string{{}, {}} // by key: what v is
	var lines []string
	for range 1 + rnd.IntN(60) {
		at := rnd.IntN(2)
		rows, name := tables[at], names[at]
		keys := slices.Sorted(maps.Keys(rows))
		id, v := 1+rnd.IntN(9), fmt.Sprint(rnd.IntN(100))
		row := fmt.Sprintf(`{"id":%d,"v":%q}`, id, v)
		switch what := rnd.IntN(20); {
		case what == 0:
			lines = append(lines, event("t", name, "null", "null"))
			clear(rows)
		case what == 1:
			lines = append(lines, event("m", name, "null", "null"))
		case len(keys) == 0 || what < 7:
			if _, exists := rows[id]; !exists {
				lines = append(lines, event("c", name, "null", row))
				rows[id] = v
			}
		default:
			was := keys[rnd.IntN(len(keys))]
			before := fmt.Sprintf(`{"id":%d}`, was)
			switch {
			case what < 10:
				lines = append(lines, event("d", name, before, "null"))
				delete(rows, was)
			case what < 13: // a value that the source leaves out
				lines = append(lines, event("u", name, before, fmt.Sprintf(`{"id":%d,"v":"?"}`, was)))
			case what < 16 || rows[id] != "":
				lines = append(lines, event("u", name, "null", fmt.Sprintf(`{"id":%d,"v":%q}`, was, v)))
				rows[was] = v
			default:
				lines = append(lines, event("u", name, before, row))
				delete(rows, was)
				rows[id] = v
			}
		}
	}
	n.Feed(1+rnd.IntN(20), lines...)
	for i, name := range names {
		var want []string
		for _, id := range slices.Sorted(maps.Keys(tables[i])) {
			want = append(want, fmt.Sprintf("%d|%s", id, tables[i][id]))
		}
		var have []string
		if table, err := sink.Table(t.Context(), n.Sink.Tables, name, []string{"id"}); err != nil {
			t.Fatal(err)
		} else if table.Exists {
			have = Rows(t, db, "SELECT id, v FROM "+name+" ORDER BY id")
		}
		if !slices.Equal(have, want) {
			t.Errorf("table %s has\n%s\nwant\n%s\nof\n%s", name, strings.Join(have, "\n"), strings.Join(want, "\n"), strings.Join(lines, "\n"))
		}
	}
	n.Feed(1, event("t", "a", "null", "null"), event("t", "b", "null", "null")) // for the next one
	n.End()
}
