package feed_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weirsync/weir/internal/feed"
)

// A step is one value of a walk.
type step struct {
	depth     int
	name, raw string
	named     bool
	kind      feed.Kind
}

// walked steps through a value; into reports which objects and arrays it steps into.
func walked(value []byte, into func(step int) bool) []step {
	var steps []step
	w := feed.Walk(value)
	for w.Next() {
		s := step{depth: w.Depth, name: string(feed.AppendUnquoted(nil, w.Name)), named: w.Name != nil, kind: w.Kind}
		if w.Kind != feed.JSON || !into(len(steps)) {
			s.raw = string(w.Raw())
		}
		steps = append(steps, s)
	}
	return steps
}

// strictly are the steps that a strict parser makes of it.
func strictly(t *testing.T, value []byte, into func(step int) bool) []step {
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	var steps []step
	fail := func(err error) {
		if err != nil {
			t.Fatalf("%q: %v", value, err)
		}
	}
	var walk func(depth int, s step)
	walk = func(depth int, s step) {
		s.depth = depth
		switch c := d.PeekKind(); {
		case (c == '{' || c == '[') && into(len(steps)):
			_, err := d.ReadToken()
			fail(err)
			s.kind = feed.JSON
			steps = append(steps, s)
			for d.PeekKind() != '}' && d.PeekKind() != ']' {
				var member step
				if c == '{' {
					name, err := d.ReadToken()
					fail(err)
					member.name, member.named = name.String(), true
				}
				walk(depth+1, member)
			}
			_, err = d.ReadToken()
			fail(err)
		default:
			v, err := d.ReadValue()
			fail(err)
			s.raw, s.kind = string(v), kindOf(v)
			steps = append(steps, s)
		}
	}
	walk(0, step{})
	return steps
}

// FuzzWalk holds the walk through a value that the scanner takes against a strict parser; skip
// says which objects and arrays are read whole.
func FuzzWalk(f *testing.F) {
	for _, line := range adversarial {
		f.Add([]byte(line), uint64(0))
		f.Add([]byte(line), uint64(6))
	}
	f.Add([]byte(`{"a":[[],[[]],{"b":{},"":[1,-2.5e-3,"\\","\\\"",null,true,false,"]}"]}] , "c\n" : "d" , "e":{"f":[" :"]}}`), uint64(0b10100))
	f.Fuzz(func(t *testing.T, line []byte, skip uint64) {
		if _, err := feed.NewScanner(&feed.Names{}).Scan(line); err != nil {
			return
		}
		into := func(step int) bool { return step >= 64 || skip>>step&1 == 0 }
		got, want := walked(line, into), strictly(t, line, into)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%q, step %d:\n%+v\nwant\n%+v", line, i, got[min(i, len(got)):], want[min(i, len(want)):])
			}
		}
	})
}

// TestWalk_OffsetAndArray are of the value at hand, before it is read and after.
func TestWalk_OffsetAndArray(t *testing.T) {
	text := `{"a": [1, {"b":2}], "c":{}}`
	w := feed.Walk([]byte(text))
	for w.Next() {
		at := w.Offset()
		array := w.Array()
		if raw := string(w.Raw()); w.Depth > 0 && !strings.HasPrefix(text[at:], raw) || array != (raw[0] == '[') || at != w.Offset() {
			t.Errorf("%s at %d, array %v", raw, at, array)
		}
		if w.Depth == 0 {
			w = feed.Walk([]byte(text)) // it was read whole
			w.Next()
		}
	}
}

func TestWalk_AllocatesNothing(t *testing.T) {
	value := []byte(`{"a":[1,{"b\n":"c"},[[]]],"d":{"e":null}}`)
	n := testing.AllocsPerRun(10, func() {
		w := feed.Walk(value)
		for w.Next() {
			if w.Depth == 2 {
				w.Raw()
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWalk(b *testing.B) {
	value := []byte(`{"way":[` + strings.Repeat(`{"lat":1.5,"lon":2,"name":"Zürich HB"},`, 15) + `{}]}`)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		w := feed.Walk(value)
		for w.Next() {
		}
	}
}
