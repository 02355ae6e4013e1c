package postgres_test

import (
	"errors"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestWiden_DigitsOfASetting: a setting that has Postgres print fewer digits changes no
// value that is widened.
func TestWiden_DigitsOfASetting(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "ALTER DATABASE "+db.one(t, "SELECT current_database()")+" SET extra_float_digits = -5")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"text":0.30000000000000004,"number":32.815236600469404}`)
	r.Flush(`{"id":2,"text":"x","number":0.12345678901234567890123}`)
	sinktest.Expect(t, db, "SELECT text, number::text FROM t WHERE id = 1", "0.30000000000000004|32.815236600469404")
}

// TestVersion_OfADoubleIsItsShortestText: a version that comes again is no older one,
// though Postgres prints it with a digit more.
func TestVersion_OfADoubleIsItsShortestText(t *testing.T) {
	for _, v := range []string{"4.401664516341784e17", "2.003485544858745e16", "1.5"} {
		db := connect(t, testpg.New(t))
		db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, v double precision, a text)")
		r := sinktest.Begin(t, db, func(o *fold.Options) { o.Version, o.Scope = "v", fold.RowScope })
		r.Flush(`{"id":1,"v":` + v + `,"a":"first"}`)
		r.Flush(`{"id":1,"v":` + v + `,"a":"again"}`)
		sinktest.Expect(t, db, "SELECT a FROM t", "again")
	}
}

// hung is what can hang on a column n of weir's so that Postgres does not change its type,
// or not without changing what that means.
var hung = []struct{ sql, says string }{
	{"CREATE VIEW v AS SELECT id, n FROM t", "view v uses it"},
	{"CREATE MATERIALIZED VIEW v AS SELECT n + 1 FROM t", "materialized view v uses it"},
	{"CREATE VIEW v AS SELECT id FROM t WHERE n > 5", "view v uses it"},
	{"CREATE TABLE other (a bigint); CREATE RULE r AS ON INSERT TO other DO ALSO UPDATE t SET n = n + 1", "rule r on table other uses it"},
	{"CREATE INDEX i ON t ((n + 1))", "index i uses it"},
	{"CREATE INDEX i ON t (id) WHERE n > 5", "index i uses it"},
	{"CREATE POLICY p ON t USING (n > 5)", "policy p on table t uses it"},
	{"CREATE FUNCTION f() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT n FROM t; END", "function f() uses it"},
	{"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER tr AFTER UPDATE ON t FOR EACH ROW WHEN (NEW.n > 5) EXECUTE FUNCTION f()", "trigger tr on table t uses it"},
	{"ALTER TABLE t ADD COLUMN twice bigint GENERATED ALWAYS AS (n * 2) STORED", "column twice of table t"},
	{"ALTER TABLE t ADD CHECK (n < 1000)", "constraint t_n_check on table t uses it"},
	{"CREATE STATISTICS st ON (n + 1), id FROM t", "(SQLSTATE 42883)"}, // only the server knows
}

// TestWiden_WhatHangsOnAColumn: a value that asks for a wider type is rejected, and names
// what hangs on the column; all others go in, and other columns are widened.
func TestWiden_WhatHangsOnAColumn(t *testing.T) {
	url := testpg.New(t)
	for _, c := range hung {
		for _, when := range []string{"before a run", "during a run"} {
			t.Run(c.sql+" "+when, func(t *testing.T) {
				db := connectEmpty(t, url)
				r := sinktest.Begin(t, db)
				r.Flush(`{"id":1,"n":1,"m":1}`)
				db.Exec(t, c.sql)
				lines := []string{`{"id":2,"n":2,"m":"x"}`, `{"id":3,"n":"x"}`, `{"id":4,"n":0.5,"m":true}`, `{"id":5,"m":1.5}`}
				if when == "before a run" {
					r.End()
					r = sinktest.Begin(t, db)
				}
				// Where the column was free when it was read, the source is read again.
				before := r.Checkpoint()
				_, err := r.TryFlush(lines...)
				if again := (sink.ErrChanged{}); errors.As(err, &again) {
					r.Reread(before)
					_, err = r.TryFlush(lines...)
				} else if when == "during a run" {
					t.Errorf("the flush of a view that was free before: %v", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				sinktest.Expect(t, db, "SELECT id, n, m FROM t ORDER BY id", "1|1|1", "2|2|x", "5|NULL|1.5")
				sinktest.Expect(t, db, "SELECT line FROM weir_rejects WHERE position('"+c.says+"' in reason) > 0 AND reason LIKE 'value: column \"n\" is bigint %' ORDER BY line", "3", "4")
				r.Flush(`{"id":6,"n":7}`)
				sinktest.Expect(t, db, "SELECT n FROM t WHERE id = 6", "7")
			})
		}
	}
}

// TestWiden_WhatIsWidenedWithTheColumn: plain indexes and statistics go along.
func TestWiden_WhatIsWidenedWithTheColumn(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"n":1,"m":1}`)
	db.Exec(t, "CREATE INDEX plain ON t (n)")
	db.Exec(t, "CREATE UNIQUE INDEX uniq ON t (n, m)")
	db.Exec(t, "CREATE STATISTICS st ON n, m FROM t")
	db.Exec(t, "CREATE VIEW whole AS SELECT id FROM t")
	r.Flush(`{"id":2,"n":1.5}`)
	r.Flush(`{"id":3,"n":"x"}`)
	sinktest.Expect(t, db, "SELECT id, n FROM t ORDER BY id", "1|1", "2|1.5", "3|x")
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
	sinktest.Expect(t, db, "SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass", "3")
}

// TestWiden_WhatHangsOnTheTable: a column of the table's own type holds all of its columns.
func TestWiden_WhatHangsOnTheTable(t *testing.T) {
	for _, other := range []string{"CREATE TABLE other (whole t)", "CREATE TABLE other (whole t[])"} {
		db := connect(t, testpg.New(t))
		r := sinktest.Begin(t, db)
		r.Flush(`{"id":1,"n":1,"m":1}`)
		r.End()
		db.Exec(t, other)
		r = sinktest.Begin(t, db)
		r.Flush(`{"id":2,"n":"x"}`, `{"id":3,"m":"x"}`, `{"id":4,"k":"new"}`)
		sinktest.Expect(t, db, "SELECT id, n, m, k FROM t ORDER BY id", "1|1|1|NULL", "4|NULL|NULL|new")
		sinktest.Expect(t, db, "SELECT line FROM weir_rejects WHERE reason LIKE '%column whole of table other uses it' ORDER BY line", "2", "3")
	}
}

// TestWiden_AColumnThatOthersAltered is theirs: it is taken as it is.
func TestWiden_AColumnThatOthersAltered(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"n":1,"at":"2024-01-01T00:00:00Z"}`)
	r.End()
	db.Exec(t, "ALTER TABLE t ALTER COLUMN at TYPE timestamptz USING at::timestamptz")
	db.Exec(t, "ALTER TABLE t ADD COLUMN theirs integer")
	r = sinktest.Begin(t, db)
	r.Flush(`{"id":2,"at":"never","n":2}`, `{"id":3,"at":"2024-01-02T00:00:00Z","n":"x"}`, `{"id":4,"theirs":"x"}`, `{"id":5,"theirs":7}`)
	sinktest.Expect(t, db, "SELECT id, n, theirs FROM t ORDER BY id", "1|1|NULL", "3|x|NULL", "5|NULL|7")
	sinktest.Expect(t, db, "SELECT data_type FROM information_schema.columns WHERE table_name = 't' AND column_name IN ('at', 'theirs') ORDER BY 1", "integer", "timestamp with time zone")
}
