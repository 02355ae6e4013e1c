package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// Star is the name of the table '*', which stands for every table of the stream that no other table takes. Each of
// these gets a table of its own, made from the settings of '*'.
const Star = "*"

// IsStar reports whether the table is '*'.
func (t *Table) IsStar() bool { return t.Name == Star }

// DefaultMaxTables is the limit of tables if the mapping sets none.
const DefaultMaxTables = 100

// With returns the mapping with '*' renamed to name. It returns m if there is no '*', or a table already has that name.
func (m *Mapping) With(name string) *Mapping {
	i := slices.Index(m.Names(), Star)
	if i < 0 || name == "" || m.Table(name) != nil {
		return m
	}
	with := *m
	with.Tables = slices.Clone(m.Tables)
	with.Tables[i].Name = name
	return &with
}

// A NewTable is the error of [Mapper.Map] for a message whose table is missing from the plan. Call [Mapper.Add] to add
// the table, then map the message again.
type NewTable struct {
	Name       string // in the database
	StreamName string // in the stream
	// Key is the key that the stream names. It is empty if the stream says that the table has no key, and nil if the
	// stream says nothing or '*' sets the key.
	Key []string
	// Columns are the columns that the stream declared.
	Columns []Column
	fields  []string // fields of the message's row, if the stream says that there is no key
	// Truncates is true if the message truncates the table. If the database has no such table, there is nothing to do.
	Truncates bool
}

func (n *NewTable) Error() string { return fmt.Sprintf("table %q is new in the stream", n.StreamName) }

// Has reports whether rows of a table without a key have all of the columns, as fields or as declared columns.
func (n *NewTable) Has(columns []string) bool {
	return !slices.ContainsFunc(columns, func(name string) bool {
		return !slices.Contains(n.fields, name) && !slices.ContainsFunc(n.Columns, func(c Column) bool { return c.Name == name })
	})
}

// declared is the stream's description of a table, which precedes its rows.
type declared struct {
	key     []string
	columns []Column            // columns of the new table; nil: taken from messages
	types   *envelope.RowSchema // of its rows
}

// describe stores the stream's description of a table, for the message that will add the table and for its rows.
func (m *Mapper) describe(msg *message) error {
	types, err := envelope.JSONSchema(msg.Schema)
	if err != nil {
		return fmt.Errorf("table %q of the stream: %w", feed.Clip(msg.Table), err)
	}
	d := declared{key: m.decode.Key(&msg.Message), types: types}
	for _, f := range types.Fields {
		if !m.decode.Omits([]byte(f.Field)) && m.plan.mayName(f.Field) {
			d.columns = append(d.columns, Column{Name: f.Field, From: []Source{{From: paths.FieldPath(f.Field)}}})
		}
	}
	r := &m.route
	if r.declared == nil {
		r.declared = map[string]declared{}
	}
	if _, known := r.declared[string(msg.Table)]; known || len(r.declared) < maxRoutes && len(msg.Table) <= maxRouteName {
		r.declared[string(msg.Table)] = d
	}
	for _, t := range r.of(msg.Table).tops {
		if err := t.checkStreamKey(d.key); err != nil {
			return err
		}
	}
	return nil
}

// mayName reports whether a new column may have the name. If not, messages with such a field are rejected.
func (p *Plan) mayName(column string) bool {
	return column != "" && !strings.Contains(column, "\x00") && p.limits.CheckName(column) == nil
}

// newTable returns the table that a message needs, as a [NewTable], or why the stream table's name is rejected.
func (m *Mapper) newTable(msg *message) error {
	p, name := m.plan, string(msg.Table)
	n := &NewTable{Name: p.limits.TableName(name), StreamName: name, Truncates: msg.change.Op == envelope.Truncate}
	switch {
	case strings.Trim(n.Name, "_") == "" || len(name) > maxRouteName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) || strings.Contains("."+name+".", ".."),
		!p.limits.NoSchemas && (strings.Count(name, ".") > 1 || strings.Contains("."+name, `."`)): // the name would be split into other parts
		return feed.Errorf(feed.BadName, "%q cannot be the name of a table", feed.Clip(msg.Table))
	case p.limits.MaxName > 0 && slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return len(part) > p.limits.MaxName }):
		return feed.Errorf(feed.BadName, "the name of the table %q is longer than %d bytes, which the database takes", feed.Clip(msg.Table), p.limits.MaxName)
	case len(p.Tables) >= p.stream.maxTables:
		return feed.Errorf(feed.Unmatched, "table %q would be one more than the %d that there may be (max_tables)", feed.Clip(msg.Table), p.stream.maxTables)
	}
	if slices.ContainsFunc(p.Tables, func(t *TablePlan) bool { return p.limits.FoldName(t.spec.Name) == p.limits.FoldName(n.Name) }) {
		return feed.Errorf(feed.BadName, "the table %q would be the same as another one in the database, %q: give it another name in a config file, with from", feed.Clip(msg.Table), n.Name)
	}
	if of, ok := m.Names[p.limits.FoldName(n.Name)]; ok && of != name {
		return feed.Errorf(feed.BadName, "the table %q would be the same as another one in the database, %q, which has the rows of %q: give it another name in a config file, with from", feed.Clip(msg.Table), n.Name, feed.Clip([]byte(of)))
	}
	last := n.Name[strings.LastIndexByte(n.Name, '.')+1:]
	if l := strings.ToLower(last); strings.HasPrefix(l, "weir_") || strings.HasPrefix(l, "sqlite_") {
		return feed.Errorf(feed.BadName, "the table %q has a name that belongs to the database or to weir", feed.Clip(msg.Table))
	}
	d, isDeclared := m.route.declared[name]
	n.Columns = d.columns
	if !isDeclared && p.stream.DescribesTables() {
		return fmt.Errorf("the stream has rows of table %q before it describes them (the envelope's schema): read it from its start", feed.Clip(msg.Table))
	}
	switch {
	case !p.stream.star.spec.KeyByDefault:
	case isDeclared:
		n.Key = d.key
	case !n.Truncates: // a truncation names no key
		if n.Key = p.stream.star.spec.columnsOf(m.decode.Key(&msg.Message)); n.Key != nil && len(n.Key) == 0 {
			n.fields = m.decode.RowFields(&msg.change)
		}
	}
	return n
}

// columnsOf maps fields of the row to columns. A field that no column reads keeps its name.
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

// star compiles '*' without adding it as a table, so the reader follows its paths and its faults are reported.
func (c *compiler) star(t *Table) {
	if !c.namesTables() {
		c.fault(t.Pos, c.where(t, ""), "stands for all tables without an entry, and needs an envelope with table: the path of the table's name")
	}
	for _, key := range []string{"from", "of", "each", "id"} {
		if t.Has(key) {
			c.keyFault(t, key, "is for a table that has a name: give it one")
		}
	}
	p := c.Plan
	n, tops := len(p.Tables), len(p.tops)
	c.table(t)
	star := p.Tables[n]
	if p.stream != nil {
		p.stream.star = star
	}
	p.Tables, p.tops = p.Tables[:n], p.tops[:tops]
}

// Star returns the table '*'; nil if there is none.
func (p *Plan) Star() *TablePlan {
	if p.stream == nil {
		return nil
	}
	return p.stream.star
}

// StarKey returns the key that '*' sets; nil if it sets none.
func (p *Plan) StarKey() []string {
	if t := p.stream.star.spec; !t.KeyByDefault {
		return t.Key
	}
	return nil
}

// Refuse returns the error that rejects a message of the table, which cannot have its settings with a key.
func (n *NewTable) Refuse(key []string, why error) *feed.Error {
	if fault := (*Fault)(nil); errors.As(why, &fault) { // the first of several
		why = errors.New(fault.Text)
	}
	return feed.Errorf(feed.Unmatched, "table %q of the stream needs a key or other settings in a config file: its key is %s, and %v",
		feed.Clip([]byte(n.StreamName)), keyText(key), why)
}

// keyText is a key for people.
func keyText(key []string) string { return cmp.Or(strings.Join(key, ","), "none") }

// Add adds the table n with a key to the plan. If check fails, which gets the table's index, the plan stays as it was.
// No other mapper of the plan may map lines at the same time. Mappers made later have the table too. An error of type
// [*feed.Error] rejects the line that needs the table.
func (m *Mapper) Add(n *NewTable, key []string, check func(table int) error) (err error) {
	t, err := m.plan.tableOf(n, key)
	if err != nil {
		return err
	}
	p, memory := m.plan, m.rows.tables
	was := p.tablePlans
	defer func() {
		m.rows.adding = -1
		if err != nil {
			p.tablePlans, m.rows.tables = was, memory
			delete(m.route.routes, n.StreamName)
		}
	}()
	c := &compiler{Plan: p, row: p.stream.RowTree()}
	c.table(t)
	table := len(p.Tables) - 1
	p.Tables[table].from = []pattern{{Regexp: regexp.MustCompile("(?s)^" + regexp.QuoteMeta(n.StreamName) + "$")}}
	m.rows.tables = append(memory, p.Tables[table].newMemory())
	if len(c.faults) > 0 {
		return n.Refuse(key, errors.Join(c.faults...))
	}
	m.rows.adding = table
	m.read.Grow()
	delete(m.route.routes, n.StreamName)
	return check(table)
}

// tableOf returns the settings of the table n with a key.
func (p *Plan) tableOf(n *NewTable, key []string) (*Table, error) {
	if i := slices.IndexFunc(key, func(k string) bool { return !p.mayName(k) }); i >= 0 {
		return nil, n.Refuse(key, fmt.Errorf("%q cannot be the name of a column", feed.Clip([]byte(key[i]))))
	}
	t := *p.stream.star.spec
	t.Name, t.From, t.Key = n.Name, []string{n.StreamName}, key
	if t.KeyByDefault && len(key) == 0 { // without a key, no two messages change the same row
		t.Version, t.Scope = paths.Path{}, ""
	}
	if n.Columns != nil {
		for _, k := range key {
			if !slices.ContainsFunc(slices.Concat(n.Columns, t.Columns), func(c Column) bool { return c.Name == k }) {
				return nil, fmt.Errorf("its rows have no field %q, which is its key: name another with --key or in a config file, or have the source leave this table out", k)
			}
		}
		t.describe(slices.Clone(n.Columns))
	}
	return t.withKeyColumns(), nil
}

// describe adds the columns that the stream declared, if the table adds fields by name or needs them for its key. The
// table's own columns stay.
func (t *Table) describe(columns []Column) {
	if t.Columns == nil {
		if t.Columns = columns; t.UnknownFields == "" {
			t.UnknownFields = fold.AddUnknown
		}
		return
	}
	var others []Column
	for _, d := range columns {
		if !slices.ContainsFunc(t.Columns, d.overlaps) && (t.UnknownFields == fold.AddUnknown || slices.Contains(t.Key, d.Name)) {
			others = append(others, d)
		}
	}
	t.Columns = slices.Concat(others, t.Columns)
}
