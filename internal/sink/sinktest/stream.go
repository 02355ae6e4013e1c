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
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// streaming is a mapping of change data capture (CDC) messages in Debezium's format: tables, each with its own name in
// the stream.
func streaming(t *testing.T, tables ...mapping.Table) *mapping.Mapping {
	t.Helper()
	return &mapping.Mapping{Tables: tables, Envelope: &envelope.Envelope{
		Table: []paths.Path{path("source.schema"), path("source.table")},
		Row:   []paths.Path{path("after")}, Old: path("before"), Absent: []string{"?"},
		Operations: envelope.Operations{DeleteWhen: when("op=d"), TruncateWhen: when("op=t"), Ignore: when("op=m")},
	}}
}

// event returns a message of such a stream.
func event(op, table, before, after string) string {
	return fmt.Sprintf(`{"op":%q,"before":%s,"after":%s,"source":{"schema":"s","table":%q}}`, op, before, after, table)
}

// streamTests: CDC streams, with tables that are truncated on the way.
var streamTests = []test{
	{"RandomStream", func(t *testing.T, db Database) {
		Seeds(t, testcheck.Rounds(4, 12), func(t *testing.T, rnd *rand.Rand) { randomStream(t, db, rnd) })
	}},
	{"ATruncationOfATableThatAnotherRunMade", func(t *testing.T, db Database) {
		need(t, db, Shared)
		r := Begin(t, db)
		BeginJob(t, db, "other").Flush(`{"id":1}`)
		r.Fold(`{"id":2}`)
		f := r.Seal()
		f.Batches[0].Truncated = &fold.Place{}
		res, err := r.Send(f)
		testcheck.NoError(t, err)
		Counts(t, res, 1, 0, 0, 1)
		Expect(t, db, "SELECT id FROM t", "2")
	}},
}

// randomStream mirrors two tables with inserts, updates, key changes and deletes, alone or together, in random batches.
func randomStream(t *testing.T, db Database, rnd *rand.Rand) {
	names := []string{"a", "b"}
	n := Setup{Mapping: streaming(t, mapping.Table{Name: names[0], Key: []string{"id"}}, mapping.Table{Name: names[1], Key: []string{"id"}}), Constrained: rnd.IntN(2) == 0}.Begin(t, db)
	tables := []map[int]string{{}, {}} // the value of v by key
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
			case what < 13: // a value that the source omits
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
