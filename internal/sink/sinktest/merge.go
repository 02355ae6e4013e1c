package sinktest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// mergeTests: columns with merge functions have the same values as in the model.
var mergeTests = []test{
	{"RandomFeedEqualsThePlainFold", func(t *testing.T, db Database) {
		Seeds(t, testcheck.Rounds(12, 40), func(t *testing.T, rnd *rand.Rand) { randomMerges(t, db, rnd) })
	}},
}

// A merging is a table whose columns merge by functions, and its feed.
type merging struct {
	rules    foldtest.Rules
	declared map[string]string // by column, if the table is a user's
	checked  bool              // the user's table accepts no hi of 10 or more
	others   []string          // columns without a function
}

// mergedBy are the columns' functions.
var mergedBy = map[string]string{"n": "sum", "m": "sum", "lo": "min", "hi": "max", "o": "patch", "f": "first"}

// newMerging returns a table of weir's or of a user's in which some columns merge.
func newMerging(db Database, rnd *rand.Rand) *merging {
	m := &merging{rules: foldtest.Rules{Merge: maps.Clone(mergedBy)}, others: []string{"a"}}
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	if rnd.IntN(3) == 0 {
		m.rules.Version, m.rules.RowScope = "v", rnd.IntN(2) == 0
		m.rules.Merge["f"], m.rules.Merge["o"] = "last", "last"
	}
	if rnd.IntN(4) == 0 {
		m.rules.Merge[pick("n", "lo", "hi")] = "last"
	}
	if db.Has(Shared) && rnd.IntN(2) == 0 {
		m.declared = map[string]string{"v": "BIGINT", "n": pick("BIGINT", "NUMERIC", "DOUBLE PRECISION", "TEXT"), "m": pick("BIGINT DEFAULT 0", "TEXT"),
			"lo": pick("BIGINT", "DOUBLE PRECISION", "TEXT"), "hi": pick("BIGINT", "DOUBLE PRECISION"), "o": "TEXT", "f": "TEXT DEFAULT 'dflt'", "a": "TEXT"}
		if m.rules.Version != "" {
			m.declared["f"] = "TEXT"
		}
		if m.checked = rnd.IntN(2) == 0 && m.rules.Merge["hi"] == "max"; m.checked {
			m.declared["hi"] += " CHECK (hi < 10)"
		}
	}
	return m
}

// model returns the model of the table.
func (m *merging) model() *foldtest.Table {
	rules := m.rules
	rules.Key, rules.DeleteField, rules.DeleteValue, rules.MaxColumns = []string{"id"}, "op", "delete", 100
	if m.declared == nil {
		return foldtest.NewTable(rules, foldtest.Limits{})
	}
	columns := []foldtest.Column{{Name: "id"}}
	for _, name := range slices.Sorted(maps.Keys(m.declared)) {
		c := foldtest.Column{Name: name}
		if _, literal, has := strings.Cut(m.declared[name], " DEFAULT "); has {
			c.Default = foldtest.MustParse(strings.ReplaceAll(literal, "'", `"`))
		}
		columns = append(columns, c)
	}
	table := foldtest.NewTable(rules, foldtest.Limits{}, columns...)
	if m.checked {
		table.Violates = func(_ *foldtest.Table, _ string, row map[string]foldtest.Value) error {
			if hi := row["hi"]; hi.Kind != foldtest.Null && foldtest.Compare(hi.Text, "10") >= 0 {
				return errors.New("hi")
			}
			return nil
		}
	}
	return table
}

// create creates the table if it is a user's.
func (m *merging) create(t *testing.T, db Database) {
	t.Helper()
	if m.declared == nil {
		return
	}
	definitions := "id BIGINT PRIMARY KEY"
	for _, name := range slices.Sorted(maps.Keys(m.declared)) {
		definitions += ", " + name + " " + m.declared[name]
	}
	theirs(t, db, "CREATE TABLE t ("+definitions+")")
}

// options sets the options of a run.
func (m *merging) options(_ string, o *fold.Options) {
	o.Merge = map[string]merge.Function{}
	for column, function := range m.rules.Merge {
		o.Merge[column] = must(merge.Parse(function))
	}
	if m.rules.Version != "" {
		o.Version, o.Scope, o.Deletes = m.rules.Version, fold.ColumnScope, false
		if m.rules.RowScope {
			o.Scope = fold.RowScope
		}
	}
}

// line returns a random message.
func (m *merging) line(rnd *rand.Rand, ids int) string {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	line := fmt.Sprintf(`{"id":%d,"v":%d`, rnd.IntN(ids), rnd.IntN(50))
	back := !m.checked // otherwise a batch may undo what would have rejected a message
	if back && m.rules.Version == "" && rnd.IntN(12) == 0 {
		return line + `,"op":"delete"}`
	}
	for _, name := range slices.Sorted(maps.Keys(m.rules.Merge)) {
		switch {
		case rnd.IntN(2) == 0:
		case back && rnd.IntN(10) == 0:
			line += fmt.Sprintf(`,%q:null`, name)
		case rnd.IntN(25) == 0 && m.rules.Merge[name] != "last" && name != "f":
			line += fmt.Sprintf(`,%q:%s`, name, map[string]string{"n": pick(`"x"`, "[1]", "true"), "m": pick(`"x"`, "{}"), "lo": "[]", "hi": `{"a":1}`, "o": pick("1", `"{}"`, "false")}[name])
		default:
			line += fmt.Sprintf(`,%q:%s`, name, m.value(rnd, name))
		}
	}
	for _, name := range m.others {
		if m.rules.RowScope || rnd.IntN(2) == 0 {
			line += fmt.Sprintf(`,%q:"%s%d"`, name, name, rnd.IntN(1000))
		}
	}
	return line + "}"
}

// value returns a random value for a column, which a user's table with its type preserves.
func (m *merging) value(rnd *rand.Rand, name string) string {
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	small := fmt.Sprint(rnd.IntN(21) - 10)
	quarter := fmt.Sprintf("%d.%s", rnd.IntN(9), pick("25", "5", "750", "0"))
	number := pick(small, small, quarter, "-"+quarter, "0.1", "0.2", "1e2", "-0", "9223372036854775807", "-9223372036854775808", "12345678901234567890.5", "0.00000000000000000000000000001")
	word := pick(`"a"`, `"b"`, `"Zürich"`, `"10"`, `"9"`, `"007"`, `" 7"`, `""`, `"1e1"`, `"\u0061b"`)
	switch as, _, _ := strings.Cut(m.declared[name], " DEFAULT "); {
	case name == "o":
		return RandomPatch(rnd, 3)
	case name == "f":
		return word
	case m.checked && name == "hi":
		return pick(small, small, small, "10", "9")
	case strings.HasPrefix(as, "BIGINT"):
		return small
	case as == "NUMERIC", strings.HasPrefix(as, "DOUBLE"):
		return pick(small, quarter)
	case name == "n" || name == "m":
		return number
	}
	return pick(number, number, word)
}

// RandomPatch returns an object, or an array.
func RandomPatch(rnd *rand.Rand, depth int) string {
	if rnd.IntN(12) == 0 {
		return `[1,{"a":null}]`
	}
	var all []string
	for _, name := range []string{"x", "é\"", "z"} {
		if rnd.IntN(2) == 0 {
			value := []string{"null", "null", "1", `"t u"`, `[null]`, "2.50"}[rnd.IntN(6)]
			if depth > 0 && rnd.IntN(2) == 0 {
				value = RandomPatch(rnd, depth-1)
			}
			all = append(all, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

// is compares the table with the model, value by value: the database spells numbers and JSON in its own way.
func (m *merging) is(t *testing.T, db Database, model *foldtest.Table) {
	t.Helper()
	columns, list := slices.Concat(slices.Sorted(maps.Keys(m.rules.Merge)), m.others), "id"
	for _, c := range columns {
		list += ", " + c + ", CAST(" + c + " AS TEXT)"
	}
	left := model.Rows()
	for _, row := range db.Query(t, "SELECT "+list+" FROM t ORDER BY id") {
		key := foldtest.Key(show(row[0]))
		want, has := left[key]
		if delete(left, key); !has {
			t.Errorf("the row %v should be missing", row[0])
		}
		for i, c := range columns {
			have, v := cellText(row[1+2*i], row[2+2*i]), want[c]
			if (v.Kind == foldtest.Null) != (have == "NULL") || v.Kind != foldtest.Null && !v.Is(have) {
				t.Errorf("row %v has %s in %s, want %s", row[0], have, c, v.JSON())
			}
		}
	}
	for key := range left {
		t.Errorf("the row %s is missing", key)
	}
}

// cellText returns the text of a cell with all of its digits. A database's text of a double may have only 15 digits,
// and a double would lose digits of other numbers.
func cellText(value, text any) string {
	digits := strings.Trim(strings.ReplaceAll(show(text), ".", ""), "-0")
	if _, isReal := value.(float64); isReal && len(digits) <= 15 {
		return show(value)
	}
	return show(text)
}

// randomMerges: one run, or several one after the other, write a random feed.
func randomMerges(t *testing.T, db Database, rnd *rand.Rand) {
	m := newMerging(db, rnd)
	m.create(t, db)
	model, s := m.model(), Setup{Options: m.options}
	if m.rules.Version != "" { // the test is skipped for a driver without versions
		r, line := s.Begin(t, db), `{"id":2000,"v":1,"a":"a"}`
		_ = model.Apply([]byte(line))
		r.Flush(line)
		r.End()
	}
	var lines, rejected []string
	ids := []int{1 + rnd.IntN(12), 1000}[rnd.IntN(4)/3]
	for range 30 + rnd.IntN(200) {
		line := m.line(rnd, ids)
		if lines = append(lines, line); model.Apply([]byte(line)) != nil {
			rejected = append(rejected, line)
		}
	}
	last := `{"id":1000,"v":1,"n":1,"m":1,"lo":1,"hi":1,"o":{},"f":"f","a":"a"}` // every column exists
	if lines = append(lines, last); model.Apply([]byte(last)) != nil {
		t.Fatal("the last line is rejected")
	}
	s.feedFaultily(t, db, rnd, lines)
	m.is(t, db, model)
	Expect(t, db, "SELECT raw FROM weir_rejects ORDER BY line", rejected...)
	if t.Failed() {
		t.Logf("%+v\n%s", m, strings.Join(lines, "\n"))
	}
	s.Begin(t, db).drop(db)
	db.Exec(t, "DELETE FROM weir_rejects")
	db.Exec(t, "DELETE FROM weir_checkpoints")
}
