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

// refusedTests: what only the database can judge rejects the messages of a row
// one by one, in order, and nothing else.
var refusedTests = append(feedTests(
	feedTest{name: "BadMessagesOfARow", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0), a TEXT)"},
		lines: lines{`{"id":1,"n":1}`, `{"id":2,"n":2}`, `{"id":1,"a":"x"}`, `{"id":1,"n":-1,"a":"lost"}`, `{"id":2,"n":-2}`, `{"id":3,"n":-3}`, `{"id":3,"a":"y"}`, `{"id":4,"n":-1}`, `{"id":4,"n":-2}`},
		query: "SELECT id, n, a FROM t ORDER BY id", want: rows{"1|1|x", "2|2|NULL", "3|NULL|y"}, rejects: lines{"4", "5", "6", "8", "9"}},
	feedTest{name: "NotNullIsCheckedByTheDatabase", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT)"},
		batches: [][]string{{`{"id":1,"b":"no a"}`, `{"id":1,"a":"x"}`, `{"id":2,"b":"no a"}`, `{"id":3,"a":"y"}`, `{"id":3,"a":null}`}, {`{"id":3,"b":"sparse"}`}}, // the row has an a
		query:   "SELECT id, a, b FROM t ORDER BY id", want: rows{"1|x|no a", "3|y|sparse"}, rejects: lines{"3", "5"}},
	// What is deleted in the same batch is never put to the database.
	feedTest{name: "DeletesAmongTheMessages", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0), a TEXT)"},
		batches: [][]string{{`{"id":1,"n":1,"a":"old"}`, `{"id":2,"n":1}`}, {`{"id":1,"op":"delete"}`, `{"id":1,"n":2}`, `{"id":1,"n":-1}`}, {`{"id":2,"n":-5,"a":"lost"}`, `{"id":2,"op":"delete"}`}},
		query:   "SELECT id, n, a FROM t", want: rows{"1|2|NULL"}, rejects: lines{"5"}},
	feedTest{name: "SecondUniqueIndex_ClashIsRejected", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, gate TEXT UNIQUE, a TEXT)"}, first: `{"id":1,"gate":"A"}`,
		lines: lines{`{"id":2,"a":"x"}`, `{"id":2,"gate":"A","a":"lost"}`, `{"id":3,"gate":"C"}`},
		query: "SELECT id, gate, a FROM t ORDER BY id", want: rows{"1|A|NULL", "2|NULL|x", "3|C|NULL"}, rejects: lines{"2"}},
	// Of rows that want one value, whatever else of the batch is rejected, and whatever needs other rows.
	feedTest{name: "SecondUniqueIndex_FirstInTheFeedWins", least: 3,
		sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, gate TEXT UNIQUE, n INTEGER CHECK (n >= 0), peer INTEGER REFERENCES t (id), a TEXT)"},
		lines: lines{`{"id":3,"gate":"X"}`, `{"id":9,"peer":8}`, `{"id":8,"peer":9}`, `{"id":5,"gate":"A"}`, `{"id":2,"gate":"A","a":"lost"}`, `{"id":1,"n":-1}`,
			`{"id":2,"a":"kept"}`, `{"id":5,"a":"x"}`, `{"id":7,"gate":"B"}`, `{"id":6,"n":-6}`, `{"id":7,"op":"delete"}`, `{"id":4,"gate":"B","peer":3}`, `{"id":0,"gate":"B"}`,
			`{"id":3,"a":"y"}`, `{"id":6,"gate":"X"}`, `{"id":6,"gate":"C","peer":66}`},
		query: "SELECT id, gate, peer, a FROM t ORDER BY id", want: rows{"2|NULL|NULL|kept", "3|X|NULL|y", "4|B|3|NULL", "5|A|NULL|x", "8|NULL|9|NULL", "9|NULL|8|NULL"},
		rejects: lines{"5", "6", "10", "13", "15", "16"}},
	feedTest{name: "SecondUniqueIndex_MessagesThatWaitKeepTheirOrder", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, gate TEXT UNIQUE, peer INTEGER REFERENCES t (id), a TEXT)"},
		batches: [][]string{{`{"id":11,"peer":12,"a":"old"}`, `{"id":5,"gate":"A"}`, `{"id":2,"gate":"A"}`, `{"id":11,"a":"new"}`, `{"id":12}`}},
		query:   "SELECT id, gate, peer, a FROM t ORDER BY id", want: rows{"5|A|NULL|NULL", "11|NULL|12|new", "12|NULL|NULL|NULL"}, rejects: lines{"3"}},
),
	test{"WhatIsKeptOfAMessage", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CONSTRAINT never_negative CHECK (n >= 0), a TEXT)")
		r := Begin(t, db)
		bad := `{"id":2,"n":-1,"a":"lost"}`
		res := r.Flush(`{"id":1,"n":1}`, `{"id":2,"n":5}`, `{"id":2,"a":"x"}`, `{"id":3,"n":3}`, bad)
		Counts(t, res, 3, 1, 0, 0) // the row of id 2 came in by two messages
		Expect(t, db, "SELECT id, n, a FROM t ORDER BY id", "1|1|NULL", "2|5|x", "3|3|NULL")
		Expect(t, db, "SELECT job, source, line, \"offset\", raw FROM weir_rejects WHERE reason LIKE 'database: %never_negative%'", fmt.Sprintf("%s|%s|5|%d|%s", job, from, 15+15+17+15, bad))
		if len(res.Refused) != 1 {
			t.Fatalf("refused: %v", res.Refused)
		}
		if f := res.Refused[0]; f.Line != 5 || f.Reason != feed.Database || !strings.Contains(f.Detail, "never_negative") || string(f.Text) != bad {
			t.Errorf("refused: %+v", f)
		}
	}},
	test{"SecondUniqueIndex_ValueMoves", func(t *testing.T, db Database) {
		// Legal message by message, so legal in a batch, in whichever order the
		// rows are written.
		for _, move := range [][]string{
			{`{"id":1,"gate":"C"}`, `{"id":2,"gate":"A"}`},
			{`{"id":2,"gate":"C"}`, `{"id":1,"gate":"B"}`},
			{`{"id":1,"op":"delete"}`, `{"id":2,"gate":"A"}`},
			{`{"id":2,"gate":null}`, `{"id":1,"gate":"B"}`, `{"id":3,"gate":"A"}`},
		} {
			theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, gate TEXT UNIQUE)")
			r := Begin(t, db)
			r.Flush(`{"id":1,"gate":"A"}`, `{"id":2,"gate":"B"}`)
			if res := r.Flush(move...); len(res.Refused) > 0 {
				t.Errorf("%s: refused %v", move, res.Refused)
			}
			Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
			r.End()
			db.Exec(t, "DROP TABLE t")
		}
	}},
	test{"SecondUniqueIndex_ChainOfMoves", func(t *testing.T, db Database) {
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
	test{"OneOfManyRows", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n <> 777))")
		r := Begin(t, db)
		var lines []string
		for i := range 1000 {
			lines = append(lines, fmt.Sprintf(`{"id":%d,"n":%d}`, i, i))
		}
		Counts(t, r.Flush(lines...), 999, 0, 0, 0)
		Expect(t, db, "SELECT line FROM weir_rejects", "778")
	}},
	test{"ForeignKeysInACircle", func(t *testing.T, db Database) {
		// Rows that need only each other are right together, whatever else is wrong.
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
					t.Errorf("beside %q, the key%s: rejected %v", bad, when, res.Refused)
				}
				Expect(t, db, "SELECT id, peer FROM t ORDER BY id", "1|9", "2|3", "3|2", "5|1", "6|NULL", "9|5")
				r.End()
				db.Exec(t, "DROP TABLE t")
			}
		}
	}},
	test{"ConstraintAddedMeanwhile", func(t *testing.T, db Database) {
		// The batch was folded for a table that takes everything, and its messages were
		// not kept: the flush leaves nothing, and says that they are needed.
		r := Begin(t, db)
		r.Flush(`{"id":1,"n":1}`, `{"id":2,"n":2}`)
		theirs(t, db, "CREATE UNIQUE INDEX other ON t (n)")
		_, err := r.TryFlush(`{"id":3,"n":2}`, `{"id":4,"n":4}`)
		if unlogged := (sink.ErrUnlogged{}); !errors.As(err, &unlogged) || !strings.Contains(err.Error(), "other") && !strings.Contains(err.Error(), "t.n") {
			t.Errorf("the flush ended with %v", err)
		}
		Expect(t, db, "SELECT id, n FROM t ORDER BY id", "1|1", "2|2")
		Expect(t, db, "SELECT seq FROM weir_checkpoints", "1")
	}},
)
