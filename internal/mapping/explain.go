package mapping

import (
	"fmt"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/paths"
	"github.com/weirsync/weir/internal/schema"
)

// An Explainer explains what a mapping does with single lines. It is slow, and not safe for concurrent use.
type Explainer struct {
	plan   *Plan
	scan   *feed.Scanner
	line   feed.Line
	fields []feed.Field
	mapper *Mapper
}

// NewExplainer returns an Explainer for a mapping, in a database with these limits. The mapping must compile.
func NewExplainer(m *Mapping, limits schema.Limits) (*Explainer, error) {
	names := &feed.Names{}
	plan, err := Compile(m, names, limits)
	if err != nil {
		return nil, err
	}
	return &Explainer{plan: plan, scan: feed.NewScanner(names), mapper: plan.NewMapper()}, nil
}

// SetKey sets the key of a table whose key is open.
func (e *Explainer) SetKey(table int, key []string) error {
	name := e.plan.Table(table).Name
	_, err := e.mapper.Add(&NewTable{Name: name, StreamName: name, Table: table}, key)
	return err
}

// Key returns the key of a row of a table, from the texts of its columns.
func (e *Explainer) Key(table int, texts []string) (c fold.Change) {
	for i, text := range texts {
		k := &e.plan.tables[table].key[i]
		v := feed.Field{Value: feed.AppendString(nil, text), Kind: feed.String}
		f, why := e.mapper.rows.cast.Read(&v, &k.cast)
		if why != "" { // the text is as in the column, not as in the feed
			f = v
		}
		f.Name = k.name
		c.Fields = append(c.Fields, f)
	}
	return c
}

// NewFolder returns a folder for a table of the plan that does not exist in the database.
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

// each maps a line and calls row for each row that it makes.
func (e *Explainer) each(text []byte, row func(t *planned)) {
	if e.fields = e.line.Scan(e.scan, e.fields[:0], text); e.line.Err != nil {
		return // it makes no rows
	}
	e.mapper.rows.visit = row
	_, _ = e.mapper.MapAlone(&e.line, "", fold.Place{}) // an error was reported before
}

// Sources returns, for each row that a line makes in a table, the source of each column's value.
func (e *Explainer) Sources(table int, text []byte) (rows []map[string]string) {
	e.each(text, func(t *planned) {
		if t.index == table {
			rows = append(rows, e.mapper.rows.sources(&message{line: &e.line}, t))
		}
	})
	return rows
}

// UnusedFields returns the fields of a message with rows that no column or path uses.
func (e *Explainer) UnusedFields(text []byte) (names []string) {
	rows, all := false, false
	e.each(text, func(t *planned) {
		rows, all = true, all || t.fields.byName() && !t.row.nested && !t.nest.isElement()
	})
	p := e.plan
	switch {
	case !rows || all:
		return nil
	case p.stream != nil:
		at := paths.Place{Tree: p.stream.RowTree()}
		w := feed.Walk(e.mapper.read.Get(at).Value)
		for w.Next(); w.Next(); w.Raw() {
			if name := feed.AppendUnquoted(nil, w.Name); !p.trees.ReadsMember(at, name) {
				names = append(names, string(name))
			}
		}
		return names
	}
	for _, f := range e.line.Fields {
		if !p.trees.ReadsField(0, f.Name) {
			names = append(names, p.names.NameOf(f.Name, e.line.Unnumbered))
		}
	}
	return names
}

// sources returns the source of each column of the current row.
func (b *rowBuilder) sources(msg *message, t *planned) map[string]string {
	from := map[string]string{}
	for _, k := range t.key {
		if k.fromParent {
			from[k.title] = "the parent row"
		}
	}
	for i := range t.columns {
		c := &t.columns[i]
		if src := b.sourceOf(c); i == t.mark {
			from[c.spec.Name] = "on_delete"
		} else if src != nil {
			from[c.spec.Name] = src.String()
		}
	}
	if t.fields.byName() {
		_ = b.eachUnknownField(msg, t, b.read.Get(t.row.at), func(f feed.Field, _ []byte) { // an error was reported before
			name := b.plan.names.NameOf(f.Name, b.unknownNames.unnumbered)
			from[name] = paths.FieldPath(name).String()
		})
	}
	return from
}

// sourceOf returns the source that [rowBuilder.value] uses.
func (b *rowBuilder) sourceOf(c *column) *source {
	for i := range c.sources {
		if src := &c.sources[i]; b.read.Holds(src.when) && (src.kind != aPath || b.read.Get(src.at) != nil) {
			return src
		}
	}
	return nil
}

// String describes the source with its condition: clock (type=offblock).
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
