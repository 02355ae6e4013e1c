package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// TestTable_TypesOfOthers: a column of any type takes what its text input does;
// what it does not take is rejected, in Postgres' own words where only Postgres
// can know.
func TestTable_TypesOfOthers(t *testing.T) {
	url := testpg.New(t)
	for _, c := range []struct {
		decl        string
		good, stand []string // values, and how they stand in the column
		bad         []string
	}{
		{"boolean", []string{`true`, `0`, `"false"`}, []string{"true", "false", "false"}, []string{`"maybe"`, `2`, `1.5`}},
		{"smallint", []string{`1`, `"-32768"`, `1e3`}, []string{"1", "-32768", "1000"}, []string{`32768`, `1.5`, `"x"`, `true`}},
		{"integer", []string{`2147483647`, `2.0`}, []string{"2147483647", "2"}, []string{`2147483648`, `"1.0"`}},
		{"bigint", []string{`9223372036854775807`}, []string{"9223372036854775807"}, []string{`9223372036854775808`}},
		{"numeric", []string{`1.50`, `"7.000"`, `123456789012345678901234567890`}, []string{"1.50", "7.000", "123456789012345678901234567890"}, []string{`"NaN "`, `1e200000`}},
		{"numeric(6,2)", []string{`1.5`, `1234.567`}, []string{"1.50", "1234.57"}, []string{`12345`}},
		{"real", []string{`1.5`}, []string{"1.5"}, []string{`1e39`, `1e-50`, `"x"`}},
		{"double precision", []string{`1e308`, `-0.0`, `"2.5"`}, []string{"1e+308", "-0", "2.5"}, []string{`1e309`, `1e-400`}},
		{"text", []string{`"a\\b\tc\nd\re"`, `"\\."`, `"\\N"`, `7`, `true`, `{"a": 1}`}, []string{"a\\b\tc\nd\re", `\.`, `\N`, "7", "true", `{"a": 1}`}, []string{`"a\u0000b"`}},
		{"varchar(3)", []string{`"日本語"`, `123`}, []string{"日本語", "123"}, []string{`"abcd"`, `"日本語!"`}},
		{"name", []string{`"` + strings.Repeat("é", 31) + `\u0061"`, `123`}, []string{strings.Repeat("é", 31) + "a", "123"}, []string{`"` + strings.Repeat("é", 32) + `"`}},
		{`"char"`, []string{`"a"`, `1`}, []string{"a", "1"}, []string{`"ab"`, `"é"`}},
		{"char(3)", []string{`"ab"`}, []string{"ab"}, []string{`"abcd"`}},
		{"jsonb", []string{`{"a":[1,"x",null]}`, `"text"`, `1.50`}, []string{`{"a": [1, "x", null]}`, `"text"`, `1.50`}, []string{`{"a":"\u0000"}`, `[1e200000]`}},
		{"json", []string{`{"a":1,  "a":2}`}, []string{`{"a":1,  "a":2}`}, []string{`"\u0000"`}},
		{"uuid", []string{`"A0EEBC999C0B4EF8BB6D6BB9BD380A11"`, `"{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a12}"`}, []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"}, []string{`"a0ee"`, `7`}},
		{"mood", []string{`"it's"`, `"so\\so"`}, []string{"it's", `so\so`}, []string{`"bad"`}},
		{"temper", []string{`"it's"`, `"so\\so"`}, []string{"it's", `so\so`}, []string{`"bad"`}},
		{"date", []string{`"2024-02-29"`, `"March 1, 2024"`}, []string{"2024-02-29", "2024-03-01"}, []string{`"2023-02-29"`, `7.5`}},
		{"timestamptz", []string{`"2024-01-01T12:00:00+02:00"`}, []string{"2024-01-01 10:00:00+00"}, []string{`"yesterdayish"`}},
		{"interval", []string{`"90 minutes"`}, []string{"01:30:00"}, []string{`"x"`}},
		{"inet", []string{`"10.0.0.1/8"`}, []string{"10.0.0.1/8"}, []string{`"10.0.0.256"`}},
		{"bytea", []string{`"\\x00ff"`}, []string{`\x00ff`}, []string{`"\\xf"`}},
		{"integer[]", []string{`[1, 2,null]`, `"{3,4}"`, `[[1],[2]]`, `[]`}, []string{"{1,2,NULL}", "{3,4}", "{{1},{2}}", "{}"}, []string{`["x"]`, `7`}},
		{"text[]", []string{`["a\"b\\c", "", "null", true, {"k": "v"}]`}, []string{`{"a\"b\\c","","null",true,"{\"k\": \"v\"}"}`}, []string{`"a"`}},
		{"positive", []string{`5`}, []string{"5"}, []string{`0`, `"x"`}},
		{"point", []string{`"(1,2)"`}, []string{"(1,2)"}, []string{`"(1)"`}},
		{"xml", []string{`"<a/>"`}, []string{"<a/>"}, []string{`"<a>"`}},
	} {
		t.Run(c.decl, func(t *testing.T) {
			db := connectEmpty(t, url)
			db.Exec(t, `CREATE TYPE mood AS ENUM ('it''s', 'so\so')`)
			db.Exec(t, "CREATE DOMAIN temper AS mood")
			db.Exec(t, "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, v "+c.decl+", w text)")
			db.Exec(t, "SET timezone = UTC")
			r := sinktest.Begin(t, db)
			var lines, want []string
			for i, v := range c.good {
				lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%s}`, i, v))
				want = append(want, fmt.Sprintf("%d|%s", i, c.stand[i]))
			}
			for i, v := range c.bad {
				lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%s}`, 100+i, v))
			}
			res := r.Flush(lines...)
			if res.Total().Inserted != int64(len(c.good)) {
				t.Errorf("%+v", res)
			}
			sinktest.Expect(t, db, "SELECT id, v::text FROM t ORDER BY id", want...)
			rejects := db.Query(t, "SELECT reason FROM weir_rejects")
			if len(rejects) != len(c.bad) {
				t.Errorf("%d lines were rejected, want %d: %v", len(rejects), len(c.bad), rejects)
			}
			for _, row := range rejects {
				if reason := row[0].(string); strings.HasPrefix(reason, "database:") && !strings.Contains(reason, "(SQLSTATE ") {
					t.Errorf("no SQLSTATE in %q", reason)
				}
			}
			sinktest.Counts(t, r.Flush(lines[:len(c.good)]...), 0, 0, int64(len(c.good)), 0)
			r.Flush(`{"id":0,"w":"sparse"}`, `{"id":1,"v":null}`)
			sinktest.Expect(t, db, "SELECT v::text, w FROM t WHERE id = 0", c.stand[0]+"|sparse")
		})
	}
}

// TestTable_KeysOfManySpellings: two spellings of one key are one row, in one
// batch too.
func TestTable_KeysOfManySpellings(t *testing.T) {
	url := testpg.New(t)
	for decl, spellings := range map[string][]string{
		"uuid":             {`"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, `"a0eebc999c0b4ef8bb6d6bb9bd380a11"`},
		"timestamptz":      {`"2024-01-01T12:00:00Z"`, `"2024-01-01T14:00:00.000+02:00"`, `"2024-01-01T12:00:00.0000005Z"`},
		"numeric":          {`10000000000000000`, `10000000000000000.0`, `"10000000000000000.00"`, `1e16`},
		"double precision": {`9007199254740992`, `9007199254740993`, `9007199254740992.0`, `"9007199254740992"`},
		"bigint":           {`1`, `"1"`, `1.0`},
		"char(5)":          {`"ab"`, `"ab  "`},
		"boolean":          {`true`, `1`, `"true"`},
		"temper":           {`"good"`, `"g\u006fod"`},
		"text":             {`"` + strings.Repeat(`\u6f22`, 450) + `"`, `"` + strings.Repeat("漢", 450) + `"`}, // maxKey is of its text
	} {
		t.Run(decl, func(t *testing.T) {
			db := connectEmpty(t, url)
			db.Exec(t, "CREATE TYPE mood AS ENUM ('good')")
			db.Exec(t, "CREATE DOMAIN temper AS mood")
			db.Exec(t, "CREATE TABLE t (id "+decl+" PRIMARY KEY, n integer, m integer)")
			r := sinktest.Begin(t, db)
			var lines []string
			for i, s := range spellings {
				lines = append(lines, fmt.Sprintf(`{"id":%s,"%s":%d}`, s, []string{"n", "m"}[i%2], i))
			}
			sinktest.Counts(t, r.Flush(lines...), 1, 0, 0, 0)
			sinktest.Counts(t, r.Flush(lines...), 0, 0, 1, 0)
			sinktest.Expect(t, db, "SELECT count(*), (SELECT count(*) FROM weir_rejects) FROM t", "1|0")
		})
	}
	for _, decl := range []string{"inet", "integer[]", "jsonb", "text COLLATE nocase", "numeric(5,2)", "real", "timestamptz(0)"} {
		db := connectEmpty(t, url)
		db.Exec(t, "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
		db.Exec(t, "CREATE TABLE t (id "+decl+" PRIMARY KEY)")
		if _, err := sinktest.TryBegin(t, db); err == nil || !strings.Contains(err.Error(), "could not tell which") {
			t.Errorf("a key that is %s was taken: %v", decl, err)
		}
	}
}

func TestTable_IdentityDefaultsAndTriggers(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, `CREATE TABLE t (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, m bigint GENERATED BY DEFAULT AS IDENTITY, id text NOT NULL UNIQUE,
		a text DEFAULT 'none', s serial, twice text GENERATED ALWAYS AS (a || a) STORED, seen integer DEFAULT 0)`)
	db.Exec(t, "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.seen = OLD.seen + 1; RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER see BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION see()")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":"x","n":99}`, `{"id":"y","a":"b","m":7}`)
	r.Flush(`{"id":"x","a":"c"}`, `{"id":"y","a":"b"}`) // y stays: no trigger, no number is used up
	r.Flush(`{"id":"z"}`)
	sinktest.Expect(t, db, "SELECT id, n, m, a, s, twice, seen FROM t ORDER BY id", "x|1|1|c|1|cc|1", "y|2|7|b|2|bb|0", "z|3|2|none|3|nonenone|0")
}

// TestTable_DefaultsInAnyBatches: a column that no message names has its default, that of
// its type too, also where another row of the batch names it or a late delete took it.
func TestTable_DefaultsInAnyBatches(t *testing.T) {
	for size := 1; size <= 6; size++ {
		db := connect(t, testpg.New(t))
		db.Exec(t, "CREATE DOMAIN word AS text DEFAULT 'of its type'")
		db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, v integer, d word, n word DEFAULT NULL, s serial, m bigint GENERATED BY DEFAULT AS IDENTITY, e integer DEFAULT 1 + 1, j jsonb DEFAULT '{}')")
		r := sinktest.Begin(t, db, func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope })
		for chunk := range slices.Chunk([]string{
			`{"id":1,"v":9}`, `{"id":2,"v":9,"d":"x","n":"x","e":7,"j":[1]}`, `{"id":3,"v":3,"e":7}`,
			`{"id":3,"v":9,"n":"y"}`, `{"id":3,"v":4,"d":"old","s":70,"m":70,"j":[1]}`, `{"id":3,"v":4,"op":"delete"}`,
		}, size) {
			r.Flush(chunk...)
		}
		sinktest.Expect(t, db, "SELECT id, d, n, e, j::text, s < 70, m < 70 FROM t ORDER BY id", "1|of its type|NULL|2|{}|true|true", "2|x|x|7|[1]|true|true", "3|of its type|y|2|{}|true|true")
	}
}

// TestTable_InsertTriggers: what a trigger makes of a new row stays, whichever way
// the row goes in.
func TestTable_InsertTriggers(t *testing.T) {
	for trigger, updated := range map[string]string{"BEFORE INSERT ON t": "s", "BEFORE INSERT OR UPDATE ON t": "S", "BEFORE INSERT ON part": "s"} {
		t.Run(trigger, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.Exec(t, "CREATE TABLE t (id text PRIMARY KEY, a text CHECK (a <> 'NO')) PARTITION BY LIST (id)")
			db.Exec(t, "CREATE TABLE part PARTITION OF t DEFAULT")
			db.Exec(t, "CREATE FUNCTION up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a = upper(NEW.a); RETURN NEW; END $$")
			db.Exec(t, "CREATE TRIGGER up "+trigger+" FOR EACH ROW EXECUTE FUNCTION up()")
			r := sinktest.Begin(t, db)
			sinktest.Counts(t, r.Flush(`{"id":"v","a":"q"}`), 1, 0, 0, 0)
			sinktest.Counts(t, r.Flush(`{"id":"w","a":"q"}`), 1, 0, 0, 0)
			sinktest.Counts(t, r.Flush(`{"id":"v","a":"r"}`, `{"id":"w","op":"delete"}`, `{"id":"x","a":"q"}`), 1, 1, 0, 1)
			sinktest.Counts(t, r.Flush(`{"id":"v","a":"s"}`, `{"id":"y","a":"q"}`, `{"id":"z","a":"no"}`), 1, 1, 0, 0)
			sinktest.Expect(t, db, "SELECT id, a FROM t ORDER BY id", "v|"+updated, "x|Q", "y|Q")
		})
	}
}

// TestTable_GeneratedColumns: a row that is deleted and comes back as it was stays.
func TestTable_GeneratedColumns(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text, twice text GENERATED ALWAYS AS (a || a) STORED)")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	sinktest.Counts(t, r.Flush(`{"id":1,"op":"delete"}`, `{"id":1,"a":"x"}`), 0, 0, 1, 0)
}

// TestTable_CompositeTypes: a value is there though parts of it are NULL, or all.
func TestTable_CompositeTypes(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TYPE pair AS (x integer, y text)")
	db.Exec(t, "CREATE DOMAIN pairs AS pair")
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a pair, b pairs DEFAULT '(7,d)')")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"(1,x)","b":"(1,x)"}`, `{"id":2}`)
	for _, v := range []string{"(2,)", "(,y)", "(,)", "(3,y)"} {
		for _, more := range []string{`{"id":2}`, `{"id":2,"a":null,"b":null}`} {
			line := fmt.Sprintf(`{"id":1,"a":%q,"b":%[1]q}`, v)
			r.Flush(`{"id":1,"a":"(0,z)","b":"(0,z)"}`, more)
			sinktest.Counts(t, r.Flush(line, more), 0, 1, 1, 0)
			sinktest.Counts(t, r.Flush(line, more), 0, 0, 2, 0)
			sinktest.Expect(t, db, "SELECT a, b FROM t WHERE id = 1", v+"|"+v)
			r.Flush(fmt.Sprintf(`{"id":3,"a":%q,"b":%[1]q}`, v), more)
			sinktest.Expect(t, db, "SELECT a, b FROM t WHERE id = 3", v+"|"+v)
			db.Exec(t, "DELETE FROM t WHERE id = 3")
		}
	}
}

func TestTable_SchemasPartitionsAndNames(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, `CREATE SCHEMA "Feeds of ""mine"""`)
	db.Exec(t, `CREATE TABLE "Feeds of ""mine"""."a.b" (id integer, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)`)
	db.Exec(t, `CREATE TABLE p1 PARTITION OF "Feeds of ""mine"""."a.b" FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')`)
	db.Exec(t, `CREATE TABLE p2 PARTITION OF "Feeds of ""mine"""."a.b" FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')`)
	r := sinktest.BeginTable(t, db, `"Feeds of ""mine""".`+`"a.b"`, "id", "day")
	sinktest.Counts(t, r.Flush(`{"id":1,"day":"2024-05-05","v":"x"}`, `{"id":1,"day":"2025-05-05","v":"y"}`, `{"id":1,"day":"2030-01-01","v":"no partition"}`), 2, 0, 0, 0)
	sinktest.Counts(t, r.Flush(`{"id":1,"day":"2024-05-05","v":"x"}`, `{"id":1,"day":"2025-05-05","v":"z"}`), 0, 1, 1, 0)
	sinktest.Expect(t, db, `SELECT id, day, v FROM "Feeds of ""mine"""."a.b" ORDER BY day`, "1|2024-05-05|x", "1|2025-05-05|z")
	sinktest.Expect(t, db, "SELECT line, substr(reason, 1, 28) FROM weir_rejects", `3|database: no partition of re`)
	r.End()

	r = sinktest.BeginTable(t, db, `"Feeds of ""mine""".made`, "id")
	r.Flush(`{"id":1,"v":"x"}`)
	sinktest.Expect(t, db, `SELECT id, v FROM "Feeds of ""mine""".made`, "1|x")
	r.End()

	for _, name := range []string{"c", "s", "t"} { // as statements call what they read
		r = sinktest.BeginTable(t, db, name, "id")
		sinktest.Counts(t, r.Flush(`{"id":1,"v":"x"}`, `{"id":2,"op":"delete"}`), 1, 0, 1, 0)
		sinktest.Counts(t, r.Flush(`{"id":1,"v":"y"}`), 0, 1, 0, 0)
		sinktest.Expect(t, db, "SELECT id, v FROM "+name, "1|y")
		r.End()
		db.Exec(t, "DROP TABLE "+name)
	}

	long := strings.Repeat("é", 32) // 64 bytes
	for name, word := range map[string]string{long: "63", "no.such": "CREATE SCHEMA", "a.b.c": "3 parts", `"a`: "without an end", "pg_class": "Postgres' own", "weir_x": "belong to weir"} {
		s := db.Open(t)
		if _, err := sink.Table(t.Context(), s.Tables, name, []string{"id"}); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the table %q was answered with %v", name, err)
		}
		s.Close()
	}
	r = sinktest.Begin(t, db)
	r.Flush(fmt.Sprintf(`{"id":1,%q:1}`, long), fmt.Sprintf(`{"id":2,%q:1}`, long[:62]), fmt.Sprintf(`{"id":%q}`, strings.Repeat("k", 3000)))
	sinktest.Expect(t, db, "SELECT id FROM t", "2")
	sinktest.Expect(t, db, "SELECT line, split_part(reason, ':', 1) FROM weir_rejects WHERE line IN (1, 3) AND reason !~ 'partition' ORDER BY 1", "1|name", "3|key")
}

// TestFlush_Synchronous reads the level back inside the transactions.
func TestFlush_Synchronous(t *testing.T) {
	for level, commit := range map[sink.Level]string{sink.Off: "off", sink.Normal: "off", sink.Full: "on", sink.Extra: "remote_apply"} {
		db := connect(t, testpg.New(t))
		db.opt.Level = level
		db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, level text)")
		db.Exec(t, "CREATE FUNCTION level() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.level = current_setting('synchronous_commit'); RETURN NEW; END $$")
		db.Exec(t, "CREATE TRIGGER level BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION level()")
		r := sinktest.Begin(t, db)
		r.Flush(`{"id":1}`)
		sinktest.Expect(t, db, "SELECT level FROM t", commit)
	}
}

// TestFlush_LeavesRowsThatStay looks at what Postgres counts.
func TestFlush_LeavesRowsThatStay(t *testing.T) {
	testcheck.Only(t)
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	line := func(id int, value string) string {
		return fmt.Sprintf(`{"id":%d,"a":%q,"r":%d.25,"j":{"k":[%d]},"n":%d0000000000000000000.5}`, id, value, id, id, id+1)
	}
	var lines []string
	for i := range 2000 {
		lines = append(lines, line(i, "x"))
	}
	r.Flush(lines...)
	r.Flush(lines...) // the staging table is made
	r.End()
	db.Exec(t, "VACUUM ANALYZE t")
	r = sinktest.Begin(t, db)
	r.Flush(lines[0])
	stats := func() string {
		db.Exec(t, "SELECT pg_stat_clear_snapshot()")
		row := db.Query(t, "SELECT n_tup_upd, n_dead_tup, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 't'")[0]
		return fmt.Sprint(row, db.one(t, "SELECT count(*) FROM t WHERE xmax <> 0"))
	}
	before := stats()
	db.Logged(t)
	sinktest.Counts(t, r.Flush(lines...), 0, 0, 2000, 0)
	sinktest.Counts(t, r.Flush(lines...), 0, 0, 2000, 0)
	if n := db.Logged(t); n > 64<<10 {
		t.Errorf("rows that stay were %d bytes of log", n)
	}
	r.End() // its session reports what it did at the latest now
	if after := stats(); after != before {
		t.Errorf("rows that stay: updated, dead, hot and locked were %s and are %s", before, after)
	}
	r = sinktest.Begin(t, db)
	var some []string
	for i := range 2000 {
		if i%20 == 0 {
			some = append(some, line(i, "y"))
		}
	}
	sinktest.Counts(t, r.Flush(some...), 0, 100, 0, 0)
	r.End()
	hot := ""
	for end := time.Now().Add(time.Minute); hot != "100|100" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		db.Exec(t, "SELECT pg_stat_clear_snapshot()")
		hot = db.one(t, "SELECT n_tup_upd || '|' || n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 't'")
	}
	if hot != "100|100" {
		t.Errorf("updates, and those that were HOT: %s", hot)
	}
}

// TestEncodings: a database whose encoding lacks characters is refused; one that takes any bytes is not.
func TestEncodings(t *testing.T) {
	testcheck.Only(t)
	s := testpg.Start(t)
	latin := connect(t, s.Database(t, "ENCODING 'LATIN1' LOCALE 'C'"))
	if _, err := postgres.Open(t.Context(), latin.url, latin.options(t)); err == nil || !strings.Contains(err.Error(), "encoding LATIN1") {
		t.Errorf("LATIN1 was answered with %v", err)
	}
	db := connect(t, s.Database(t, "ENCODING 'SQL_ASCII' LOCALE 'C'"))
	r := sinktest.BeginJob(t, db, "日本 😀")
	r.Flush(`{"id":1,"a":"Zürich"}`, `{"id":2,"a":"日本","é":1}`, "bad 日本")
	sinktest.Expect(t, db, `SELECT id, a, "é" FROM t ORDER BY id`, "1|Zürich|NULL", "2|日本|1")
	sinktest.Expect(t, db, "SELECT raw FROM weir_rejects", "bad 日本")
	r.End()
	if again := sinktest.BeginJob(t, db, "日本 😀"); again.Checkpoint().Line != 3 {
		t.Errorf("the next run gets %+v", again.Checkpoint())
	}
}

// TestOpen_WithoutTemporaryTables: a role that may make none ends the run, which says what to grant.
func TestOpen_WithoutTemporaryTables(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.as(t, "app")
	name := db.one(t, "SELECT current_database()")
	db.Exec(t, "REVOKE TEMP ON DATABASE "+name+" FROM PUBLIC")
	_, err := postgres.Open(t.Context(), db.weir, db.options(t))
	if e, ok := errors.AsType[*sink.Error](err); !ok || e.Class != sink.Permanent || !strings.Contains(err.Error(), `GRANT TEMP ON DATABASE "`+name+`" TO "app"`) {
		t.Errorf("it was answered with %v", err)
	}
	db.Exec(t, "GRANT TEMP ON DATABASE "+name+" TO app")
	sinktest.Begin(t, db).Flush(`{"id":1}`)
}

// TestValues_ComeBack: texts of every kind of character, alone, in arrays and in
// JSON, are the same when they are read.
func TestValues_ComeBack(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, s text, a text[], j jsonb)")
	rnd := rand.New(rand.NewPCG(1, 1))
	alphabet := []rune("aZ09 \\\"'{},.;:$%N\n\r\t\b\f\x01\x1f\x7f/é日😀\u2028\uFFFE\uFFFD")
	r := sinktest.Begin(t, db)
	var texts []string
	for i := range 3000 {
		n := rnd.IntN(8)
		text := make([]rune, n)
		for k := range text {
			text[k] = alphabet[rnd.IntN(len(alphabet))]
		}
		texts = append(texts, string(text))
		s, err := json.Marshal(string(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Fold(fmt.Sprintf(`{"id":%d,"s":%s,"a":[%[2]s, [%[2]s]],"j":{"k":%[2]s}}`, i, s))
		if i%2 == 0 { // arrays of one depth
			r.Fold(fmt.Sprintf(`{"id":%d,"a":[%s, %[2]s ]}`, i, s))
		} else {
			r.Fold(fmt.Sprintf(`{"id":%d,"a":[[%s],[%[2]s]]}`, i, s))
		}
	}
	r.Flush()
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
	for i, row := range db.Query(t, "SELECT s, coalesce(a[1], a[1][1]), coalesce(a[2], a[2][1]), j ->> 'k' FROM t ORDER BY id") {
		for _, got := range row {
			if got != texts[i] {
				t.Errorf("row %d: %q came back as %q", i, texts[i], got)
			}
		}
	}
}

// TestTable_FillFactor: a table that weir made is weir's with whatever fill factor; without one somebody else made it again.
func TestTable_FillFactor(t *testing.T) {
	for change, made := range map[string]bool{"SET (fillfactor = 50)": true, "RESET (fillfactor)": false} {
		db := connect(t, testpg.New(t))
		r := sinktest.Begin(t, db)
		r.Flush(`{"id":1,"a":1}`)
		db.Exec(t, "ALTER TABLE t "+change)
		if found, err := sink.Table(t.Context(), r.Sink.Tables, "t", []string{"id"}); err != nil || found.Made != made {
			t.Errorf("after %s it is weir's: %v, %v", change, found.Made, err)
		}
	}
}
