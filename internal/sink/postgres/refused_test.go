package postgres_test

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
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

// TestRefused_DeferredKeyOfOtherTables: a message whose row refers to none of a table that the flush does not write is
// rejected in its turn, also where that shows when all rows are written. Beside it are tables whose rows do wait for each other.
func TestRefused_DeferredKeyOfOtherTables(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE kinds (id integer PRIMARY KEY)")
	db.Exec(t, "CREATE TABLE a (id integer PRIMARY KEY, kind integer REFERENCES kinds (id) DEFERRABLE INITIALLY DEFERRED, gate text UNIQUE)")
	db.Exec(t, "CREATE TABLE p (id integer PRIMARY KEY)")
	db.Exec(t, "CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p (id))")
	s := sinktest.BeginTables(t, db, []string{"a", "p", "c"})
	s.Flush(`{"a.id":1,"a.kind":7,"a.gate":"y"}`, `{"a.id":1,"a.gate":"x"}`, `{"a.id":2,"a.gate":"x"}`, `{"c.id":1,"c.p":1}`, `{"p.id":1}`)
	sinktest.Expect(t, db, "SELECT id, gate FROM a", "1|x")
	sinktest.Expect(t, db, "SELECT id, p FROM c", "1|1")
	sinktest.Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "1", "3")
}

// TestRefused_RightOnlyTogether: rows that wait for each other in a circle, some for a key and some for a unique value, are
// written at once, where the constraints can wait that the first attempt has checked after each statement.
func TestRefused_RightOnlyTogether(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE a (id integer PRIMARY KEY)")
	db.Exec(t, "CREATE TABLE b (id integer PRIMARY KEY, a integer REFERENCES a DEFERRABLE, gate text UNIQUE DEFERRABLE)")
	db.Exec(t, "ALTER TABLE a ADD b integer REFERENCES b DEFERRABLE")
	s := sinktest.BeginTables(t, db, []string{"a", "b"})
	s.Flush(`{"b.id":1,"b.gate":"x"}`)
	s.Flush(`{"b.id":2,"b.gate":"x"}`, `{"a.id":1,"a.b":2}`, `{"b.id":1,"b.a":1,"b.gate":"y"}`)
	sinktest.Expect(t, db, "SELECT id, a, gate FROM b ORDER BY id", "1|1|y", "2|NULL|x")
	sinktest.Expect(t, db, "SELECT id, b FROM a", "1|2")
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
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
			sinktest.Expect(t, db, "SELECT (SELECT seq FROM weir_checkpoints), (SELECT count(*) FROM weir_rejects)", "1|0")
		})
	}
}

// shop makes the tables of [sinktest.Shop].
func shop(t *testing.T, db *database, items string) {
	t.Helper()
	db.Exec(t, "CREATE TABLE orders (id integer PRIMARY KEY, status text CHECK (status <> 'bad'))")
	db.Exec(t, "CREATE TABLE items (order_id integer, sku text"+items+", qty integer CHECK (qty >= 0), PRIMARY KEY (order_id, sku))")
	db.Exec(t, "CREATE TABLE taxes (order_id integer, sku text, code text, amount integer CHECK (amount >= 0), PRIMARY KEY (order_id, sku, code))")
}

// TestRefused_NotByARowOfASet: so does what no row of a set can mend.
func TestRefused_NotByARowOfASet(t *testing.T) {
	url := testpg.New(t)
	for _, event := range []string{"INSERT ON items", "UPDATE ON items", "DELETE ON items", "INSERT ON taxes", "DELETE ON taxes"} {
		t.Run(event, func(t *testing.T) {
			db := connectEmpty(t, url)
			shop(t, db, "")
			n := sinktest.BeginNested(t, db, sinktest.Shop(t), false)
			n.Flush(`{"id":1,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
			db.Exec(t, "CREATE FUNCTION closed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'closed today'; END $$")
			db.Exec(t, "CREATE TRIGGER closed BEFORE "+event+" FOR EACH STATEMENT EXECUTE FUNCTION closed()")
			n.Fold(`{"id":1,"status":"s","items":[{"sku":"y","qty":1,"taxes":[{"code":"b"}]}]}`, `{"id":2,"items":[{"sku":"x"}]}`)
			if _, err := n.Sink.Flush(t.Context(), n.Seal()); err == nil || !strings.Contains(err.Error(), "closed today") {
				t.Errorf("the flush ended with %v", err)
			}
			sinktest.Expect(t, db, "SELECT (SELECT seq FROM weir_checkpoints), (SELECT count(*) FROM weir_rejects), (SELECT count(*) FROM orders)", "1|0|1")
		})
	}
}

// TestRefused_SetsNameTheirTable: what is refused of a set names the table of its rows, also where
// these are to go.
func TestRefused_SetsNameTheirTable(t *testing.T) {
	db := connect(t, testpg.New(t))
	shop(t, db, "")
	db.Exec(t, "CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.sku = 'x' THEN RAISE 'x stays'; END IF; RETURN OLD; END $$")
	db.Exec(t, "CREATE TRIGGER stays BEFORE DELETE ON items FOR EACH ROW EXECUTE FUNCTION stays()")
	n := sinktest.BeginNested(t, db, sinktest.Shop(t), false)
	n.Flush(`{"id":1,"items":[{"sku":"x"}]}`, `{"id":2,"items":[{"sku":"x"}]}`)
	res := n.Flush(`{"id":1,"items":[]}`, `{"id":2,"items":[{"sku":"x"},{"sku":"y","taxes":[{"code":"a","amount":-1}]}]}`, `{"id":3,"items":[{"sku":"y","qty":-1}]}`, `{"id":4,"status":"bad"}`, `{"id":5}`)
	for i, want := range []string{`table "items": x stays`, `table "taxes": new row`, `table "items": new row`, `table "orders": new row`} {
		if len(res.Refused) != 4 || !strings.HasPrefix(res.Refused[i].Detail, want) {
			t.Fatalf("refused: %+v, want %q", res.Refused, want)
		}
	}
	sinktest.Expect(t, db, "SELECT id FROM orders ORDER BY id", "1", "2", "5")
	sinktest.Expect(t, db, "SELECT order_id, sku FROM items ORDER BY order_id", "1|x", "2|x")
}

// TestRefused_SetsWaitForOtherTables: a set whose rows refer to rows that come later in the feed
// waits for these.
func TestRefused_SetsWaitForOtherTables(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE products (sku text PRIMARY KEY, kind text)")
	shop(t, db, " REFERENCES products")
	m := sinktest.Shop(t)
	has := func(field string) mapping.When {
		p := mapping.Path{Base: mapping.RowBase, Steps: []mapping.Step{{Name: field, Index: -1}}, Text: field}
		return mapping.When{{{Path: p, Present: mapping.MustBePresent}}}
	}
	m.Tables[0].When = has("id")
	m.Tables = append(m.Tables, mapping.Table{Name: "products", Key: []string{"sku"}, When: has("sku")})
	n := sinktest.BeginNested(t, db, m, false)
	res := n.Flush(`{"id":1,"items":[{"sku":"x"}]}`, `{"id":2,"status":"bad"}`, `{"id":3,"items":[{"sku":"none"}]}`, `{"sku":"x","kind":"k"}`)
	if len(res.Refused) != 2 {
		t.Errorf("refused: %+v", res.Refused)
	}
	sinktest.Expect(t, db, "SELECT order_id, sku FROM items", "1|x")
}

// TestFlush_RowsGone: another session takes rows away while a flush waits for them.
func TestFlush_RowsGone(t *testing.T) {
	url := testpg.New(t)
	for name, c := range map[string]struct {
		theirs string
		want   []string
	}{
		"deleted":            {"DELETE FROM t WHERE id = 1", []string{"1|new", "2|new"}},
		"all deleted":        {"DELETE FROM t", []string{"1|new", "2|new"}},
		"another key":        {"UPDATE t SET id = 100 WHERE id = 1", []string{"1|new", "2|new", "100|y"}},
		"inserted again":     {"DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 'theirs', 1)", []string{"1|new", "2|new"}},
		"all inserted again": {"DELETE FROM t; INSERT INTO t VALUES (1, 'theirs', 1), (2, 'theirs', 1)", []string{"1|new", "2|new"}},
		"keys exchanged":     {"UPDATE t SET id = 100 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 100", []string{"1|new", "2|new"}},
		"another's update":   {"UPDATE t SET a = 'theirs'", []string{"1|new", "2|new"}},
	} {
		for kind, change := range map[string][]func(*fold.Options){"plain": nil, "separate statements": nil, "versions": kinds["versions"].change} {
			t.Run(name+", "+kind, func(t *testing.T) {
				db := connectEmpty(t, url)
				if kind == "separate statements" {
					db.separately()
				}
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
				sinktest.Expect(t, db, "SELECT (SELECT seq FROM weir_checkpoints), (SELECT count(*) FROM weir_rejects)", "3|0")
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
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n >= 0), a text, staged bigint)")
	db.Exec(t, "CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 4711 THEN RAISE 'no'; END IF; NEW.staged = pg_relation_size('pg_temp.weir_stage_0'); RETURN NEW; END $$")
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

// TestRefused_FewOfMany: rows that only the database can reject cost a few tries each, however many rows there are
// beside them. Of two rows, the first in the feed gets a unique value.
func TestRefused_FewOfMany(t *testing.T) {
	for name, c := range map[string]struct {
		rows   int
		column string
		line   func(i, rows int, bad bool) string
	}{
		"a CHECK": {testcheck.Rounds(20_000, 1_000_000), "integer CHECK (n >= 0)", func(i, _ int, bad bool) string {
			return fmt.Sprintf(`{"id":%d,"n":%d}`, i, map[bool]int{true: -1}[bad])
		}},
		"a unique value": {20_000, "integer UNIQUE", func(i, rows int, bad bool) string { // the last is the first by its key
			return fmt.Sprintf(`{"id":%d,"n":%d}`, rows-i, i-map[bool]int{true: rows / 5}[bad])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			db, p := throughProxy(t, testpg.New(t))
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n "+c.column+")")
			r := sinktest.Begin(t, db)
			var want []string
			for i := range c.rows {
				bad := i%(c.rows/3) == c.rows/4
				if bad {
					want = append(want, fmt.Sprint(i))
				}
				r.Fold(c.line(i, c.rows, bad))
			}
			p.Cut(nil)
			res, err := r.Sink.Flush(t.Context(), r.Seal())
			if err != nil {
				t.Fatal(err)
			}
			sinktest.Counts(t, res, int64(c.rows-3), 0, 0, 0)
			sinktest.Expect(t, db, "SELECT line - 1 FROM weir_rejects ORDER BY line", want...)
			// Each level of halving is two tries, one of which fails and is rolled back.
			if limit, n := 3*3*bits.Len(uint(c.rows))+30, p.Count().Answers; n > limit {
				t.Errorf("%d round trips for 3 rows of %d, more than %d", n, c.rows, limit)
			}
		})
	}
}

// TestRefused_ManyOfSeveralTables: each message of several tables that is rejected costs three round
// trips, whether few or many are: one that names it, one for what is before it, and one of its own. A
// row of one table, with its sets, is tried once more when the others are written, and then by message.
func TestRefused_ManyOfSeveralTables(t *testing.T) {
	const messages = 500
	url := testpg.New(t)
	for _, bad := range []int{1, 10, 100} {
		of := func(i, good int) int { // evenly, and the keys are in another order than the messages
			if i*bad%messages < bad {
				return -1
			}
			return good
		}
		for kind, c := range map[string]struct {
			tables []string // nil: those of a shop
			each   int      // round trips for a message that is rejected
			line   func(i int) string
		}{
			"two tables": {[]string{"a", "b"}, 3, func(i int) string {
				return fmt.Sprintf(`{"id":%d,"a.x":"of %d","b.n":%d}`, i*7919%messages, i, of(i, i))
			}},
			"a unique value": {[]string{"a", "b"}, 3, func(i int) string {
				return fmt.Sprintf(`{"id":%d,"a.x":"of %d","b.u":%d}`, i*7919%messages, i, of(i, i))
			}},
			"a set": {nil, 5, func(i int) string {
				return fmt.Sprintf(`{"id":%d,"status":"%d","items":[{"sku":"x","qty":1},{"sku":"y","qty":%d}]}`, i*7919%messages, i, of(i, i))
			}},
		} {
			t.Run(fmt.Sprintf("%d, %s", bad, kind), func(t *testing.T) {
				p := testpg.NewProxy(t, url)
				db := connectEmpty(t, url)
				db.weir = p.URL()
				db.Exec(t, "CREATE TABLE a (id integer PRIMARY KEY, x text)")
				db.Exec(t, "CREATE TABLE b (id integer PRIMARY KEY, n integer CHECK (n >= 0), u integer UNIQUE)")
				db.Exec(t, "INSERT INTO b VALUES (-1, 1, -1)")
				shop(t, db, "")
				var s interface {
					Fold(lines ...string)
					Seal() *sink.Flush
				}
				var to sink.Sink
				if c.tables != nil {
					r := sinktest.BeginTables(t, db, c.tables)
					s, to = r, r.Sink
				} else {
					r := sinktest.BeginNested(t, db, sinktest.Shop(t), false)
					s, to = r, r.Sink
				}
				for i := range messages {
					s.Fold(c.line(i))
				}
				f := s.Seal()
				p.Cut(nil)
				res, err := to.Flush(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				got := p.Count()
				if len(res.Refused) != bad || res.Tables[0].Inserted != int64(messages-bad) {
					t.Errorf("%d messages were rejected, want %d; %+v", len(res.Refused), bad, res.Tables)
				}
				if limit := c.each*bad + 30; got.Answers > limit {
					t.Errorf("%d round trips for %d messages of %d, more than %d", got.Answers, bad, messages, limit)
				}
			})
		}
	}
}

// TestRefused_ManyThatCannotBeRead: a COPY names the line that it cannot read.
func TestRefused_ManyThatCannotBeRead(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, d date)")
	r := sinktest.Begin(t, db)
	const rows = 3000
	for i := range rows {
		d := "2024-01-01"
		if i%10 == 0 {
			d = "2024-99-99"
		}
		r.Fold(fmt.Sprintf(`{"id":%d,"d":%q}`, i, d))
	}
	res, err := r.Sink.Flush(t.Context(), r.Seal())
	if err != nil {
		t.Fatal(err)
	}
	sinktest.Counts(t, res, rows-rows/10, 0, 0, 0)
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects WHERE reason LIKE '%(SQLSTATE 22008)'", fmt.Sprint(rows/10))
}

func TestRefused_Rules(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE parent (id integer PRIMARY KEY)")
	db.Exec(t, "INSERT INTO parent VALUES (1)")
	db.Exec(t, `CREATE TABLE t (id integer PRIMARY KEY, a integer CHECK (a > 0), b integer NOT NULL, c integer UNIQUE,
		d integer REFERENCES parent, e integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED, f text)`)
	db.Exec(t, "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.f = 'no' THEN RAISE 'I say no'; END IF; RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER no BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION no()")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":1,"b":1,"c":1,"d":1,"e":1,"f":"yes"}`)
	r.Flush(`{"id":2,"b":1,"a":0}`, `{"id":3,"a":1}`, `{"id":4,"b":1,"c":1}`, `{"id":5,"b":1,"d":9}`, `{"id":6,"b":1,"e":9}`, `{"id":7,"b":1,"f":"no"}`, `{"id":8,"b":1}`, `{"id":1,"f":"still"}`)
	sinktest.Expect(t, db, "SELECT id, f FROM t ORDER BY id", "1|still", "8|NULL")
	sinktest.Expect(t, db, "SELECT line, substring(reason FROM 'SQLSTATE (.....)') FROM weir_rejects ORDER BY line", "2|23514", "3|23502", "4|23505", "5|23503", "6|23503", "7|P0001")
}

// TestRefused_Policy: row-level security takes no COPY, and speaks row by row.
func TestRefused_Policy(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.as(t, "app")
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n integer)")
	db.Exec(t, "GRANT ALL ON t TO app")
	db.Exec(t, "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
	db.Exec(t, "CREATE POLICY small ON t USING (true) WITH CHECK (n < 10)")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"n":1}`)
	r.Flush(`{"id":2,"n":2}`, `{"id":3,"n":30}`, `{"id":1,"n":11}`)
	r.Flush(`{"id":4,"n":4}`)
	sinktest.Expect(t, db, "SELECT id, n FROM t ORDER BY id", "1|1", "2|2", "4|4")
	sinktest.Expect(t, db, "SELECT line, substring(reason FROM 'SQLSTATE (.....)') FROM weir_rejects ORDER BY line", "3|42501", "4|42501")
}

// TestRefused_HiddenRow: a row that a policy keeps from weir's sight is in the way of a
// new one; one that weir may see but not change stays. So it is where the policies come while weir runs.
func TestRefused_HiddenRow(t *testing.T) {
	for name, late := range map[string]bool{"before": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.as(t, "app")
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, who text, n integer CHECK (n > -5))")
			db.Exec(t, "INSERT INTO t VALUES (1, 'other', 1), (5, 'me', -1)")
			db.Exec(t, "GRANT ALL ON t TO app")
			enable := func() {
				db.Exec(t, "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
				db.Exec(t, "CREATE POLICY mine ON t FOR SELECT USING (who = 'me')")
				db.Exec(t, "CREATE POLICY new ON t FOR INSERT WITH CHECK (true)")
				db.Exec(t, "CREATE POLICY old ON t FOR UPDATE USING (n > 0)")
			}
			if !late {
				enable()
			}
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":2,"who":"me","n":1}`)
			r.Flush(`{"id":2,"n":2}`)
			if late {
				enable()
			}
			sinktest.Counts(t, r.Flush(`{"id":1,"who":"me","n":3}`, `{"id":2,"n":3}`, `{"id":3,"who":"me","n":3}`, `{"id":4,"who":"other","n":3}`, `{"id":5,"n":3}`), 1, 1, 1, 0)
			sinktest.Expect(t, db, "SELECT * FROM t ORDER BY id", "1|other|1", "2|me|3", "3|me|3", "5|me|-1")
			sinktest.Expect(t, db, "SELECT line, substring(reason FROM 'SQLSTATE (.....)') FROM weir_rejects ORDER BY line", "3|23505", "6|42501")
		})
	}
}

// TestRefused_WithoutRules: a table that weir made refuses a row all the same;
// then the source is to be read again with its lines kept.
func TestRefused_WithoutRules(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	var fields []string
	for i := range 490 {
		fields = append(fields, fmt.Sprintf(`"c%d":"%020d"`, i, i)) // together more than a page, each too short to lie elsewhere
	}
	_, err := r.TryFlush(`{"id":1,"c1":"x"}`, `{"id":2,`+strings.Join(fields, ",")+`}`)
	var unlogged sink.ErrUnlogged
	if !errors.As(err, &unlogged) || !strings.Contains(err.Error(), "54000") {
		t.Fatalf("the flush ended with %v", err)
	}
	sinktest.Expect(t, db, "SELECT to_regclass('t') IS NULL", "true")
}
