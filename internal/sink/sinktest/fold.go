package sinktest

import (
	"testing"

	"github.com/weirsync/weir/internal/fold"
)

func keepNull(o *fold.Options)   { o.Null = fold.KeepNull }
func fillOnly(o *fold.Options)   { o.FillOnly = true }
func addColumns(o *fold.Options) { o.Columns = fold.AddColumns }

// options are changes of a run's options.
type options = []func(*fold.Options)

// withDefaults is a table whose columns have defaults, with a row that has NULLs in it.
var withDefaults = []string{"CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, a TEXT DEFAULT 'dflt', b TEXT, n INTEGER NOT NULL DEFAULT 5)",
	"INSERT INTO t (id, a, b, n) VALUES (9, NULL, NULL, 7)"}

// foldTests: the table is the fold of the feed, whatever the batches.
var foldTests = append(feedTests(
	feedTest{name: "MessageSetsWhatItNames", lines: lines{`{"id":1,"a":"x","b":"y"}`, `{"id":2,"a":"z"}`, `{"id":1,"b":"new"}`},
		query: "SELECT id, a, b FROM t ORDER BY id", want: rows{"1|x|new", "2|z|NULL"}},
	feedTest{name: "NullSetsNull", lines: lines{`{"id":1,"a":"x","b":"y"}`, `{"id":1,"a":null}`, `{"id":2,"a":null,"b":null}`, `{"id":2,"b":"y"}`},
		query: "SELECT id, a, b FROM t ORDER BY id", want: rows{"1|NULL|y", "2|NULL|y"}},
	feedTest{name: "NullIsAbsentIfAsked", by: options{keepNull}, lines: lines{`{"id":1,"a":"x"}`, `{"id":1,"a":null}`, `{"id":2,"a":null}`, `{"id":3,"a":"y"}`},
		query: "SELECT id, a FROM t ORDER BY id", want: rows{"1|x", "2|NULL", "3|y"}},
	feedTest{name: "LastOfTwoEqualNamesWins", sql: lines{"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s TEXT)"},
		lines: lines{`{"id":"x","n":"x","n":1,"id":1}`, `{"id":1,"\u0073":"\u0000","n":1.5,"s":"y","n":2}`},
		query: "SELECT id, n, s FROM t", want: rows{"1|2|y"}},
	feedTest{name: "DeleteRemovesTheRow", lines: lines{`{"id":1,"a":"x"}`, `{"id":2,"a":"y"}`, `{"id":1,"op":"delete"}`, `{"id":7,"op":"delete"}`, `{"id":1,"a":"z"}`, `{"id":1,"op":"delete"}`},
		query: "SELECT id, a FROM t ORDER BY id", want: rows{"2|y"}},
	feedTest{name: "DeleteThenSparseInsertKeepsNoOldColumn", lines: lines{`{"id":1,"a":"old","b":"old"}`, `{"id":2,"a":"y"}`, `{"id":1,"op":"delete"}`, `{"id":1,"b":"new"}`},
		query: "SELECT id, a, b FROM t ORDER BY id", want: rows{"1|NULL|new", "2|y|NULL"}},
	feedTest{name: "OneKeyInManySpellings", lines: lines{`{"id":"A","n":1}`, `{"id":"\u0041","m":2}`, `{"id":"1","n":3}`, `{"id":1,"m":4}`, `{"i\u0064":"1","k":5}`, `{"id":"01","n":6}`},
		query: "SELECT id, n, m, k FROM t ORDER BY id", want: rows{"01|6|NULL|NULL", "1|3|4|5", "A|1|2|NULL"}},
	feedTest{name: "CompositeKey", by: options{key("carrier", "flight")}, lines: lines{`{"carrier":"AB","flight":12,"x":1}`, `{"carrier":"AB","flight":"12","y":2}`,
		`{"carrier":"A","flight":12,"x":3}`, `{"flight":12,"carrier":"A","y":4}`, `{"carrier":"A","flight":13,"x":5}`, `{"carrier":"A","flight":13,"op":"delete"}`},
		query: "SELECT carrier, flight, x, y FROM t ORDER BY carrier, flight", want: rows{"A|12|3|4", "AB|12|1|2"}},
	feedTest{name: "PartsOfAKeyAreApart", by: options{key("p", "q")},
		lines: lines{`{"p":"a","q":"bc","x":1}`, `{"p":"ab","q":"c","x":2}`, `{"p":"a\u0001","q":"b","x":3}`, `{"p":"a","q":"\u0001b","x":4}`},
		query: "SELECT p || '/' || q, x FROM t ORDER BY x", want: rows{"a/bc|1", "ab/c|2", "a\x01/b|3", "a/\x01b|4"}},
	feedTest{name: "ValuesReadBackUnchanged",
		lines: lines{`{"id":1,"s":"007","u":"Zürich 日本 😀 \u00e9","q":"' \" \\ \n \t %s ; --","e":"","i":-9223372036854775808,"r":1.5,"b":true,"big":123456789012345678901234567890}`},
		query: "SELECT s, u, q, e, i, r, b, CAST(big AS TEXT) FROM t",
		want:  lines{"007|Zürich 日本 😀 é|' \" \\ \n \t %s ; --||-9223372036854775808|1.5|true|123456789012345678901234567890"}},
	feedTest{name: "FillOnlyKeepsTheDefaultsOfARowsFirstMessage", sql: withDefaults, by: options{fillOnly}, lines: lines{
		`{"id":1,"b":"x"}`, `{"id":1,"a":"late","b":"late","n":6}`, // 1 has its defaults by now
		`{"id":2,"a":"x"}`, `{"id":2,"a":"late","b":"y","n":7}`,
		`{"id":3,"a":null,"n":null}`, `{"id":3,"a":"late","n":8}`, // null names nothing
		`{"id":9,"a":"late","b":"z"}`},
		query: "SELECT id, a, b, n FROM t ORDER BY id", want: rows{"1|dflt|x|5", "2|x|y|5", "3|dflt|NULL|5", "9|late|z|7"}},
),
	test{"FillOnlyWritesOverNullAlone", func(t *testing.T, db Database) {
		r := Begin(t, db)
		Counts(t, r.Flush(`{"id":1,"a":"live"}`, `{"id":2,"a":"live","b":"live"}`), 2, 0, 0, 0)
		r.End()
		r = Begin(t, db, fillOnly)
		Counts(t, r.Flush(
			`{"id":1,"a":"old","b":"old"}`, // fills b
			`{"id":1,"b":"older","c":"old"}`,
			`{"id":2,"a":"old","b":"old"}`, // finds no NULL
			`{"id":3,"a":"old"}`,
			`{"id":3,"a":"older","b":"old"}`,
		), 1, 1, 1, 0)
		Expect(t, db, "SELECT id, a, b, c FROM t ORDER BY id", "1|live|old|old", "2|live|live|NULL", "3|old|old|NULL")
		Counts(t, r.Flush(`{"id":1,"a":"again","b":"again"}`, `{"id":2,"c":"old"}`, `{"id":3,"b":null}`), 0, 1, 2, 0)
		Expect(t, db, "SELECT id, a, b, c FROM t ORDER BY id", "1|live|old|old", "2|live|live|old", "3|old|old|NULL")
	}},
	test{"CountsAreOfRows", func(t *testing.T, db Database) {
		r := Begin(t, db)
		Counts(t, r.Flush(`{"id":1,"a":"x"}`, `{"id":1,"a":"y"}`, `{"id":2,"a":"x"}`, `{"id":3,"a":"x"}`), 3, 0, 0, 0)
		Counts(t, r.Flush(
			`{"id":1,"a":"z"}`,                           // another value
			`{"id":2,"a":"x"}`,                           // the same one
			`{"id":3,"op":"delete"}`,                     // a row that exists
			`{"id":4,"op":"delete"}`,                     // one that does not
			`{"id":5,"a":"x"}`, `{"id":5,"op":"delete"}`, // and one that never was
		), 0, 1, 3, 1)
		Counts(t, r.Flush(`{"id":1,"op":"delete"}`, `{"id":1,"a":"z"}`), 0, 0, 1, 0) // is deleted and inserted unchanged
		Counts(t, r.Flush(`{"id":1,"op":"delete"}`, `{"id":1,"b":"z"}`), 0, 1, 0, 0)
	}},
)
