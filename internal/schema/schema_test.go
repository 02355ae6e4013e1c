package schema

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/testcheck"
)

// admits reports whether a column takes a value, given as JSON.
func admits(c *Column, value string) bool {
	return c.Admit([]byte(value), feed.KindOf([]byte(value))) == nil
}

func TestColumn_Takes(t *testing.T) {
	for _, c := range []struct {
		column    Column
		good, bad []string
	}{
		{Column{Type: Bool}, []string{`true`, `0`, `null`}, []string{`"true"`, `2`}},
		{Column{Type: Bool, Labels: []string{"true"}}, []string{`"true"`, `"tr\u0075e"`}, []string{`"yes"`}},
		{Column{Type: Int}, []string{`9223372036854775807`, `1.0`, `1e3`, `"7"`, `"-7"`, `"\u0037"`}, []string{`9223372036854775808`, `1.5`, `"07"`, `"7.0"`, `" 7"`, `-0`, `true`, `{}`}},
		{Column{Type: Int, Size: 2}, []string{`32767`, `-32768`, `"5"`}, []string{`32768`, `-32769`, `"40000"`}},
		{Column{Type: Int, Size: 4}, []string{`-2147483648`}, []string{`-2147483649`, `1e10`}},
		{Column{Type: Real}, []string{`1e308`, `"1.50"`, `"1.\u0035"`, `0`}, []string{`1e309`, `1e-400`, `"x"`, `""`}},
		{Column{Type: Real, Size: 4}, []string{`1e38`, `0.0`, `-0e5`}, []string{`1e39`, `1e-60`}},
		{Column{Type: Number}, []string{`123456789012345678901234567890.5`, `"7"`, `1e400`}, []string{`1e200000`, `1e-20000`, `"seven"`}},
		{Column{Type: Text}, []string{`"x"`, `7`, `{"a":1}`}, nil},
		{Column{Type: Text, Size: 3}, []string{`"日本語"`, `"\u0041bc"`, `123`}, []string{`"abcd"`, `"日本語x"`}},
		{Column{Type: Text, Size: 3, Collation: trimmed{}}, []string{`"abc  "`, `"日本語"`}, []string{`"abcd"`, `"  ab"`, `"abc\t"`}},
		{Column{Type: Affine}, []string{`7`, `"7"`, `"\u0037"`, `"a"`}, []string{`"07"`, `"\u0030\u0037"`}},
		{Column{Type: Text, Size: 3, Bytes: true}, []string{`"\u0041bc"`, `"日"`, `123`}, []string{`"abcd"`, `"日本"`}},
		{Column{Type: JSON}, []string{`{"a":[1e5]}`, `"x"`, `{"1e200000":"1e200000"}`}, []string{`[1,-1e200000]`, `{"a\"":{"b":1E+999999999999999999999}}`}},
		{Column{Type: Enum, Labels: []string{"a", `b\c`}}, []string{`"a"`, `"b\\c"`}, []string{`"A"`, `""`}},
		{Column{Type: UUID}, []string{`"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `"{A0EEBC99-9C0B4EF8BB6D6BB9BD380A11}"`}, []string{`"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1"`, `"a0-eebc999c0b4ef8bb6d6bb9bd380a11"`, `"a0eebc99--9c0b4ef8bb6d6bb9bd380a11"`, `7`}},
		{Column{Type: Day}, []string{`"any text"`}, nil},
		{Column{Type: Day, Key: true}, []string{`"2024-02-29"`}, []string{`"2023-02-29"`, `"2024-2-29"`}},
		{Column{Type: Instant, Key: true}, []string{`"2024-02-29T10:00:00.5+02:00"`}, []string{`"2024-02-29 10:00:00"`, `17`}},
	} {
		c.column.Name = "c"
		for _, v := range c.good {
			if !admits(&c.column, v) {
				t.Errorf("a column of %s, %d bytes, does not take %s", c.column.Type, c.column.Size, v)
			}
		}
		for _, v := range c.bad {
			if admits(&c.column, v) {
				t.Errorf("a column of %s, %d bytes, takes %s", c.column.Type, c.column.Size, v)
			}
		}
	}
}

// TestColumn_Widens: the type holds all values so far, whatever their order.
func TestColumn_Widens(t *testing.T) {
	for values, want := range map[string]Type{
		`null`:                             Any,
		`true false null`:                  Bool,
		`1 -7 9223372036854775807`:         Int,
		`1 1.5`:                            Real,
		`9007199254740993 1.5`:             Number,
		`9223372036854775808`:              Number,
		`0.1234567890123456789 1`:          Number,
		`1e400`:                            Number,
		`1e200000 1`:                       Text,
		`"x" 1`:                            Text,
		`true 1`:                           Text,
		`{"a":1} [2]`:                      JSON,
		`{"a":1e200000}`:                   Text,
		`{"a":1} "x"`:                      Text,
		`[1] 1`:                            Text,
		`1.5 9007199254740992 null "007"`:  Text,
		`-0`:                               Real,
		`1.0 100 5e-324`:                   Real,
		`12345678901234567890123 0.5 true`: Text,
	} {
		fields := strings.Fields(values)
		for range 2 {
			c := New("c", false)
			for _, v := range fields {
				if !admits(&c, v) {
					t.Errorf("%s was rejected", v)
				}
			}
			if c.Type != want {
				t.Errorf("%v made a column of %s, want %s", fields, c.Type, want)
			}
			for i, j := 0, len(fields)-1; i < j; i, j = i+1, j-1 {
				fields[i], fields[j] = fields[j], fields[i]
			}
		}
	}
}

// trimmed is a collation by which blanks at the end do not count.
type trimmed struct{}

func (trimmed) Form(text []byte) []byte { return bytes.TrimRight(text, " ") }
func (trimmed) String() string          { return "trimmed" }

// TestColumn_AppendKey: the spellings in one group are one key, and no two groups
// are.
func TestColumn_AppendKey(t *testing.T) {
	for _, c := range []struct {
		column Column
		groups [][]string
	}{
		{Column{Type: Text}, [][]string{{`"A"`, `"\u0041"`}, {`"a"`}, {`1`, `"1"`}, {`"01"`}, {`1.0`, `"1.0"`}}},
		{Column{Type: Text, Collation: trimmed{}}, [][]string{{`"a"`, `"a "`}, {`" a"`}}},
		{Column{Type: Int}, [][]string{{`1`, `"1"`, `1.0`, `10e-1`}, {`-1`}, {`10`}}},
		{Column{Type: Real}, [][]string{{`0.5`, `5e-1`, `"0.50"`}, {`0.25`}, {`0`, `-0`, `-0.0`}, {`1e16`, `10000000000000000`}, {`9007199254740992`, `9007199254740993`, `9007199254740992.0`}, {`1e300`}}},
		{Column{Type: Any}, [][]string{{`1`, `1.0`}, {`"1"`}, {`"1.0"`}, {`0`, `-0.0`}, {`9007199254740994`, `9007199254740994.0`}, {`9007199254740993`}, {`9007199254740993.0`, `"9007199254740993.0"`},
			{`18446744073709551616`, `"18446744073709551616"`}, {`1.8446744073709552e19`}, {`-9223372036854775808`, `-9.223372036854776e18`}}},
		{Column{Type: Affine}, [][]string{{`1e16`, `10000000000000000`, `"10000000000000000"`}, {`9007199254740993`}, {`9007199254740992`}}},
		{Column{Type: Number}, [][]string{{`1`, `1.0`, `"1.00"`, `10e-1`}, {`1180591620717411303424`, `"1180591620717411303424.0"`}, {`1180591620717411303425`},
			{`0.1234567890123456789`}, {`0.1234567890123456788`}, {`0`, `0.0`, `-0`}, {`-1.50`, `-15e-1`},
			{`1e16`, `10000000000000000`}, {`-9007199254740994.0`, `-9007199254740994`}, {`9999999999999999999`, `9999999999999999999.0`}, {`1e19`, `10000000000000000000`}, {`1e18`}}},
		{Column{Type: Bool}, [][]string{{`true`, `1`, `"true"`, `"\u0074rue"`}, {`false`, `0`, `"false"`}}},
		{Column{Type: UUID}, [][]string{{`"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, `"a0eebc999c0b4ef8bb6d6bb9bd380a11"`}, {`"a0eebc999c0b4ef8bb6d6bb9bd380a12"`}}},
		{Column{Type: Instant}, [][]string{{`"2024-01-01T12:00:00Z"`, `"2024-01-01T14:00:00.000000+02:00"`, `"2024-01-01T12:00:00.0000005Z"`},
			{`"2024-01-01T12:00:00.000001Z"`, `"2024-01-01T12:00:00.0000005000001Z"`}, {`"2024-01-01T12:00:00.0000015Z"`, `"2024-01-01T12:00:00.0000025Z"`},
			{`"1969-12-31T23:59:59.9999996Z"`, `"1970-01-01T00:00:00Z"`}}},
		{Column{Type: Day}, [][]string{{`"2024-01-01"`}, {`"2024-01-02"`}}},
	} {
		c.column.Key = true
		seen := map[string]int{}
		for i, group := range c.groups {
			for n, v := range group {
				key := string(c.column.AppendKey(nil, []byte(v), feed.KindOf([]byte(v))))
				switch at, known := seen[key]; {
				case known && at != i:
					t.Errorf("a key of %s: %s is %s too", c.column.Type, v, c.groups[at][0])
				case !known && n > 0:
					t.Errorf("a key of %s: %s is not %s", c.column.Type, v, group[0])
				}
				seen[key] = i
			}
		}
	}
}

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
	testcheck.NoError(t, found.Own(marks, func(*Column, Type) bool { return true }, func(*Column) string { return "" }))
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
				testcheck.NoError(t, err)
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
	testcheck.NoError(t, err)
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

func TestRespelled_IsTheSameValue(t *testing.T) {
	f := func(typ Type, raw, text string, want bool) {
		t.Helper()
		c := Column{Type: typ}
		if got := c.Respelled([]byte(raw), []byte(text)); got != want {
			t.Errorf("%s: %s and %s: %v", typ, raw, text, got)
		}
	}
	f(Text, `1e3`, `1000`, true)
	f(Text, `1.50`, `1.5`, true)
	f(Text, `-0.0`, `0`, true)
	f(Text, `1e23`, `100000000000000000000000`, true)
	f(Text, `1e3`, `1001`, false)
	f(Text, `1e3`, `1000 `, false)
	f(Text, `"1e3"`, `1000`, false) // a string was never anything else
	f(Text, `true`, `1`, false)
	f(Text, `{"b":1,"a":[1,2]}`, `{"a": [1, 2], "b": 1}`, true)
	f(Text, `{"a":1,"a":2}`, `{"a": 2}`, true)
	f(Text, `["\u00e9",1e2,null,true]`, `["é", 100, null, true]`, true)
	f(Text, `{"a":1}`, `{"a": 2}`, false)
	f(Text, `{"a":1}`, `{"a": "1"}`, false)
	f(Text, `{"a":[1,2]}`, `{"a": [2, 1]}`, false)
	f(Text, `[1]`, `[1, 2]`, false)
	f(Text, `{"a":1}`, `{"a": 1} `, true)
	f(Text, `{"a":1}`, `{"a": 1} x`, false)
	f(Text, `{}`, `null`, false)
	f(Text, `[]`, `nothing`, false)
	f(JSON, `[1]`, `[1.0]`, false)
	f(Number, `1.50`, `1.5`, true)
	f(Number, `1.50`, `1.51`, false)
	f(Any, `9007199254740992`, `9.007199254740992e+15`, true)
	f(Int, `1e3`, `1000`, false) // these types keep one spelling
	f(Real, `1e3`, `1000`, false)
}

// A column of weir's that took a value takes it again, whatever it was widened to since.
func FuzzWiden(f *testing.F) {
	f.Add([]byte("1\n1.5\ntrue\n\"x\"\n{}\nnull\n9223372036854775808\n1e400"), false)
	f.Add([]byte("\"1\"\n7\n\"a\""), true)
	f.Fuzz(func(t *testing.T, text []byte, key bool) {
		var names feed.Names
		scan := feed.NewScanner(&names)
		c := New("c", key)
		var taken [][]byte
		admit := func(v []byte) *feed.Error {
			k := feed.KindOf(v)
			if c.Holds(k) {
				return nil
			}
			return c.Admit(v, k)
		}
		for _, v := range bytes.Split(text, []byte("\n")) {
			line := append(append([]byte(`{"c":`), v...), '}')
			fields, err := scan.Append(nil, line)
			if err != nil || len(fields) != 1 {
				continue
			}
			v := fields[0].Value
			if k := fields[0].Kind; key && (k == feed.Null || k == feed.JSON) {
				continue
			}
			if admit(v) == nil {
				taken = append(taken, v)
			}
		}
		// So a later run finds it.
		table := Table{Columns: []Column{{Name: "c", Key: key}}}
		marks := (&Table{Columns: []Column{c}}).Marks()
		testcheck.NoError(t, table.Own(marks, func(*Column, Type) bool { return true }, func(*Column) string { return "" }))
		was := c.Type
		if c = table.Columns[0]; c.Type != was {
			t.Errorf("a column that was %v is %v to the next run", was, c.Type)
		}
		for _, v := range taken {
			if err := admit(v); err != nil || c.Type != was {
				t.Errorf("%s was taken, and now: %v (type %v, then %v)", v, err, was, c.Type)
			}
		}
	})
}
