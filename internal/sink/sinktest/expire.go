package sinktest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
)

// old are the rows of the suite's table that were last changed before a minute.
func old(minute int, of ...string) *sink.Expiry {
	return &sink.Expiry{Table: table, Key: []string{"id"}, Of: of, Before: at(minute)}
}

// expiryTests: old rows are removed, by an index and without one.
var expiryTests = slices.Concat(
	byIndexAndWithout("OldRowsGo", func(t *testing.T, db Database, index func(column string)) {
		r := Setup{Fit: stamps}.Begin(t, db).At(at(0))
		r.Flush(`{"id":1}`, `{"id":2,"a":"x"}`, `{"id":3}`)
		index("moved")
		r.At(at(5)).Flush(`{"id":2,"a":"y"}`, `{"id":3}`, `{"id":4}`)
		if got := r.Expire(old(5, "moved")); !reflect.DeepEqual(got, sink.Expired{Removed: 2}) {
			t.Errorf("%+v", got)
		}
		stampsAre(t, db, "2|00|05", "4|05|05")
		if got := r.Expire(old(5, "moved")); !reflect.DeepEqual(got, sink.Expired{}) {
			t.Errorf("again: %+v", got)
		}
		Counts(t, r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"a":"y"}`), 1, 0, 1, 0)
	}),
	byIndexAndWithout("AllOfTheColumnsMustBeOldOrNull", func(t *testing.T, db Database, index func(column string)) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TIMESTAMP, b TIMESTAMP)")
		index("b")
		const old1, young = "'2020-05-15 13:00:00'", "'2020-05-15 14:00:00.5'"
		db.Exec(t, "INSERT INTO t VALUES (1, "+old1+", "+old1+"), (2, NULL, "+old1+"), (3, "+old1+", NULL), (4, NULL, NULL), (5, "+young+", "+old1+"), (6, "+old1+", "+young+"), (7, NULL, "+young+"), (8, "+young+", NULL)")
		r := Begin(t, db)
		if got := r.Expire(old(30, "a", "b")); !reflect.DeepEqual(got, sink.Expired{Removed: 4}) {
			t.Errorf("%+v", got)
		}
		Expect(t, db, "SELECT id FROM t ORDER BY id", "5", "6", "7", "8")
	}),
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
			// The tombstone of another row stays, and none is left of this one.
			Expect(t, db, "SELECT count(*), count(gone) FROM weir_versions", "2|1")
			r.Flush(first+`,"v":1,"a":"again"}`, second+`,"v":5,"a":"old"}`)
			Expect(t, db, "SELECT a FROM t ORDER BY a", "again", "y")
			r.End()
			db.Exec(t, "DROP TABLE t")
			db.Exec(t, "DELETE FROM weir_versions")
		}
	}),
	byIndexAndWithout("ARowThatIsReferencedStays", func(t *testing.T, db Database, index func(column string)) {
		r := Setup{Fit: stamps}.Begin(t, db).At(at(0))
		r.Flush(numbered(0, 6)...)
		index("made")
		theirs(t, db, "CREATE TABLE child (id TEXT REFERENCES t (id))")
		db.Exec(t, "INSERT INTO child VALUES ('01-a'), ('04-a')")
		got := r.Expire(old(1, "made"))
		if got.Removed != 4 || got.Kept != 2 || !strings.Contains(strings.ToLower(got.Why), "foreign key") {
			t.Errorf("%+v", got)
		}
		Expect(t, db, "SELECT id FROM t ORDER BY id", "01-a", "04-a")
	}),
	[]test{{"ATableOrColumnThatIsMissing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		if got := r.Expire(old(5, "moved")); !reflect.DeepEqual(got, sink.Expired{}) {
			t.Errorf("no table: %+v", got)
		}
		r.Flush(`{"id":1,"n":1}`)
		if got := r.Expire(old(5, "moved")); !reflect.DeepEqual(got, sink.Expired{Missing: "moved"}) {
			t.Errorf("no column: %+v", got)
		}
		if _, err := part[sink.Expirer](r).Expire(t.Context(), old(5, "n")); err == nil || !strings.Contains(err.Error(), `column "n" of table "t" is `) {
			t.Errorf("a number: %v", err)
		}
		Expect(t, db, "SELECT id FROM t", "1")
	}},
		{"AKeyThatTheTableLacks", func(t *testing.T, db Database) {
			r := Setup{Fit: stamps}.Begin(t, db).At(at(0))
			r.Flush(`{"id":1}`)
			e := old(5, "made")
			e.Key = []string{"other"}
			if got := r.Expire(e); !reflect.DeepEqual(got, sink.Expired{}) {
				t.Errorf("%+v", got)
			}
			Expect(t, db, "SELECT id FROM t", "1")
		}},
		{"TwoRunsAtOnce", func(t *testing.T, db Database) {
			a := Setup{Fit: stamps}.Begin(t, db).At(at(0))
			a.Flush(numbered(0, 60)...)
			b := BeginJob(t, db, "b")
			x, y := old(5, "made"), old(5, "made")
			if first, second := a.Expire(x), b.Expire(y); first.Removed != 60 || second.Removed != 0 {
				t.Errorf("%+v and %+v", first, second)
			}
			a.At(at(1)).Flush(`{"id":"07-a","a":"x"}`)
			Expect(t, db, "SELECT id FROM t", "07-a")
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
