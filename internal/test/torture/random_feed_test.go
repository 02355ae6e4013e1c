package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/test/foldtest"
)

// notYet are cases that are known to fail.
var notYet = map[string]bool{
	"verify where few columns are added": true, // verify does not count columns as added that the table has by now
	"nulls where few columns are added":  true, // in Postgres a field of nulls counts as a column in one run, but not in the next
}

func pick[T any](rnd *rand.Rand, of []T) T { return of[rnd.IntN(len(of))] }

// The kinds of values that most messages have in a column.
const (
	smallInts = iota
	allInts
	reals
	numbers
	bools
	texts
	documents
	mixed
	kinds
)

var (
	words = []string{"", "a", "007", "1.50", " 7", "7", "-0", "1e5", "Zürich", "日本", "😀", "e\u0301", `q"u\o`, "tab\tnl\n", "null", "true", "9223372036854775808", "x%s", "'", `\N`, `\.`,
		"{}", "\u2028", "NaN", "0x10", "<&>", "$1", "long " + strings.Repeat("x", 300)}
	wholes = []string{"9007199254740992", "9007199254740993", "-9007199254740993", "1152921504606846977", "9223372036854775807", "-9223372036854775808", "0", "-1"}
	exacts = []string{"1.5", "0.1", "-0.25", "1e3", "1.0", "1.50", "2E2", "1e+2", "1e22", "-0", "-0.0", "0.000001", "1e-7", "123456.789"}
	exact  = []string{"5e-324", "1.7976931348623157e308", "32.815236600469404", "1e23", "2.003485544858745e16", "0.30000000000000004", "9007199254740993.5", "4.35", "1e21", "123456789012345680000", "8.41e21", "5e-7"}
	longs  = []string{"9223372036854775808", "-18446744073709551616", "123456789012345678901234567890", "0.1234567890123456789", "1e400", "1e-400", "12345678901234567890.5", "1e19", "1e200000", "-1e-20000", "100000000000000000000000.5"}
	nested = []string{`{"a":[1,{"b":null}]}`, `[]`, `{}`, `[1.0,"x"]`, `{"z":1,"a":"\u00e9","m":[true]}`, `[[["deep"]]]`, `{"a":1,"a":2}`, `["q\"\\"]`, `[1e200000]`, `{ "b" : 1 }`}
	fields = []string{"a", "b", "c", "d e", "ü", "日本", `q"u`, "select", "%s", "x'y", "a.b", "😀", "$1", "?", "rowid", "tab\t", "Id2", `back\slash`, "op", "n1", "n2", "n3",
		"ctid", strings.Repeat("n", 64), strings.Repeat("ü", 32), "weir_x"}
)

// value draws a column's value, as JSON.
func value(rnd *rand.Rand, kind int) string {
	switch kind {
	case smallInts:
		return fmt.Sprint(rnd.IntN(2000) - 1000)
	case allInts:
		if rnd.IntN(2) == 0 {
			return pick(rnd, wholes)
		}
		return fmt.Sprint(rnd.Int64() - rnd.Int64())
	case reals:
		if rnd.IntN(4) == 0 {
			if rnd.IntN(2) == 0 {
				return pick(rnd, exact)
			}
			return fmt.Sprint((rnd.Float64() - 0.5) * pick(rnd, []float64{1, 200, 1e9, 1e17, 1e22, 1e-5}))
		}
		if rnd.IntN(2) == 0 {
			return fmt.Sprintf("%d.%d", rnd.IntN(2000)-1000, rnd.IntN(10000))
		}
		return pick(rnd, exacts)
	case numbers:
		if rnd.IntN(2) == 0 {
			return pick(rnd, longs)
		}
		return value(rnd, rnd.IntN(numbers))
	case bools:
		return pick(rnd, []string{"true", "false"})
	case texts:
		return quoted(rnd, pick(rnd, words))
	case documents:
		return pick(rnd, nested)
	}
	return value(rnd, rnd.IntN(mixed))
}

// quoted writes a string in one of its spellings.
func quoted(rnd *rand.Rand, s string) string {
	text := foldtest.Value{Kind: foldtest.String, Text: s}.JSON()
	if rnd.IntN(4) != 0 || s == "" {
		return text
	}
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff || rnd.IntN(2) == 0 {
			one, _ := json.Marshal(string(r))
			b.Write(one[1 : len(one)-1])
		} else {
			fmt.Fprintf(&b, pick(rnd, []string{`\u%04x`, `\u%04X`}), r)
		}
	}
	return `"` + b.String() + `"`
}

// A feedSource draws the lines of a feed.
type feedSource struct {
	rnd     *rand.Rand
	c       *randomCase
	columns []string
	kind    map[string]int
	version []string // one per line
	writer  int
	single  int // number of unique keys drawn
}

// lines draws n lines.
func (s *feedSource) lines(n int) []string {
	out := make([]string, n)
	ids := 1 + s.rnd.IntN(n/3+1)
	for i := range out {
		out[i] = s.line(i, ids)
	}
	return out
}

var badLines = []string{"nonsense", `{"id":1,`, `[1]`, `{}`, `{"id":1}x`, `{"id":1,"a":01}`, `{"id":1,"a":NaN}`, "{\"id\":\"\xff\"}", `{"id":"\ud800"}`, "{\"id\":\"a\tb\"}", `{"id":1,}`, `7`, `"x"`, `null`,
	`{"id":1,"":2}`, `{"id":1,"a\u0000":1}`, `{"id":null}`, `{"id":[]}`, `{"id":{}}`, `{"id":""}`, `{"a":1}`, `{"id":1,"id":null}`, `{"id":1 "a":2}`, `{'id':1}`, `{"id":1,"a":.5}`, `{"id":1,"a":+1}`, `{"id":1,"a":tru}`, `{"id":1,"a":"\x"}`}

func (s *feedSource) line(i, ids int) string {
	rnd, c := s.rnd, s.c
	switch k := rnd.IntN(40); {
	case i == 0: // an invalid first line can end a run
	case k == 0:
		return pick(rnd, []string{"", " ", "\t", "\r"})
	case k < 3:
		return pick(rnd, badLines)
	}
	id := rnd.IntN(ids)
	var parts []string
	for n, k := range c.rules.Key {
		parts = append(parts, s.spelled(k)+":"+s.key(n, id))
	}
	if c.rules.Version != "" {
		parts = append(parts, name(rnd, c.rules.Version)+":"+s.version[i])
	}
	if c.rules.DeleteField != "" {
		switch rnd.IntN(10) {
		case 0:
			parts = append(parts, name(rnd, "op")+":"+quoted(rnd, "delete"))
		case 1:
			if c.table == nil {
				parts = append(parts, name(rnd, "op")+":"+quoted(rnd, "update"))
			}
		}
	}
	if c.table != nil {
		parts = append(parts, c.table.values(rnd)...)
	} else {
		for _, i := range rnd.Perm(len(s.columns))[:rnd.IntN(min(len(s.columns), 5)+1)] {
			parts = append(parts, s.field(s.columns[i]))
		}
	}
	if rnd.IntN(4) == 0 {
		rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	}
	line := "{" + strings.Join(parts, pick(rnd, []string{",", ",", ", "})) + "}"
	if rnd.IntN(20) == 0 {
		line = pick(rnd, []string{" ", "\t"}) + line + pick(rnd, []string{" ", "\r"})
	}
	return line
}

// field draws a value of a column, with its name; sometimes twice.
func (s *feedSource) field(column string) string {
	rnd := s.rnd
	one := func() string {
		switch {
		case rnd.IntN(8) == 0 && (!s.c.postgres || s.c.rules.MaxColumns == 500 || !notYet["nulls where few columns are added"]):
			return "null"
		case rnd.IntN(40) == 0 && s.kind[column] != texts:
			return value(rnd, mixed)
		case rnd.IntN(200) == 0 && s.kind[column] == texts:
			return `"a\u0000b"`
		}
		return value(rnd, s.kind[column])
	}
	text := s.spelled(column) + ":" + one()
	if rnd.IntN(20) == 0 {
		return name(rnd, column) + ":" + pick(rnd, []string{one(), value(rnd, kinds), `"overridden\u0000"`}) + "," + text
	}
	return text
}

// spelled is anyCase, but of two writers at once the first one to create a column decides which case is right.
func (s *feedSource) spelled(column string) string {
	if s.c.writers == 2 && !s.c.inTurn {
		return name(s.rnd, column)
	}
	return anyCase(s.rnd, column)
}

// anyCase is name, but a name in a hundred is in another case.
func anyCase(rnd *rand.Rand, s string) string {
	if rnd.IntN(100) == 0 {
		s = strings.ToUpper(s)
	}
	return name(rnd, s)
}

func name(rnd *rand.Rand, s string) string {
	if rnd.IntN(10) == 0 {
		return quoted(rnd, s)
	}
	return foldtest.Value{Kind: foldtest.String, Text: s}.JSON()
}

// key draws a spelling of a part of a key.
func (s *feedSource) key(part, id int) string {
	rnd, c := s.rnd, s.c
	kind := c.keys[part]
	if part > 0 {
		id %= 3
	} else if c.writers == 2 && !c.inTurn && (c.rules.Version == "" || c.rules.RowScope) && !c.counters {
		id += 1000 * s.writer
	}
	switch kind {
	case "int":
		return pick(rnd, []string{fmt.Sprint(id), fmt.Sprint(id), fmt.Sprintf(`"%d"`, id), fmt.Sprintf("%d.0", id), fmt.Sprintf("%de-1", 10*id)})
	case "text":
		return quoted(rnd, fmt.Sprintf("k %d ü", id))
	case "mixed":
	default:
		if bad := userKeys[kind].bad; len(bad) > 0 && rnd.IntN(60) == 0 {
			return pick(rnd, bad)
		}
		return pick(rnd, userKeys[kind].spell(id))
	}
	// Of all kinds: all are different keys, except texts of the same number.
	all := []string{fmt.Sprint(id), fmt.Sprintf(`"%d"`, id), fmt.Sprintf("%d.0", id), fmt.Sprintf(`"0%d"`, id), "true", quoted(rnd, "key\u00a0"), "-0", "1e3", fmt.Sprintf("1234567890123456789%d", id), quoted(rnd, "x'y\"z")}
	return all[min(rnd.IntN(2*len(all)), len(all)-1)]
}

// versions draws versions, all different if they must be.
func (c *randomCase) versions(rnd *rand.Rand, n int) []string {
	out := make([]string, n)
	from := n
	if c.rules.RowScope && rnd.IntN(2) == 0 || c.writers == 1 && rnd.IntN(2) == 0 {
		from = 1 + n/2 // some are equal
	}
	if c.writers == 2 {
		from = n
	}
	for i, v := range rnd.Perm(n) {
		v %= from
		spellings := []string{fmt.Sprint(v), fmt.Sprint(v), fmt.Sprintf(`"%d"`, v)}
		if !c.rules.RowScope || c.table == nil {
			spellings = append(spellings, fmt.Sprintf("%d.0", v), fmt.Sprintf(`"%d.00"`, v), fmt.Sprintf("%de0", v), fmt.Sprintf(`"0%d"`, v))
		}
		if c.table == nil {
			spellings = append(spellings, fmt.Sprintf(`"%da"`, v), fmt.Sprintf(`"v%d"`, v), timeVersion(rnd, v))
		}
		out[i] = pick(rnd, spellings)
	}
	if i := rnd.IntN(4 * n); i < n {
		out[i] = pick(rnd, []string{"null", `""`, "[]"})
	}
	return out
}

// timeVersion returns one of the spellings of a time: a greater version is a later time.
func timeVersion(rnd *rand.Rand, v int) string {
	at := time.Date(2026, 11, 23, 23, 59, 0, v%10*100_000_000, time.UTC).Add(time.Duration(v/10) * time.Second)
	at = at.In(time.FixedZone("", 60*(rnd.IntN(1440)-720)))
	layout := pick(rnd, []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.000000000000Z07:00", "2006-01-02t15:04:05.999999999Z07:00"})
	return `"` + at.Format(layout) + `"`
}

// drawColumns draws the columns of a feed, and their kinds.
func drawColumns(rnd *rand.Rand, c *randomCase) (columns []string, kind map[string]int) {
	kind = map[string]int{}
	for range 1 + rnd.IntN(7) {
		f := pick(rnd, fields)
		if f == "op" && c.rules.DeleteField != "" || slices.Contains(columns, f) {
			continue
		}
		columns = append(columns, f)
		kind[f] = rnd.IntN(kinds)
	}
	return columns, kind
}
