package sinktest

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// columnTests: a table that weir made grows with its feed.
var columnTests = []test{
	{"NewFieldBecomesAColumn", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":2,"b":1}`, `{"id":1,"c":true,"b":2}`)
		r.Flush(`{"id":3,"d":"y"}`)
		Expect(t, db, "SELECT id, a, b, c, d FROM t ORDER BY id", "1|x|2|true|NULL", "2|NULL|1|NULL|NULL", "3|NULL|NULL|NULL|y")
	}},
	{"NewFieldIsFoundByTheNextRun", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.End()
		r = Begin(t, db)
		r.Flush(`{"id":1,"b":"y"}`)
		r.End()
		r = Begin(t, db)
		Counts(t, r.Flush(`{"id":1,"a":"x","b":"y"}`), 0, 0, 1, 0)
	}},
	{"FieldOfNullsAloneIsTypedLater", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":null}`)
		r.Flush(`{"id":2,"a":"007"}`)
		r.Flush(`{"id":3,"a":null}`)
		Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|NULL", "2|007", "3|NULL")
	}},
	{"ValueThatDoesNotFitWidens", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":1,"b":true,"c":1.5,"d":12,"e":9007199254740993}`)
		r.Flush(`{"id":2,"a":2.5,"b":"no","c":"x","d":{"k":[1]},"e":"big"}`)
		r.Flush(`{"id":3,"a":"007","b":7,"c":false,"d":null,"e":1}`)
		Expect(t, db, "SELECT id, a, b, c, d, e FROM t ORDER BY id",
			`1|1|true|1.5|12|9007199254740993`,
			`2|2.5|no|x|{"k":[1]}|big`,
			`3|007|7|false|NULL|1`)
	}},
	{"NumbersKeepEveryDigit", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"n":1}`)
		r.Flush(`{"id":2,"n":0.5}`)
		r.Flush(`{"id":3,"n":9223372036854775808}`)
		r.Flush(`{"id":4,"n":0.1234567890123456789}`, `{"id":5,"n":9007199254740993}`)
		Expect(t, db, "SELECT id, CAST(n AS TEXT) FROM t ORDER BY id", "1|1", "2|0.5", "3|9223372036854775808", "4|0.1234567890123456789", "5|9007199254740993")
	}},
	{"RunsAddOneColumn", func(t *testing.T, db Database) {
		versions := func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope }
		for _, change := range [][]func(*fold.Options){nil, {versions}} {
			a := BeginJob(t, db, "a", change...)
			a.Flush(`{"id":1,"v":1}`, `{"id":2,"v":1}`)
			b := BeginJob(t, db, "b", change...)
			b.Flush(`{"id":3,"v":1}`) // the next rows may be new too
			a.Flush(`{"id":1,"v":2,"whole":1,"real":0.5,"huge":1}`)
			b.Flush(`{"id":4,"v":2,"whole":1.5,"real":9007199254740993,"huge":12345678901234567890.5}`)
			b.Flush(`{"id":2,"v":2,"whole":2.25,"real":7,"huge":0.5}`)
			Expect(t, db, "SELECT id, CAST(whole AS TEXT), CAST(real AS TEXT), CAST(huge AS TEXT) FROM t WHERE id IN (2, 4) ORDER BY id",
				"2|2.25|7|0.5", "4|1.5|9007199254740993|12345678901234567890.5")
			Expect(t, db, "SELECT id FROM t WHERE whole = 1 AND real = 0.5 AND huge = 1", "1")
			a.End()
			b.End()
			db.Exec(t, "DROP TABLE t")
		}
	}},
	{"OneRunWidensWhatAnotherFills", func(t *testing.T, db Database) {
		versions := func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope }
		for _, change := range [][]func(*fold.Options){nil, {versions}} {
			a := BeginJob(t, db, "a", change...)
			a.Flush(`{"id":1,"v":1,"n":0.5}`, `{"id":2,"v":1,"n":0.5}`)
			b := BeginJob(t, db, "b", change...)
			b.Flush(`{"id":3,"v":1,"n":0.5}`) // the next rows may be new too
			a.Flush(`{"id":1,"v":2,"n":12345678901234567890.5}`)
			b.Flush(`{"id":4,"v":2,"n":0.1234567890123456}`)
			b.Flush(`{"id":2,"v":2,"n":0.1234567890123457}`)
			Expect(t, db, "SELECT id, n FROM t WHERE id > 1 ORDER BY id", "2|0.1234567890123457", "3|0.5", "4|0.1234567890123456")
			a.End()
			b.End()
			db.Exec(t, "DROP TABLE t")
		}
	}},
	{"KeyWidens", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`, `{"id":"2","a":"y"}`)
		r.Flush(`{"id":"B","a":"z"}`, `{"id":"1","b":"w"}`)
		r.Flush(`{"id":2,"b":"v"}`, `{"id":"002","a":"u"}`)
		Expect(t, db, "SELECT id, a, b FROM t ORDER BY id", "002|u|NULL", "1|x|w", "2|y|v", "B|z|NULL")
	}},
	{"NamesComeQuotedAsTheyAre", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"select":"a","a b":"b","we\"ird":"c","drop table t; --":"d","ünï":"e","100%":"f","back\\slash":"g"}`)
		r.Flush(`{"id":1,"select":"A","we\"ird":"C","order":"h"}`)
		Expect(t, db, `SELECT "select", "a b", "we""ird", "drop table t; --", "ünï", "100%", "back\slash", "order" FROM t`, "A|b|C|d|e|f|g|h")
	}},
	{"RejectedLineMakesNoTable", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"a":1}`, `not json`)
		if got, err := sink.Table(t.Context(), r.Sink.Tables, table, []string{"id"}); err != nil || got.Exists {
			t.Errorf("the table is there: %v, %v", got.Exists, err)
		}
		Expect(t, db, "SELECT line, raw FROM weir_rejects ORDER BY line", `1|{"a":1}`, "2|not json")
	}},
	{"RejectedLinesComeFirst", func(t *testing.T, db Database) {
		// A batch of rejects alone, or of nothing, makes no table; the next one
		// does.
		for _, first := range [][]string{{`not json`}, {`{"a":1}`}, {}} {
			r := Begin(t, db)
			r.Flush(first...)
			r.Flush(`{"id":1,"a":"x"}`)
			r.Flush(`{"id":1,"b":"y"}`)
			Expect(t, db, "SELECT id, a, b FROM t", "1|x|y")
			r.End()
			db.Exec(t, "DROP TABLE t")
		}
	}},
	{"DeleteComesFirst", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"op":"delete"}`)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":"B","op":"delete"}`)
		r.Flush(`{"id":"B","a":1.5}`)
		Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|x", "B|1.5")
	}},
}

// tableTests: a table that is there is taken as it is.
var tableTests = []test{
	{"RowsOfOthersStay", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (b TEXT, id INTEGER PRIMARY KEY, a TEXT)")
		db.Exec(t, "INSERT INTO t (id, a, b) VALUES (1, 'theirs', 'theirs'), (2, 'theirs', 'theirs')")
		r := Begin(t, db)
		Counts(t, r.Flush(`{"id":1,"a":"ours"}`, `{"id":3,"a":"ours"}`), 1, 1, 0, 0)
		Expect(t, db, "SELECT id, a, b FROM t ORDER BY id", "1|ours|theirs", "2|theirs|theirs", "3|ours|NULL")
	}},
	{"NewFieldsAreIgnored", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x","new":1}`, `{"id":2,"new":2}`)
		Expect(t, db, "SELECT * FROM t ORDER BY id", "1|x", "2|NULL")
		if got := r.folder.Ignored()["new"]; got != 2 {
			t.Errorf("%d values were counted as ignored, want 2", got)
		}
	}},
	{"NewFieldsAreAddedWhereAsked", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
		db.Exec(t, "INSERT INTO t (id, a) VALUES (7, 'theirs')")
		r := Begin(t, db, func(o *fold.Options) { o.Columns = fold.AddColumns })
		r.Flush(`{"id":1,"a":"x","new":1}`)
		Expect(t, db, "SELECT id, a, new FROM t ORDER BY id", "1|x|1", "7|theirs|NULL")
	}},
	{"ColumnsAreNotWidened", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, a TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"n":1,"a":"x"}`, `{"id":1,"n":"abc","a":"bad"}`, `{"id":1,"n":1.5}`, `{"id":2,"n":9223372036854775808}`, `{"id":3,"n":"7"}`, `{"id":1,"n":2.0}`)
		Expect(t, db, "SELECT id, n, a FROM t ORDER BY id", "1|2|x", "3|7|NULL")
		Expect(t, db, "SELECT line, substr(reason, 1, 6) FROM weir_rejects ORDER BY line", "2|value:", "3|value:", "4|value:")
	}},
	{"WhetherAValueFitsDoesNotDependOnTheBatch", func(t *testing.T, db Database) {
		// A bad value that a later message would cover is rejected all the same,
		// and takes only its own message with it.
		lines := []string{`{"id":1,"n":1,"a":"one"}`, `{"id":1,"n":"abc","a":"two"}`, `{"id":1,"n":3}`, `{"id":2,"n":true}`, `{"id":2,"a":"x"}`, `{"id":1,"b":"y"}`}
		for size := 1; size <= len(lines); size++ {
			theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, a TEXT, b TEXT)")
			r := Begin(t, db)
			for rest := lines; len(rest) > 0; {
				n := min(size, len(rest))
				r.Flush(rest[:n]...)
				rest = rest[n:]
			}
			from := r.cp().Line - int64(len(lines))
			Expect(t, db, "SELECT id, n, a, b FROM t ORDER BY id", "1|3|one|y", "2|NULL|x|NULL")
			Expect(t, db, "SELECT line - "+show(from)+", raw FROM weir_rejects ORDER BY line", "2|"+lines[1], "4|"+lines[3])
			r.End()
			db.Exec(t, "DROP TABLE t")
			db.Exec(t, "DELETE FROM weir_rejects")
		}
	}},
	{"DefaultsStandWhereNothingIsNamed", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'unknown', n INTEGER NOT NULL DEFAULT 5)")
		r := Begin(t, db)
		r.Flush(`{"id":1}`, `{"id":2,"a":"x"}`, `{"id":3,"a":null,"n":6}`)
		r.Flush(`{"id":2,"n":7}`)
		Expect(t, db, "SELECT id, a, n FROM t ORDER BY id", "1|unknown|5", "2|x|7", "3|NULL|6")
		r.Flush(`{"id":3,"op":"delete"}`, `{"id":3,"a":"new"}`) // starts from nothing
		Expect(t, db, "SELECT id, a, n FROM t WHERE id = 3", "3|new|5")
		Counts(t, r.Flush(`{"id":4,"op":"delete"}`, `{"id":4,"a":"new"}`), 1, 0, 0, 0)
	}},
	{"ComputedColumnsAreLeftToTheDatabase", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, twice INTEGER GENERATED ALWAYS AS (n * 2) STORED)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"n":2,"twice":99}`, `{"id":2,"n":3}`)
		r.Flush(`{"id":1,"n":5,"twice":98}`)
		Expect(t, db, "SELECT id, n, twice FROM t ORDER BY id", "1|5|10", "2|3|6")
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
	}},
	{"UniqueIndexServesAsKey", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (pk INTEGER PRIMARY KEY, carrier TEXT, flight TEXT, a TEXT)")
		theirs(t, db, "CREATE UNIQUE INDEX t_key ON t (flight, carrier)")
		db.Exec(t, "INSERT INTO t (pk, carrier, flight, a) VALUES (100, 'AB', '12', 'theirs')")
		r := Begin(t, db, key("carrier", "flight"))
		r.Flush(`{"carrier":"AB","flight":12,"a":"ours"}`)
		Expect(t, db, "SELECT pk, carrier, flight, a FROM t", "100|AB|12|ours")
	}},
	{"WithoutAUniqueKeyTheErrorMakesOne", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (pk INTEGER UNIQUE, id INTEGER, kind TEXT)")
		theirs(t, db, "CREATE INDEX t_plain ON t (id)")
		theirs(t, db, "CREATE UNIQUE INDEX t_wider ON t (id, kind)")
		theirs(t, db, "CREATE UNIQUE INDEX t_partial ON t (id) WHERE kind = 'x'")
		_, err := TryBegin(t, db)
		if err == nil {
			t.Fatal("a table that can hold a key twice was taken")
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
	{"KeyColumnMissing", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (pk INTEGER PRIMARY KEY)")
		if _, err := TryBegin(t, db); err == nil || !strings.Contains(err.Error(), `"id"`) {
			t.Errorf("the error does not name the column: %v", err)
		}
	}},
	{"ViewIsNoTable", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE other (id INTEGER PRIMARY KEY)")
		theirs(t, db, "CREATE VIEW t AS SELECT id FROM other")
		if _, err := TryBegin(t, db); err == nil || !strings.Contains(err.Error(), "view") {
			t.Errorf("a view was taken for a table: %v", err)
		}
	}},
	{"WeirsOwnNamesAreTaken", func(t *testing.T, db Database) {
		s := db.Open(t)
		defer s.Close()
		if _, err := sink.Table(t.Context(), s.Tables, "weir_rejects", []string{"id"}); err == nil {
			t.Error("weir_rejects can be synced into")
		}
	}},
	{"ForeignKeysOfOthersHold", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
		theirs(t, db, "CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES t (id))")
		db.Exec(t, "INSERT INTO t (id, a) VALUES (1, 'x'), (2, 'y')")
		db.Exec(t, "INSERT INTO child (id, parent) VALUES (10, 1)")
		r := Begin(t, db)
		res := r.Flush(`{"id":1,"a":"new"}`, `{"id":1,"op":"delete"}`, `{"id":2,"op":"delete"}`)
		Expect(t, db, "SELECT id, a FROM t", "1|new")
		if len(res.Refused) != 1 || res.Refused[0].Line != 2 {
			t.Errorf("refused: %v", res.Refused)
		}
	}},
	{"TableDroppedMeanwhile", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		db.Exec(t, "DROP TABLE t")
		if _, err := r.TryFlush(`{"id":2,"a":"y"}`); err == nil || !strings.Contains(err.Error(), "dropped") {
			t.Errorf("nobody said that the table was dropped: %v", err)
		}
		Expect(t, db, "SELECT seq FROM weir_checkpoints", "1") // the checkpoint is where it was
	}},
	{"ColumnDroppedMeanwhile", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		db.Exec(t, "ALTER TABLE t DROP COLUMN b")
		if _, err := r.TryFlush(`{"id":2,"a":"y","b":"z"}`); err == nil || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("nobody named the column that was dropped: %v", err)
		}
		Expect(t, db, "SELECT id FROM t", "1")
		Expect(t, db, "SELECT seq FROM weir_checkpoints", "1")
	}},
	{"ColumnAddedMeanwhile", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		theirs(t, db, "ALTER TABLE t ADD COLUMN theirs TEXT")
		db.Exec(t, "UPDATE t SET theirs = 'kept'")
		r.Flush(`{"id":1,"a":"y","b":"z"}`)
		Expect(t, db, "SELECT id, a, b, theirs FROM t", "1|y|z|kept")
	}},
}
