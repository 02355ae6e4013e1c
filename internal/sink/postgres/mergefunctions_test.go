package postgres_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// withMerge sets the merge functions of columns.
func withMerge(functions map[string]merge.Function) func(*fold.Options) {
	return func(o *fold.Options) { o.Merge = functions }
}

// mergeColumns are columns created by others, by name: a type, a function and values that it accepts.
var mergeColumns = map[string]struct {
	decl   string
	by     merge.Function
	values []string
}{
	"counts":  {"integer DEFAULT 0", merge.Sum, []string{"1", "-7", "0", `"12"`, "1e3", "2147480"}},
	"total":   {"bigint", merge.Sum, []string{"1", "-7", "9007199254740993", "-9007199254740993"}},
	"exact":   {"numeric", merge.Sum, []string{"0.1", "-0.10", "1e30", `"2.50"`, "123456789012345678901234567890.5"}},
	"rounded": {"numeric(12,3)", merge.Sum, []string{"0.125", "-1.5", "100", "0"}},
	"double":  {"double precision", merge.Sum, []string{"0.5", "-0.25", "1e10", "0"}},
	"single":  {"real", merge.Sum, []string{"0.5", "-0.25", "1024"}},
	"digits":  {"text", merge.Sum, []string{"0.1", "-2", "1e25", "123456789012345678901234567890"}},
	"shorter": {"varchar(40)", merge.Sum, []string{"0.1", "-2", "7"}},
	"small":   {"smallint", merge.Max, []string{"1", "-1", "300"}},
	"low":     {"numeric", merge.Min, []string{"1.50", "1.5", "-0.001", "1e3"}},
	"high":    {"double precision", merge.Max, []string{"1.5", "-1e300", "0.1"}},
	"word":    {"text", merge.Max, []string{`"pear"`, `"Zürich"`, `"10"`, "9", `"+9.0"`, `"007"`, `"1e1"`, `""`, "true"}},
	"newest": {"text", merge.Max, []string{`"2026-01-01T00:00:00Z"`, `"2026-01-01T00:00:00.5Z"`, `"2026-01-01 01:00:00.25+01:00"`, `"2025-12-31t23:59:60.4z"`, `"2026-01-01T00:00:00.50000000000000000001Z"`,
		`"2026-01-01T00:00:00.7"`, `"2024-02-29T12:00:00Z"`}},
	"oldest": {"text", merge.Min, []string{`"2026-01-01T00:00:00Z"`, `"2026-01-01T00:00:00-23:59"`, `"2026-01-01T00:00:00.9+23:59"`, `"2025-02-29T00:00:00Z"`, `"2026-13-01T00:00:00Z"`, `"2026-00-10T00:00:00Z"`,
		`"2026-01-00T00:00:00Z"`, `"2026-01-32T00:00:00Z"`, `"0000-01-01T00:00:00Z"`, `"2026-01-01T24:00:00Z"`, `"2026-01-01T00:00:00+24:00"`, `"2026-01-01T00:00:00+01"`, `"2026-01-01T00:00:61Z"`, `"2026-01-01"`,
		`"9999-12-31T23:59:60Z"`, `"0001-01-01T00:00:00+23:00"`, `"x"`}},
	"least":    {`varchar(20) COLLATE "C"`, merge.Min, []string{`"pear"`, `"ä"`, `"10"`, "9", "-1e3", `"-"`}},
	"padded":   {"char(8)", merge.Min, []string{`"pear"`, `"apple"`, `"10"`, `"9"`}},
	"loose":    {`text COLLATE "loose"`, merge.Max, []string{`"Pear"`, `"pear"`, `"PEAR"`, `"10"`}},
	"since":    {"timestamp", merge.Min, []string{`"2026-01-01T00:00:00Z"`, `"2026-01-01 00:00:00.5"`, `"2025-12-31T23:59:59"`}},
	"until":    {"timestamptz", merge.Max, []string{`"2026-01-01T00:00:00Z"`, `"2026-01-01T01:00:00+02:00"`, `"2025-12-31T23:30:00-01:00"`}},
	"day":      {"date", merge.Max, []string{`"2026-01-01"`, `"2025-06-30"`, `"2026-02-01"`}},
	"mood":     {"mood", merge.Max, []string{`"sad"`, `"ok"`, `"happy"`}},
	"uuid":     {"uuid", merge.Min, []string{`"00000000-0000-0000-0000-000000000001"`, `"0A000000-0000-0000-0000-000000000001"`, `"{f0000000-0000-0000-0000-000000000001}"`}},
	"ever":     {"boolean", merge.Max, []string{"true", "false", `"true"`}},
	"profile":  {"jsonb DEFAULT '{}'", merge.Patch, nil},
	"ordered":  {"json", merge.Patch, nil},
	"document": {"text", merge.Patch, nil},
	"first":    {"text DEFAULT 'd'", merge.First, []string{`"x"`, `"y"`}},
	"earliest": {"integer", merge.First, []string{"1", "2"}},
	"last":     {"text", merge.Last, []string{`"x"`, `"y"`}},
}

// randomPatch returns an object, or an array.
func randomPatch(rnd *rand.Rand, depth int) string {
	if rnd.IntN(12) == 0 {
		return `[1,{"a":null}]`
	}
	var all []string
	for _, name := range []string{"x", "é\"", "z"} {
		if rnd.IntN(2) == 0 {
			value := []string{"null", "null", "1", `"t u"`, `[null]`, "2.50"}[rnd.IntN(6)]
			if depth > 0 && rnd.IntN(2) == 0 {
				value = randomPatch(rnd, depth-1)
			}
			all = append(all, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

// TestMergeFunctions_ColumnsOfManyTypes: random messages in random batches have the same result as all of them in one
// batch.
func TestMergeFunctions_ColumnsOfManyTypes(t *testing.T) {
	url := testpg.New(t)
	pool := testpg.Pool(t, url, "transaction")
	functions := map[string]merge.Function{}
	names := slices.Sorted(maps.Keys(mergeColumns))
	create := "CREATE TABLE t (id integer PRIMARY KEY"
	for _, name := range names {
		functions[name] = mergeColumns[name].by
		create += ", " + name + " " + mergeColumns[name].decl
	}
	sinktest.Seeds(t, testcheck.Rounds(12, 200), func(t *testing.T, rnd *rand.Rand) {
		db := connectEmpty(t, url)
		db.Exec(t, `CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
			CREATE COLLATION "loose" (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`)
		db.Exec(t, create+")")
		switch rnd.IntN(4) {
		case 0:
			db.weir, db.pooled = pool, true
		case 1:
			db.Exec(t, "CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER same BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION same()")
		}
		r := sinktest.Begin(t, db, withMerge(functions))
		var all []string
		for range 1 + rnd.IntN(12) {
			few := names
			if rnd.IntN(3) == 0 {
				few = []string{names[rnd.IntN(len(names))], names[rnd.IntN(len(names))]}
			}
			for range 1 + rnd.IntN(12) {
				line := fmt.Sprintf(`{"id":%d`, rnd.IntN(5))
				if rnd.IntN(12) == 0 {
					line += `,"op":"delete"`
				}
				for _, name := range few {
					c := mergeColumns[name]
					switch {
					case rnd.IntN(2) == 0:
					case rnd.IntN(9) == 0:
						line += fmt.Sprintf(",%q:null", name)
					case c.values == nil:
						line += fmt.Sprintf(",%q:%s", name, randomPatch(rnd, 2))
					default:
						line += fmt.Sprintf(",%q:%s", name, c.values[rnd.IntN(len(c.values))])
					}
				}
				all = append(all, line+"}")
				r.Fold(line + "}")
			}
			r.Flush()
		}
		r.End()
		sinktest.Expect(t, db, "SELECT id, line, reason FROM weir_rejects")
		comparesEqual(t, db, functions, all)
	})
}

// comparesEqual checks that the table t is the fold of lines.
func comparesEqual(t *testing.T, db *database, functions map[string]merge.Function, lines []string) {
	t.Helper()
	r := sinktest.BeginJob(t, db, "verify", withMerge(functions))
	r.Fold(lines...)
	b := r.Seal().Batches[0]
	b.MakeAbsolute()
	d, err := postgres.Inspect(t.Context(), db.url, db.options(t))
	testcheck.NoError(t, err)
	defer func() { testcheck.NoError(t, d.Close()) }()
	testcheck.NoError(t, d.Compare(t.Context(), b, func(diff sink.Difference) bool {
		t.Errorf("row %s: %d in column %s, the database has %s", diff.Row.Key, diff.Kind, b.Table.Columns[diff.Column].Name, diff.Have)
		return true
	}))
	if t.Failed() {
		t.Log(strings.Join(lines, "\n"))
	}
}

// TestMergeFunctions_ASumWaitsForAnotherSession: which inserts, updates or deletes its row.
func TestMergeFunctions_ASumWaitsForAnotherSession(t *testing.T) {
	url := testpg.New(t)
	for sql, want := range map[string]string{
		"INSERT INTO t (id, n) VALUES (2, 10)":                             "12",
		"INSERT INTO t (id, n) VALUES (2, 10); DELETE FROM t WHERE id = 2": "2",
		"UPDATE t SET n = n + 10 WHERE id = 1":                             "15", // 1 and 2 before, and 2 now
		"DELETE FROM t WHERE id = 1":                                       "2",
		"UPDATE t SET n = NULL WHERE id = 1":                               "2",
		"DELETE FROM t WHERE id = 1; INSERT INTO t (id, n) VALUES (1, 20)": "22",
	} {
		t.Run(sql, func(t *testing.T) {
			db := connectEmpty(t, url)
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n numeric)")
			r := sinktest.Begin(t, db, withMerge(map[string]merge.Function{"n": merge.Sum}))
			r.Flush(`{"id":1,"n":1}`)
			r.Flush(`{"id":1,"n":2}`, `{"id":3,"n":2}`)
			id := 1
			if strings.HasPrefix(sql, "INSERT") {
				id = 2
			}
			other := connect(t, db.url)
			other.Exec(t, "BEGIN; "+sql)
			done := when(t, db, "wait_event_type = 'Lock' AND "+other.one(t, "SELECT pg_backend_pid()")+" = ANY (pg_blocking_pids(pid))", func() { other.Exec(t, "COMMIT") })
			r.Flush(fmt.Sprintf(`{"id":%d,"n":2}`, id))
			<-done
			sinktest.Expect(t, db, fmt.Sprintf("SELECT n::text FROM t WHERE id = %d", id), want)
		})
	}
}

// TestMergeFunctions_AColumnThatOthersWiden: its values are still merged, as texts.
func TestMergeFunctions_AColumnThatOthersWiden(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db, withMerge(map[string]merge.Function{"n": merge.Sum, "top": merge.Max, "o": merge.Patch}))
	r.Flush(`{"id":1,"n":1,"top":1,"o":{"b":1}}`)
	r.Flush(`{"id":1,"n":2,"top":2,"o":{"a":1}}`)
	other := sinktest.BeginJob(t, db, "other")
	other.Flush(`{"id":2,"n":"x","top":"x","o":"x"}`)
	before := r.Checkpoint()
	if _, err := r.TryFlush(`{"id":1,"n":0.5,"top":10,"o":{"c":{"d":null}}}`); err != nil {
		r.Reread(before)
		r.Flush(`{"id":1,"n":0.5,"top":10,"o":{"c":{"d":null}}}`)
	}
	sinktest.Expect(t, db, "SELECT n, top, o FROM t WHERE id = 1", `3.5|10|{"a":1,"b":1,"c":{}}`)
}

// TestMergeFunctions_OneOfManyRowsOverflows: the other rows are written, and each of its messages that fits.
func TestMergeFunctions_OneOfManyRowsOverflows(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n smallint, d numeric(4,1), o varchar(13))")
	db.Exec(t, "INSERT INTO t VALUES (7, 32760, 999, '{\"a\":1}')")
	r := sinktest.Begin(t, db, withMerge(map[string]merge.Function{"n": merge.Sum, "d": merge.Sum, "o": merge.Patch}))
	for i := range 300 {
		r.Fold(fmt.Sprintf(`{"id":%d,"n":1,"d":0.1}`, i))
	}
	r.Fold(`{"id":7,"n":9}`, `{"id":7,"n":1}`, `{"id":7,"d":1}`, `{"id":7,"o":{"bbbbbbbb":1}}`, `{"id":7,"o":{"b":1}}`)
	r.Flush()
	sinktest.Expect(t, db, "SELECT n, d::text, o FROM t WHERE id = 7", `32762|999.1|{"a":1,"b":1}`)
	sinktest.Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "301", "303", "304")
	sinktest.Expect(t, db, "SELECT count(*), sum(n) FROM t WHERE id <> 7", "299|299")
}

// TestMergeFunctions_EqualValuesAreMerged: after a flush that changed nothing, a flush with the same values is not
// compared with the table.
func TestMergeFunctions_EqualValuesAreMerged(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db, withMerge(map[string]merge.Function{"n": merge.Sum}))
	for _, n := range []int{1, 0, 1} {
		for i := range 6000 {
			r.Fold(fmt.Sprintf(`{"id":%d,"n":%d}`, 10000+i, n))
		}
		r.Flush()
	}
	sinktest.Expect(t, db, "SELECT n::text, count(*) FROM t GROUP BY 1", "2|6000")
}

// TestMergeFunctions_APatchedColumnBecomesText: the function for its new type is created, although the staging table is
// reused.
func TestMergeFunctions_APatchedColumnBecomesText(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db, withMerge(map[string]merge.Function{"o": merge.Patch}))
	r.Flush(`{"id":1,"o":{"a":1}}`)
	r.Flush(`{"id":1,"o":{"a":null,"b":[1e200000]}}`) // jsonb does not accept it
	r.Flush(`{"id":1,"o":{"c":2}}`)
	sinktest.Expect(t, db, "SELECT o FROM t", `{"b":[1e200000],"c":2}`)
}

// TestMergeFunctions_LargePatches: of 900 levels, or of many names, in columns of all types. A function that runs its
// recursion twice, or compares each name with each, would take hours.
func TestMergeFunctions_LargePatches(t *testing.T) {
	t.Parallel()
	const levels = 900
	deep := func(value string) string {
		return strings.Repeat(`{"a":`, levels) + value + strings.Repeat("}", levels)
	}
	wide := func(value string) string {
		var members []string
		for i := range testcheck.Rounds(5000, 20_000) {
			members = append(members, fmt.Sprintf(`"member%d":%s`, i, value))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	url := testpg.New(t)
	for _, kind := range []string{"text", "json", "jsonb"} {
		t.Run(kind, func(t *testing.T) {
			db := connectEmpty(t, url)
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, o "+kind+")")
			r := sinktest.Begin(t, db, withMerge(map[string]merge.Function{"o": merge.Patch}))
			for _, value := range []string{"1", `{"b":2}`} {
				r.Flush(`{"id":1,"o":`+deep(value)+`}`, `{"id":2,"o":`+wide(value)+`}`)
			}
			r.Flush(`{"id":1,"o":`+deep("null")+`}`, `{"id":2,"o":`+wide("null")+`}`)
			without := strings.Repeat(`{"a":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
			sinktest.Expect(t, db, "SELECT replace(o::text, ' ', '') FROM t ORDER BY id", without, "{}")
			sinktest.Expect(t, db, "SELECT reason FROM weir_rejects")
		})
	}
}
