package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// lastFlush is what the last flush of the run sent. The session of its claims has the same name, and any place among the
// sessions.
func (d *database) lastFlush(t *testing.T) string {
	t.Helper()
	return d.one(t, "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'weir/%' AND pid <> pg_backend_pid() ORDER BY query_start DESC LIMIT 1")
}

// TestFlush_TablesOfManyKinds: rows are written and counted alike, whether the server can merge them into the table or not.
func TestFlush_TablesOfManyKinds(t *testing.T) {
	testcheck.Only(t)
	url := testpg.New(t)
	for name, c := range map[string]struct {
		ddl, late string // the latter after the first flush
		uncounted bool
	}{
		"weir's own":           {},
		"constraints":          {ddl: "CREATE TABLE t (id integer PRIMARY KEY, a text CHECK (a <> ''), b text UNIQUE)"},
		"partitioned":          {ddl: "CREATE TABLE t (id integer PRIMARY KEY, a text, b text) PARTITION BY RANGE (id); CREATE TABLE t_0 PARTITION OF t DEFAULT"},
		"row security":         {ddl: "CREATE TABLE t (id integer PRIMARY KEY, a text, b text); ALTER TABLE t ENABLE ROW LEVEL SECURITY"},
		"rules":                {ddl: "CREATE TABLE t (id integer PRIMARY KEY, a text, b text); CREATE RULE r AS ON DELETE TO t DO ALSO SELECT 1"},
		"a rule, later":        {late: "CREATE RULE r AS ON DELETE TO t DO ALSO SELECT 1"},
		"no counts":            {uncounted: true},
		"foreign tables below": {ddl: foreignChild},
	} {
		t.Run(name, func(t *testing.T) {
			db := connectEmpty(t, url)
			if c.uncounted {
				db.separately()
			}
			if c.ddl != "" {
				db.Exec(t, c.ddl)
			}
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"a":"x"}`, `{"id":3,"a":"x"}`)
			if c.late != "" {
				db.Exec(t, c.late)
			}
			for range 2 {
				r.Flush(`{"id":1,"b":"y"}`, `{"id":2,"op":"delete"}`, `{"id":4,"a":"x"}`)
			}
			res := r.Flush(`{"id":1,"b":"y"}`, `{"id":2,"op":"delete"}`, `{"id":3,"op":"delete"}`, `{"id":4,"a":"y"}`, `{"id":5,"a":"x"}`)
			sinktest.Counts(t, res, 1, 1, 2, 1)
			sinktest.Expect(t, db, "SELECT id, a, b FROM t ORDER BY id", "1|x|y", "4|y|NULL", "5|x|NULL")
		})
	}
}

const foreignChild = `CREATE EXTENSION postgres_fdw;
DO $$ BEGIN EXECUTE format('CREATE SERVER here FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %L, port %L, dbname %L)',
 split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER here;
CREATE TABLE t (id integer PRIMARY KEY, a text, b text);
CREATE TABLE far (id integer PRIMARY KEY, a text, b text);
CREATE FOREIGN TABLE t_1 () INHERITS (t) SERVER here OPTIONS (table_name 'far')`

// TestFlush_CountsOfTriggers: what triggers do to rows is counted as what became of these.
func TestFlush_CountsOfTriggers(t *testing.T) {
	for name, ddl := range map[string]string{"a table": "", "partitions": " PARTITION BY HASH (id); CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)"} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.Exec(t, "CREATE TABLE log (what text)")
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text, n integer)"+ddl)
			db.Exec(t, `CREATE FUNCTION before() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
 IF TG_OP = 'DELETE' THEN RETURN CASE WHEN OLD.a = 'stays' THEN NULL ELSE OLD END; END IF;
 RETURN CASE WHEN NEW.a = 'drop' THEN NULL ELSE NEW END; END $$`)
			db.Exec(t, "CREATE TRIGGER before BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION before()")
			db.Exec(t, "CREATE FUNCTION after() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (TG_LEVEL || ' ' || TG_OP); RETURN NULL; END $$")
			db.Exec(t, "CREATE TRIGGER after AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION after()")
			db.Exec(t, "CREATE TRIGGER statement AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION after()")
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"a":"stays"}`, `{"id":3,"a":"x"}`, `{"id":4,"a":"x"}`)
			db.Exec(t, "TRUNCATE log")
			res := r.Flush(`{"id":1,"a":"y"}`, `{"id":2,"op":"delete"}`, `{"id":3,"op":"delete"}`, `{"id":4,"a":"drop"}`, `{"id":5,"a":"drop"}`, `{"id":6,"a":"y"}`, `{"id":7,"a":"y"}`)
			sinktest.Counts(t, res, 2, 1, 3, 1)
			sinktest.Expect(t, db, "SELECT what, count(*) FROM log GROUP BY 1 ORDER BY 1",
				"ROW DELETE|1", "ROW INSERT|2", "ROW UPDATE|1", "STATEMENT DELETE|1", "STATEMENT INSERT|1", "STATEMENT UPDATE|1")
			sinktest.Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|y", "2|stays", "4|x", "6|y", "7|y")

			// One that writes to its own table: that is none of the rows of the flush.
			db.Exec(t, "CREATE FUNCTION touches() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET n = coalesce(n, 0) + 1 WHERE id = NEW.id; RETURN NULL; END $$")
			db.Exec(t, "CREATE TRIGGER touches AFTER INSERT OR UPDATE OF a ON t FOR EACH ROW EXECUTE FUNCTION touches()")
			sinktest.Counts(t, r.Flush(`{"id":1,"a":"z"}`, `{"id":8,"a":"z"}`, `{"id":6,"a":"y"}`), 1, 1, 1, 0)
			sinktest.Expect(t, db, "SELECT id, n FROM t WHERE n IS NOT NULL ORDER BY id", "1|1", "8|1")
			sinktest.Counts(t, r.Flush(`{"id":1,"a":"w"}`, `{"id":8,"a":"w"}`, `{"id":7,"op":"delete"}`), 0, 2, 0, 1)
		})
	}
}

// TestFlush_CountsOfOthersRows: neither rows that go with one of the same table nor those of tables below are
// taken for what became of others.
func TestFlush_CountsOfOthersRows(t *testing.T) {
	for name, ddl := range map[string]string{
		"set null":  "CREATE TABLE t (id integer PRIMARY KEY, a text, of integer REFERENCES t ON DELETE SET NULL)",
		"cascade":   "CREATE TABLE t (id integer PRIMARY KEY, a text, of integer REFERENCES t ON DELETE CASCADE)",
		"inherited": "CREATE TABLE t (id integer PRIMARY KEY, a text, of integer); CREATE TABLE t_1 () INHERITS (t); CREATE TABLE t_2 () INHERITS (t_1); INSERT INTO t_2 VALUES (7, 'x')",
	} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.Exec(t, ddl)
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":1}`, `{"id":2,"of":1}`, `{"id":3,"of":1}`, `{"id":4}`, `{"id":7,"a":"y"}`)
			sinktest.Counts(t, r.Flush(`{"id":1,"op":"delete"}`, `{"id":4,"a":"y"}`, `{"id":7,"a":"z"}`, `{"id":9}`), 1, 2, 0, 1)
		})
	}
}

// logInserts notes the rows that are inserted into a table by a column.
func (d *database) logInserts(t *testing.T, table, column string) {
	t.Helper()
	d.Exec(t, "CREATE TABLE log (n integer GENERATED ALWAYS AS IDENTITY, id integer)")
	d.Exec(t, "CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (id) VALUES (NEW."+column+"); RETURN NEW; END $$")
	d.Exec(t, "CREATE TRIGGER logs BEFORE INSERT ON "+table+" FOR EACH ROW EXECUTE FUNCTION logs()")
}

// insertedInOrder demands that so many rows were noted, in the order of the column.
func (d *database) insertedInOrder(t *testing.T, rows int) {
	t.Helper()
	sinktest.Expect(t, d, "SELECT count(*), count(*) FILTER (WHERE id < before) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM log) l", fmt.Sprintf("%d|0", rows))
}

// TestFlush_RowsOfManySizes: rows are written in the order of their keys, whatever the order in which the
// staging table has them.
func TestFlush_RowsOfManySizes(t *testing.T) {
	for _, rows := range []int{1500, 5000} { // with many the staging table gets a new file
		t.Run(strconv.Itoa(rows), func(t *testing.T) { testRowsOfManySizes(t, rows) })
	}
}

func testRowsOfManySizes(t *testing.T, rows int) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.logInserts(t, "t", "id")
	r := sinktest.Begin(t, db)
	for _, a := range "xy" { // rows in a staging table that the transaction has made lie in their order
		r.Flush(fmt.Sprintf(`{"id":-1,"a":"%c"}`, a))
	}
	db.Exec(t, "TRUNCATE log")
	rnd := rand.New(rand.NewPCG(1, 1))
	for id := range rows {
		r.Fold(fmt.Sprintf(`{"id":%d,"a":"%s"}`, id, strings.Repeat("x", 40+rnd.IntN(200))))
	}
	r.Flush()
	db.insertedInOrder(t, rows)
}

// TestFlush_SchemaInQuotes: the tables are those of a schema with an odd name.
func TestFlush_SchemaInQuotes(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.as(t, "app")
	db.Exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = "it''s \ here"', current_database()); END $$`)
	db.Exec(t, `CREATE SCHEMA "it's \ here" AUTHORIZATION app`)
	r := sinktest.Begin(t, db, versionedBy(fold.ColumnScope))
	for n, want := range [][2]int64{{2, 0}, {1, 1}, {1, 1}} {
		sinktest.Counts(t, r.Flush(fmt.Sprintf(`{"id":1,"v":%d}`, n), fmt.Sprintf(`{"id":%d,"v":1}`, n+2)), want[0], want[1], 0, 0)
	}
}

// TestFlush_RowsThatReferToMissingOnes: rows are written in the order of their keys where some of the staged ones
// were updated, and lie elsewhere since.
func TestFlush_RowsThatReferToMissingOnes(t *testing.T) {
	for _, id := range []string{"", "cid"} {
		db := connect(t, testpg.New(t))
		r := sinktest.BeginNested(t, db, sinktest.Referring(t, "t", id), false)
		r.Flush(`{"order":-1,"customer":1,"name":"one"}`)
		db.logInserts(t, "orders_t", "nr")
		const rows = 5000
		for i := range rows {
			r.Fold(fmt.Sprintf(`{"order":%d,"customer":%d}`, i, 1+i%3))
		}
		r.Flush()
		db.insertedInOrder(t, rows)
		r.End()
	}
}

// TestFlush_TriggerChangesOthers: a trigger changes rows that the flush is about to change.
func TestFlush_TriggerChangesOthers(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text, last boolean)")
	db.Exec(t, "CREATE FUNCTION last() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET last = false WHERE last; NEW.last = true; RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER last BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION last()")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":5,"a":"x"}`)
	sinktest.Counts(t, r.Flush(`{"id":1,"a":"y"}`, `{"id":5,"a":"y"}`), 1, 1, 0, 0)
	if sql := db.lastFlush(t); !strings.HasPrefix(sql, "BEGIN") {
		t.Errorf("the rows were written one by one; the last of them by\n%s", sql)
	}
	sinktest.Expect(t, db, "SELECT id, a, last FROM t ORDER BY id", "1|y|true", "5|y|false")
}

// TestFlush_KeyTaken: another session inserts a row of a key that a flush is about to insert.
func TestFlush_KeyTaken(t *testing.T) {
	for name, c := range map[string]struct{ ddl, theirs string }{
		"a table": {`CREATE TABLE t ("Id" integer, k text, a text, b text, PRIMARY KEY (k, "Id"))`, "INSERT INTO t VALUES (2, 'k', 'theirs', 'theirs')"},
		"a partition": {`CREATE TABLE t ("Id" integer, k text, a text, b text, PRIMARY KEY (k, "Id")) PARTITION BY HASH (k); CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)`,
			"INSERT INTO t VALUES (2, 'k', 'theirs', 'theirs')"},
		"and another unique index": {`CREATE TABLE t ("Id" integer, k text, a text, b text, UNIQUE (a, b), PRIMARY KEY (k, "Id"))`, "INSERT INTO t VALUES (2, 'k', 'theirs', 'theirs')"},
	} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.Exec(t, c.ddl)
			r := sinktest.BeginTable(t, db, "t", "Id", "k")
			r.Flush(`{"Id":1,"k":"k","a":"x"}`)
			r.Flush(`{"Id":1,"k":"k","a":"y"}`)
			db.Exec(t, "BEGIN")
			db.Exec(t, c.theirs)
			done := when(t, db, "wait_event_type = 'Lock'", func() { db.Exec(t, "COMMIT") })
			res := r.Flush(`{"Id":1,"k":"k","a":"new"}`, `{"Id":2,"k":"k","a":"new"}`, `{"Id":3,"k":"k","a":"new"}`)
			<-done
			sinktest.Counts(t, res, 1, 2, 0, 0)
			if sql := db.lastFlush(t); !strings.HasPrefix(sql, "BEGIN") {
				t.Errorf("the rows were written one by one; the last of them by\n%s", sql)
			}
			sinktest.Expect(t, db, `SELECT "Id", a, b FROM t ORDER BY 1`, "1|new|NULL", "2|new|theirs", "3|new|NULL")
			sinktest.Expect(t, db, "SELECT (SELECT seq FROM weir_checkpoints), (SELECT count(*) FROM weir_rejects)", "3|0")
		})
	}
}

// TestFlush_KeyTakenAgain: where others insert keys before the flush each time that it is sent, it ends
// in statements that wait for them.
func TestFlush_KeyTakenAgain(t *testing.T) {
	const times = 5
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":0,"a":"x","b":"x"}`, `{"id":1,"a":"x"}`)
	r.Flush(`{"id":0,"a":"y"}`)
	var done []chan struct{}
	var want []string
	for n := range times {
		id := 10 + n
		other := connect(t, db.url)
		other.Exec(t, "BEGIN")
		other.Exec(t, fmt.Sprintf("INSERT INTO t VALUES (%d, 'theirs', 'theirs')", id))
		done = append(done, when(t, db, fmt.Sprintf("wait_event_type = 'Lock' AND %s = ANY (pg_blocking_pids(pid))", other.one(t, "SELECT pg_backend_pid()")), func() { other.Exec(t, "COMMIT") }))
		r.Fold(fmt.Sprintf(`{"id":%d,"a":"new"}`, id))
		want = append(want, fmt.Sprintf("%d|new|theirs", id))
	}
	sinktest.Counts(t, r.Flush(), 0, times, 0, 0)
	for _, d := range done {
		<-d
	}
	sinktest.Expect(t, db, "SELECT * FROM t WHERE id >= 10 ORDER BY id", want...)
}

// TestFlush_KeyIsSpelledAnew: a row that is deleted and comes again in one batch has the key as the later
// message spells it, as if the two were in batches of their own.
func TestFlush_KeyIsSpelledAnew(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id numeric PRIMARY KEY, v integer)")
	r := sinktest.Begin(t, db, func(o *fold.Options) { o.DeleteField, o.DeleteValue = "op", "d" })
	r.Flush(`{"id":1,"v":1}`, `{"id":2,"v":1}`, `{"id":3,"v":1}`)
	r.Flush(`{"id":1,"op":"d"}`, `{"id":1.0,"v":1}`, `{"id":2.0,"v":1}`, `{"id":3,"op":"d"}`, `{"id":3.00,"v":2}`, `{"id":4,"op":"d"}`, `{"id":4.0,"v":1}`)
	sinktest.Expect(t, db, "SELECT id::text, v FROM t ORDER BY id", "1.0|1", "2|1", "3.00|2", "4.0|1")
}
