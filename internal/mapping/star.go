package mapping

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// Star is the name of a table that stands for one of each name in the stream that no other takes.
const Star = "*"

// IsStar reports whether the table stands for others.
func (t *Table) IsStar() bool { return t.Name == Star }

// DefaultMaxTables is how many tables there are at most where a mapping names no number.
const DefaultMaxTables = 100

// With returns the mapping with a table of a name in the stream in place of the one that stands for
// others, unless it has a table of that name.
func (m *Mapping) With(name string) *Mapping {
	i := slices.IndexFunc(m.Tables, func(t Table) bool { return t.IsStar() })
	if i < 0 || name == "" || slices.ContainsFunc(m.Tables, func(t Table) bool { return t.Name == name }) {
		return m
	}
	with := *m
	with.Tables = slices.Clone(m.Tables)
	with.Tables[i].Name = name
	return &with
}

// A NewTable is the error of [Plan.Map] for a message that needs a table which the plan does not have
// yet: [Scratch.Add] adds it, and then the message is to be mapped again.
type NewTable struct {
	Name string // in the database
	Of   string // in the stream
	// Key is that which the stream names; nil: none.
	Key []string
	// Columns are those that the stream has declared.
	Columns []Column
	// Truncates tells that the message removes all rows: without such a table in the database there is
	// nothing to do.
	Truncates bool
}

func (n *NewTable) Error() string { return fmt.Sprintf("table %q is new in the stream", n.Of) }

// Declared is what a stream says of one of its tables before it has rows.
type Declared struct {
	Key     []string
	Columns []Column // that the table has from the start; nil: those that messages bring
}

// Declare notes what the stream says of one of its tables. It counts for a table that is not there yet.
func (s *Scratch) Declare(name string, d Declared) {
	st := &s.stream
	if st.declared == nil {
		st.declared = map[string]Declared{}
	}
	if len(st.declared) < maxTargets && len(name) <= maxTargetName {
		st.declared[name] = d
	}
}

// newTable is the table that the message at hand needs, whose name no table takes.
func (s *Scratch) newTable(truncates bool) error {
	p, name := s.plan, string(s.stream.name)
	n := &NewTable{Name: p.starName(name), Of: name, Truncates: truncates}
	switch {
	case strings.Trim(n.Name, "_") == "" || len(name) > maxTargetName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) || strings.Contains("."+name+".", ".."),
		!p.limits.NoSchemas && (strings.Count(name, ".") > 1 || strings.Contains("."+name, `."`)): // which would be read as other parts
		return feed.Errorf(feed.BadName, "%q cannot be the name of a table", clip(s.stream.name))
	case p.limits.MaxName > 0 && slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return len(part) > p.limits.MaxName }):
		return feed.Errorf(feed.BadName, "the name of the table %q is longer than %d bytes, which the database takes", clip(s.stream.name), p.limits.MaxName)
	case len(p.tables) >= p.maxTables:
		return feed.Errorf(feed.Unmatched, "table %q would be one more than the %d that there may be (max_tables)", clip(s.stream.name), p.maxTables)
	}
	if slices.ContainsFunc(p.tables, func(t planned) bool { return p.limits.FoldName(t.spec.Name) == p.limits.FoldName(n.Name) }) {
		return feed.Errorf(feed.BadName, "the table %q would be the same as another one in the database, %q: give it one in the config file, with from", clip(s.stream.name), n.Name)
	}
	if of, ok := s.Names[p.limits.FoldName(n.Name)]; ok && of != name {
		return feed.Errorf(feed.BadName, "the table %q would be the same as another one in the database, %q, which has the rows of %q: give it one in the config file, with from", clip(s.stream.name), n.Name, clip([]byte(of)))
	}
	last := n.Name[strings.LastIndexByte(n.Name, '.')+1:]
	if l := strings.ToLower(last); strings.HasPrefix(l, "weir_") || strings.HasPrefix(l, "sqlite_") {
		return feed.Errorf(feed.BadName, "the table %q has a name that belongs to the database or to weir", clip(s.stream.name))
	}
	if d, ok := s.stream.declared[name]; ok {
		n.Key, n.Columns = d.Key, d.Columns
		return n
	}
	if p.envelope.schema.tree >= 0 {
		return fmt.Errorf("the stream has rows of table %q before it describes them (the envelope's schema): read it from its start", clip(s.stream.name))
	}
	if key := s.at(p.envelope.key); isRow(key) {
		n.Key = keyNames(key.Value)
	}
	return n
}

// starName is the name in the database of a table in the stream.
func (p *Plan) starName(name string) string {
	if p.limits.NoSchemas {
		return strings.ReplaceAll(name, ".", "_")
	}
	return name
}

// keyNames are the names of the fields of an object; of an array these are its elements, or their
// names.
func keyNames(value []byte) (names []string) {
	w := feed.Walk(value)
	w.Next()
	array := w.Array()
	for w.Next() {
		name, raw := w.Name, w.Raw()
		if array {
			if name = nil; w.Kind == feed.String {
				name = raw[1 : len(raw)-1]
			} else if w.Kind == feed.JSON {
				name, _, _ = pair(w.Kind, raw)
			}
		}
		if name == nil {
			return nil
		}
		names = append(names, string(feed.AppendUnquoted(nil, name)))
	}
	return names
}

// star compiles the table that stands for others, so that its paths are among those that are followed
// and that it shows its faults.
func (c *compiler) star(t *Table) {
	n, tops := len(c.plan.tables), len(c.plan.tops)
	c.table(t)
	star := c.plan.tables[n]
	c.plan.star = &star
	c.plan.tables, c.plan.tops, c.scopes = c.plan.tables[:n], c.plan.tops[:tops], c.scopes[:n]
	delete(c.byName, t.Name)
}

// Star is the table that stands for others, and the rules of the fold of their rows; nil: none does.
func (p *Plan) Star() (*Table, fold.Options) {
	if p.star == nil {
		return nil, fold.Options{}
	}
	return p.star.spec, p.star.options
}

// Add adds a table to the plan, behind the others, with a key where the new one names none. The
// scratch must be the only one of its plan.
func (s *Scratch) Add(n *NewTable, key []string) (table int, err error) {
	p := s.plan
	t := *p.star.spec
	t.Name, t.From, t.Key = n.Name, []string{n.Of}, key
	if n.Columns != nil {
		for _, k := range key {
			if !slices.ContainsFunc(slices.Concat(n.Columns, t.Columns), func(c Column) bool { return c.Name == k }) {
				return 0, fmt.Errorf("its rows have no field %q, and the stream names no other key: name one with --key or in a config file, or have the source leave this table out", k)
			}
		}
		t.describe(n.Columns)
	}
	var keys []Column
	for _, k := range key {
		if t.Columns != nil && !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == k }) {
			keys = append(keys, Column{Name: k, From: []Source{{From: FieldPath(k)}}})
		}
	}
	t.Columns = slices.Concat(keys, t.Columns)
	c := &compiler{names: p.names, plan: p, row: p.envelope.row, byName: map[string]int{}, scopes: make([]*scope, len(p.tables))}
	c.table(&t)
	table = len(p.tables) - 1
	c.taken(p.tables[table:])
	p.tables[table].described = n.Columns != nil
	p.tables[table].from = []pattern{{Regexp: regexp.MustCompile("(?s)^" + regexp.QuoteMeta(n.Of) + "$")}}
	p.fitted = append(p.fitted, schema.Table{})
	s.grow()
	return table, errors.Join(c.faults...)
}

// Drop takes the table back that was added last.
func (s *Scratch) Drop() {
	p := s.plan
	last := len(p.tables) - 1
	is := func(i int) bool { return i == last }
	p.tables, p.fitted, p.tops, p.loose = p.tables[:last], p.fitted[:last], slices.DeleteFunc(p.tops, is), slices.DeleteFunc(p.loose, is)
	s.keys, s.took, s.stream.claims = s.keys[:last], s.took[:last], s.stream.claims[:last]
	clear(s.stream.targets)
	for _, r := range s.stream.schemas {
		delete(r.tables, last)
	}
}

// describe gives a table the columns that the stream describes, as far as it takes fields by their names. Its own
// columns stay, and get the types of their fields where it names none.
func (t *Table) describe(columns []Column) {
	if t.Columns == nil {
		if t.Columns = columns; t.Rest == "" {
			t.Rest = fold.AddColumns
		}
		return
	}
	own := slices.Clone(t.Columns)
	var others []Column
	for _, d := range columns {
		field, taken := d.From[0].From, false
		for i := range own {
			c := &own[i]
			taken = taken || c.Name == d.Name
			for _, s := range c.From {
				if s.From.Base != RowBase || !slices.Equal(s.From.Steps, field.Steps) {
					continue
				}
				if taken = true; len(c.From) == 1 && s.References == "" && s.As.Kind == DefaultType && (t.Type.Kind == Auto || t.Type.Kind == DefaultType) {
					s.As = d.From[0].As
					c.From = []Source{s}
				}
			}
		}
		if !taken && (t.Rest == fold.AddColumns || slices.Contains(t.Key, d.Name)) {
			others = append(others, d)
		}
	}
	t.Columns = slices.Concat(others, own)
}

// grow has the scratch hold what the plan has got since its last line.
func (s *Scratch) grow() {
	for len(s.keys) < len(s.plan.tables) {
		s.keys = append(s.keys, make([]feed.Field, len(s.plan.tables[len(s.keys)].key)))
		s.took, s.stream.claims = append(s.took, false), append(s.stream.claims, nil)
	}
	clear(s.stream.targets)
	for i, t := range s.plan.trees {
		if i == len(s.frames) {
			s.frames = append(s.frames, newFrame(t))
		} else if len(s.frames[i].cells) < len(t.nodes) {
			f := newFrame(t)
			f.value = s.frames[i].value // later lines are no samples
			copy(f.mismatches, s.frames[i].mismatches)
			copy(f.walked, s.frames[i].walked)
			copy(f.met, s.frames[i].met)
			copy(f.others, s.frames[i].others)
			s.frames[i] = f
		}
	}
}
