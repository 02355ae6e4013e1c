package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testpg"
)

// lastFlush returns what the run's last flush sent. The session of its claims has the same name, and may come before or
// after it in the list of sessions.
func (d *database) lastFlush(t *testing.T) string {
	t.Helper()
	return d.one(t, "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'weir/%' AND pid <> pg_backend_pid() ORDER BY query_start DESC LIMIT 1")
}

// logInserts records inserts into a table, by a column.
func (d *database) logInserts(t *testing.T, table, column string) {
	t.Helper()
	d.Exec(t, "CREATE TABLE log (n integer GENERATED ALWAYS AS IDENTITY, id integer)")
	d.Exec(t, "CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (id) VALUES (NEW."+column+"); RETURN NEW; END $$")
	d.Exec(t, "CREATE TRIGGER logs BEFORE INSERT ON "+table+" FOR EACH ROW EXECUTE FUNCTION logs()")
}

// insertedInOrder checks that this many inserts were recorded, in the order of the column.
func (d *database) insertedInOrder(t *testing.T, rows int) {
	t.Helper()
	sinktest.Expect(t, d, "SELECT count(*), count(*) FILTER (WHERE id < before) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM log) l", fmt.Sprintf("%d|0", rows))
}

// TestFlush_RowsOfManySizes: rows are written in key order, whatever their order in the staging table.
func TestFlush_RowsOfManySizes(t *testing.T) {
	for _, rows := range []int{1500, 5000} { // with many, the staging table gets a new file
		t.Run(strconv.Itoa(rows), func(t *testing.T) { testRowsOfManySizes(t, rows) })
	}
}

func testRowsOfManySizes(t *testing.T, rows int) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.logInserts(t, "t", "id")
	r := sinktest.Begin(t, db)
	for _, a := range "xy" { // in a staging table that the transaction created, rows are in order
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

// TestFlush_RowsThatReferToMissingOnes: rows are written in key order even if some staged ones were updated, and have
// moved.
func TestFlush_RowsThatReferToMissingOnes(t *testing.T) {
	for _, id := range []string{"", "cid"} {
		db := connect(t, testpg.New(t))
		r := sinktest.BeginNested(t, db, sinktest.Referring(t, "t", id))
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

// TestFlush_WrongGuessesBecomeRare: batches of new rows between others are mistaken for the start of a load less and
// less often.
func TestFlush_WrongGuessesBecomeRare(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":0,"a":"x"}`)
	again := 0
	for i := range 20 {
		r.Flush(fmt.Sprintf(`{"id":%d,"a":"new"}`, i+1))
		p.Cut(nil)
		r.Flush(fmt.Sprintf(`{"id":0,"a":"%d"}`, i))
		if p.Count().Answers > 1 {
			again++
		}
	}
	if again > 1 {
		t.Errorf("of 20 batches with an old row, %d were first written as if all rows were new", again)
	}
}

// TestFlush_AKeyOfAnotherTableIsNotTaken: a trigger's unique violation in another table, over a column of the same
// name, does not count as another writer's row.
func TestFlush_AKeyOfAnotherTableIsNotTaken(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.Exec(t, "CREATE TABLE audit (id integer PRIMARY KEY)")
	db.Exec(t, "INSERT INTO audit VALUES (2)")
	db.Exec(t, "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit VALUES (NEW.id); RETURN NULL; END $$")
	db.Exec(t, "CREATE TRIGGER note AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`, `{"id":1,"a":"y"}`)
	r.Flush(`{"id":1,"a":"z"}`)
	p.Cut(nil)
	if res := r.Flush(`{"id":2,"a":"x"}`, `{"id":3,"a":"x"}`); len(res.Refused) != 1 {
		t.Errorf("%+v", res)
	}
	sinktest.Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "3")
	if got := p.Count(); got.Answers > 8 {
		t.Errorf("answered %d times: the flush was sent again", got.Answers)
	}
}
