package postgres_test

import (
	"errors"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// hung are dependencies on a column n of weir's for which Postgres does not change its type, or not without changing
// their meaning.
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

// TestWiden_DependencyOnAColumn: a value that needs a wider type is rejected, and the error names the dependency. All
// others are written, and other columns are widened.
func TestWiden_DependencyOnAColumn(t *testing.T) {
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
				// If the dependency was created after the column was read, the source is reread.
				before := r.Checkpoint()
				_, err := r.TryFlush(lines...)
				if again := (sink.ChangedError{}); errors.As(err, &again) {
					r.Reread(before)
					_, err = r.TryFlush(lines...)
				} else if when == "during a run" {
					t.Errorf("the flush of a view that was free before: %v", err)
				}
				testcheck.NoError(t, err)
				sinktest.Expect(t, db, "SELECT id, n, m FROM t ORDER BY id", "1|1|1", "2|2|x", "5|NULL|1.5")
				sinktest.Expect(t, db, "SELECT line FROM weir_rejects WHERE position('"+c.says+"' in reason) > 0 AND reason LIKE 'value: column \"n\" is bigint %' ORDER BY line", "3", "4")
				r.Flush(`{"id":6,"n":7}`)
				sinktest.Expect(t, db, "SELECT n FROM t WHERE id = 6", "7")
			})
		}
	}
}

// TestWiden_AHeldColumnRoundsNothing: a column of doubles that cannot be widened rejects a number that would lose
// digits as a double, because it would be widened for it.
func TestWiden_AHeldColumnRoundsNothing(t *testing.T) {
	db := connectEmpty(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"n":0.5}`)
	r.End()
	db.Exec(t, "CREATE VIEW v AS SELECT id, n FROM t")
	r = sinktest.Begin(t, db)
	r.Flush(`{"id":2,"n":9007199254740993.5}`, `{"id":3,"n":-2495358858386807106}`, `{"id":4,"n":7}`, `{"id":5,"n":1e300}`)
	sinktest.Expect(t, db, "SELECT id, n FROM t ORDER BY id", "1|0.5", "4|7", "5|1e+300")
	sinktest.Expect(t, db, "SELECT line FROM weir_rejects WHERE position('view v uses it' in reason) > 0 ORDER BY line", "2", "3")
}
