package postgres_test

import (
	"fmt"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// rewrite flushes rows with a value that they do not have.
func rewrite(r *sinktest.Run, rows, value int) {
	for id := range rows {
		r.Fold(fmt.Sprintf(`{"id":%d,"a":%d}`, id, value))
	}
	r.Flush()
}

// fillFactor is the table's, with what else is set for it.
func (d *database) fillFactor(t *testing.T) string {
	t.Helper()
	return d.one(t, "SELECT coalesce(array_to_string(reloptions, ','), '') FROM pg_class WHERE oid = 't'::regclass")
}

// TestFlush_MakesRoom: a table of weir's whose rows are all updated gets room for their next versions, once: then they
// need no new index entries. It stays weir's.
func TestFlush_MakesRoom(t *testing.T) {
	testcheck.Only(t)
	const rows = 4000
	url := testpg.New(t)
	for name, pool := range map[string]string{"alone": "", "pooled": testpg.Pool(t, url, "transaction")} {
		t.Run(name, func(t *testing.T) {
			db := connectEmpty(t, url)
			db.weir = pool
			r := sinktest.Begin(t, db)
			rewrite(r, rows, 0)
			if got := db.fillFactor(t); got != "fillfactor=90" {
				t.Fatalf("before an update: %s", got)
			}
			rewrite(r, rows, 1)
			if got := db.fillFactor(t); got != "fillfactor=50" {
				t.Fatalf("after an update of all rows: %s", got)
			}
			for n := range 2 { // which leave each row in a page with room
				rewrite(r, rows, n+2)
			}
			if found, err := sink.Table(t.Context(), r.Sink.Tables, "t", []string{"id"}); err != nil || !found.Made {
				t.Errorf("it is no longer weir's: %+v, %v", found, err)
			}
			index := "SELECT pg_relation_size('t_pkey')"
			was := db.Query(t, index)[0][0].(int64)
			for n := range 4 {
				rewrite(r, rows, n+10)
			}
			if now := db.Query(t, index)[0][0].(int64); now != was {
				t.Errorf("the index has grown from %d to %d", was, now)
			}
			db.Exec(t, "ALTER TABLE t SET (fillfactor = 90)")
			rewrite(r, rows, 20)
			rewrite(r, rows, 21)
			if got := db.fillFactor(t); got != "fillfactor=90" {
				t.Errorf("set by the user: %s", got)
			}
		})
	}
}

// TestFlush_RoomEnough: a table keeps its fill factor where most updates find room as it is, and until half of the rows
// were updated without.
func TestFlush_RoomEnough(t *testing.T) {
	testcheck.Only(t)
	const rows, apart = 20_000, 8
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	rewrite(r, rows, 0)
	for id := 0; id < rows; id += apart {
		r.Fold(fmt.Sprintf(`{"id":%d,"a":1}`, id))
	}
	sinktest.Counts(t, r.Flush(), 0, rows/apart, 0, 0)
	if got := db.fillFactor(t); got != "fillfactor=90" {
		t.Errorf("%s", got)
	}
	db.Exec(t, "VACUUM ANALYZE t")
	rewrite(r, rows/4, 2) // rows of pages that have nothing else
	if got := db.fillFactor(t); got != "fillfactor=90" {
		t.Errorf("a quarter of the rows: %s", got)
	}
	for id := rows / 4; id < rows*3/4; id++ {
		r.Fold(fmt.Sprintf(`{"id":%d,"a":3}`, id))
	}
	r.Flush()
	if got := db.fillFactor(t); got != "fillfactor=50" {
		t.Errorf("three quarters, by two flushes: %s", got)
	}
}

// TestFlush_LeavesRoom: a table that somebody else made or changed, or one of another role's, keeps its fill factor,
// and so does one of which few rows are updated at a time.
func TestFlush_LeavesRoom(t *testing.T) {
	testcheck.Only(t)
	const rows = 4000
	url := testpg.New(t)
	for name, c := range map[string]struct {
		made, changed string
		rows          int
		want          string
	}{
		"few rows":         {rows: 1900, want: "fillfactor=90"},
		"the user's":       {rows: rows, made: "CREATE TABLE t (id bigint PRIMARY KEY, a bigint) WITH (fillfactor = 90)", want: "fillfactor=90"},
		"another factor":   {rows: rows, changed: "ALTER TABLE t SET (fillfactor = 70)", want: "fillfactor=70"},
		"no factor":        {rows: rows, changed: "ALTER TABLE t RESET (fillfactor)", want: ""},
		"an index":         {rows: rows, changed: "CREATE INDEX ON t (a)", want: "fillfactor=90"},
		"another's":        {rows: rows, changed: "ALTER TABLE t OWNER TO postgres; GRANT ALL ON t TO app", want: "fillfactor=90"},
		"with inheritance": {rows: rows, changed: "CREATE TABLE t_1 () INHERITS (t)", want: "fillfactor=90"},
	} {
		t.Run(name, func(t *testing.T) {
			db := connectEmpty(t, url)
			db.as(t, "app")
			if c.made != "" {
				db.Exec(t, c.made+"; GRANT ALL ON t TO app")
			}
			r := sinktest.Begin(t, db)
			rewrite(r, c.rows, 0)
			if c.changed != "" {
				db.Exec(t, c.changed)
			}
			for n := range 3 {
				rewrite(r, c.rows, n+1)
			}
			if got := db.fillFactor(t); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestFlush_MakesRoomLater: a lock that another session has on the table delays no flush; the fill factor is lowered
// by one that can have it.
func TestFlush_MakesRoomLater(t *testing.T) {
	testcheck.Only(t)
	const rows = 4000
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	rewrite(r, rows, 0)
	db.Exec(t, "BEGIN; LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE") // as VACUUM and CREATE INDEX CONCURRENTLY do
	for n := range 2 {
		rewrite(r, rows, n+1)
	}
	if got := db.fillFactor(t); got != "fillfactor=90" {
		t.Errorf("beside the lock: %s", got)
	}
	db.Exec(t, "COMMIT")
	for n := range 4 {
		rewrite(r, rows, n+3)
	}
	if got := db.fillFactor(t); got != "fillfactor=50" {
		t.Errorf("after the lock: %s", got)
	}
}
