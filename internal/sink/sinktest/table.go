package sinktest

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// columnTests: a table that weir made grows with its feed.
var columnTests = append(feedTests(
	feedTest{name: "NewFieldBecomesAColumn", batches: [][]string{{`{"id":1,"a":"x"}`}, {`{"id":2,"b":1}`, `{"id":1,"c":true,"b":2}`}, {`{"id":3,"d":"y"}`}},
		query: "SELECT id, a, b, c, d FROM t ORDER BY id", want: rows{"1|x|2|true|NULL", "2|NULL|1|NULL|NULL", "3|NULL|NULL|NULL|y"}},
	feedTest{name: "FieldOfNullsAloneGetsItsTypeLater", batches: [][]string{{`{"id":1,"a":null}`}, {`{"id":2,"a":"007"}`}, {`{"id":3,"a":null}`}},
		query: "SELECT id, a FROM t ORDER BY id", want: rows{"1|NULL", "2|007", "3|NULL"}},
	feedTest{name: "ValueThatDoesNotFitWidens", batches: [][]string{{`{"id":1,"a":1,"b":true,"c":1.5,"d":12,"e":9007199254740993}`},
		{`{"id":2,"a":2.5,"b":"no","c":"x","d":{"k":[1]},"e":"big"}`}, {`{"id":3,"a":"007","b":7,"c":false,"d":null,"e":1}`}},
		query: "SELECT id, a, b, c, d, e FROM t ORDER BY id", want: rows{`1|1|true|1.5|12|9007199254740993`, `2|2.5|no|x|{"k":[1]}|big`, `3|007|7|false|NULL|1`}},
	feedTest{name: "NumbersKeepEveryDigit", batches: [][]string{{`{"id":1,"n":1}`}, {`{"id":2,"n":0.5}`}, {`{"id":3,"n":9223372036854775808}`},
		{`{"id":4,"n":0.1234567890123456789}`, `{"id":5,"n":9007199254740993}`}},
		query: "SELECT id, CAST(n AS TEXT) FROM t ORDER BY id", want: rows{"1|1", "2|0.5", "3|9223372036854775808", "4|0.1234567890123456789", "5|9007199254740993"}},
	feedTest{name: "KeyWidens", batches: [][]string{{`{"id":1,"a":"x"}`, `{"id":"2","a":"y"}`}, {`{"id":"B","a":"z"}`, `{"id":"1","b":"w"}`}, {`{"id":2,"b":"v"}`, `{"id":"002","a":"u"}`}},
		query: "SELECT id, a, b FROM t ORDER BY id", want: rows{"002|u|NULL", "1|x|w", "2|y|v", "B|z|NULL"}},
	feedTest{name: "NamesAreQuoted", batches: [][]string{{`{"id":1,"select":"a","a b":"b","we\"ird":"c","drop table t; --":"d","ünï":"e","100%":"f","back\\slash":"g"}`},
		{`{"id":1,"select":"A","we\"ird":"C","order":"h"}`}},
		query: `SELECT "select", "a b", "we""ird", "drop table t; --", "ünï", "100%", "back\slash", "order" FROM t`, want: rows{"A|b|C|d|e|f|g|h"}},
	feedTest{name: "DeletesComeFirst", batches: [][]string{{`{"id":1,"op":"delete"}`}, {`{"id":1,"a":"x"}`}, {`{"id":"B","op":"delete"}`}, {`{"id":"B","a":1.5}`}},
		query: "SELECT id, a FROM t ORDER BY id", want: rows{"1|x", "B|1.5"}},
),
	test{"NewFieldIsFoundByTheNextRun", func(t *testing.T, db Database) {
		for _, line := range []string{`{"id":1,"a":"x"}`, `{"id":1,"b":"y"}`} {
			r := Begin(t, db)
			r.Flush(line)
			r.End()
		}
		Counts(t, Begin(t, db).Flush(`{"id":1,"a":"x","b":"y"}`), 0, 0, 1, 0)
	}},
	test{"ABatchWithoutRowsMakesNoTable", func(t *testing.T, db Database) {
		for _, first := range [][]string{{`not json`, `{"a":1}`}, {}} {
			r := Begin(t, db)
			if r.Flush(first...); r.known().Exists {
				t.Error("the table exists")
			}
			r.Flush(`{"id":1,"a":"x"}`)
			r.Flush(`{"id":1,"b":"y"}`)
			Expect(t, db, "SELECT id, a, b FROM t", "1|x|y")
			r.End()
			db.Exec(t, "DROP TABLE t")
		}
		Expect(t, db, "SELECT line, raw FROM weir_rejects ORDER BY line", `1|not json`, `2|{"a":1}`)
	}},
)

// tableTests: a table that exists is used as it is.
var tableTests = append(feedTests(
	feedTest{name: "RowsOfOthersStay", sql: lines{"CREATE TABLE t (b TEXT, id INTEGER PRIMARY KEY, a TEXT)", "INSERT INTO t (id, a, b) VALUES (1, 'theirs', 'theirs'), (2, 'theirs', 'theirs')"},
		lines: lines{`{"id":1,"a":"ours"}`, `{"id":3,"a":"ours"}`},
		query: "SELECT id, a, b FROM t ORDER BY id", want: rows{"1|ours|theirs", "2|theirs|theirs", "3|ours|NULL"}},
	feedTest{name: "NewFieldsAreAddedIfAsked", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)", "INSERT INTO t (id, a) VALUES (7, 'theirs')"}, by: options{addColumns},
		lines: lines{`{"id":1,"a":"x","new":1}`}, query: "SELECT id, a, new FROM t ORDER BY id", want: rows{"1|x|1", "7|theirs|NULL"}},
	feedTest{name: "ColumnsAreNotWidened", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, a TEXT)"},
		// A bad value that a later message overwrites is rejected all the same, and only its own message with it.
		lines: lines{`{"id":1,"n":1,"a":"x"}`, `{"id":1,"n":"abc","a":"bad"}`, `{"id":1,"n":1.5}`, `{"id":2,"n":9223372036854775808}`, `{"id":2,"n":true,"a":"bad"}`, `{"id":3,"n":"7"}`, `{"id":1,"n":2.0}`},
		query: "SELECT id, n, a FROM t ORDER BY id", want: rows{"1|2|x", "3|7|NULL"}, rejects: lines{"2", "3", "4", "5"}},
	feedTest{name: "DefaultsApplyToNewRows", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'unknown', n INTEGER NOT NULL DEFAULT 5)"},
		lines: lines{`{"id":1}`, `{"id":2,"a":"x"}`, `{"id":3,"a":null,"n":6}`, `{"id":2,"n":7}`, `{"id":4,"a":null,"n":6}`, `{"id":4,"op":"delete"}`, `{"id":4,"a":"new"}`, `{"id":5,"op":"delete"}`, `{"id":5,"a":"new"}`},
		query: "SELECT id, a, n FROM t ORDER BY id", want: rows{"1|unknown|5", "2|x|7", "3|NULL|6", "4|new|5", "5|new|5"}},
	feedTest{name: "GeneratedColumnsAreLeftToTheDatabase", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, twice INTEGER GENERATED ALWAYS AS (n * 2) STORED)"},
		lines: lines{`{"id":1,"n":2,"twice":99}`, `{"id":2,"n":3}`, `{"id":1,"n":5,"twice":98}`},
		query: "SELECT id, n, twice FROM t ORDER BY id", want: rows{"1|5|10", "2|3|6"}},
	feedTest{name: "UniqueIndexServesAsKey", by: options{key("carrier", "flight")}, sql: lines{"CREATE TABLE t (pk INTEGER PRIMARY KEY, carrier TEXT, flight TEXT, a TEXT)",
		"CREATE UNIQUE INDEX t_key ON t (flight, carrier)", "INSERT INTO t (pk, carrier, flight, a) VALUES (100, 'AB', '12', 'theirs')"},
		lines: lines{`{"carrier":"AB","flight":12,"a":"ours"}`}, query: "SELECT pk, carrier, flight, a FROM t", want: rows{"100|AB|12|ours"}},
),
	test{"NewFieldsAreIgnored", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x","new":1}`, `{"id":2,"new":2}`)
		Expect(t, db, "SELECT * FROM t ORDER BY id", "1|x", "2|NULL")
		if got := r.folders[0].Ignored()["new"]; got != 2 {
			t.Errorf("%d values were counted as ignored, want 2", got)
		}
	}},
	test{"WithoutAUniqueKeyTheErrorHasTheStatement", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (pk INTEGER UNIQUE, id INTEGER, kind TEXT)")
		theirs(t, db, "CREATE INDEX t_plain ON t (id)")
		theirs(t, db, "CREATE UNIQUE INDEX t_wider ON t (id, kind)")
		theirs(t, db, "CREATE UNIQUE INDEX t_partial ON t (id) WHERE kind = 'x'")
		_, err := TryBegin(t, db)
		if err == nil {
			t.Fatal("a table that can hold a key twice was accepted")
		}
		_, statement, found := strings.Cut(err.Error(), "CREATE UNIQUE INDEX")
		if !found {
			t.Fatalf("no way out is in the error: %v", err)
		}
		theirs(t, db, "CREATE UNIQUE INDEX"+strings.TrimSuffix(strings.TrimSpace(statement), ";"))
		r := Begin(t, db, func(o *fold.Options) { o.Columns = fold.IgnoreColumns })
		r.Flush(`{"id":1,"kind":"a"}`, `{"id":1,"kind":"b"}`)
		Expect(t, db, "SELECT id, kind FROM t", "1|b")
	}},
	test{"WhatCannotBeWrittenIsAnError", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE other (pk INTEGER PRIMARY KEY)")
		theirs(t, db, "CREATE VIEW t AS SELECT pk AS id FROM other")
		s := db.Open(t)
		defer s.Close()
		for name, word := range map[string]string{"other": `"id"`, "t": "view"} {
			if _, err := sink.Table(t.Context(), s.Tables, name, []string{"id"}); err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("table %s: %v; want an error with %s", name, err, word)
			}
		}
	}},
	test{"NamesOfWeirAreReserved", func(t *testing.T, db Database) {
		s := db.Open(t)
		defer s.Close()
		if _, err := sink.Table(t.Context(), s.Tables, "weir_rejects", []string{"id"}); err == nil {
			t.Error("weir_rejects can be synced into")
		}
	}},
	test{"ForeignKeysOfOthersHold", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
		theirs(t, db, "CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES t (id))")
		db.Exec(t, "INSERT INTO t (id, a) VALUES (1, 'x'), (2, 'y')")
		db.Exec(t, "INSERT INTO child (id, parent) VALUES (10, 1)")
		res := Begin(t, db).Flush(`{"id":1,"a":"new"}`, `{"id":1,"op":"delete"}`, `{"id":2,"op":"delete"}`)
		Expect(t, db, "SELECT id, a FROM t", "1|new")
		if len(res.Refused) != 1 || res.Refused[0].Line != 2 {
			t.Errorf("refused: %v", res.Refused)
		}
	}},
	test{"WhatIsDroppedMeanwhileIsNoticed", func(t *testing.T, db Database) {
		for drop, word := range map[string]string{"DROP TABLE t": "dropped", "ALTER TABLE t DROP COLUMN b": `"b"`} {
			theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
			r := Begin(t, db)
			r.Flush(`{"id":1,"a":"x"}`)
			seq := r.cp().Seq
			db.Exec(t, drop)
			if _, err := r.TryFlush(`{"id":2,"a":"y","b":"z"}`); err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("after %s: %v", drop, err)
			}
			Expect(t, db, "SELECT seq FROM weir_checkpoints", show(seq))
			r.End()
			db.Exec(t, "DROP TABLE IF EXISTS t")
		}
	}},
	test{"ColumnAddedMeanwhile", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		theirs(t, db, "ALTER TABLE t ADD COLUMN theirs TEXT")
		db.Exec(t, "UPDATE t SET theirs = 'kept'")
		r.Flush(`{"id":1,"a":"y","b":"z"}`)
		Expect(t, db, "SELECT id, a, b, theirs FROM t", "1|y|z|kept")
	}},
)
