package mapping

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestSpelling parses the texts in testdata/spelling.txtar.
func TestSpelling(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/spelling.txtar", func(t *testing.T, kind, spelled string) string {
		meaning, err := meaning(kind, spelled)
		if err != nil {
			return "error: " + err.Error()
		}
		return meaning
	})
}

// meaning returns what the program understands by a text.
func meaning(kind, text string) (out string, err error) {
	switch kind {
	case "path":
		p, err := paths.ParsePath(text)
		out = map[paths.Base]string{paths.DefaultBase: "row", paths.MessageBase: "message", paths.ParentBase: "parent"}[p.Base]
		for _, s := range p.Steps {
			if s.Index >= 0 {
				out += fmt.Sprintf(", %d", s.Index)
			} else {
				out += fmt.Sprintf(", %q", s.Name)
			}
		}
		return out, err
	case "source":
		var path TypedPath
		err := path.UnmarshalText([]byte(text))
		s := path.Source("my.column")
		return fmt.Sprintf("%s, type %q", s.From, s.As), err
	case "type":
		t, err := cast.ParseType(text)
		return fmt.Sprintf("%s, precision %d, scale %d", t, t.Precision, t.Scale), err
	case "condition":
		w, err := paths.ParseWhen(text)
		return fmt.Sprintf("%+v", w), err
	}
	r, err := envelope.JSONSchema([]byte(`{"type":"object","required":["id"],"properties":` + text + `,"additionalProperties":false}`))
	if err != nil {
		return "", err
	}
	for _, f := range r.Fields {
		out += fmt.Sprintf("%s from %s as %q, ", f.Field, paths.FieldPath(f.Field), f.Kind)
	}
	return strings.TrimSuffix(out, ", "), err
}

// A parsed path is printed so it is parsed the same again.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"a.b", `"x.y".z`, "a[0]", ".", "$", "$.a", "^.a", "$[0].b", `"".""`, `"\ud800"`, "[0]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := paths.ParsePath(text)
		if err != nil {
			return
		}
		again, err := paths.ParsePath(p.String())
		if err != nil || again.Base != p.Base || !reflect.DeepEqual(again.Steps, p.Steps) {
			t.Errorf("%q is written %q, which is %+v, %v", text, p, again, err)
		}
	})
}
