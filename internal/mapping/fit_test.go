package mapping_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestFit runs the cases in testdata/fit.txtar: the tables that mappings make in a database with types for times and
// no NUL in text, and in one where times are text.
func TestFit(t *testing.T) {
	testcheck.Golden(t, "testdata/fit.txtar", func(t *testing.T, _, text string) string {
		file, _, _ := strings.Cut(text, "\n= ")
		path := filepath.Join(t.TempDir(), "weir.yaml")
		testcheck.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		spec, err := load(path)
		if err != nil { // in any database
			return strings.TrimSuffix(file, "\n") + "\n= " + strings.ReplaceAll(strings.ReplaceAll(err.Error(), path+":", ""), "\n", "\n= ") + "\n"
		}
		own, texts := fitted(t, spec, schema.Limits{NoNUL: true}), fitted(t, spec, schema.Limits{TextTypes: true, FoldCase: true})
		out := strings.TrimSuffix(file, "\n") + "\n= " + strings.Join(own, "\n= ") + "\n"
		for i := range texts {
			if i >= len(own) || texts[i] != own[i] {
				out += "= as texts: " + texts[i] + "\n"
			}
		}
		return out
	})
}

// fitted returns a line for each table: its key in messages, its parent, and the columns and key that it gets.
func fitted(t *testing.T, spec *mapping.Mapping, limits schema.Limits) (lines []string) {
	p, err := mapping.Compile(spec, limits)
	if err != nil {
		return []string{err.Error()}
	}
	for i, of := range p.Tables {
		table := schema.Table{Name: of.Name}
		o, err := p.Fit(i, &table)
		testcheck.NoError(t, err)
		table = fold.NewFolder(p.Names(), table, o).Table()
		var columns []string
		for _, c := range table.Columns {
			text := c.Name + " " + c.Type.String()
			if c.Precision > 0 {
				text += fmt.Sprintf("(%d,%d)", c.Precision, c.Scale)
			}
			if c.Own && c.Type != schema.Rows {
				text += " own"
			}
			columns = append(columns, text)
		}
		line := table.Name + ", key " + strings.Join(of.Options.Key, ",")
		if n := p.Nested(i); n.Parent >= 0 {
			line += ", of " + p.Tables[n.Parent].Name + " by " + strings.Join(n.Key, ",")
		}
		line += ": " + strings.Join(columns, ", ") + "; key " + strings.Join(table.KeyColumns(), ",")
		lines = append(lines, strings.ReplaceAll(line, "\xff", "*"))
	}
	return lines
}

// TestFit_Contradictions: a column that others made keeps its type. A value it cannot store is an error, and so are
// missing and computed columns: all are reported, with their positions.
func TestFit_Contradictions(t *testing.T) {
	m := parse(t, "tables:\n  t:\n    columns:\n      id: as integer\n      at: as timestamp\n      n: as integer\n      ok: as text\n      gone: x\n      made: x\n      j: as json\n")
	table := schema.Table{Name: "t", Exists: true, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}, {Name: "at", Type: schema.Int, Decl: "bigint"},
		{Name: "n", Type: schema.Day, Decl: "date"}, {Name: "ok", Type: schema.Text}, {Name: "made", Generated: true}, {Name: "j", Type: schema.Bool, Decl: "boolean"}}}
	_, err := newMapper(t, m, schema.Limits{}).Fit(0, &table)
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

// TestFit_JSONInATextColumn: strings are stored as JSON, with quotes.
func TestFit_JSONInATextColumn(t *testing.T) {
	for column, want := range map[schema.Type]string{schema.JSON: `"x"`, schema.Text: `"\"x\""`} {
		m := newMapper(t, parse(t, "tables: {t: {columns: {id, v: as json}}}"), schema.Limits{})
		table := schema.Table{Name: "t", Exists: true, Columns: []schema.Column{{Name: "id", Key: true}, {Name: "v", Type: column}}}
		_, err := m.Fit(0, &table)
		testcheck.NoError(t, err)
		if got := m.becomes(`{"id":1,"v":"x"}`, false); got != "\nt id=1 v="+want {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
}

// TestMapper_Mismatches counts values that are not the object or array that a path expects.
func TestMapper_Mismatches(t *testing.T) {
	m := newMapper(t, parse(t, `
tables:
  t: {columns: {id, v: a.b.c, w: "list[0]"}}
  items: {of: t, each: o.items, key: nr, columns: {nr, price: price.net}}
  cuts: {of: items, each: cuts, key: why, columns: {why: ., note: x}}
`), schema.Limits{})
	for _, line := range []string{`{"id":1,"a":7}`, `{"id":1,"a":{"b":[]},"list":{}}`, `{"id":1,"a":{"b":null},"list":null}`, `{"id":1,"a":[{}]}`, `{"id":1,"o":{"items":[{"nr":1,"price":5},{"nr":2,"price":"x","cuts":["y"]}]}}`} {
		m.becomes(line, false)
	}
	if got := fmt.Sprint(m.TakeMismatches()); got != "map[a:2 a.b:1 list:1 o.items[].cuts[]:1 o.items[].price:2]" {
		t.Error(got)
	}
}

// TestWhen_String: conditions in messages.
func TestWhen_String(t *testing.T) {
	for text, want := range map[string]string{
		"{type: [a, null]}": "type=a,null",
		"[{a.b: {not: c, present: true}, $: {present: false}}, {d: ''}]": "a.b present, a.b!=c, $ absent or d=",
	} {
		if got := parse(t, "tables: {t: {when: "+text+"}}").Tables[0].When.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
