package sinktest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirsync/weir/internal/fold"
)

// foldTests: the table is the fold of the feed, whatever the batches.
var foldTests = []test{
	{"MessageSetsWhatItNames", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{
			`{"id":1,"a":"x","b":"y"}`,
			`{"id":2,"a":"z"}`,
			`{"id":1,"b":"new"}`,
		}, "SELECT id, a, b FROM t ORDER BY id", "1|x|new", "2|z|NULL")
	}},
	{"NullSetsNull", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{
			`{"id":1,"a":"x","b":"y"}`,
			`{"id":1,"a":null}`,
			`{"id":2,"a":null,"b":null}`,
			`{"id":2,"b":"y"}`,
		}, "SELECT id, a, b FROM t ORDER BY id", "1|NULL|y", "2|NULL|y")
	}},
	{"NullIsAbsentWhereAsked", func(t *testing.T, db Database) {
		for _, size := range []int{1, 4} {
			r := Begin(t, db, func(o *fold.Options) { o.Null = fold.KeepNull })
			lines := []string{`{"id":1,"a":"x"}`, `{"id":1,"a":null}`, `{"id":2,"a":null}`, `{"id":3,"a":"y"}`}
			for i := 0; i < len(lines); i += size {
				r.Flush(lines[i : i+size]...)
			}
			Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|x", "2|NULL", "3|y")
			r.End()
			db.Exec(t, "DROP TABLE t")
		}
	}},
	{"LastOfTwoEqualNamesWins", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{`{"id":9,"a":"first","id":1,"a":"last"}`}, "SELECT id, a FROM t", "1|last")
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s TEXT)")
		Begin(t, db).Flush(`{"id":"x","n":"x","n":1,"id":1}`, `{"id":1,"\u0073":"\u0000","n":1.5,"s":"y","n":2}`)
		Expect(t, db, "SELECT id, n, s FROM t", "1|2|y")
	}},
	{"DeleteRemovesTheRow", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{`{"id":1,"a":"x"}`, `{"id":2,"a":"y"}`, `{"id":1,"op":"delete"}`, `{"id":7,"op":"delete"}`},
			"SELECT id, a FROM t ORDER BY id", "2|y")
	}},
	{"DeleteThenSparseInsertBringsNoColumnBack", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{`{"id":1,"a":"old","b":"old"}`, `{"id":1,"op":"delete"}`, `{"id":1,"b":"new"}`},
			"SELECT id, a, b FROM t", "1|NULL|new")
	}},
	{"DeleteThenSparseInsertOfARowThatIsThere", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{`{"id":1,"a":"old","b":"old"}`, `{"id":2,"a":"y"}`, `{"id":1,"op":"delete"}`, `{"id":1,"b":"new"}`},
			"SELECT id, a, b FROM t ORDER BY id", "1|NULL|new", "2|y|NULL")
	}},
	{"DeleteThenInsertThenDelete", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{`{"id":1,"a":"x"}`, `{"id":1,"op":"delete"}`, `{"id":1,"a":"y"}`, `{"id":1,"op":"delete"}`, `{"id":2,"a":"z"}`},
			"SELECT id, a FROM t", "2|z")
	}},
	{"OneKeyInManySpellings", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{
			`{"id":"A","n":1}`, `{"id":"\u0041","m":2}`,
			`{"id":"1","n":3}`, `{"id":1,"m":4}`, `{"i\u0064":"1","k":5}`,
			`{"id":"01","n":6}`,
		}, "SELECT id, n, m, k FROM t ORDER BY id", "01|6|NULL|NULL", "1|3|4|5", "A|1|2|NULL")
	}},
	{"CompositeKey", func(t *testing.T, db Database) {
		inAnyBatchesBy(t, db, []string{"carrier", "flight"}, []string{
			`{"carrier":"AB","flight":12,"x":1}`,
			`{"carrier":"AB","flight":"12","y":2}`,
			`{"carrier":"A","flight":12,"x":3}`,
			`{"flight":12,"carrier":"A","y":4}`,
			`{"carrier":"A","flight":13,"x":5}`,
			`{"carrier":"A","flight":13,"op":"delete"}`,
		}, "SELECT carrier, flight, x, y FROM t ORDER BY carrier, flight", "A|12|3|4", "AB|12|1|2")
	}},
	{"PartsOfAKeyDoNotRunTogether", func(t *testing.T, db Database) {
		inAnyBatchesBy(t, db, []string{"p", "q"}, []string{`{"p":"a","q":"bc","x":1}`, `{"p":"ab","q":"c","x":2}`, `{"p":"a\u0001","q":"b","x":3}`, `{"p":"a","q":"\u0001b","x":4}`},
			"SELECT p || '/' || q, x FROM t ORDER BY x", "a/bc|1", "ab/c|2", "a\x01/b|3", "a/\x01b|4")
	}},
	{"ValuesComeBackAsTheyWere", func(t *testing.T, db Database) {
		inAnyBatches(t, db, []string{
			`{"id":1,"s":"007","u":"Zürich 日本 😀 \u00e9","q":"' \" \\ \n \t %s ; --","e":"","i":-9223372036854775808,"r":1.5,"b":true,"big":123456789012345678901234567890}`,
		}, "SELECT s, u, q, e, i, r, b, CAST(big AS TEXT) FROM t", "007|Zürich 日本 😀 é|' \" \\ \n \t %s ; --||-9223372036854775808|1.5|true|123456789012345678901234567890")
	}},
	{"FillOnlyWritesOnlyWhereThereIsNull", func(t *testing.T, db Database) {
		r := Begin(t, db)
		Counts(t, r.Flush(`{"id":1,"a":"live"}`, `{"id":2,"a":"live","b":"live"}`), 2, 0, 0, 0)
		r.End()
		r = Begin(t, db, func(o *fold.Options) { o.FillOnly = true })
		Counts(t, r.Flush(
			`{"id":1,"a":"old","b":"old"}`, // fills b
			`{"id":1,"b":"older","c":"old"}`,
			`{"id":2,"a":"old","b":"old"}`, // finds no place
			`{"id":3,"a":"old"}`,
			`{"id":3,"a":"older","b":"old"}`,
		), 1, 1, 1, 0)
		Expect(t, db, "SELECT id, a, b, c FROM t ORDER BY id", "1|live|old|old", "2|live|live|NULL", "3|old|old|NULL")
		Counts(t, r.Flush(`{"id":1,"a":"again","b":"again"}`, `{"id":2,"c":"old"}`, `{"id":3,"b":null}`), 0, 1, 2, 0)
		Expect(t, db, "SELECT id, a, b, c FROM t ORDER BY id", "1|live|old|old", "2|live|live|old", "3|old|old|NULL")
	}},
	{"FillOnlyFindsTheDefaultsOfItsFirstMessage", func(t *testing.T, db Database) {
		const ddl = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'dflt', b TEXT, n INTEGER NOT NULL DEFAULT 5)"
		inAnyBatchesOfATable(t, db, ddl, func(o *fold.Options) { o.FillOnly = true }, []string{
			`{"id":1,"b":"x"}`, `{"id":1,"a":"late","b":"late","n":6}`, // 1 has its defaults by now
			`{"id":2,"a":"x"}`, `{"id":2,"a":"late","b":"y","n":7}`,
			`{"id":3,"a":null,"n":null}`, `{"id":3,"a":"late","n":8}`, // null names nothing
			`{"id":9,"a":"late","b":"z"}`,
		}, "SELECT id, a, b, n FROM t ORDER BY id", "1|dflt|x|5", "2|x|y|5", "3|dflt|NULL|5", "9|late|z|7")
	}},
	{"CountsAreOfRows", func(t *testing.T, db Database) {
		r := Begin(t, db)
		Counts(t, r.Flush(`{"id":1,"a":"x"}`, `{"id":1,"a":"y"}`, `{"id":2,"a":"x"}`, `{"id":3,"a":"x"}`), 3, 0, 0, 0)
		Counts(t, r.Flush(
			`{"id":1,"a":"z"}`,                           // another value
			`{"id":2,"a":"x"}`,                           // the same one
			`{"id":3,"op":"delete"}`,                     // a row that is there
			`{"id":4,"op":"delete"}`,                     // one that is not
			`{"id":5,"a":"x"}`, `{"id":5,"op":"delete"}`, // and one that never was
		), 0, 1, 3, 1)
		Counts(t, r.Flush(`{"id":1,"op":"delete"}`, `{"id":1,"a":"z"}`), 0, 0, 1, 0) // goes and comes back as it was
	}},
}

// inAnyBatchesOfATable writes the lines in batches of 1, 2, … lines, each into a table
// that ddl makes, with a row 9 that has nulls and no defaults, and expects the same rows.
func inAnyBatchesOfATable(t *testing.T, db Database, ddl string, option func(*fold.Options), lines []string, query string, want ...string) {
	t.Helper()
	for size := 1; size <= len(lines); size++ {
		t.Run(fmt.Sprintf("lines=%d", size), func(t *testing.T) {
			theirs(t, db, ddl)
			db.Exec(t, "INSERT INTO t (id, a, b, n) VALUES (9, NULL, NULL, 7)")
			r := Begin(t, db, option)
			for chunk := range slices.Chunk(lines, size) {
				r.Flush(chunk...)
			}
			Expect(t, db, query, want...)
			Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
			r.End()
			db.Exec(t, "DROP TABLE t")
		})
	}
}

// inAnyBatches writes the lines in batches of 1, 2, … lines, each into an empty
// table, and expects the same rows.
func inAnyBatches(t *testing.T, db Database, lines []string, query string, want ...string) {
	t.Helper()
	inAnyBatchesBy(t, db, []string{"id"}, lines, query, want...)
}

func inAnyBatchesBy(t *testing.T, db Database, keys, lines []string, query string, want ...string) {
	t.Helper()
	for size := 1; size <= len(lines); size++ {
		t.Run(fmt.Sprintf("lines=%d", size), func(t *testing.T) {
			r := Begin(t, db, key(keys...))
			for rest := lines; len(rest) > 0; {
				n := min(size, len(rest))
				r.Flush(rest[:n]...)
				rest = rest[n:]
			}
			Expect(t, db, query, want...)
			Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
			r.End()
			db.Exec(t, "DROP TABLE t")
		})
	}
}
