package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
)

// own is a column of weir's after values, as a run finds it that comes later.
func own(t *testing.T, values ...string) Table {
	t.Helper()
	c := New("c", false)
	for _, v := range values {
		if err := c.Admit([]byte(v), feed.KindOf([]byte(v))); err != nil {
			t.Fatal(err)
		}
	}
	found := Table{Name: "t", Columns: []Column{{Name: "c"}, {Name: "theirs", Type: Int}}}
	marks := (&Table{Columns: []Column{c}}).Marks()
	if err := found.Own(marks, func(*Column, Type) bool { return true }, func(*Column) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if got := found.Columns[0]; got.Type != c.Type || !got.Own {
		t.Errorf("%v: the column is %v, and to the next run %v (%s)", values, c.Type, got.Type, marks)
	}
	if found.Columns[1].Own {
		t.Error("a column without a mark is weir's")
	}
	return found
}

// TestGrow_IsTheUnion: the type of a column depends on the set of values alone, whichever
// way they are spread over batches, and over runs that do not know of each other.
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
				if err != nil {
					t.Fatal(err)
				}
				if got := have.Columns[0].Type; got != want {
					t.Errorf("%v and then %v make %v, and together %v", parts[0], parts[1], got, want)
				}
				if again, err := have.Grow(&Limits{Untyped: true}, &batch, everything); err != nil || len(again) > 0 {
					t.Errorf("%v and then %v twice: %v, %v after %v", parts[0], parts[1], again, err, grown)
				}
			}
		}
	}
}

// TestGrow_ColumnsOfOthers are not widened, and an error says why.
func TestGrow_ColumnsOfOthers(t *testing.T) {
	nothing := func(int) bool { return false }
	for _, c := range []struct {
		have  Column
		batch []string
		why   string
	}{
		{Column{Type: Int, Decl: "bigint", Held: "view v uses it"}, []string{"1", `"x"`}, "view v uses it"},
		{Column{Type: Int, Decl: "bigint", Held: "view v uses it"}, []string{"1", "null"}, ""},
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

// TestOwn_WhatOthersAltered is theirs.
func TestOwn_WhatOthersAltered(t *testing.T) {
	table := Table{Columns: []Column{{Name: "a", Decl: "bigint"}, {Name: "b", Decl: "date"}, {Name: "c", Decl: "bigint"}}}
	err := table.Own(`{"a":"integer","b":"integer","c":"nonsense","gone":"text"}`, func(c *Column, as Type) bool { return c.Decl == "bigint" && as == Int }, func(*Column) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(func(yield func(bool) bool) {
		for _, c := range table.Columns {
			yield(c.Own)
		}
	}); !slices.Equal(got, []bool{true, false, false}) {
		t.Errorf("weir's are %v", got)
	}
	if err := table.Own("damaged", nil, nil); err == nil {
		t.Error("marks that cannot be read are taken for none")
	}
}
