package mapping

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/paths"
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

// A NewTable is the error of [Mapper.Map] for a message that needs a table which the plan does not have yet, or whose key
// is still open: [Mapper.Add] adds it, or gives it the key, and then the message is to be mapped again.
type NewTable struct {
	Name       string // in the database
	StreamName string // in the stream
	// Table is the one whose key is open; -1: none, the table is new.
	Table int
	// Key is the one that the stream names: empty if it says that there is none; nil if it says nothing, or if the table '*'
	// names one.
	Key []string
	// Columns are those that the stream has declared.
	Columns []Column
	fields  []string // of the message's row, if the stream says that there is no key
	// Truncates tells that the message removes all rows: without such a table in the database there is
	// nothing to do.
	Truncates bool
}

func (n *NewTable) Error() string { return fmt.Sprintf("table %q is new in the stream", n.StreamName) }

// Has reports whether rows without a key have all of some columns.
func (n *NewTable) Has(columns []string) bool {
	return !slices.ContainsFunc(columns, func(name string) bool {
		return !slices.Contains(n.fields, name) && !slices.ContainsFunc(n.Columns, func(c Column) bool { return c.Name == name })
	})
}

// declared is what a stream says of one of its tables before it has rows.
type declared struct {
	key     []string
	columns []Column // that the table has from the start; nil: those that messages bring
}

// describe takes a description of the rows to come of a table. It counts for a table that a message
// is to add.
func (m *Mapper) describe(msg *message) error {
	if !m.route.of(msg.Table).isNew() || m.plan.stream.star == nil {
		return nil
	}
	fields, err := envelope.SchemaFields(msg.Schema)
	if err != nil {
		return fmt.Errorf("table %q of the stream: %w", feed.Clip(msg.Table), err)
	}
	d := declared{key: m.decode.Key(&msg.Message)}
	for _, f := range fields {
		if !m.decode.Omits([]byte(f.Name)) && m.plan.mayName(f.Name) {
			d.columns = append(d.columns, Column{Name: f.Name, From: []Source{{From: paths.FieldPath(f.Name), As: cast.Type{Kind: f.Type}}}})
		}
	}
	r := &m.route
	if r.declared == nil {
		r.declared = map[string]declared{}
	}
	if len(r.declared) < maxRoutes && len(msg.Table) <= maxRouteName {
		r.declared[string(msg.Table)] = d
	}
	return nil
}

// mayName reports whether a new column may have a name. Messages with such a field are rejected, if any comes.
func (p *Plan) mayName(column string) bool {
	return column != "" && !strings.Contains(column, "\x00") && p.limits.CheckName(column) == nil
}

// newTable is the table that a message needs, whose name no table takes.
func (m *Mapper) newTable(msg *message) error {
	p, name := m.plan, string(msg.Table)
	n := &NewTable{Name: p.starName(name), StreamName: name, Table: -1, Truncates: msg.change.Op == envelope.Truncate}
	switch {
	case strings.Trim(n.Name, "_") == "" || len(name) > maxRouteName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) || strings.Contains("."+name+".", ".."),
		!p.limits.NoSchemas && (strings.Count(name, ".") > 1 || strings.Contains("."+name, `."`)): // which would be read as other parts
		return feed.Errorf(feed.BadName, "%q cannot be the name of a table", feed.Clip(msg.Table))
	case p.limits.MaxName > 0 && slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return len(part) > p.limits.MaxName }):
		return feed.Errorf(feed.BadName, "the name of the table %q is longer than %d bytes, which the database takes", feed.Clip(msg.Table), p.limits.MaxName)
	case len(p.tables) >= p.stream.maxTables:
		return feed.Errorf(feed.Unmatched, "table %q would be one more than the %d that there may be (max_tables)", feed.Clip(msg.Table), p.stream.maxTables)
	}
	if slices.ContainsFunc(p.tables, func(t planned) bool { return p.limits.FoldName(t.spec.Name) == p.limits.FoldName(n.Name) }) {
		return feed.Errorf(feed.BadName, "the table %q would be the same as another one in the database, %q: give it one in the config file, with from", feed.Clip(msg.Table), n.Name)
	}
	if of, ok := m.Names[p.limits.FoldName(n.Name)]; ok && of != name {
		return feed.Errorf(feed.BadName, "the table %q would be the same as another one in the database, %q, which has the rows of %q: give it one in the config file, with from", feed.Clip(msg.Table), n.Name, feed.Clip([]byte(of)))
	}
	last := n.Name[strings.LastIndexByte(n.Name, '.')+1:]
	if l := strings.ToLower(last); strings.HasPrefix(l, "weir_") || strings.HasPrefix(l, "sqlite_") {
		return feed.Errorf(feed.BadName, "the table %q has a name that belongs to the database or to weir", feed.Clip(msg.Table))
	}
	d, isDeclared := m.route.declared[name]
	n.Columns = d.columns
	switch {
	case isDeclared, !p.stream.DescribesTables():
	case m.Undescribed:
		return feed.Errorf(feed.Unmatched, "the message that describes the table %q (the envelope's schema) is not among the rejected lines, so its key and types are unknown: name the table and its key under tables in a config file, or read the stream again from its start", feed.Clip(msg.Table))
	default:
		return fmt.Errorf("the stream has rows of table %q before it describes them (the envelope's schema): read it from its start", feed.Clip(msg.Table))
	}
	switch {
	case !p.stream.star.spec.KeyByDefault:
	case isDeclared:
		n.Key = d.key
	default:
		m.nameKey(msg, n)
	}
	return n
}

// openTable is the table that takes a message and whose key is open; nil: none.
func (m *Mapper) openTable(msg *message, of *route) *NewTable {
	for _, i := range of.tops {
		t := &m.plan.tables[i]
		if t.spec.KeyOpen && m.read.Holds(t.when) {
			n := &NewTable{Name: t.spec.Name, StreamName: of.name, Table: i, Truncates: msg.change.Op == envelope.Truncate}
			m.nameKey(msg, n)
			return n
		}
	}
	return nil
}

// nameKey gives a table the key that a message names. A truncation says nothing of it.
func (m *Mapper) nameKey(msg *message, n *NewTable) {
	if n.Truncates {
		return
	}
	if n.Key = m.plan.base(n).columnsOf(m.decode.Key(&msg.Message)); n.Key != nil && len(n.Key) == 0 {
		n.fields = m.decode.RowFields(&msg.change)
	}
}

// base is the table that a new one is made of.
func (p *Plan) base(n *NewTable) *Table {
	if n.Table >= 0 {
		return p.tables[n.Table].spec
	}
	return p.stream.star.spec
}

// columnsOf returns the columns that take their values from fields of the row: those of the same names where no other does.
func (t *Table) columnsOf(fields []string) []string {
	columns := slices.Clone(fields)
	for i, field := range fields {
		for _, c := range t.Columns {
			if of := t.fieldsOf([]string{c.Name}); len(of) == 1 && of[0] == field {
				columns[i] = c.Name
			}
		}
	}
	return columns
}

// addKeyColumns adds what lacks of the key to the columns that the mapping names.
func (t *Table) addKeyColumns() {
	var keys []Column
	for _, k := range t.Key {
		if t.Columns != nil && !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == k }) {
			keys = append(keys, Column{Name: k, From: []Source{{From: paths.FieldPath(k)}}})
		}
	}
	t.Columns = slices.Concat(keys, t.Columns)
}

// Open returns the table with a key that is open. The default key is no column of it then: with unknown fields, it comes
// with the first message that has it.
func (t Table) Open() Table {
	t.KeyOpen = true
	if t.UnknownFields == fold.AddUnknown {
		plain := fingerprint([]Source{{From: paths.FieldPath(DefaultKey)}})
		t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return c.Name == DefaultKey && fingerprint(c.From) == plain })
	}
	return t
}

// WithKey returns the table with a key that only the stream or the database names.
func (t Table) WithKey(key []string) Table {
	t = t.Open()
	t.Key, t.KeyOpen = key, false
	t.addKeyColumns()
	return t
}

// starName is the name in the database of a table in the stream.
func (p *Plan) starName(name string) string {
	if p.limits.NoSchemas {
		return strings.ReplaceAll(name, ".", "_")
	}
	return name
}

// star compiles the table that stands for others, so that its paths are among those that are followed
// and that it shows its faults.
func (c *compiler) star(t *Table) {
	p := c.plan
	n, tops := len(p.tables), len(p.tops)
	c.table(t)
	star := p.tables[n]
	p.stream.star = &star
	p.tables, p.tops, c.scopes = p.tables[:n], p.tops[:tops], c.scopes[:n]
	delete(c.byName, t.Name)
}

// Star is the table that stands for others, and the rules of the fold of their rows; nil: none does.
func (p *Plan) Star() (*Table, fold.Options) {
	if p.stream == nil || p.stream.star == nil {
		return nil, fold.Options{}
	}
	return p.stream.star.spec, p.stream.star.options
}

// Add adds a table with a key to the plan, behind the others, or gives one that is open its key. The mapper must be the
// only one of its plan that maps lines; those that come later have the table, too.
func (m *Mapper) Add(n *NewTable, key []string) (table int, err error) {
	p := m.plan
	t := *p.base(n)
	t.Key, t.KeyOpen = key, false
	if t.KeyByDefault && len(key) == 0 { // no two of its messages are about one row
		t.Version, t.Scope = paths.Path{}, ""
	}
	if n.Table < 0 {
		t.Name, t.From = n.Name, []string{n.StreamName}
	}
	n.Columns = slices.DeleteFunc(n.Columns, func(c Column) bool { return c.Name == t.OnDelete.Mark })
	if n.Columns != nil {
		for _, k := range key {
			if !slices.ContainsFunc(slices.Concat(n.Columns, t.Columns), func(c Column) bool { return c.Name == k }) {
				return 0, fmt.Errorf("its rows have no field %q, which is its key: name another with --key or in a config file, or have the source leave this table out", k)
			}
		}
		t.describe(n.Columns)
	}
	t.addKeyColumns()
	c := &compiler{mapping: p.mapping, names: p.names, plan: p, row: p.stream.RowTree(), byName: map[string]int{}, scopes: make([]*scope, len(p.tables))}
	c.table(&t)
	table = len(p.tables) - 1
	c.markNameOnly(p.tables[table:])
	if n.Table >= 0 {
		m.replace(n.Table)
		return n.Table, errors.Join(c.faults...)
	}
	p.tables[table].described = n.Columns != nil
	p.tables[table].from = []pattern{{Regexp: regexp.MustCompile("(?s)^" + regexp.QuoteMeta(n.StreamName) + "$")}}
	p.fitted = append(p.fitted, schema.Table{})
	m.grow()
	if len(c.faults) > 0 {
		m.Drop(table)
	}
	return table, errors.Join(c.faults...)
}

// replace puts the table that was compiled last in the place of one whose key was open.
func (m *Mapper) replace(table int) {
	p := m.plan
	last := len(p.tables) - 1
	is := func(i int) bool { return i == last }
	m.open = p.tables[table]
	p.tables[table] = p.tables[last]
	p.tables[table].index = table
	p.tables, p.tops = p.tables[:last], slices.DeleteFunc(p.tops, is)
	p.fitted[table] = schema.Table{}
	m.rows.tables[table] = tableMemory{key: make([]feed.Field, len(p.tables[table].key))}
	m.rows.types.remove(table)
	m.grow()
}

// Drop removes the table that [Mapper.Add] added last, or opens its key again.
func (m *Mapper) Drop(table int) {
	p := m.plan
	if m.open.spec != nil && m.open.index == table {
		p.tables[table] = m.open
		m.rows.types.remove(table)
		return
	}
	last := len(p.tables) - 1
	is := func(i int) bool { return i == last }
	p.tables, p.fitted, p.tops, p.loose = p.tables[:last], p.fitted[:last], slices.DeleteFunc(p.tops, is), slices.DeleteFunc(p.loose, is)
	m.rows.tables = m.rows.tables[:last]
	m.rows.types.remove(last)
	delete(m.route.claims, last)
	clear(m.route.routes)
}

// describe gives a table the columns that the stream describes, as far as it takes fields by their names. Its own
// columns stay, and get the types of their fields where it names none.
func (t *Table) describe(columns []Column) {
	if t.Columns == nil {
		if t.Columns = columns; t.UnknownFields == "" {
			t.UnknownFields = fold.AddUnknown
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
				if s.From.Base != paths.DefaultBase || !slices.Equal(s.From.Steps, field.Steps) {
					continue
				}
				if taken = true; len(c.From) == 1 && s.References == "" && s.As.Kind == cast.DefaultType && (t.Type.Kind == cast.Auto || t.Type.Kind == cast.DefaultType) {
					s.As = d.From[0].As
					c.From = []Source{s}
				}
			}
		}
		if !taken && (t.UnknownFields == fold.AddUnknown || slices.Contains(t.Key, d.Name)) {
			others = append(others, d)
		}
	}
	t.Columns = slices.Concat(others, own)
}

// grow prepares the mapper for tables and paths that were added to the plan.
func (m *Mapper) grow() {
	for i := len(m.rows.tables); i < len(m.plan.tables); i++ {
		m.rows.tables = append(m.rows.tables, tableMemory{key: make([]feed.Field, len(m.plan.tables[i].key))})
	}
	clear(m.route.routes)
	m.read.Grow()
}
