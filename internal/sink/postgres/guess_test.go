package postgres_test

import (
	"fmt"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestFlush_WrongGuessesBecomeRare: batches of new rows between others are less and less taken for the start of a load.
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

// TestFlush_AKeyOfAnotherTableIsNotTaken: a unique violation that a trigger meets in another table, over a column of
// the same name, is no other writer's row.
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
