package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestRefused_AnyCode: what goes away without the row is about the row, whatever its code.
func TestRefused_AnyCode(t *testing.T) {
	db := connect(t, testpg.New(t))
	for _, code := range []string{"U0001", "42501", "0A000", "55000", "42704", "42P01", "XX000", "25001"} {
		t.Run(code, func(t *testing.T) {
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
			defer db.Exec(t, "DROP TABLE t; DELETE FROM weir_rejects")
			db.Exec(t, "CREATE OR REPLACE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a = 'bad' THEN RAISE 'no bad' USING ERRCODE = '"+code+"'; END IF; RETURN NEW; END $$")
			db.Exec(t, "CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION refuses()")
			rejectsAlone(t, db, `{"id":1,"a":"x"}`, `{"id":2,"a":"bad"}`, `{"id":3,"a":"y"}`, "no bad (SQLSTATE "+code+")")
		})
	}
	for kind, value := range map[string]string{"tsvector": "T00:00:00Z", "tsquery": "a & & b", "jsonpath": "$.", "regclass": "nonsense", "regtype": "nonsense"} {
		t.Run(kind, func(t *testing.T) {
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a "+kind+")")
			defer db.Exec(t, "DROP TABLE t; DELETE FROM weir_rejects")
			rejectsAlone(t, db, `{"id":1}`, fmt.Sprintf(`{"id":2,"a":%q}`, value), `{"id":3,"a":null}`, "(SQLSTATE 42")
		})
	}
}

// rejectsAlone has a bad line be rejected with the database's words, between good ones and
// alone.
func rejectsAlone(t *testing.T, db *database, good, bad, better, words string) {
	t.Helper()
	r := sinktest.Begin(t, db)
	defer r.End()
	sinktest.Counts(t, r.Flush(good, bad, better), 2, 0, 0, 0)
	res := r.Flush(bad)
	if len(res.Refused) != 1 || !strings.Contains(res.Refused[0].Detail, words) {
		t.Errorf("rejected alone: %v", res.Refused)
	}
	sinktest.Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "3")
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "2")
}

// TestRefused_NotByARow: what no row can mend ends the flush.
func TestRefused_NotByARow(t *testing.T) {
	for name, c := range map[string]struct{ table, revoke, want string }{
		"table":    {"CREATE TABLE t (id integer PRIMARY KEY, a text)", "REVOKE INSERT ON t FROM app", "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE t"},
		"sequence": {"CREATE TABLE t (id integer PRIMARY KEY, a text, n serial)", "REVOKE ALL ON t_n_seq FROM app", "GRANT USAGE ON SEQUENCE t_n_seq"},
		"function": {"CREATE TABLE t (id integer PRIMARY KEY, a text CHECK (is_good(a)))", "REVOKE EXECUTE ON FUNCTION is_good FROM PUBLIC, app", "permission denied for function is_good"},
	} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.as(t, "app")
			db.Exec(t, "CREATE FUNCTION is_good(a text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN a <> 'bad'; END $$")
			db.Exec(t, c.table)
			db.Exec(t, "GRANT ALL ON ALL TABLES IN SCHEMA public TO app; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO app")
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":1,"a":"x"}`)
			db.Exec(t, c.revoke)
			if _, err := r.TryFlush(`{"id":2,"a":"y"}`, `{"id":3,"a":"y"}`); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the flush ended with %v, want %q", err, c.want)
			}
			sinktest.Expect(t, db, "SELECT (SELECT seq FROM weir_jobs), (SELECT count(*) FROM weir_rejects)", "1|0")
		})
	}
}

// TestFlush_RowsGone: another session takes rows away while a flush waits for them.
func TestFlush_RowsGone(t *testing.T) {
	for name, c := range map[string]struct {
		theirs string
		want   []string
	}{
		"deleted":          {"DELETE FROM t WHERE id = 1", []string{"1|new", "2|new"}},
		"all deleted":      {"DELETE FROM t", []string{"1|new", "2|new"}},
		"another key":      {"UPDATE t SET id = 100 WHERE id = 1", []string{"1|new", "2|new", "100|y"}},
		"made again":       {"DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'theirs', 1)", []string{"1|new", "2|new"}},
		"all made again":   {"DELETE FROM t; INSERT INTO t VALUES (1, 'theirs', 1), (2, 'theirs', 1)", []string{"1|new", "2|new"}},
		"keys exchanged":   {"UPDATE t SET id = 100 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 100", []string{"1|new", "2|new"}},
		"another's update": {"UPDATE t SET a = 'theirs'", []string{"1|new", "2|new"}},
	} {
		for kind, change := range map[string][]func(*fold.Options){"plain": nil, "versions": kinds["versions"].change} {
			t.Run(name+", "+kind, func(t *testing.T) {
				db := connect(t, testpg.New(t))
				db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text, v integer)")
				r := sinktest.Begin(t, db, change...)
				r.Flush(`{"id":1,"a":"x","v":1}`, `{"id":2,"a":"x","v":1}`)
				r.Flush(`{"id":1,"a":"y","v":2}`, `{"id":2,"a":"y","v":2}`)
				db.Exec(t, "BEGIN")
				db.Exec(t, c.theirs)
				done := when(t, db, "wait_event_type = 'Lock'", func() { db.Exec(t, "COMMIT") })
				r.Flush(`{"id":1,"a":"new","v":3}`, `{"id":2,"a":"new","v":3}`)
				<-done
				sinktest.Expect(t, db, "SELECT id, a FROM t ORDER BY id", c.want...)
				sinktest.Expect(t, db, "SELECT (SELECT seq FROM weir_jobs), (SELECT count(*) FROM weir_rejects)", "3|0")
			})
		}
	}
}

// TestFlush_TriggerDropsRows: rows that a trigger leaves out are not waited for.
func TestFlush_TriggerDropsRows(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.Exec(t, "CREATE FUNCTION drops() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a = 'drop' THEN RETURN NULL; END IF; RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER drops BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION drops()")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	sinktest.Counts(t, r.Flush(`{"id":1,"a":"drop"}`, `{"id":2,"a":"drop"}`, `{"id":3,"a":"y"}`), 1, 0, 2, 0)
	sinktest.Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|x", "3|y")
}

// TestFlush_NoRemains: what a rolled-back COPY left in the staging table is not read again
// for each piece that follows.
func TestFlush_NoRemains(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n <> 4711), a text, staged bigint)")
	db.Exec(t, "CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.staged = pg_relation_size('pg_temp.weir_stage'); RETURN NEW; END $$")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"n":1,"a":"x"}`)
	r.Flush(`{"id":1,"n":2,"a":"x"}`)
	db.Exec(t, "CREATE TRIGGER looks BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION looks()")
	var lines []string
	for n := range 5000 {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"n":%d,"a":"%0200d"}`, 10+n, n, n))
	}
	r.Flush(lines...)
	// The neighbour of the bad row was written alone, from one page.
	sinktest.Expect(t, db, "SELECT count(*), min(staged) FROM t", "5000|8192")
}

// TestFlush_SettingsOfTheRole: what a role's settings would make of a flush does not show.
func TestFlush_SettingsOfTheRole(t *testing.T) {
	db := connect(t, testpg.New(t))
	for _, setting := range []string{"default_transaction_isolation = 'serializable'", "array_nulls = off"} {
		db.Exec(t, "ALTER DATABASE "+db.one(t, "SELECT current_database()")+" SET "+setting)
	}
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text[], level text DEFAULT current_setting('transaction_isolation'))")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":["x",null]}`)
	r.Flush(`{"id":1,"a":["y",null]}`, `{"id":2,"a":[null]}`)
	sinktest.Expect(t, db, "SELECT id, a[2] IS NULL, array_position(a, NULL), level FROM t ORDER BY id", "1|true|2|read committed", "2|true|1|read committed")
}

// TestFlush_WidestTable: a table of as many columns as there can be takes lines that name
// all of them in turn.
func TestFlush_WidestTable(t *testing.T) {
	db := connect(t, testpg.New(t))
	var columns []string
	for i := range 1599 {
		columns = append(columns, fmt.Sprintf("c%d smallint", i))
	}
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, "+strings.Join(columns, ", ")+")")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"c0":1}`)
	for from := 0; from < 1599; from += 123 {
		line := `{"id":1`
		for i := from; i < from+123; i++ {
			line += fmt.Sprintf(`,"c%d":2`, i)
		}
		r.Flush(line + "}")
	}
	sinktest.Expect(t, db, "SELECT c0, c800, c1598 FROM t", "2|2|2")
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
}
