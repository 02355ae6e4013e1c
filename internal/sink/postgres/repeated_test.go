package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// TestFlush_Repeated: rows that the table has are found before anything is staged; the flush's other rows are written
// normally.
func TestFlush_Repeated(t *testing.T) {
	server := testpg.Start(t, "track_activity_query_size=1MB")
	for name, ddl := range map[string]string{
		"made":       "",
		"its types":  "CREATE TABLE t (id text PRIMARY KEY, n bigint, a text, b boolean, c text, r double precision, j jsonb, s varchar(20) DEFAULT 'none')",
		"collated":   `CREATE TABLE t (id text COLLATE "C" PRIMARY KEY, n bigint, a text, b boolean, c text COLLATE "C", r double precision, j jsonb, s text)`,
		"partitions": "CREATE TABLE t (id text PRIMARY KEY, n bigint, a text, b boolean, c text, r double precision, j jsonb, s text) PARTITION BY HASH (id); CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
	} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, server.Database(t))
			if ddl != "" {
				db.Exec(t, ddl)
			}
			r := sinktest.Begin(t, db)
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
			lines[11] = fmt.Sprintf(`{%s,"c":null}`, key(11))                     // set to NULL
			lines[12] = fmt.Sprintf(`{%s,"op":"delete"}`, key(12))                // deleted
			lines[13] = fmt.Sprintf(`{%s,"a":null,"c":"z13","r":13.50}`, key(13)) // another text, but the same value
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

// TestFlush_RepeatedWithInheritance: an inheriting table may have the parent's keys once more, with other values.
func TestFlush_RepeatedWithInheritance(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.Exec(t, "CREATE TABLE below () INHERITS (t)")
	r, lines := sinktest.Begin(t, db), plainRows(5000)
	sinktest.Counts(t, r.Flush(lines...), 5000, 0, 0, 0)
	sinktest.Counts(t, r.Flush(lines...), 0, 0, 5000, 0)
	// Otherwise a range could end between two rows of one key.
	db.Exec(t, "INSERT INTO below SELECT id, CASE WHEN id % 10 = 5 THEN 'other' ELSE a END FROM ONLY t WHERE id > 0")
	db.Exec(t, "UPDATE ONLY t SET a = 'other' WHERE id % 10 = 0")
	sinktest.Counts(t, r.Flush(lines...), 0, 1000, 4000, 0)
	sinktest.Expect(t, db, "SELECT count(*), count(*) FILTER (WHERE a = 'x' || id) FROM t", "9999|9999")
}

// TestFlush_ReadAgain: the first flush of a reread source is also compared with the table.
func TestFlush_ReadAgain(t *testing.T) {
	db := connect(t, testpg.Start(t, "track_activity_query_size=1MB").Database(t))
	lines := plainRows(5001)
	r := sinktest.Begin(t, db)
	r.Flush(lines...)
	r.End()
	lines = slices.Delete(lines, 17, 18) // a row between the reread ones
	again(t, sinktest.Begin(t, db), len(lines), lines)
	if last := db.lastFlush(t); strings.Contains(last, "MERGE") {
		t.Errorf("rows that are all there were followed by %s", last)
	}
}

// TestFlush_RepeatedAmongOthers: if rows lie among others, or have another order than the database's, reading by ranges
// is tried once and then stopped.
func TestFlush_RepeatedAmongOthers(t *testing.T) {
	testcheck.Only(t)
	server := testpg.Start(t, "track_activity_query_size=1MB")
	for name, c := range map[string]struct {
		kind string
		step int
		id   func(i int) string
	}{
		"others":        {"bigint", 4, func(i int) string { return fmt.Sprint(i) }},
		"another order": {`text COLLATE "und-x-icu"`, 1, func(i int) string { return fmt.Sprintf(`"%c%d"`, "aBcDeF"[i%6], i) }},
	} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, server.Database(t))
			db.Exec(t, "CREATE TABLE t (id "+c.kind+" PRIMARY KEY, a text)")
			var all, some []string
			for i := range 5000 * c.step {
				line := fmt.Sprintf(`{"id":%s,"a":"x%d"}`, c.id(i), i)
				if all = append(all, line); i%c.step == 0 {
					some = append(some, line)
				}
			}
			if c.step == 1 { // several ranges
				for i := 5000; i < 20000; i++ {
					all = append(all, fmt.Sprintf(`{"id":%s,"a":"x%d"}`, c.id(i), i))
				}
				some = all
			}
			r := sinktest.Begin(t, db)
			r.Flush(all...)
			rows := int64(len(some))
			sinktest.Counts(t, r.Flush(some...), 0, 0, rows, 0)
			for i, look := range []bool{true, false, false} {
				sinktest.Counts(t, r.Flush(some...), 0, 0, rows, 0)
				if last := db.lastFlush(t); strings.Contains(last, "BEGIN") == look {
					t.Errorf("flush %d ended with %.300s", i, last)
				}
			}
		})
	}
}

// TestFlush_RepeatedWithLongTexts: if few rows have a column with long texts, all of these would be read each time.
func TestFlush_RepeatedWithLongTexts(t *testing.T) {
	testcheck.Only(t)
	db := connect(t, testpg.Start(t, "track_activity_query_size=64kB").Database(t))
	db.Exec(t, "CREATE TABLE t (id bigint PRIMARY KEY, a text, long text)")
	lines := plainRows(5000)
	r := sinktest.Begin(t, db)
	r.Flush(lines...)
	db.Exec(t, "UPDATE t SET long = repeat('long', 2000)")
	r.Flush(lines...) // repeats existing rows
	for i, look := range []bool{true, true, false} {
		if i > 0 {
			lines[7] = fmt.Sprintf(`{"id":7,"long":"%d"}`, i)
		}
		r.Flush(lines...)
		if last := db.lastFlush(t); strings.Contains(last, "BEGIN") == look {
			t.Errorf("flush %d ended with %.300s", i, last)
		}
	}
}

func plainRows(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"a":"x%[1]d"}`, i))
	}
	return lines
}

// again flushes rows as the first ones of a reread source.
func again(t *testing.T, r *sinktest.Run, unchanged int, lines []string) {
	t.Helper()
	r.Fold(lines...)
	f := r.Seal()
	f.Lanes[0].Restart = true
	res, err := r.Send(f)
	testcheck.NoError(t, err)
	sinktest.Counts(t, res, 0, 0, int64(unchanged), 0)
}
