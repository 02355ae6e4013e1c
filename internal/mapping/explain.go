package mapping

import (
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// An Explainer says for people what a mapping makes of single lines, one by one. It is slow, and not
// safe for concurrent use.
type Explainer struct {
	plan    *Plan
	scan    *feed.Scanner
	line    feed.Line
	fields  []feed.Field
	scratch *Scratch
}

// NewExplainer returns what explains a mapping, which a plan was made of before, in a database with
// these limits.
func NewExplainer(m *Mapping, limits schema.Limits) (*Explainer, error) {
	names := &feed.Names{}
	plan, err := Compile(m, names, limits)
	if err != nil {
		return nil, err
	}
	return &Explainer{plan: plan, scan: feed.NewScanner(names), scratch: plan.NewScratch()}, nil
}

// Plan is what the explainer explains.
func (e *Explainer) Plan() *Plan { return e.plan }

// Key returns the key of a row of a table, whose columns have the given texts.
func (e *Explainer) Key(table int, texts []string) (c fold.Change) {
	for i, text := range texts {
		k := &e.plan.tables[table].key[i]
		v := feed.Field{Value: quoted(text), Kind: feed.String}
		f, why := e.scratch.read(&v, &k.cast)
		if why != "" { // as the column shows it, and not as the feed does
			f = v
		}
		f.Name = k.name
		c.Fields = append(c.Fields, f)
	}
	return c
}

// NewFolder starts a fold for a table of the plan that does not exist.
func (e *Explainer) NewFolder(table int, o fold.Options) (*fold.Folder, error) {
	var t schema.Table
	for i := range table + 1 {
		t = schema.Table{Name: e.plan.Table(i).Name}
		if err := e.plan.Fit(i, &t); err != nil {
			return nil, err
		}
	}
	return fold.NewFolder(e.plan.names, t, o), nil
}

// each maps a line and calls back at each row that it makes.
func (e *Explainer) each(text []byte, row func(t *planned, table int)) {
	if e.fields = e.line.Scan(e.scan, e.fields[:0], text); e.line.Err != nil {
		return // it makes none
	}
	e.scratch.met = func(table int) { row(&e.plan.tables[table], table) }
	_, _, err := e.plan.Map(&e.line, fold.Place{}, e.scratch) // that it makes rows was found before
	if n, ok := err.(*NewTable); ok && !n.Truncates {
		key := n.Key
		if key == nil {
			key = e.plan.star.spec.Key
		}
		if _, err := e.scratch.Add(n, key); err == nil {
			_, _, _ = e.plan.Map(&e.line, fold.Place{}, e.scratch)
		}
	}
}

// Sources returns, for each row that a line makes in a table, where the values of its columns come
// from: by column.
func (e *Explainer) Sources(table int, text []byte) (rows []map[string]string) {
	e.each(text, func(t *planned, of int) {
		if of == table {
			rows = append(rows, e.scratch.sources(t))
		}
	})
	return rows
}

// Untaken returns the fields of a message with rows that no table takes.
func (e *Explainer) Untaken(text []byte) (names []string) {
	rows, all := false, false
	e.each(text, func(t *planned, _ int) {
		rows, all = true, all || t.named() && !t.hasAt && t.each == nil
	})
	if !rows || all {
		return nil
	}
	if of := e.plan.envelope; of != nil {
		w := feed.Walk(e.scratch.stream.row)
		for w.Next(); w.Next(); w.Raw() {
			if name := feed.AppendUnquoted(nil, w.Name); !e.plan.trees[of.row].has(0, name) {
				names = append(names, string(name))
			}
		}
		return names
	}
	for _, f := range e.line.Fields {
		switch slots := e.plan.slots; {
		case f.Name < 0:
			names = append(names, string(e.line.Unnumbered[^f.Name]))
		case int(f.Name) >= len(slots) || slots[f.Name] == 0:
			names = append(names, e.plan.names.Name(f.Name))
		}
	}
	return names
}

// sources says where the columns of the row at hand get their values.
func (s *Scratch) sources(t *planned) map[string]string {
	from := map[string]string{}
	for _, k := range t.key {
		if k.above {
			from[k.title] = "the row above"
		}
	}
	for i := range t.columns {
		c := &t.columns[i]
		if src := s.sourceOf(c); src != nil {
			from[c.spec.Name] = src.String()
		}
	}
	if t.named() {
		_ = s.namedFields(t, s.get(t.row), func(f feed.Field, _ []byte) { // what it rejects was rejected before
			name := ""
			if f.Name >= 0 {
				name = t.names.Name(f.Name)
			} else {
				name = string(s.rest.unnumbered[^f.Name])
			}
			from[name] = FieldPath(name).String()
		})
	}
	return from
}

// sourceOf is the source that value takes.
func (s *Scratch) sourceOf(c *column) *source {
	for i := range c.sources {
		if src := &c.sources[i]; s.holds(src.when) && (src.kind != aPath || s.get(src.at) != nil) {
			return src
		}
	}
	return nil
}

// String is the source for people, with its condition: clock (type=offblock).
func (s *source) String() string {
	text := s.spec.From.String()
	switch s.kind {
	case aConstant:
		text = "value " + string(s.spec.Value)
	case aMeta:
		text = "meta " + string(s.spec.Meta)
	}
	if s.spec.When == nil {
		return text
	}
	return fmt.Sprintf("%s (%s)", text, s.spec.When)
}

// String is the condition for people.
func (w When) String() string {
	var parts []string
	for _, all := range w {
		var tests []string
		for i := range all {
			tests = append(tests, all[i].String())
		}
		parts = append(parts, strings.Join(tests, ", "))
	}
	return strings.Join(parts, " or ")
}

// String is the test for people: type=a,b.
func (t *Test) String() string {
	path, sign := t.Path.String(), "="
	var parts []string
	if t.Present != AnyPresence {
		parts = append(parts, path+map[Presence]string{MustBePresent: " present", MustBeAbsent: " absent"}[t.Present])
	}
	if t.In != nil {
		var values []string
		for _, v := range t.In {
			if v.Null {
				v.Text = "null"
			}
			values = append(values, v.Text)
		}
		if t.Not {
			sign = "!="
		}
		parts = append(parts, path+sign+strings.Join(values, ","))
	}
	return strings.Join(parts, ", ")
}
