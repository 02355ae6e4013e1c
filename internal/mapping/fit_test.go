package mapping_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestCompile_WithoutTables: there is no plan, and the messages are the rows.
func TestCompile_WithoutTables(t *testing.T) {
	for _, m := range []*mapping.Mapping{nil, {}} {
		if p, err := mapping.Compile(m, &feed.Names{}, schema.Limits{}); p != nil || err != nil {
			t.Errorf("%+v: %v, %v", m, p, err)
		}
	}
}

// TestCompile_Order: tables come after those that they belong or refer to, and else as in the mapping.
func TestCompile_Order(t *testing.T) {
	p := newMapper(t, parse(t, `
tables:
  taxes: {of: items, each: taxes, key: code}
  orders: {columns: {id, x: {from: y, references: customers}}}
  customers:
  items: {of: orders, each: items, key: sku, parent: {id: order_no}}
`), schema.Limits{})
	var got []string
	for i := range p.Tables() {
		parent, key := p.Parent(i)
		got = append(got, fmt.Sprintf("%s %d %v %v", p.Table(i).Name, parent, key, p.Options(i).Key))
	}
	if want := []string{"customers -1 [] [id]", "orders -1 [] [id]", "items 1 [order_no] [order_no sku]", "taxes 2 [order_no sku] [order_no sku code]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFit_KeyThatTheDatabaseGenerates: what is below such a table has its natural key in columns that no database has.
func TestFit_KeyThatTheDatabaseGenerates(t *testing.T) {
	p := newMapper(t, parse(t, `
tables:
  orders: {key: number, id: order_id, columns: {number}}
  items: {of: orders, each: items, key: sku, columns: {sku, number: ^.number}}
  taxes: {of: items, each: taxes, key: code, columns: {code}}
`), schema.Limits{})
	for i, want := range []string{"order_id,number key number", "order_id,sku,number key order_id,sku", "order_id,sku,code key order_id,sku,code"} {
		table := schema.Table{Name: p.Table(i).Name}
		testcheck.NoError(t, p.Fit(i, &table))
		table = fold.NewFolder(p.names, table, p.Options(i)).Table()
		var names []string
		for _, c := range table.Stored().Columns {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, ",") + " key " + strings.Join(table.KeyColumns(), ","); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestCompile_Faults: what only the plan can know is wrong, with its place; "" is right.
func TestCompile_Faults(t *testing.T) {
	for _, c := range []struct {
		tables string
		limits schema.Limits
		want   string
	}{
		{"t: {columns: {id, v: {value: x}}, type: integer}", schema.Limits{}, `table "t", column "v": the value "x": it is not an integer`},
		{"t: {columns: {id: as bytes}}", schema.Limits{}, `table "t": the key column "id" is bytes, of which the database does not say which are equal`},
		{"t: {columns: {id: as bytes}}", schema.Limits{TextTypes: true}, ""},
		{`t: {columns: {id: "as numeric(4,2)"}}`, schema.Limits{}, `table "t": the key column "id" is numeric(4,2), of which the database does not say which are equal`},
		{"t: {columns: {id, v: v as timestamp}, version_field: v, version_scope: row}", schema.Limits{},
			`table "t": version_scope: row keeps the version in a column: add one that takes v as it is, as an integer, numeric or text`},
		{"t: {columns: {id}}, c: {of: t, each: c, key: id2}, g: {of: c, set: merge, each: g, key: id3}", schema.Limits{}, `table "g": set: merge: the rows of "c" are a set, in which each row is whole`},
		{`t: {columns: {id, v: {value: "a\0"}}}`, schema.Limits{}, ""},
		{`t: {columns: {id, v: {value: "a\0"}}}`, schema.Limits{NoNUL: true}, `table "t", column "v": the value "a\u0000": it holds a NUL, which the database's text cannot`},
	} {
		_, err := mapping.Compile(parse(t, "tables: {"+c.tables+"}"), &feed.Names{}, c.limits)
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || err != nil && got != c.want {
			t.Errorf("%s: %s, want %s", c.tables, got, c.want)
		}
	}
}

// TestFit_NewTable: the columns of a mapping exist from the start, with the types that it names; those that it does not
// name are found from the values.
func TestFit_NewTable(t *testing.T) {
	m := parse(t, `
tables:
  t:
    columns: {id: as integer, auto: a, t: as text, n: "as numeric(12,2)", both: [{from: "a as numeric(3,1)", when: x=1}, "b as numeric(12,2)"], differ: [{from: a as text, when: x=1}, b as date], at: as timestamp, day: as date, u: as uuid, b: as bytes, j: as json, f: as boolean, c: {value: 7}}
  child: {of: t, each: tags, key: tag, columns: {tag: .}, parent: {id: t_id}}
`)
	for textTypes, want := range map[bool][]string{
		false: {"id integer key | auto any own | t text | n number(12,2) | both number(12,2) | differ any own | at time | day date | u uuid | b bytes | j json | f boolean | c any own | rows", "t_id integer key | tag any own key"},
		true:  {"id integer key | auto any own | t text | n any(12,2) | both any(12,2) | differ text | at text | day text | u text | b bytes | j text | f boolean | c any own | rows", "t_id integer key | tag any own key"},
	} {
		p := newMapper(t, m, schema.Limits{TextTypes: textTypes})
		for i := range p.Tables() {
			table := schema.Table{Name: p.Table(i).Name}
			testcheck.NoError(t, p.Fit(i, &table))
			var got []string
			for _, c := range table.Columns {
				text := c.Name + " " + c.Type.String()
				if c.Type == schema.Rows {
					text = "rows"
				}
				if c.Precision > 0 {
					text += fmt.Sprintf("(%d,%d)", c.Precision, c.Scale)
				}
				if c.Own && c.Type != schema.Rows {
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

// TestFit_Contradictions: the type of a column of others decides. What it cannot take is an error, and so are columns
// that are missing, or that the database computes: all of them, each with its place.
func TestFit_Contradictions(t *testing.T) {
	m := parse(t, "tables:\n  t:\n    columns:\n      id: as integer\n      at: as timestamp\n      n: as integer\n      ok: as text\n      gone: x\n      made: x\n      j: as json\n")
	table := schema.Table{Name: "t", Exists: true, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}, {Name: "at", Type: schema.Int, Decl: "bigint"},
		{Name: "n", Type: schema.Day, Decl: "date"}, {Name: "ok", Type: schema.Text}, {Name: "made", Generated: true}, {Name: "j", Type: schema.Bool, Decl: "boolean"}}}
	err := newMapper(t, m, schema.Limits{}).Fit(0, &table)
	var got []string
	for _, fault := range err.(interface{ Unwrap() []error }).Unwrap() {
		f := fault.(*mapping.Fault)
		got = append(got, fmt.Sprintf("%d %s", f.Pos.Line, f.Text))
	}
	want := `5 table "t", column "at": it is bigint, which does not take a timestamp
6 table "t", column "n": it is date, which does not take an integer
8 table "t", column "gone": the table has no such column
9 table "t", column "made": the database computes it
10 table "t", column "j": it is boolean, which does not take JSON`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestFit_JSONInATextColumn is JSON, strings with their quotes.
func TestFit_JSONInATextColumn(t *testing.T) {
	for column, want := range map[schema.Type]string{schema.JSON: `"x"`, schema.Text: `"\"x\""`} {
		m := newMapper(t, parse(t, "tables: {t: {columns: {id, v: as json}}}"), schema.Limits{})
		table := schema.Table{Name: "t", Exists: true, Columns: []schema.Column{{Name: "id", Key: true}, {Name: "v", Type: column}}}
		testcheck.NoError(t, m.Fit(0, &table))
		if got := m.becomes(`{"id":1,"v":"x"}`, false); got != "\nt id=1 v="+want {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
}

// TestScratch_Mismatches counts values that are no object, or no array, where a path steps into one, and names the
// paths that led nowhere.
func TestScratch_Mismatches(t *testing.T) {
	m := newMapper(t, parse(t, `
ignore: {no.such: 1}
tables:
  t: {columns: {id, v: a.b.c, w: "list[0]", missing: o.itms}}
  items: {of: t, each: o.items, key: nr, columns: {nr, price: price.net}}
  cuts: {of: items, each: cuts, key: why, columns: {why: ., note: x}}
`), schema.Limits{})
	for _, line := range []string{`{"id":1,"a":7}`, `{"id":1,"a":{"b":[]},"list":{}}`, `{"id":1,"a":{"b":null},"list":null}`, `{"id":1,"a":[{}]}`, `{"id":1,"o":{"items":[{"nr":1,"price":5},{"nr":2,"price":"x","cuts":["y"]}]}}`} {
		m.becomes(line, false)
	}
	if got := fmt.Sprint(m.scratch.Mismatches()); got != "map[a:2 a.b:1 list:1 o.items[].cuts[]:1 o.items[].price:2]" {
		t.Error(got)
	}
	var got []string
	for _, u := range m.scratch.Unmet() {
		got = append(got, fmt.Sprintf("%s %s.%s: %s", u.By, u.Table, u.Column, u.Path))
	}
	if want := []string{"ignore .: no", "columns t.v: a.b.c", "columns t.w: list[0]", "columns t.missing: o.itms"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
