package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestFlush_Repeated: rows that the table has are found before anything is staged; the others of their flush are
// written as ever.
func TestFlush_Repeated(t *testing.T) {
	server := testpg.Start(t, "track_activity_query_size=1MB")
	for name, ddl := range map[string]string{
		"made":       "",
		"its types":  "CREATE TABLE t (id text PRIMARY KEY, n bigint, a text, b boolean, c text, r double precision, j jsonb, s varchar(20) DEFAULT 'none')",
		"collated":   `CREATE TABLE t (id text COLLATE "C" PRIMARY KEY, n bigint, a text, b boolean, c text COLLATE "C", r double precision, j jsonb, s text)`,
		"two keys":   "CREATE TABLE t (id text, n bigint, a text, b boolean, c text, r double precision, j jsonb, s text, PRIMARY KEY (n, id))",
		"partitions": "CREATE TABLE t (id text PRIMARY KEY, n bigint, a text, b boolean, c text, r double precision, j jsonb, s text) PARTITION BY HASH (id); CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
	} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, server.Database(t))
			if ddl != "" {
				db.Exec(t, ddl)
			}
			keys := []string{"id"}
			if name == "two keys" {
				keys = []string{"n", "id"}
			}
			r := sinktest.BeginTable(t, db, "t", keys...)
			key := func(i int) string { return fmt.Sprintf(`"id":"a,{\"}\\u0027ü\\\\%d","n":%d`, i, i) }
			line := func(i int) string {
				if i%2 == 0 {
					return fmt.Sprintf(`{%s,"a":"x\ty\\n%d","b":%t}`, key(i), i, i%4 == 0)
				}
				return fmt.Sprintf(`{%s,"c":"z%d","a":null,"r":%d.5}`, key(i), i, i)
			}
			const rows = 5000
			var lines []string
			for i := range rows {
				lines = append(lines, line(i))
			}
			sinktest.Counts(t, r.Flush(lines...), rows, 0, 0, 0)
			sinktest.Counts(t, r.Flush(lines...), 0, 0, rows, 0)
			whole := "SELECT md5(string_agg((n, id, a, b, c, r)::text, ',' ORDER BY n)) FROM t"
			before := db.one(t, whole)
			sinktest.Counts(t, r.Flush(lines...), 0, 0, rows, 0)
			if last := db.lastFlush(t); strings.Contains(last, "MERGE") {
				t.Errorf("rows that are all there were followed by %s", last)
			}
			lines[10] = fmt.Sprintf(`{%s,"a":"other"}`, key(10))                  // changed
			lines[11] = fmt.Sprintf(`{%s,"c":null}`, key(11))                     // gets a NULL
			lines[12] = fmt.Sprintf(`{%s,"op":"delete"}`, key(12))                // deleted
			lines[13] = fmt.Sprintf(`{%s,"a":null,"c":"z13","r":13.50}`, key(13)) // another text, not another value
			lines[14] = fmt.Sprintf(`{%s,"j":{"k":1},"b":null}`, key(14))
			lines = append(lines, line(rows), line(rows+1), fmt.Sprintf(`{%s,"op":"delete"}`, key(rows+2)))
			sinktest.Counts(t, r.Flush(lines...), 2, 3, rows-3, 1)
			sinktest.Expect(t, db, "SELECT n, a, c, r, j, b FROM t WHERE n BETWEEN 10 AND 14 ORDER BY n",
				"10|other|NULL|NULL|NULL|false", "11|NULL|NULL|11.5|NULL|NULL", "13|NULL|z13|13.5|NULL|NULL", `14|x	y\n14|NULL|NULL|{"k": 1}|NULL`)
			r.Flush(append(lines[:10:10], line(10), line(11), line(12), line(13), fmt.Sprintf(`{%s,"op":"delete"}`, key(14)), fmt.Sprintf(`{%s,"op":"delete"}`, key(rows)), fmt.Sprintf(`{%s,"op":"delete"}`, key(rows+1)))...)
			r.Flush(line(14))
			if after := db.one(t, whole); after != before {
				t.Errorf("the table was %s and is %s", before, after)
			}
		})
	}
}

// TestFlush_RepeatedBelow: a table that inherits from another one may have its keys once more, with other values.
func TestFlush_RepeatedBelow(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.Exec(t, "CREATE TABLE below () INHERITS (t)")
	r, lines := sinktest.Begin(t, db), plainRows()
	sinktest.Counts(t, r.Flush(lines...), 5000, 0, 0, 0)
	sinktest.Counts(t, r.Flush(lines...), 0, 0, 5000, 0)
	db.Exec(t, "INSERT INTO below SELECT id, CASE WHEN id % 10 = 0 THEN 'other' ELSE a END FROM ONLY t")
	db.Exec(t, "UPDATE ONLY t SET a = 'other' WHERE id % 10 = 5")
	sinktest.Counts(t, r.Flush(lines...), 0, 1000, 4000, 0)
	sinktest.Expect(t, db, "SELECT count(*), count(*) FILTER (WHERE a = 'x' || id) FROM t", "10000|10000")
}

// TestFlush_ReadAgain: the first flush of a source that is read from its start again compares its rows too.
func TestFlush_ReadAgain(t *testing.T) {
	db := connect(t, testpg.Start(t, "track_activity_query_size=1MB").Database(t))
	lines := plainRows()
	r := sinktest.Begin(t, db)
	r.Flush(lines...)
	r.End()
	readAgain(t, db, lines)
	if last := db.lastFlush(t); strings.Contains(last, "MERGE") {
		t.Errorf("rows that are all there were followed by %s", last)
	}
}

// TestFlush_RepeatedByKey: rows that a table may have already are looked up by their keys, also in one that was empty
// when it was vacuumed.
func TestFlush_RepeatedByKey(t *testing.T) {
	db := connect(t, testpg.New(t))
	lines := plainRows()
	r := sinktest.Begin(t, db)
	r.Flush(lines...)
	db.Exec(t, "DELETE FROM t")
	db.Exec(t, "VACUUM (TRUNCATE off) t")
	sinktest.Counts(t, r.Flush(lines...), 5000, 0, 0, 0)
	r.End()
	db.Exec(t, "CREATE TABLE log (scans bigint)")
	db.Exec(t, "CREATE FUNCTION logs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (pg_stat_get_xact_numscans('t_pkey'::regclass)); RETURN NULL; END $$")
	db.Exec(t, "CREATE CONSTRAINT TRIGGER logs AFTER UPDATE ON weir_checkpoints DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION logs()")
	readAgain(t, db, lines)
	sinktest.Expect(t, db, "SELECT count(*), bool_and(scans >= 5000) FROM log", "1|true")
}

// plainRows are 5000.
func plainRows() (lines []string) {
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"a":"x%[1]d"}`, i))
	}
	return lines
}

// readAgain flushes rows that the table has, as the first ones of a source that is read from its start again.
func readAgain(t *testing.T, db *database, lines []string) {
	t.Helper()
	r := sinktest.Begin(t, db)
	r.Fold(lines...)
	f := r.Seal()
	f.Lanes[0].Restart = true
	res, err := r.Send(f)
	if err != nil {
		t.Fatal(err)
	}
	sinktest.Counts(t, res, 0, 0, int64(len(lines)), 0)
}
