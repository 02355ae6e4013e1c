package mapping

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/testcheck"
)

func member(name string) Step { return Step{Name: name, Index: -1} }

func TestParsePath(t *testing.T) {
	f := func(text string, base Base, steps ...Step) {
		t.Helper()
		p, err := ParsePath(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if p.Base != base || !reflect.DeepEqual(p.Steps, steps) || p.Text != text {
			t.Errorf("%s is %+v", text, p)
		}
	}
	f("a", RowBase, member("a"))
	f("a.b", RowBase, member("a"), member("b"))
	f(`"x.y".z`, RowBase, member("x.y"), member("z"))
	f(`a."b c"`, RowBase, member("a"), member("b c"))
	f(`"\u0041\"".""`, RowBase, member(`A"`), member(""))
	f("a[0]", RowBase, member("a"), Step{Index: 0})
	f("a[0][12].b", RowBase, member("a"), Step{Index: 0}, Step{Index: 12}, member("b"))
	f("[0]", RowBase, Step{Index: 0})
	f(".", RowBase)
	f("$", MessageBase)
	f("$.a", MessageBase, member("a"))
	f("$[1]", MessageBase, Step{Index: 1})
	f("^", ParentBase)
	f("^.a", ParentBase, member("a"))
	f("_id.$oid", RowBase, member("_id"), member("$oid"))
	f("größe-2", RowBase, member("größe-2"))
}

func TestParsePath_Refuses(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if p, err := ParsePath(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %s", text, p, err, want)
		}
	}
	f("", "a name is empty")
	f("a.", "a name is empty")
	f(".a", "a name is empty")
	f("a..b", "a name is empty")
	f("$.", "a name is empty")
	f("$id", "a name that begins with $ needs double quotes")
	f("^a", "a name that begins with ^ needs double quotes")
	f("a b", `a name with ' ' in it needs double quotes`)
	f("a]", `a name with ']' in it needs double quotes`)
	f(`a"b"`, "needs double quotes")
	f("a[x]", "an index is a whole number")
	f("a[-1]", "an index is a whole number")
	f("a[0", "an index is a whole number")
	f("a[0]b", `a dot is missing before "b"`)
	f(`"a"b`, `a dot is missing before "b"`)
	f(`"a`, "not a JSON string")
}

func TestParseSource(t *testing.T) {
	f := func(text, path string, as Type) {
		t.Helper()
		s, err := ParseSource(text, "my.column")
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if s.From.String() != path || s.As != as {
			t.Errorf("%q is %s as %s", text, s.From, s.As)
		}
	}
	f("", `"my.column"`, Type{})
	f("as integer", `"my.column"`, Type{Kind: Integer})
	f("a.b", "a.b", Type{})
	f("a.b as timestamp_ms", "a.b", Type{Kind: TimestampMs})
	f("  a   as  date ", "a", Type{Kind: Date})
	f("$ as json", "$", Type{Kind: JSON})
	f(`"x as y" as text`, `"x as y"`, Type{Kind: Text})
	f(`"x\" as y"`, `"x\" as y"`, Type{})
	f("total as numeric(12, 2)", "total", Type{Kind: Numeric, Precision: 12, Scale: 2})
	f("as", "as", Type{})
	f("as as text", "as", Type{Kind: Text})
	for text, want := range map[string]string{"a as int": `unknown type "int"`, "a as": "needs double quotes", "a b": "needs double quotes", "as": ""} {
		if s, err := ParseSource(text, "c"); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v, %v, want %s", text, s, err, want)
		}
	}
}

func TestParseType(t *testing.T) {
	f := func(text string, want Type, spelled string) {
		t.Helper()
		if got, err := ParseType(text); err != nil || got != want || got.String() != spelled {
			t.Errorf("%s is %+v (%s), %v", text, got, got, err)
		}
	}
	for _, k := range TypeNames {
		f(string(k), Type{Kind: k}, string(k))
	}
	f("numeric(12,2)", Type{Kind: Numeric, Precision: 12, Scale: 2}, "numeric(12,2)")
	f("numeric ( 7 )", Type{Kind: Numeric, Precision: 7}, "numeric(7)")
	for _, text := range []string{"", "int", "numeric(", "numeric()", "numeric(0)", "numeric(2,3)", "numeric(1001)", "numeric(2,-1)", "numeric(1,2,3)", "numeric(12,2) x", "text(3)", "Text"} {
		if got, err := ParseType(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func TestParseWhen(t *testing.T) {
	f := func(text string, path string, v Value) {
		t.Helper()
		w, err := ParseWhen(text)
		if err != nil || len(w) != 1 || len(w[0]) != 1 || w[0][0].Path.String() != path || !reflect.DeepEqual(w[0][0].In, []Value{v}) {
			t.Errorf("%s is %+v, %v", text, w, err)
		}
	}
	f("op=delete", "op", Value{Text: "delete"})
	f("op=", "op", Value{})
	f("op=null", "op", Value{Null: true})
	f("a.b=x=y", "a.b", Value{Text: "x=y"})
	for _, text := range []string{"", "op", "=x", "op==x", "a..b=x"} {
		if w, err := ParseWhen(text); err == nil {
			t.Errorf("%q is %+v", text, w)
		}
	}
}

// A path that was read is written so that it is read the same again.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"a.b", `"x.y".z`, "a[0]", ".", "$", "$.a", "^.a", "$[0].b", `"".""`, `"\ud800"`, "[0]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			return
		}
		again, err := ParsePath(p.String())
		if err != nil || again.Base != p.Base || !reflect.DeepEqual(again.Steps, p.Steps) {
			t.Errorf("%q is written %q, which is %+v, %v", text, p, again, err)
		}
	})
}

func TestSchemaColumns(t *testing.T) {
	f := func(properties, want string) {
		t.Helper()
		columns, err := schemaColumns([]byte(`{"type":"object","required":["id"],"properties":{` + properties + `},"additionalProperties":false}`))
		testcheck.NoError(t, err)
		var got []string
		for _, c := range columns {
			got = append(got, fmt.Sprintf("%s %s", c.Name, c.From[0].As))
			if steps := c.From[0].From.Steps; len(steps) != 1 || steps[0].Name != c.Name {
				t.Errorf("%q is of %v", c.Name, steps)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %s, want %s", properties, strings.Join(got, ", "), want)
		}
	}
	f(`"z":{"type":["null","integer"]},"a":{"type":"number"}`, "z integer, a numeric")
	f(`"a b.\"c\\":{"type":["boolean","null"]}`, `a b."c\ boolean`)
	f(`"a":{"type":["null","string"],"format":"date-time"},"b":{"type":"string","format":"date"},"c":{"type":"string","format":"uuid"},"d":{"type":"string","format":"time"}`,
		"a timestamp_utc, b date, c uuid, d text")
	f(`"a":{"type":["null","object"]},"b":{"type":"array","items":{"type":"integer"}},"c":{"type":["string","object","null"]}`, "a json, b json, c json")
	f(`"a":{"anyOf":[{"type":"string","format":"date-time"},{"type":["string","null"]}]}`, "a text")
	f(`"a":{"anyOf":[{"type":"string","format":"date-time"},{"type":"null"}]},"b":{"oneOf":[{"type":"integer"},{"type":"number"}]}`, "a timestamp_utc, b numeric")
	f(`"a":{"type":["integer","string"]},"b":{},"c":true,"d":{"type":"null"}`, "a auto, b auto, c auto, d ")
	f(`"a":{"type":"integer","minimum":0,"maximum":18446744073709551615},"b":{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}`, "a numeric, b integer")
	f(`"a":`+strings.Repeat(`{"anyOf":[`, 50)+`{"type":"integer"}`+strings.Repeat(`]}`, 50), "a auto")
	f("", "")
	if _, err := schemaColumns([]byte(`[]`)); err == nil {
		t.Error("took an array")
	}
}
