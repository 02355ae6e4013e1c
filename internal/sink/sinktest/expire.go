package sinktest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/weirsync/weir/internal/sink"
)

// old returns an expiry for the rows of the suite's table that were last changed before a minute.
func old(minute int, of ...string) *sink.Expiry {
	return &sink.Expiry{Table: table, Key: []string{"id"}, Of: of, Before: at(minute)}
}

// expiryTests: old rows are removed, with an index and without one.
var expiryTests = slices.Concat(
	byIndexAndWithout("InSteps", func(t *testing.T, db Database, index func(column string)) {
		r := Setup{Fit: stamps, Options: all(key("id", "n"))}.Begin(t, db).At(at(0))
		for minute := range 2 {
			r.At(at(minute))
			for n := range 2500 {
				r.Fold(fmt.Sprintf(`{"id":"it's \"%d\" \\ é","n":%d}`, n/2, 2*(n%100)+minute-100))
			}
			r.Flush()
		}
		index("made")
		e := old(1, "made")
		e.Key = []string{"n", "id"} // in another order than the table's
		if got := r.Expire(e); !reflect.DeepEqual(got, sink.Expired{Removed: 2500}) {
			t.Errorf("%+v", got)
		}
		Expect(t, db, "SELECT count(*), min(n), max(n) FROM t", "2500|-99|99")
	}),
	byIndexAndWithout("VersionsGoWithTheirRow", func(t *testing.T, db Database, index func(column string)) {
		for n, ids := range [][]string{{`1`, `2`}, {`"a\"\u00e9"`, `"b"`}, {`1.5`, `-1e30`}, {`true`, `false`}} {
			r := Setup{Fit: stamps, Options: all(byColumn, key("n", "id"))}.Begin(t, db).At(at(0))
			first, second := `{"n":1,"id":`+ids[0], `{"n":1,"id":`+ids[1]
			r.Flush(first+`,"v":5,"a":"x"}`, second+`,"v":5,"a":"x"}`, `{"n":2,"id":`+ids[0]+`,"v":6,"op":"delete"}`)
			if n == 0 {
				index("moved")
			}
			r.At(at(5)).Flush(second + `,"v":6,"a":"y"}`)
			e := old(5, "moved")
			e.Key = []string{"n", "id"}
			if got := r.Expire(e); !reflect.DeepEqual(got, sink.Expired{Removed: 1}) {
				t.Errorf("%v: %+v", ids, got)
			}
			// The tombstone of another row is kept, and nothing is left of this one.
			Expect(t, db, "SELECT count(*), count(gone) FROM weir_versions", "2|1")
			r.Flush(first+`,"v":1,"a":"again"}`, second+`,"v":5,"a":"old"}`)
			Expect(t, db, "SELECT a FROM t ORDER BY a", "again", "y")
			r.End()
			db.Exec(t, "DROP TABLE t")
			db.Exec(t, "DELETE FROM weir_versions")
		}
	}),
	[]test{{"AKeyThatTheTableLacks", func(t *testing.T, db Database) {
		r := Setup{Fit: stamps}.Begin(t, db).At(at(0))
		r.Flush(`{"id":1}`)
		e := old(5, "made")
		e.Key = []string{"other"}
		if got := r.Expire(e); !reflect.DeepEqual(got, sink.Expired{}) {
			t.Errorf("%+v", got)
		}
		Expect(t, db, "SELECT id FROM t", "1")
	}},
	},
)

// byIndexAndWithout makes two tests of one, with an index on a column and without.
func byIndexAndWithout(name string, run func(t *testing.T, db Database, index func(column string))) []test {
	return []test{
		{name, func(t *testing.T, db Database) { run(t, db, func(string) {}) }},
		{name + "ByAnIndex", func(t *testing.T, db Database) {
			run(t, db, func(column string) { theirs(t, db, "CREATE INDEX by_"+column+" ON t ("+column+")") })
		}},
	}
}
