package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// trimmed is a collation that ignores trailing blanks.
type trimmed struct{}

func (trimmed) Form(text []byte) []byte { return bytes.TrimRight(text, " ") }
func (trimmed) String() string          { return "trimmed" }

// columnOf returns a column of the type in text, which may begin with "trimmed" and end with fields of a Column as
// JSON.
func columnOf(t *testing.T, text string) *Column {
	t.Helper()
	text, trims := strings.CutPrefix(text, "trimmed ")
	typ, options, _ := strings.Cut(text, " ")
	c := &Column{Name: "c"}
	if trims {
		c.Collation = trimmed{}
	}
	for c.Type.String() != typ {
		c.Type++
	}
	testcheck.NoError(t, json.Unmarshal([]byte(cmp.Or(options, "{}")), c))
	return c
}

// TestColumn runs the cases in testdata/columns.txtar.
func TestColumn(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/columns.txtar", func(t *testing.T, section, values string) string {
		does, of, _ := strings.Cut(section, " ")
		c := columnOf(t, cmp.Or(of, "any"))
		switch one, other, _ := strings.Cut(values, " | "); does {
		case "takes":
			if err := c.Admit([]byte(one), feed.KindOf([]byte(one))); err != nil {
				return err.Error()
			}
			return "yes"
		case "respelled":
			return fmt.Sprint(c.Respelled([]byte(one), []byte(other)))
		}
		fields := strings.Fields(values)
		made := own(t, fields...).Columns[0].Type
		if slices.Reverse(fields); own(t, fields...).Columns[0].Type != made {
			t.Errorf("%s: the type depends on the order", values)
		}
		return made.String()
	})
}

// TestColumn_AppendKey runs the cases in testdata/keys.txtar: each line has the spellings of one key.
func TestColumn_AppendKey(t *testing.T) {
	testcheck.Golden(t, "testdata/keys.txtar", func(t *testing.T, section, text string) (out string) {
		c := columnOf(t, section)
		c.Key = true
		var keys []string
		of := map[string][]string{}
		for _, v := range strings.Split(strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "  "), "  ") {
			key := string(c.AppendKey(nil, []byte(v), feed.KindOf([]byte(v))))
			if of[key] == nil {
				keys = append(keys, key)
			}
			of[key] = append(of[key], v)
		}
		for _, key := range keys {
			out += strings.Join(of[key], "  ") + "\n"
		}
		return out
	})
}

// own returns a table with a column that weir made after some values, as a later run reads it.
func own(t *testing.T, values ...string) Table {
	t.Helper()
	c := New("c", false)
	for _, v := range values {
		if err := c.Admit([]byte(v), feed.KindOf([]byte(v))); err != nil { // not NoError: a nil *feed.Error is no nil error
			t.Fatal(err)
		}
	}
	found := Table{Name: "t", Columns: []Column{{Name: "c"}, {Name: "theirs", Type: Int}}}
	marks := (&Table{Columns: []Column{c}}).Marks()
	testcheck.NoError(t, found.Own(marks, func(_, _ *Column) bool { return true }, func(*Column) string { return "" }))
	if got := found.Columns[0]; got.Type != c.Type || !got.Own {
		t.Errorf("%v: the column is %v, and in the next run %v (%s)", values, c.Type, got.Type, marks)
	}
	if found.Columns[1].Own {
		t.Error("a column without a mark is weir's")
	}
	return found
}

// TestGrow_IsTheUnion: a column's type depends only on the set of its values, not on how they are spread over batches
// and concurrent runs.
func TestGrow_IsTheUnion(t *testing.T) {
	values := []string{"null", "true", "1", "9007199254740993", "1.5", "0.1234567890123456789", "1e200000", `"x"`, `{"a":1}`}
	everything := func(int) bool { return true }
	for set := range 1 << len(values) {
		var in []string
		for i, v := range values {
			if set>>i&1 == 1 {
				in = append(in, v)
			}
		}
		want := own(t, in...).Columns[0].Type
		for at := range len(in) + 1 {
			for _, parts := range [][2][]string{{in[:at], in[at:]}, {in[at:], in[:at]}} {
				have, batch := own(t, parts[0]...), own(t, parts[1]...)
				grown, err := have.Grow(&Limits{Untyped: true}, &batch, everything)
				testcheck.NoError(t, err)
				if got := have.Columns[0].Type; got != want {
					t.Errorf("%v and then %v make %v, but all at once %v", parts[0], parts[1], got, want)
				}
				if again, err := have.Grow(&Limits{Untyped: true}, &batch, everything); err != nil || len(again) > 0 {
					t.Errorf("%v and then %v twice: %v, %v after %v", parts[0], parts[1], again, err, grown)
				}
			}
		}
	}
}

// TestGrow_ColumnsOfOthers: they are not widened, and the error says why.
func TestGrow_ColumnsOfOthers(t *testing.T) {
	nothing := func(int) bool { return false }
	for _, c := range []struct {
		have  Column
		batch []string
		why   string
	}{
		{Column{Type: Int, Decl: "bigint", Widening: Widening{Held: "view v uses it"}}, []string{"1", `"x"`}, "view v uses it"},
		{Column{Type: Int, Decl: "bigint", Widening: Widening{Held: "view v uses it"}}, []string{"1", "null"}, ""},
		{Column{Type: Int, Decl: "INTEGER"}, []string{"1.5"}, "it is INTEGER"},
		{Column{Type: Day, Decl: "date"}, []string{`"x"`}, "it is date"},
		{Column{Type: Any}, []string{"1", "true", `"x"`}, ""},
		{Column{Type: Text, Decl: "text"}, []string{"1", "true", `"x"`}, ""},
	} {
		c.have.Name = "c"
		have, batch := Table{Name: "t", Columns: []Column{c.have}}, own(t, c.batch...)
		grown, err := have.Grow(&Limits{}, &batch, nothing)
		if len(grown) > 0 {
			t.Errorf("%+v was widened", c.have)
		}
		if (err != nil) != (c.why != "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%+v and %v: %v", c.have, c.batch, err)
		}
	}
}

// TestOwn_WhatOthersAltered: a column that others altered is no longer weir's.
func TestOwn_WhatOthersAltered(t *testing.T) {
	table := Table{Columns: []Column{{Name: "a", Decl: "bigint"}, {Name: "b", Decl: "date"}, {Name: "c", Decl: "bigint"}}}
	err := table.Own(`{"a":"integer","b":"integer","c":"nonsense","gone":"text"}`, func(c, own *Column) bool { return c.Decl == "bigint" && own.Type == Int }, func(*Column) string { return "" })
	testcheck.NoError(t, err)
	if got := slices.Collect(func(yield func(bool) bool) {
		for _, c := range table.Columns {
			yield(c.Own)
		}
	}); !slices.Equal(got, []bool{true, false, false}) {
		t.Errorf("weir's are %v", got)
	}
	if err := table.Own("damaged", nil, nil); err == nil {
		t.Error("damaged marks are ignored")
	}
}
