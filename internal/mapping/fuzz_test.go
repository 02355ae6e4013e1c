package mapping_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/mapping"
)

// fuzzed is a mapping that asks for something of most parts of a message.
func fuzzed() mapping.Mapping {
	return mapping.Mapping{Ignore: when("op=skip"), MaxEach: 5, Tables: []mapping.Table{
		{Name: "t", Key: []string{"id"}, When: when("type!=x|null"), Columns: columns(`id: as text, n: a as integer; b.c as integer, at: a as timestamp, num: b.c as numeric(5,2), f: list[1] as boolean, u: a as uuid, d: b.d as date, y: b.d as bytes, whole: $ as json`)},
		{Name: "sets", Of: "t", Each: path("items"), Key: []string{"k"}, Columns: columns("k: sku; meta key, x, up: ^.a"), Rest: "add", Parent: map[string]string{"id": "t_id"}},
		{Name: "deeper", Of: "sets", Each: path("x"), Key: []string{"k2"}, Columns: columns("k2: .")},
		{Name: "all", At: path("b"), Key: []string{"c"}, When: when("b.c")},
	}}
}

// FuzzMap: any message is taken, ignored or rejected as by the plain model.
func FuzzMap(f *testing.F) {
	for _, line := range []string{`{"id":1,"a":"2020-05-15T13:30:00Z","b":{"c":1.50,"d":"2024-02-29"},"items":[{"sku":"x","x":[1,2]},{"sku":1}]}`, `{"id":"\u0041","b":{"\u0063":"07","c":null},"items":{"a":{"x":[]},"\u0061":7},"list":[0,"1"]}`,
		`{"op":"skip"}`, `{"type":null}`, `{"id":1,"a":1589549400123,"items":null,"b":[1]}`, ` { "id" : 1 , "items" : [ { "sku" : true , "x" : [ "]" , "\"" ] , "z" : { } } ] } `} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var l feed.Line
		if l.Scan(feed.NewScanner(&feed.Names{}), nil, []byte(line)); l.Err != nil {
			return
		}
		if _, err := foldtest.Parse([]byte(line)); err != nil {
			t.Skip(err)
		}
		m := fuzzed()
		outcome, err := foldtest.NewModel(&m, false).Apply(line, 1, 0)
		if err != nil {
			outcome = "rejected"
		}
		if got, _, _ := strings.Cut(cmp.Or(folded(t, m, line), string(foldtest.Taken)), ":"); got != string(outcome) {
			t.Fatalf("%s is %s, want %s (%v)", line, got, outcome, err)
		}
	})
}
