package mapping_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	. "github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

func compiled(t *testing.T, m Mapping, textTypes bool) *Plan {
	t.Helper()
	p, err := Compile(&m, &feed.Names{}, schema.Limits{TextTypes: textTypes})
	testcheck.NoError(t, err)
	return p
}

// TestCompile_WithoutTables: there is no plan, and the messages are the rows.
func TestCompile_WithoutTables(t *testing.T) {
	for _, m := range []*Mapping{nil, {Ignore: when("a=1")}} {
		if p, err := Compile(m, &feed.Names{}, schema.Limits{}); p != nil || err != nil {
			t.Errorf("%+v: %v, %v", m, p, err)
		}
	}
}

// TestCompile_Order: tables come after those that they belong or refer to, and else as in the
// mapping.
func TestCompile_Order(t *testing.T) {
	refers := columns("id, x: y")
	refers[1].From[0].References = "customers"
	p := compiled(t, Mapping{Tables: []Table{
		{Name: "taxes", Of: "items", Each: path("taxes"), Key: []string{"code"}},
		{Name: "orders", Key: []string{"id"}, Columns: refers},
		{Name: "customers", Key: []string{"id"}},
		{Name: "items", Of: "orders", Each: path("items"), Key: []string{"sku"}, Parent: map[string]string{"id": "order_no"}},
	}}, false)
	var got []string
	for i := range p.Tables() {
		parent, key := p.Parent(i)
		got = append(got, fmt.Sprintf("%s %d %v %v", p.Table(i).Name, parent, key, p.Options(i).Key))
	}
	want := "customers -1 [] [id]\norders -1 [] [id]\nitems 1 [order_no] [order_no sku]\ntaxes 2 [order_no sku] [order_no sku code]"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestCompile_KeyThatTheDatabaseGenerates: what is below such a table has its natural key in
// columns that no database has.
func TestCompile_KeyThatTheDatabaseGenerates(t *testing.T) {
	p := compiled(t, Mapping{Tables: []Table{
		{Name: "orders", Key: []string{"number"}, ID: "order_id", Columns: columns("number")},
		{Name: "items", Of: "orders", Each: path("items"), Key: []string{"sku"}, Columns: columns("sku, number: ^.number")},
		{Name: "taxes", Of: "items", Each: path("taxes"), Key: []string{"code"}, Columns: columns("code")},
	}}, false)
	_, key := p.Parent(2)
	if len(key) != 2 || !Hidden(key[0]) || Hidden(key[1]) || key[1] != "sku" {
		t.Errorf("%q", key)
	}
	tables := []schema.Table{{Name: "orders"}, {Name: "items"}, {Name: "taxes"}}
	for i, want := range []string{"order_id,number key number", "order_id,sku,number key order_id,sku", "order_id,sku,code key order_id,sku,code"} {
		err := p.Fit(i, &tables[i])
		if err == nil {
			tables[i] = fold.NewFolder(&feed.Names{}, tables[i], p.Options(i)).Table()
		}
		var names []string
		for _, c := range tables[i].Stored().Columns {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, ",") + " key " + strings.Join(tables[i].KeyColumns(), ","); got != want || err != nil {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}

// TestCompile_Faults: what only the plan can know is wrong, with its place.
func TestCompile_Faults(t *testing.T) {
	f := func(m Mapping, textTypes bool, want string) {
		t.Helper()
		if _, err := Compile(&m, &feed.Names{}, schema.Limits{TextTypes: textTypes}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f(one("id, v: ^.x"), false, `table "t", column "v": ^.x begins at the parent of an element, and there is none`)
	f(one(`id, v: ="x"`, func(t *Table) { t.Columns[1].From[0].As = Type{Kind: Integer} }), false, `table "t", column "v": the value "x": it is not an integer`)
	f(one("id: as bytes"), false, `table "t": the key column "id" is bytes, of which the database does not say which are equal`)
	f(one("id: as numeric(4,2)"), false, `table "t": the key column "id" is numeric(4,2), of which the database does not say which are equal`)
	f(one("id, v: v as timestamp", func(t *Table) { t.Version, t.Scope = path("v"), fold.RowScope }), false,
		`table "t": version_scope: row keeps the version in a column: add one that takes v as it is, as an integer, numeric or text`)
	f(Mapping{Tables: []Table{{Name: "a", Of: "b", Each: path("x")}, {Name: "b", Of: "a", Each: path("x")}}}, false,
		"tables belong or refer to each other in a cycle, so that none can be written first")
	f(Mapping{Tables: []Table{{Name: "p", Key: []string{"id"}}, {Name: "c", Of: "p", Each: path("c"), Key: []string{"id2"}}, {Name: "g", Of: "c", Set: MergeSet, Each: path("g"), Key: []string{"id3"}}}}, false,
		`table "g": set: merge: the rows of "c" are a set, in which each row is whole`)
	compiled(t, one("id: as bytes"), true)
	nul := one(`id, v: ="a\u0000"`)
	compiled(t, nul, true)
	if _, err := Compile(&nul, &feed.Names{}, schema.Limits{NoNUL: true}); err == nil || !strings.Contains(err.Error(), "it holds a NUL") {
		t.Error(err)
	}
}

// TestFit_NewTable: the columns of a mapping exist from the start, with the types that it names; those
// that it does not name are found from the values.
func TestFit_NewTable(t *testing.T) {
	list := "id: as integer, auto: a, t: as text, n: as numeric(12,2), both: a as numeric(3,1); b as numeric(12,2), differ: a as text; b as date, at: as timestamp, day: as date, u: as uuid, b: as bytes, j: as json, f: as boolean, c: =7"
	m := one(list)
	m.Tables = append(m.Tables, Table{Name: "child", Of: "t", Each: path("tags"), Key: []string{"tag"}, Columns: columns("tag: ."), Parent: map[string]string{"id": "t_id"}})
	for textTypes, want := range map[bool][]string{
		false: {"id integer key | auto any own | t text | n number(12,2) | both number(12,2) | differ any own | at time | day date | u uuid | b bytes | j json | f boolean | c any own | rows", "t_id integer key | tag any own key"},
		true:  {"id integer key | auto any own | t text | n any(12,2) | both any(12,2) | differ text | at text | day text | u text | b bytes | j text | f boolean | c any own | rows", "t_id integer key | tag any own key"},
	} {
		p := compiled(t, m, textTypes)
		for i := range p.Tables() {
			table := schema.Table{Name: p.Table(i).Name}
			testcheck.NoError(t, p.Fit(i, &table))
			var got []string
			for _, c := range table.Columns {
				if c.Type == schema.Rows {
					got = append(got, "rows")
					continue
				}
				text := c.Name + " " + c.Type.String()
				if c.Precision > 0 {
					text += fmt.Sprintf("(%d,%d)", c.Precision, c.Scale)
				}
				if c.Own {
					text += " own"
				}
				if c.Key {
					text += " key"
				}
				got = append(got, text)
			}
			if strings.Join(got, " | ") != want[i] {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, " | "), want[i])
			}
		}
	}
}

// TestFit_Contradictions: the type of a column of others decides. What it cannot take is an error, and
// so are columns that are missing, or that the database computes: all of them, each with its place.
func TestFit_Contradictions(t *testing.T) {
	m := one("id: as integer, at: as timestamp, n: as integer, ok: as text, gone: x, made: x, j: as json")
	for i := range m.Tables[0].Columns {
		m.Tables[0].Columns[i].Pos = Pos{Line: 10 + i, Column: 3}
	}
	table := schema.Table{Name: "t", Exists: true, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}, {Name: "at", Type: schema.Int, Decl: "bigint"},
		{Name: "n", Type: schema.Day, Decl: "date"}, {Name: "ok", Type: schema.Text}, {Name: "made", Generated: true}, {Name: "j", Type: schema.Bool, Decl: "boolean"}}}
	err := compiled(t, m, false).Fit(0, &table)
	var got []string
	for _, fault := range err.(interface{ Unwrap() []error }).Unwrap() {
		f := fault.(*Fault)
		got = append(got, fmt.Sprintf("%d:%d %s", f.Pos.Line, f.Pos.Column, f.Text))
	}
	want := `11:3 table "t", column "at": it is bigint, which does not take a timestamp
12:3 table "t", column "n": it is date, which does not take an integer
14:3 table "t", column "gone": the table has no such column
15:3 table "t", column "made": the database computes it
16:3 table "t", column "j": it is boolean, which does not take JSON`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestFit_JSONInATextColumn is JSON, strings with their quotes.
func TestFit_JSONInATextColumn(t *testing.T) {
	for _, c := range []struct {
		column schema.Type
		want   string
	}{{schema.JSON, `"x"`}, {schema.Text, `"\"x\""`}} {
		m, names := one("id, v: as json"), &feed.Names{}
		p, err := Compile(&m, names, schema.Limits{})
		testcheck.NoError(t, err)
		table := schema.Table{Name: "t", Exists: true, Columns: []schema.Column{{Name: "id", Key: true}, {Name: "v", Type: c.column}}}
		testcheck.NoError(t, p.Fit(0, &table))
		var l feed.Line
		l.Scan(feed.NewScanner(names), nil, []byte(`{"id":1,"v":"x"}`))
		rows, _, err := p.Map(&l, fold.Place{}, p.NewScratch())
		if err != nil || string(rows[0].Fields[1].Value) != c.want {
			t.Errorf("%s: %s, %v", c.column, rows[0].Fields[1].Value, err)
		}
	}
}

// TestScratch_Mismatches counts values that are no object, or no array, where a path steps into one.
func TestScratch_Mismatches(t *testing.T) {
	m, names := one("id, v: a.b.c, w: list[0]"), &feed.Names{}
	m.Tables = append(m.Tables, Table{Name: "items", Of: "t", Each: path("o.items"), Set: ReplaceSet, Key: []string{"nr"}, Columns: columns("nr, price: price.net")},
		Table{Name: "cuts", Of: "items", Each: path("cuts"), Set: ReplaceSet, Key: []string{"why"}, Columns: columns("why: ., note: x")})
	p, err := Compile(&m, names, schema.Limits{})
	testcheck.NoError(t, err)
	scan, s := feed.NewScanner(names), p.NewScratch()
	for _, line := range []string{`{"id":1,"a":7}`, `{"id":1,"a":{"b":[]},"list":{}}`, `{"id":1,"a":{"b":null},"list":null}`, `{"id":1,"a":[{}]}`, `{"id":1,"o":{"items":[{"nr":1,"price":5},{"nr":2,"price":"x","cuts":["y"]}]}}`} {
		var l feed.Line
		l.Scan(scan, nil, []byte(line))
		if _, _, err := p.Map(&l, fold.Place{}, s); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(s.Mismatches()); got != "map[a:2 a.b:1 list:1 o.items[].cuts[]:1 o.items[].price:2]" {
		t.Error(got)
	}
}
