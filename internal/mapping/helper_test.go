package mapping_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
)

func path(text string) mapping.Path {
	p, err := mapping.ParsePath(text)
	if err != nil {
		panic(err)
	}
	return p
}

// when is the condition that all of the tests FIELD=VALUE|VALUE, FIELD!=VALUE, FIELD or !FIELD
// hold.
func when(tests ...string) mapping.When {
	var all mapping.All
	for _, t := range tests {
		x := mapping.Test{}
		field, values, compares := strings.Cut(t, "=")
		if field, x.Not = strings.CutSuffix(field, "!"); compares {
			for v := range strings.SplitSeq(values, "|") {
				value := mapping.Value{Text: v}
				if v == "null" {
					value = mapping.Value{Null: true}
				}
				x.In = append(x.In, value)
			}
		} else if after, absent := strings.CutPrefix(field, "!"); absent {
			field, x.Present = after, mapping.MustBeAbsent
		} else {
			x.Present = mapping.MustBePresent
		}
		x.Path = path(field)
		all = append(all, x)
	}
	return mapping.When{all}
}

// columns are columns NAME: SOURCE; SOURCE …, separated by commas. A source is one that
// ParseSource reads, with " if CONDITION" behind it or not, or =JSON, or meta NAME.
func columns(text string) []mapping.Column {
	out := []mapping.Column{}
	depth := 0
	parts := strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		}
		return r == ',' && depth == 0 || r == '\n'
	})
	for _, part := range parts {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, sources, _ := strings.Cut(part, ":")
		c := mapping.Column{Name: name}
		for s := range strings.SplitSeq(sources, ";") {
			c.From = append(c.From, source(strings.TrimSpace(s), name))
		}
		out = append(out, c)
	}
	return out
}

func source(text, column string) (s mapping.Source) {
	text, condition, conditional := strings.Cut(text, " if ")
	var err error
	if value, constant := strings.CutPrefix(text, "="); constant {
		s.Value = []byte(value)
	} else if meta, is := strings.CutPrefix(text, "meta "); is {
		s.Meta = mapping.Meta(meta)
	} else if stamp, is := strings.CutPrefix(text, "stamp "); is {
		s.Stamp = mapping.Stamp(stamp)
	} else if s, err = mapping.ParseSource(text, column); err != nil {
		panic(err)
	}
	if conditional {
		s.When = when(strings.Fields(condition)...)
	}
	return s
}

// mapped returns what becomes of lines, each in a line of its own.
func mapped(t *testing.T, m mapping.Mapping, lines ...string) string {
	t.Helper()
	names := &feed.Names{}
	plan, err := mapping.Compile(&m, names, schema.Limits{FoldCase: true, Untyped: true, TextTypes: true})
	if err != nil {
		t.Fatal(err)
	}
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
