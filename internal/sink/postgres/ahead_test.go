package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// TestFlush_ReadsAhead: what is read ahead is written as it is otherwise, and counted so.
func TestFlush_ReadsAhead(t *testing.T) {
	testcheck.Only(t)
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	server := testpg.Start(t, "track_activity_query_size=1MB")
	plain, ahead := connect(t, server.Database(t)), connect(t, server.Database(t))
	ahead.ahead = true
	for _, db := range []*database{plain, ahead} {
		db.Exec(t, "CREATE DOMAIN key AS text CHECK (value <> '')")
	}
	for _, key := range []string{"text", "bigint", "numeric", "uuid", `text COLLATE "en-x-icu"`, "char(40)", "varchar(40)", "key", "integer", "smallint", "date", "timestamptz"} {
		t.Run(key, func(t *testing.T) {
			dbs := []*database{plain, ahead}
			runs := make([]*sinktest.Run, len(dbs))
			for i, db := range dbs {
				db.Exec(t, "CREATE TABLE t (id "+key+" PRIMARY KEY, a text, b text, c text)")
				runs[i] = sinktest.Begin(t, db)
			}
			for range 5 {
				lines := make([]string, 200+rnd.IntN(600))
				for i := range lines {
					lines[i] = message(rnd, key)
				}
				want, got := runs[0].Flush(lines...), runs[1].Flush(lines...)
				if want.Tables[0] != got.Tables[0] {
					t.Errorf("the counts are %+v, and %+v of what is read ahead", want.Tables[0], got.Tables[0])
				}
			}
			if slices := strings.Count(ahead.lastFlush(t), "MERGE INTO"); slices < 3 {
				t.Errorf("rows are written by %d statements", slices)
			}
			const content = "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t"
			if plain.one(t, content) != ahead.one(t, content) {
				t.Error("the tables differ")
			}
			for i, db := range dbs {
				runs[i].End()
				// What a bitmap scan finds in an index is read there, and not fetched by it.
				const byBitmap = "SELECT sum(idx_tup_read - idx_tup_fetch) > 500 FROM pg_stat_user_indexes WHERE relname = 't'"
				for deadline := time.Now().Add(5 * time.Second); db.ahead && db.one(t, byBitmap) != "true"; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("no bitmap was scanned")
					}
				}
				db.Exec(t, "DROP TABLE t")
			}
		})
	}
}

// message is one that sets some columns of one of 1,000 rows, or deletes it.
func message(rnd *rand.Rand, key string) string {
	n := rnd.IntN(1000)
	id := fmt.Sprintf("%q", fmt.Sprintf("Key '%03d\\", n))
	switch key {
	case "bigint", "numeric", "integer", "smallint":
		id = fmt.Sprint(n - 500)
	case "uuid":
		id = fmt.Sprintf(`"00000000-0000-0000-0000-%012d"`, n)
	case "date":
		id = time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC).Format(`"2006-01-02"`)
	case "timestamptz":
		id = fmt.Sprintf(`"2026-01-01T%02d:%02d:00Z"`, n/60, n%60)
	}
	switch rnd.IntN(10) {
	case 0:
		return fmt.Sprintf(`{"id":%s,"op":"delete"}`, id)
	case 1:
		return fmt.Sprintf(`{"id":%s,"a":null,"b":"%0200d"}`, id, rnd.IntN(3))
	default:
		return fmt.Sprintf(`{"id":%s,"%c":"%0100d"}`, id, "abc"[rnd.IntN(3)], rnd.IntN(3))
	}
}

// TestFlush_SlicesOfRowsOfAnySize: the pages of as many rows are read ahead at a time as is meant, however long these are; there, of a fortieth.
func TestFlush_SlicesOfRowsOfAnySize(t *testing.T) {
	testcheck.Only(t)
	columns, narrow := "", ""
	for i := range 30 {
		columns += fmt.Sprintf(", n%d bigint", i)
		narrow += fmt.Sprintf(`,"n%d":%d`, i, i%10)
	}
	for name, value := range map[string]string{"short": narrow, "long": fmt.Sprintf(`,"a":"%0150000d"`, 0)} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.ahead = true
			db.Exec(t, "CREATE TABLE t (id bigint PRIMARY KEY, a text"+columns+")")
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":-1}`) // the next rows are not all that the table has
			r.Flush(`{"id":-1}`)
			lines := make([]string, 420)
			for i := range lines {
				lines[i] = fmt.Sprintf(`{"id":%d%s}`, i, value)
			}
			sinktest.Counts(t, r.Flush(lines...), int64(len(lines)), 0, 0, 0)
			sinktest.Expect(t, db, "SELECT max(n), sum(n), count(*) FROM (SELECT count(*) n FROM t WHERE id >= 0 GROUP BY cmin) statements", "11|420|39")
		})
	}
}

// TestFlush_WholeTablesAreNotReadAhead: where something looks at the rows at the end of a statement, one writes all.
func TestFlush_WholeTablesAreNotReadAhead(t *testing.T) {
	testcheck.Only(t)
	server := testpg.Start(t, "track_activity_query_size=1MB")
	for name, ddl := range map[string]string{
		"rows below":       "CREATE TABLE t (id integer PRIMARY KEY, a text, of integer REFERENCES t)",
		"values exchanged": "CREATE TABLE t (id integer PRIMARY KEY, a text, of integer UNIQUE DEFERRABLE)",
		"a trigger": `CREATE TABLE t (id integer PRIMARY KEY, a text, of integer);
CREATE FUNCTION checks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
 IF (SELECT count(*) FROM t) <> 301 THEN RAISE 'not all rows are there'; END IF; RETURN NULL; END $$`,
	} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, server.Database(t))
			db.ahead = true
			db.Exec(t, ddl)
			const rows = 300
			flush := func(r *sinktest.Run, of func(i int) int, inserted, updated int64) {
				t.Helper()
				lines := make([]string, rows)
				for i := range lines {
					lines[i] = fmt.Sprintf(`{"id":%d,"of":%d}`, i, of(i))
				}
				sinktest.Counts(t, r.Flush(lines...), inserted, updated, 0, 0)
				if sql := db.lastFlush(t); strings.Contains(sql, "SAVEPOINT") || strings.Count(sql, "MERGE INTO") != 1 {
					t.Errorf("it was sent\n%.2000s", sql)
				}
			}
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":-1}`)
			r.Flush(`{"id":-1}`)
			if name == "a trigger" {
				db.Exec(t, "CREATE TRIGGER checks AFTER INSERT OR UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION checks()")
				r.End()
				r = sinktest.Begin(t, db)
			}
			flush(r, func(i int) int { return rows - 1 - i }, rows, 0)
			flush(r, func(i int) int { return i }, 0, rows)
		})
	}
}
