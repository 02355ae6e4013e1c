package mapping_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/foldtest"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// What mappings are written in.
var path, when, columns = foldtest.Path, foldtest.When, foldtest.Columns

// mapped returns what becomes of lines, each in a line of its own.
func mapped(t *testing.T, m mapping.Mapping, lines ...string) string {
	t.Helper()
	names := &feed.Names{}
	plan, err := mapping.Compile(&m, names, schema.Limits{FoldCase: true, Untyped: true, TextTypes: true})
	testcheck.NoError(t, err)
	scan, scratch := feed.NewScanner(names), plan.NewScratch()
	scratch.Source = "feed.jsonl"
	var out []string
	for i, line := range lines {
		var l feed.Line
		if l.Scan(scan, nil, []byte(line)); l.Err != nil {
			t.Fatal(l.Err)
		}
		rows, fate, err := plan.Map(&l, fold.Place{Line: int64(i + 1), Offset: 100 * int64(i)}, scratch)
		switch {
		case err != nil:
			out = append(out, "error: "+err.Error())
		case fate == mapping.Ignored:
			out = append(out, "ignored")
		case fate == mapping.NoTable:
			path, value := scratch.Discriminator()
			out = append(out, fmt.Sprintf("no table takes %s=%s", path, value))
		case len(rows) == 0:
			out = append(out, "no row")
		}
		for i := range rows {
			out = append(out, show(plan, names, &rows[i])...)
		}
	}
	return strings.Join(out, "\n")
}

var ops = map[fold.Op]string{fold.Upsert: "", fold.Delete: "delete ", fold.Replace: "replace ", fold.Ensure: "ensure ", fold.Truncate: "truncate "}

// show is a row, with those of its sets under it.
func show(p *mapping.Plan, names *feed.Names, r *mapping.Row) []string {
	line := ops[r.Op] + p.Table(r.Table).Name
	sets := map[string][]string{}
	var values, key [][]byte
	fieldNames := []string{}
	for i := range r.Fields {
		f := &r.Fields[i]
		name := ""
		if f.Name >= 0 {
			name = names.Name(f.Name)
		} else {
			name = string(r.Unnumbered[^f.Name])
		}
		fieldNames, values = append(fieldNames, name), append(values, f.Value)
		if !mapping.Hidden(name) {
			line += fmt.Sprintf(" %s=%s", name, f.Value)
		}
	}
	for _, k := range p.Options(r.Table).Key {
		for i, name := range fieldNames {
			if name == k {
				key = append(key, values[i])
			}
		}
	}
	if r.Version.Value != nil {
		line += " version " + string(r.Version.Value)
	}
	out := []string{line}
	explode := p.Exploder(func(table int, c *fold.Change) string { return fmt.Sprintf("%q", c.Fields) })
	for child := range p.Tables() {
		parent, _ := p.Parent(child)
		set := p.SetColumn(child)
		if parent != r.Table || set == "" {
			continue
		}
		for i, name := range fieldNames {
			if name != set {
				continue
			}
			sets[set] = []string{"  " + p.Table(child).Name + " are:"}
			if err := explode(child, key, values[i], func(r *mapping.Row) error {
				sets[set] = append(sets[set], "  "+show(p, names, r)[0])
				return nil
			}); err != nil {
				panic(err)
			}
			out = append(out, sets[set]...)
		}
	}
	return out
}

// want compares what becomes of lines with the lines of a text, which may be indented.
func want(t *testing.T, got, text string) {
	t.Helper()
	var lines []string
	for l := range strings.SplitSeq(strings.Trim(text, "\n\t"), "\n") {
		lines = append(lines, strings.TrimLeft(l, "\t"))
	}
	if text = strings.Join(lines, "\n"); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
}

// folded returns what becomes of lines that are folded into one set, each in a line of its own.
func folded(t *testing.T, m mapping.Mapping, lines ...string) string {
	t.Helper()
	names := &feed.Names{}
	plan, err := mapping.Compile(&m, names, schema.Limits{Untyped: true})
	if err != nil {
		t.Fatal(err)
	}
	var folders fold.Folders
	for i := range plan.Tables() {
		table := schema.Table{Name: plan.Table(i).Name}
		if err := plan.Fit(i, &table); err != nil {
			t.Fatal(err)
		}
		o := plan.Options(i)
		o.Log, o.MaxColumns = slog.New(slog.DiscardHandler), 1000
		folders = append(folders, fold.NewFolder(names, table, o))
	}
	folders.Link()
	if err := folders.Nest(plan); err != nil {
		t.Fatal(err)
	}
	scan, scratch, set := feed.NewScanner(names), plan.NewScratch(), fold.NewSet(plan.Tables())
	var out []string
	for i, line := range lines {
		var l feed.Line
		if l.Scan(scan, nil, []byte(line)); l.Err != nil {
			t.Fatal(l.Err)
		}
		at := fold.Place{Line: int64(i + 1)}
		rows, fate, err := plan.Map(&l, at, scratch)
		if err == nil {
			_, err = folders.Add(set, rows, at)
		}
		switch _, bad := err.(*feed.Error); {
		case bad:
			out = append(out, "rejected: "+err.Error())
		case err != nil:
			t.Fatal(err)
		default:
			out = append(out, map[mapping.Fate]string{mapping.Ignored: "ignored", mapping.NoTable: "no table"}[fate])
		}
	}
	return strings.Join(out, "\n")
}
