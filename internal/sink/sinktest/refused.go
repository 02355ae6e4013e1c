package sinktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/sink"
)

// refusedTests: a violation that only the database can detect rejects the messages of a row one by one, in order, and
// nothing else.
var refusedTests = []test{
	{"WhatIsKeptOfAMessage", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CONSTRAINT never_negative CHECK (n >= 0), a TEXT)")
		r := Begin(t, db)
		bad := `{"id":2,"n":-1,"a":"lost"}`
		res := r.Flush(`{"id":1,"n":1}`, `{"id":2,"n":5}`, `{"id":2,"a":"x"}`, `{"id":3,"n":3}`, bad)
		Counts(t, res, 3, 0, 0, 0) // the messages before the bad one are folded
		Expect(t, db, "SELECT id, n, a FROM t ORDER BY id", "1|1|NULL", "2|5|x", "3|3|NULL")
		Expect(t, db, "SELECT job, source, line, \"offset\", raw FROM weir_rejects WHERE reason LIKE 'database: %never_negative%'", fmt.Sprintf("%s|%s|5|%d|%s", job, from, 15+15+17+15, bad))
		if len(res.Refused) != 1 {
			t.Fatalf("refused: %v", res.Refused)
		}
		if f := res.Refused[0]; f.Line != 5 || f.Reason != feed.Database || !strings.Contains(f.Detail, "never_negative") || string(f.Text) != bad {
			t.Errorf("refused: %+v", f)
		}
	}},
	{"SecondUniqueIndex_ChainOfMoves", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, gate INTEGER UNIQUE)")
		r := Begin(t, db)
		const n = 50
		var first, then []string
		for i := range n {
			first = append(first, fmt.Sprintf(`{"id":%d,"gate":%d}`, i, i))
			then = append(then, fmt.Sprintf(`{"id":%d,"gate":%d}`, i, i+1))
		}
		r.Flush(first...)
		slices.Reverse(then) // the last one moves first
		if res := r.Flush(then...); len(res.Refused) > 0 {
			t.Errorf("refused %v", res.Refused)
		}
		Expect(t, db, "SELECT count(*), min(gate - id), max(gate - id) FROM t", "50|1|1")
	}},
	{"OneOfManyRows", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 777))")
		r := Begin(t, db)
		var lines []string
		for i := range 1000 {
			lines = append(lines, fmt.Sprintf(`{"id":%d,"n":%d}`, i, i))
		}
		Counts(t, r.Flush(lines...), 999, 0, 0, 0)
		Expect(t, db, "SELECT line FROM weir_rejects", "778")
	}},
	{"ASearchEndsEarly", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0))")
		r := Begin(t, db)
		for i := range 500 {
			r.Fold(fmt.Sprintf(`{"id":%d,"n":%d}`, i, i%100-50))
		}
		f, last := r.Seal(), sink.Searching{}
		f.Searching = func(s sink.Searching) error {
			if last = s; s.Rejected > 10 {
				return errStop
			}
			return nil
		}
		if _, err := r.Sink.Flush(t.Context(), f); !errors.Is(err, errStop) {
			t.Fatalf("the flush ended with %v", err)
		}
		if last.Messages != 500 || last.Rejected != 11 || last.Last.Line != 11 {
			t.Errorf("it ended at %+v", last)
		}
		Expect(t, db, "SELECT count(*) FROM t", "0")
		f.Searching = func(s sink.Searching) error { last = s; return nil }
		if res := r.again(f); len(res.Refused) != 250 || last.Written != 250 || last.Rejected != 250 {
			t.Errorf("again: %d messages are rejected; it ended at %+v", len(res.Refused), last)
		}
		Expect(t, db, "SELECT count(*), (SELECT count(*) FROM weir_rejects) FROM t", "250|250")
	}},
	{"TheRowThatIsMissingComesAfterABadMessageOfIt", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, peer INTEGER REFERENCES t (id), n INTEGER CHECK (n >= 0))")
		r := Begin(t, db)
		res := r.Flush(`{"id":1,"peer":5}`, `{"id":5,"n":-1}`, `{"id":5,"n":1}`, `{"id":6,"n":-1}`)
		if len(res.Refused) != 2 || res.Refused[0].Line != 2 || res.Refused[1].Line != 4 {
			t.Errorf("rejected %v", res.Refused)
		}
		Expect(t, db, "SELECT id, peer, n FROM t ORDER BY id", "1|5|NULL", "5|NULL|1")
	}},
	{"ForeignKeysInACircle", func(t *testing.T, db Database) {
		// Rows that need only each other are accepted together, whatever else is rejected.
		for _, bad := range []string{"", `{"id":4,"c":500}`, `{"id":4,"peer":99}`} {
			for _, when := range []string{"", " DEFERRABLE INITIALLY DEFERRED"} {
				theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, peer INTEGER REFERENCES t (id)"+when+", c INTEGER CHECK (c < 100))")
				r := Begin(t, db)
				lines := []string{`{"id":1,"peer":9}`, `{"id":9,"peer":5}`, `{"id":5,"peer":1}`, `{"id":2,"peer":3}`, `{"id":3,"peer":2}`, `{"id":6,"c":5}`}
				want := 0
				if bad != "" {
					lines, want = append(lines, bad), 1
				}
				res := r.Flush(lines...)
				if len(res.Refused) != want {
					t.Errorf("together with %q, the key%s: rejected %v", bad, when, res.Refused)
				}
				Expect(t, db, "SELECT id, peer FROM t ORDER BY id", "1|9", "2|3", "3|2", "5|1", "6|NULL", "9|5")
				r.End()
				db.Exec(t, "DROP TABLE t")
			}
		}
	}},
}
