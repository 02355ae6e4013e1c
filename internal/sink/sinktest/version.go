package sinktest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/sink"
)

func byColumn(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope }
func byRow(o *fold.Options)    { o.Version, o.Scope = "v", fold.RowScope }

// inBothScopes are two tests of one, by the scope of the versions.
func inBothScopes(c feedTest) []feedTest {
	rows := c
	c.by, rows.by, rows.name = options{byColumn}, options{byRow}, c.name+"_RowScope"
	return []feedTest{c, rows}
}

// versionTests: each column holds the value of the newest message that named it, in
// whatever order messages come.
var versionTests = append(feedTests(append(append(
	inBothScopes(feedTest{name: "NumbersComeBeforeTexts", first: everyColumn, shuffled: true, lines: lines{`{"id":1,"v":"9","a":"nine"}`, `{"id":1,"v":10,"a":"ten"}`, `{"id":1,"v":"1a","a":"text"}`,
		`{"id":2,"v":"-","a":"text"}`, `{"id":2,"v":1e30,"a":"number"}`},
		query: "SELECT id, v, a FROM t WHERE id > 0 ORDER BY id", want: rows{"1|1a|text", "2|-|text"}}),
	inBothScopes(feedTest{name: "RowsThatExistAmongNewOnes", batches: [][]string{
		{`{"id":1,"v":5,"a":"x"}`, `{"id":2,"v":5,"a":"x"}`, `{"id":3,"v":5,"a":"x"}`, `{"id":4,"v":5,"a":"x"}`}, {`{"id":1,"v":6,"op":"delete"}`, `{"id":10,"v":6,"a":"new"}`},
		{`{"id":11,"v":6,"a":"new"}`}, {`{"id":2,"v":4,"a":"old"}`, `{"id":12,"v":6,"a":"new"}`}, {`{"id":13,"v":6,"b":"new column"}`}, {`{"id":3,"v":4,"op":"delete"}`, `{"id":14,"v":6,"a":"new"}`},
		{`{"id":15,"v":6,"a":"new"}`}, {`{"id":4,"v":7,"b":"both"}`, `{"id":16,"v":6,"a":"new"}`}},
		query: "SELECT id, a, b FROM t ORDER BY id", want: rows{"2|x|NULL", "3|x|NULL", "4|x|both",
			"10|new|NULL", "11|new|NULL", "12|new|NULL", "13|NULL|new column", "14|new|NULL", "15|new|NULL", "16|new|NULL"}})...),
	feedTest{name: "AnOldMessageThatAloneNamedAColumnIsNotLost", by: options{byColumn}, first: everyColumn, shuffled: true,
		lines: lines{`{"id":1,"v":10,"a":"old","b":"old"}`, `{"id":1,"v":20,"a":"new"}`, `{"id":1,"v":"15","c":null,"a":"between"}`, `{"id":2,"v":9,"a":"y"}`},
		query: "SELECT id, v, a, b, c FROM t WHERE id > 0 ORDER BY id", want: rows{"1|20|new|old|NULL", "2|9|y|NULL|NULL"}},
	feedTest{name: "AnExplicitNullIsAValue", by: options{byColumn}, first: everyColumn, shuffled: true,
		lines: lines{`{"id":1,"v":1,"a":"x"}`, `{"id":1,"v":3,"a":null}`, `{"id":1,"v":2,"a":"y","b":1}`},
		query: "SELECT id, a, b FROM t WHERE id > 0", want: rows{"1|NULL|1"}},
	feedTest{name: "DeleteRemovesWhatIsNotNewer", by: options{byColumn}, first: everyColumn, shuffled: true,
		lines: lines{`{"id":1,"v":1,"a":"x","b":"x"}`, `{"id":1,"v":2,"op":"delete"}`, `{"id":1,"v":3,"b":"z"}`, `{"id":2,"v":1,"a":"x"}`, `{"id":2,"v":2,"op":"delete"}`,
			`{"id":3,"v":5,"a":"stays","b":"stays"}`, `{"id":3,"v":2,"op":"delete"}`, `{"id":4,"v":1}`, `{"id":4,"v":2,"op":"delete"}`, `{"id":4,"v":3}`},
		query: "SELECT id, a, b FROM t WHERE id > 0 ORDER BY id", want: rows{"1|NULL|z", "3|stays|stays", "4|NULL|NULL"}},
	feedTest{name: "ALateDeleteLeavesDefaults", sql: withDefaults, by: options{byColumn}, lines: lines{
		`{"id":1,"v":9}`, `{"id":1,"v":4,"a":null,"b":"old","n":6}`, `{"id":1,"v":4,"op":"delete"}`,
		`{"id":2,"v":4,"a":"old","n":6}`, `{"id":2,"v":9,"b":"x"}`, `{"id":2,"v":5,"op":"delete"}`, `{"id":2,"v":6,"n":7}`,
		`{"id":3,"v":4,"op":"delete"}`, `{"id":3,"v":9,"b":"x"}`, `{"id":3,"v":3,"a":"old"}`,
		`{"id":9,"v":9,"b":"x"}`, `{"id":9,"v":4,"n":6}`, `{"id":9,"v":4,"op":"delete"}`}, // a was there before all of them
		query: "SELECT id, v, a, b, n FROM t ORDER BY id", want: rows{"1|9|dflt|NULL|5", "2|9|dflt|x|7", "3|9|dflt|x|5", "9|9|NULL|x|5"}},
	feedTest{name: "OfEqualVersionsTheLaterMessageWins", by: options{byColumn}, first: everyColumn,
		lines: lines{`{"id":1,"v":1,"a":"x"}`, `{"id":1,"v":1.0,"a":"y"}`, `{"id":2,"v":1,"a":"x"}`, `{"id":2,"v":"1","op":"delete"}`, `{"id":3,"v":1,"op":"delete"}`, `{"id":3,"v":1,"a":"z"}`},
		query: "SELECT id, a FROM t WHERE id > 0 ORDER BY id", want: rows{"1|y", "3|z"}},
	feedTest{name: "InRowScopeAnOlderMessageChangesNothing", by: options{byRow}, first: everyColumn,
		lines: lines{`{"id":1,"v":10,"a":"x"}`, `{"id":1,"v":9,"b":"lost"}`, `{"id":1,"v":11,"c":"z"}`, `{"id":2,"v":10,"a":"x"}`, `{"id":2,"v":9,"op":"delete"}`,
			`{"id":3,"v":10,"a":"x"}`, `{"id":3,"v":10,"op":"delete"}`, `{"id":4,"v":10,"a":"x"}`, `{"id":4,"v":11,"op":"delete"}`, `{"id":4,"v":2,"b":"back"}`},
		query: "SELECT id, v, a, b, c FROM t WHERE id > 0 ORDER BY id", want: rows{"1|11|x|NULL|z", "2|10|x|NULL|NULL", "4|2|NULL|back|NULL"}},
	feedTest{name: "ATableOfKeysAlone", by: options{byColumn, func(o *fold.Options) { o.Columns = fold.IgnoreColumns }},
		batches: [][]string{{`{"id":1,"v":5,"a":"x"}`, `{"id":2,"v":5}`}, {`{"id":3,"v":5,"a":"x"}`}, {`{"id":1,"v":6,"op":"delete"}`, `{"id":2,"v":4,"op":"delete"}`}, {`{"id":1,"v":4}`, `{"id":4,"v":1}`}},
		query:   "SELECT id FROM t ORDER BY id", want: rows{"2", "3", "4"}},
	feedTest{name: "RejectedMessagesLeaveNoVersion", sql: lines{"CREATE TABLE t (id bigint PRIMARY KEY, v bigint, a bigint CHECK (a < 100), b bigint)"}, by: options{byColumn},
		batches: [][]string{{`{"id":1,"v":1,"a":1,"b":1}`, `{"id":1,"v":5,"a":500,"b":5}`, `{"id":1,"v":3,"a":3}`, `{"id":2,"v":1,"a":7}`}, {`{"id":1,"v":2,"a":2,"b":2}`}},
		query:   "SELECT id, v, a, b FROM t ORDER BY id", want: rows{"1|3|3|2", "2|1|7|NULL"}, rejects: lines{"2"}},
)...),
	test{"AMessageWithoutAVersionIsRejected", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		r.Flush(`{"id":1,"a":"x"}`, `{"id":1,"v":null,"a":"x"}`, `{"id":1,"v":"","a":"x"}`, `{"id":1,"v":[1],"a":"x"}`, `{"id":1,"v":1,"a":"y"}`)
		Expect(t, db, "SELECT line, reason FROM weir_rejects ORDER BY line", `1|version: the version field "v" is missing`, `2|version: the version field "v" is null`,
			`3|version: the version field "v" is empty`, `4|version: the version field "v" is object or array`)
		Expect(t, db, "SELECT id, a FROM t", "1|y")
	}},
	test{"ATableThatGrowsAColumnEachTime", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		for n := range 100 {
			r.Flush(fmt.Sprintf(`{"id":1,"v":%d,"c%d":%d}`, n, n, n), fmt.Sprintf(`{"id":2,"v":%d,"op":"delete"}`, n), `{"id":1,"v":0,"late":"x"}`)
		}
		Expect(t, db, "SELECT id, v, late, c0, c30, c99 FROM t", "1|99|x|0|30|99")
	}},
	test{"ValuesWithoutAVersionAreOlderThanAll", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"v":99,"a":"x","b":"x"}`, `{"id":2,"v":99,"a":"x"}`, `{"id":3,"v":99,"a":"x","b":"x"}`)
		r.End()
		r = Begin(t, db, byColumn)
		Counts(t, r.Flush(`{"id":1,"v":1,"a":"y"}`, `{"id":2,"v":1,"op":"delete"}`, `{"id":3,"v":1,"op":"delete"}`, `{"id":3,"v":2,"b":"z"}`), 0, 2, 0, 1)
		Expect(t, db, "SELECT id, v, a, b FROM t ORDER BY id", "1|1|y|x", "3|2|NULL|z")
	}},
	test{"ATableRecreatedWithoutVersionsHasNone", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		r.Flush(`{"id":1,"v":9,"a":"x"}`, `{"id":2,"v":9,"op":"delete"}`)
		r.End()
		db.Exec(t, "DROP TABLE t")
		r = BeginJob(t, db, "without")
		r.Flush(`{"id":1,"v":1,"a":"y"}`)
		r.End()
		r = BeginJob(t, db, "with", byColumn)
		r.Flush(`{"id":1,"v":2,"a":"z"}`, `{"id":2,"v":2,"a":"z"}`)
		Expect(t, db, "SELECT id, v, a FROM t ORDER BY id", "1|2|z", "2|2|z")
	}},
	test{"ARowRemovedByHandHasNoVersion", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		r.Flush(`{"id":1,"v":9,"a":"x","b":"x"}`, `{"id":2,"v":9,"a":"x"}`)
		db.Exec(t, "DELETE FROM t WHERE id = 1")
		Counts(t, r.Flush(`{"id":1,"v":5,"a":"y"}`), 1, 0, 0, 0)
		Expect(t, db, "SELECT id, v, a, b FROM t ORDER BY id", "1|5|y|NULL", "2|9|x|NULL")
		r.End()
		db.Exec(t, "DROP TABLE t")
		r = Begin(t, db, byColumn)
		r.Flush(`{"id":2,"v":5,"a":"y"}`)
		Expect(t, db, "SELECT id, v, a FROM t", "2|5|y")
	}},
	test{"OldAndRepeatedMessagesChangeNothing", func(t *testing.T, db Database) {
		lines := []string{`{"id":1,"v":5,"a":"x","b":"x"}`, `{"id":2,"v":5,"a":"x"}`, `{"id":2,"v":6,"op":"delete"}`}
		r := Begin(t, db, byColumn)
		Counts(t, r.Flush(lines...), 1, 0, 1, 0)
		Counts(t, r.Flush(lines...), 0, 0, 2, 0)
		Counts(t, r.Flush(`{"id":1,"v":4,"a":"y"}`, `{"id":2,"v":5.5,"a":"y"}`), 0, 0, 2, 0)
		Expect(t, db, "SELECT id, v, a, b FROM t", "1|5|x|x")
	}},
	test{"TombstonesExpire", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		r.Flush(`{"id":1,"v":5,"a":"x"}`, `{"id":1,"v":6,"op":"delete"}`, `{"id":2,"v":1,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_versions WHERE gone IS NOT NULL", "1")
		r.Flush(`{"id":1,"v":5,"a":"again"}`)
		Expect(t, db, "SELECT id FROM t", "2")
		r.FlushAs(func(f *sink.Flush) { f.Tombstones = -10 * time.Second }, `{"id":3,"v":1,"a":"x"}`) // as if ten seconds had gone by
		Expect(t, db, "SELECT count(*) FROM weir_versions WHERE gone IS NOT NULL", "0")
		r.Flush(`{"id":1,"v":5,"a":"again"}`)
		Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "2", "3")
	}},
	test{"WithoutVersionsNothingIsKept", func(t *testing.T, db Database) {
		Begin(t, db).Flush(`{"id":1,"v":1}`)
		Expect(t, db, "SELECT count(*) FROM weir_meta WHERE name LIKE 'versions%'", "0")
	}},
	test{"AVersionThatTheColumnWouldRoundIsRejected", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v DOUBLE PRECISION, a TEXT)")
		r := Begin(t, db, byRow)
		r.Flush(`{"id":1,"v":1700000000.25,"a":"x"}`, `{"id":2,"v":1700000000000000001,"a":"x"}`, `{"id":3,"v":"1.50","a":"x"}`)
		r.Flush(`{"id":1,"v":1700000000.125,"a":"old"}`, `{"id":2,"v":"1700000000000000003","a":"x"}`, `{"id":3,"v":1.75,"a":"new"}`)
		Expect(t, db, "SELECT id, v, a FROM t ORDER BY id", "1|1.70000000025e+09|x", "3|1.75|new")
		Expect(t, db, "SELECT line, substr(reason, 1, 6) FROM weir_rejects ORDER BY line", "2|value:", "5|value:")
		r.End()
		r = BeginJob(t, db, "by column", byColumn)
		r.Flush(`{"id":2,"v":1700000000000000001,"a":"new"}`)
		r.Flush(`{"id":2,"v":1700000000000000000,"a":"old"}`)
		Expect(t, db, "SELECT a FROM t WHERE id = 2", "new")
	}},
	test{"OrderOfKeyFieldsDoesNotMatter", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn, key("id", "f"))
		r.Flush(`{"id":"x","f":"1","v":5,"a":"new"}`, `{"id":"y","f":"1","v":5,"a":"other"}`)
		r.End()
		r = Begin(t, db, byColumn, key("f", "id"))
		r.Flush(`{"id":"x","f":"1","v":4,"a":"old"}`)
		Expect(t, db, "SELECT id, f, v, a FROM t ORDER BY id", "x|1|5|new", "y|1|5|other")
		Expect(t, db, "SELECT count(*) FROM weir_versions", "2")
	}},
	test{"VersionsOfDeletedRowsGo", func(t *testing.T, db Database) {
		const rows = 300
		for _, ids := range []string{`"id":%d,"n":1`, `"id":"it's a \\\" %d é","n":true`, `"id":%d.5,"n":-1e30`, `"id":"7","n":"%d"`} {
			r := Begin(t, db, byColumn, key("n", "id"))
			message := func(n, version int, rest string) string {
				return "{" + fmt.Sprintf(ids, n) + fmt.Sprintf(`,"v":%d%s}`, version, rest)
			}
			r.Flush(message(-1, 5, `,"a":"stays"`), message(-2, 5, `,"a":"newer"`), message(-3, 5, `,"op":"delete"`), message(-4, 5, `,"a":"x"`))
			r.Flush(message(-2, 4, `,"op":"delete"`), message(-4, 4, `,"op":"delete"`))
			for round := range 6 {
				for n := range rows {
					r.Fold(message(rows*round+n, 5, `,"a":"gone"`))
				}
				r.Flush()
				r.End()
				theirs(t, db, "DELETE FROM t WHERE a IN ('gone', 'x')")
				db.Exec(t, "DELETE FROM weir_meta WHERE name LIKE 'orphans %'") // an hour passes
				r = Begin(t, db, byColumn, key("n", "id"))
			}
			r.Flush(message(-5, 5, ""))
			// Those of the rows that exist stay, and so do the deletes that are remembered.
			Expect(t, db, "SELECT count(*), count(gone) FROM weir_versions", "5|2")
			r.Flush(message(-1, 4, `,"a":"old","b":"first"`), message(-2, 3, `,"b":"old"`), message(-3, 4, ""), message(-4, 3, ""), message(0, 1, `,"a":"again"`))
			Expect(t, db, "SELECT a, b FROM t ORDER BY v, coalesce(a, '')", "again|NULL", "NULL|NULL", "newer|NULL", "stays|first")
			r.End()
			db.Exec(t, "DROP TABLE t")
			db.Exec(t, "DELETE FROM weir_versions")
		}
	}},
	test{"OnlyVersionsOfDeletedRowsGo", func(t *testing.T, db Database) {
		for _, of := range [][]string{
			{"bigint", `1`, `"2"`},
			{"text", `"1"`, `"a'\\x41"`},
			{"varchar(20)", `1.50`, `"'x"`},
			{"numeric", `-0.0150`, `1e30`},
			{"double precision", `1.5`, `1e30`},
			{"boolean", `true`, `false`},
			{"uuid", `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, `"a0eebc999c0b4ef8bb6d6bb9bd380a12"`},
			{"date", `"2026-11-24"`, `"1969-01-01"`},
			{"timestamptz", `"2026-11-24T08:00:00.000001+02:00"`, `"1969-11-24T08:00:00.5Z"`},
		} {
			theirs(t, db, "CREATE TABLE t (id "+of[0]+" PRIMARY KEY, v bigint, a text)")
			message := func(id int, a string) string { return fmt.Sprintf(`{"id":%s,"v":1,"a":%q}`, of[1+id], a) }
			r := Begin(t, db, byColumn)
			r.Flush(message(0, "x"), message(1, "y"))
			r.End()
			for _, left := range []string{"2", "1"} {
				db.Exec(t, "DELETE FROM weir_meta WHERE name LIKE 'orphans %'") // an hour passes
				r := Begin(t, db, byColumn)
				r.Flush(message(0, "x"))
				r.End()
				Expect(t, db, "SELECT count(*) FROM weir_versions", left)
				theirs(t, db, "DELETE FROM t WHERE a = 'y'")
			}
			if t.Failed() {
				t.Fatalf("the key is %q", of)
			}
			db.Exec(t, "DROP TABLE t")
			db.Exec(t, "DELETE FROM weir_versions")
		}
	}},
	test{"VersionsOfRowsDeletedWithTheirParentGo", func(t *testing.T, db Database) {
		for _, generated := range []bool{false, true} {
			m := VersionedShop(t, fold.ColumnScope)
			if generated {
				m.Tables[0].ID, m.Tables[1].ID, m.Tables[1].Parent = "oid", "iid", nil
			}
			order := func(id int) string {
				return fmt.Sprintf(`{"id":%d,"v":3,"items":[{"sku":"x","taxes":[{"code":"a"},{"code":"b"}]},{"sku":"y"}]}`, id)
			}
			n := BeginNested(t, db, m, false)
			n.Flush(order(1), order(2))
			for id := 3; id < 6; id++ {
				n.End()
				db.Exec(t, "DELETE FROM weir_meta WHERE name LIKE 'orphans %'") // an hour passes
				n = BeginNested(t, db, m, false)
				n.Flush(order(id))
			}
			Expect(t, db, "SELECT count(*) FROM weir_versions", "25")
			n.End()
			for _, table := range []string{"taxes", "items", "orders"} { // as a cascade does
				theirs(t, db, "DELETE FROM "+table)
			}
			for id := 6; id < 8; id++ {
				db.Exec(t, "DELETE FROM weir_meta WHERE name LIKE 'orphans %'")
				n = BeginNested(t, db, m, false)
				n.Flush(order(id))
				n.End()
			}
			Expect(t, db, "SELECT count(*) FROM weir_versions", "10")
			n.drop(db)
		}
	}},
	test{"RandomBatchesEqualThePlainFold", func(t *testing.T, db Database) {
		Seeds(t, 16, func(t *testing.T, rnd *rand.Rand) {
			lines := versionedFeed(rnd, 20+rnd.IntN(200))
			if rnd.IntN(2) == 0 {
				inRuns(t, db, rnd, lines, 2, false, byColumn)
				return
			}
			if rnd.IntN(2) == 0 { // a database may compare versions by itself that are all whole numbers
				for i, line := range lines {
					lines[i] = notWhole.ReplaceAllString(line, `"v":$1`)
				}
			}
			inRuns(t, db, rnd, lines, 1, false, byRow)
		})
	}},
	test{"RunsAtOnceEqualThePlainFold", func(t *testing.T, db Database) {
		Seeds(t, 12, func(t *testing.T, rnd *rand.Rand) {
			if rnd.IntN(3) > 0 {
				inRuns(t, db, rnd, versionedFeed(rnd, 50+rnd.IntN(300)), 2+rnd.IntN(2), true, byColumn)
				return
			}
			var lines []string
			ids := 1 + rnd.IntN(20)
			for v := range 50 + rnd.IntN(300) { // in row scope what older messages alone name is lost, and so are deletes
				lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%d,"a":"a%[2]d","b":"b%[2]d","c":"c%[2]d"}`, rnd.IntN(ids), v))
			}
			inRuns(t, db, rnd, lines, 2+rnd.IntN(2), true, byRow)
		})
	}},
)

var notWhole = regexp.MustCompile(`"v":"?(\d+)(?:\.0)?"?`)

// versionedFeed makes messages no two of which have the same version.
func versionedFeed(rnd *rand.Rand, n int) (lines []string) {
	ids := 1 + rnd.IntN(8)
	for _, v := range rnd.Perm(n) {
		line := fmt.Sprintf(`{"id":%d,"v":%s`, rnd.IntN(ids), []string{"%d", `"%d"`, "%d.0"}[rnd.IntN(3)])
		line = fmt.Sprintf(line, v+1)
		if rnd.IntN(6) == 0 {
			lines = append(lines, line+`,"op":"delete"}`)
			continue
		}
		for _, c := range []string{"a", "b", "c"} {
			switch rnd.IntN(5) {
			case 0:
				line += fmt.Sprintf(`,%q:null`, c)
			case 1, 2:
				line += fmt.Sprintf(`,%q:"%s%d"`, c, c, v+1)
			}
		}
		lines = append(lines, line+"}")
	}
	return append(lines, fmt.Sprintf(`{"id":1000,"v":"%d.0","a":"a","b":"b","c":"c"}`, n+1)) // every column is there
}

// PlainFold is the fold of messages by their versions, in its plainest form.
func PlainFold(t *testing.T, lines []string, rowScope bool) []string {
	t.Helper()
	return plainRows(t, lines, foldtest.Rules{Version: "v", RowScope: rowScope}, func(row map[string]foldtest.Value) string {
		v, err := strconv.ParseFloat(row["v"].Text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(v)
	}, "a", "b", "c")
}

// inRuns has several runs of different jobs write the messages of a feed, each some of them, in turn, or at once and some of
// them twice. One run has all of them in their order.
func inRuns(t *testing.T, db Database, rnd *rand.Rand, lines []string, runs int, atOnce bool, by func(*fold.Options)) {
	parts := make([][]string, runs)
	for _, i := range rnd.Perm(len(lines)) {
		for range 1 + rnd.IntN(8)/7 {
			w := rnd.IntN(runs)
			parts[w] = append(parts[w], lines[i])
		}
	}
	if runs == 1 {
		parts[0] = lines
	}
	var wg sync.WaitGroup
	var turns []func() bool // each writes something, if something is left
	for w, rest := range parts {
		r, rnd := BeginJob(t, db, fmt.Sprint("job ", w), by), rand.New(rand.NewPCG(rnd.Uint64(), 1))
		r.Sink = sink.Retry(r.Sink, time.Minute, func(*sink.Error) {})
		turn := func() bool {
			n := min(1+rnd.IntN(40), len(rest))
			if _, err := r.TryFlush(rest[:n]...); err != nil {
				t.Error(err)
				return false
			}
			rest = rest[n:]
			return len(rest) > 0
		}
		if turns = append(turns, turn); atOnce {
			wg.Go(func() {
				for turn() {
				}
			})
		}
	}
	wg.Wait()
	for left := turns; !atOnce && len(left) > 0; {
		if w := rnd.IntN(len(left)); !left[w]() {
			left = append(left[:w:w], left[w+1:]...)
		}
	}
	Expect(t, db, "SELECT id, CAST(v AS REAL), a, b, c FROM t ORDER BY id", PlainFold(t, lines, rowScope(by))...)
	if t.Failed() {
		for _, part := range parts {
			t.Log(strings.Join(part, "\n"))
		}
	}
	db.Exec(t, "DROP TABLE t")
}

func rowScope(by func(*fold.Options)) bool {
	o := fold.Options{}
	by(&o)
	return o.Scope == fold.RowScope
}
