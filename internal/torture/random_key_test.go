package torture

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/foldtest"
)

// A userKey is the kind of a key's column in a table of a user's: which values are one
// key, and how a feed spells one.
type userKey struct {
	decl  string
	takes func(foldtest.Value) bool
	same  func(foldtest.Value) string
	spell func(id int) []string
	bad   []string
}

func text(v foldtest.Value) string { return v.Text }

func decimal(v foldtest.Value) string {
	n, _ := foldtest.Decimal(v.Text)
	return n
}

func nearest(v foldtest.Value) string {
	f, _ := strconv.ParseFloat(v.Text, 64)
	return fmt.Sprint(f + 0) // without the sign of zero
}

func wholeOf(bits int) func(foldtest.Value) bool {
	return func(v foldtest.Value) bool { return whole(v, bits) }
}

// userKeys are those of the databases.
var userKeys = map[string]userKey{
	"number": {"bigint", wholeOf(64), decimal, func(id int) []string {
		return []string{fmt.Sprint(id), fmt.Sprintf(`"%d"`, id), fmt.Sprintf("%d.0", id), fmt.Sprintf("%de0", id)}
	}, []string{"1.5", `"x"`, `"01"`, "true"}},
	"text": {"TEXT", nil, text, func(id int) []string {
		return []string{fmt.Sprintf(`"k %d ü"`, id), fmt.Sprintf(`"\u006b %d ü"`, id), fmt.Sprintf(`"k\u0020%d \u00fC"`, id)}
	}, nil},
	"small": {"smallint", wholeOf(16), decimal, func(id int) []string { // wrong keys are past it
		return []string{fmt.Sprint(id), fmt.Sprintf(`"%d"`, id), fmt.Sprintf("%d.0", id)}
	}, []string{"40000", "[]"}},
	"numeric": {"numeric", number, decimal, func(id int) []string {
		return []string{fmt.Sprintf("%d.5", id), fmt.Sprintf(`"%d.50"`, id), fmt.Sprintf("%d5e-1", id), fmt.Sprintf("%d.500", id)}
	}, []string{`"x"`, "true"}},
	"double": {"double precision", double, nearest, func(id int) []string {
		return []string{fmt.Sprintf("%d.5", id), fmt.Sprintf(`"%d.50"`, id), fmt.Sprintf("%d5e-1", id)}
	}, []string{`"x"`, "1e400"}},
	"uuid": {"uuid", func(v foldtest.Value) bool { return uuid.MatchString(strings.ToLower(v.Text)) }, func(v foldtest.Value) string { return strings.ToLower(v.Text) },
		func(id int) []string {
			return []string{fmt.Sprintf(`"a0eebc99-9c0b-4ef8-bb6d-%012x"`, id), fmt.Sprintf(`"A0EEBC99-9C0B-4EF8-BB6D-%012X"`, id)}
		}, []string{`"x"`, "7"}},
	"nocase": {"TEXT COLLATE NOCASE", nil, func(v foldtest.Value) string { return strings.ToLower(v.Text) }, func(id int) []string {
		return []string{fmt.Sprintf(`"key %d"`, id), fmt.Sprintf(`"KEY %d"`, id), fmt.Sprintf(`"Key\u0020%d"`, id)}
	}, nil},
	"rtrim": {"TEXT COLLATE RTRIM", nil, func(v foldtest.Value) string { return strings.TrimRight(v.Text, " ") }, func(id int) []string {
		return []string{fmt.Sprintf(`"key %d"`, id), fmt.Sprintf(`"key %d  "`, id)}
	}, nil},
	"char": {"char(12)", func(v foldtest.Value) bool { return len([]rune(strings.TrimRight(v.Text, " "))) <= 12 }, func(v foldtest.Value) string { return strings.TrimRight(v.Text, " ") }, func(id int) []string {
		return []string{fmt.Sprintf(`"k%d"`, id), fmt.Sprintf(`"k%d             "`, id)}
	}, []string{`"0123456789012"`}},
	"untyped": {"", nil, text, func(id int) []string {
		return []string{fmt.Sprintf(`"k%d"`, id), fmt.Sprintf(`"\u006b%d"`, id)}
	}, nil},
}

// drawUserKey draws the kind of a key's column.
func drawUserKey(rnd *rand.Rand, postgres bool) string {
	if rnd.IntN(2) == 0 {
		return pick(rnd, []string{"number", "text"})
	}
	if postgres {
		return pick(rnd, []string{"small", "numeric", "double", "uuid", "char"})
	}
	return pick(rnd, []string{"double", "nocase", "rtrim", "untyped"})
}
