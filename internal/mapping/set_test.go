package mapping

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestSet_RoundTrip: the rows of a set are decoded as they were encoded, with the sets in them and their named
// fields.
func TestSet_RoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var e setEncoder
	for range 200 {
		e.reset()
		sets, wants := [][]byte{}, []string{}
		for range 1 + rnd.IntN(3) { // one after another, like the sets of one message
			from := e.begin()
			wants = append(wants, drawSet(rnd, &e, 2))
			sets = append(sets, e.since(from))
		}
		for i, want := range wants {
			if got := readSet(t, sets[i], 2); got != want {
				t.Fatalf("%s is read as %s, want %s", sets[i], got, want)
			}
		}
	}
}

// drawSet encodes a set whose rows have two values, a set as deep as depth allows, and named fields. It returns the
// set in readSet's form.
func drawSet(rnd *rand.Rand, e *setEncoder, depth int) string {
	values := []string{"null", "1", `"[\"{"`, "[]", "{}", `[{"a":[1]}]`, `"\u005b"`, "true"}
	var out strings.Builder
	e.open('[')
	for range rnd.IntN(4) {
		out.WriteString("<")
		e.open('[')
		for range 2 {
			v := values[rnd.IntN(len(values))]
			e.value([]byte(v))
			out.WriteString(v + ";")
		}
		if depth > 0 {
			out.WriteString(drawSet(rnd, e, depth-1))
		}
		e.open('{')
		for i := range rnd.IntN(3) {
			name, v := fmt.Sprintf(`n\"%d`, i), values[rnd.IntN(len(values))]
			e.member([]byte(name), []byte(v))
			out.WriteString(name + "=" + v + ";")
		}
		e.close('}')
		e.close(']')
		out.WriteString(">")
	}
	e.close(']')
	return out.String()
}

func readSet(t *testing.T, set []byte, depth int) string {
	var out strings.Builder
	testcheck.NoError(t, eachSetRow(set, func(_ int, r *setRow) error {
		out.WriteString("<")
		for range 2 {
			fmt.Fprintf(&out, "%s;", r.value().Value)
		}
		if depth > 0 {
			out.WriteString(readSet(t, r.set(), depth-1))
		}
		r.members(func(name []byte, f feed.Field) { fmt.Fprintf(&out, "%s=%s;", name, f.Value) })
		out.WriteString(">")
		return nil
	}))
	return out.String()
}
