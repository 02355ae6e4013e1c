package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/paths"
	"github.com/weirsync/weir/internal/schema"
)

// DefaultMaxEach is how many elements of one array a mapping takes that names no number.
const DefaultMaxEach = 100_000

// A Fault is what is wrong with a mapping, and where.
type Fault struct {
	Pos  paths.Pos
	Text string
}

func (f *Fault) Error() string { return f.Text }

// Compile makes a plan of a mapping, for lines whose scanners number names as names does; the
// scanners begin after it. The limits are those of the database that the rows go to. Without tables
// there is no plan: the messages are the rows of one table.
//
// The mapping's parts must fit each other, as those of a config file do that was read. The error
// joins a [Fault] for each of its tables that cannot be kept all the same.
func Compile(m *Mapping, names *feed.Names, limits schema.Limits) (*Plan, error) {
	if m == nil || len(m.Tables) == 0 {
		return nil, nil
	}
	c := &compiler{mapping: m, names: names, byName: map[string]int{}, plan: &Plan{of: m, names: names, limits: limits,
		unmatched: m.Unmatched, maxEach: cmp.Or(m.MaxEach, DefaultMaxEach), discriminator: discriminator{at: paths.Nowhere}}}
	c.plan.trees.Grow()
	if m.Envelope != nil {
		c.envelope(m)
	}
	for _, i := range c.order() {
		if !m.Tables[i].IsStar() {
			c.table(&m.Tables[i])
		}
	}
	if i := slices.IndexFunc(m.Tables, func(t Table) bool { return t.IsStar() }); i >= 0 && len(c.faults) == 0 {
		c.star(&m.Tables[i])
	}
	if len(c.faults) == 0 {
		if c.plan.stream == nil {
			c.plan.ignore = c.when(m.Ignore, scope{}, "ignore")
		}
		c.discriminate()
		c.plan.trees.Number(0, names)
	}
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	c.taken(c.plan.tables)
	c.plan.fitted = make([]schema.Table, len(c.plan.tables))
	return c.plan, nil
}

// envelope compiles the envelope, and begins the tree of rows.
func (c *compiler) envelope(m *Mapping) {
	p, versioned := c.plan, slices.ContainsFunc(m.Tables, func(t Table) bool { return t.Version.Base == paths.VersionBase })
	compiled := envelope.Compile(m.Envelope, &p.trees, c.names, m.Ignore, versioned, func(path paths.Path) paths.Place {
		return c.find(path, scope{}, false, paths.Pos{}, "envelope")
	})
	p.stream = &streamPlan{Compiled: compiled, oneTable: m.Envelope.OneTable, tombstones: m.TakesTombstones(), maxTables: cmp.Or(m.MaxTables, DefaultMaxTables)}
	p.ignore, c.row = compiled.Ignore(), compiled.RowTree()
}

// taken marks fields that have the name of a column but that no path reads. Call it when all paths are compiled.
func (c *compiler) taken(tables []planned) {
	for i := range tables {
		t := &tables[i]
		for j := range t.columns {
			if col := &t.columns[j]; !c.plan.trees.ReadsMember(t.row.at, []byte(col.spec.Name)) {
				t.fields.taken[c.names.Number(col.spec.Name)] = true // col.name may be hidden
			}
		}
	}
}

type compiler struct {
	mapping *Mapping
	names   *feed.Names
	plan    *Plan
	row     int32          // the tree of the rows that messages are
	byName  map[string]int // of the plan's tables
	scopes  []*scope       // by table
	faults  []error
}

func (c *compiler) fault(at paths.Pos, format string, args ...any) {
	c.faults = append(c.faults, &Fault{at, fmt.Sprintf(format, args...)})
}

// order sorts the tables topologically: after their parents and foreign-key targets, otherwise in file order.
func (c *compiler) order() (order []int) {
	tables := c.mapping.Tables
	placed := map[string]bool{}
	waits := func(above string) bool {
		return !placed[above] && slices.ContainsFunc(tables, func(t Table) bool { return t.Name == above })
	}
	for len(order) < len(tables) {
		next := slices.IndexFunc(tables, func(t Table) bool { return !placed[t.Name] && !slices.ContainsFunc(t.above(), waits) })
		if next < 0 {
			c.fault(paths.Pos{}, "parent and foreign-key references of the tables form a cycle")
			return nil
		}
		placed[tables[next].Name] = true
		order = append(order, next)
	}
	return order
}

// DefaultKey is the key of a table for which nothing names one.
const DefaultKey = "id"

// UsesKeyOf reports whether rows of the table name rows of another one.
func (t *Table) UsesKeyOf(other string) bool { return slices.Contains(t.above(), other) }

// above returns the parent and the foreign-key targets of a table.
func (t *Table) above() (names []string) {
	if t.Of != "" {
		names = append(names, t.Of)
	}
	for i := range t.Columns {
		for _, s := range t.Columns[i].From {
			if s.References != "" && s.References != t.Name {
				names = append(names, s.References)
			}
		}
	}
	return names
}

// A scope is what paths begin at: the value that a row is made of, and within it the object
// that is the row.
type scope struct {
	tree    int32
	row     int32
	message int32  // the tree that conditions read
	parent  *scope // of an element: that of the row whose array it is in
}

// find adds a path to the plan's trees. inRow tells that it begins at the row.
func (c *compiler) find(p paths.Path, s scope, inRow bool, pos paths.Pos, what string) paths.Place {
	at := paths.Place{}
	switch {
	case p.Base == paths.ParentBase && s.parent == nil:
		c.fault(pos, "%s: %s begins at the parent of an element, and there is none", what, p)
	case p.Base == paths.ParentBase:
		at = paths.Place{Tree: s.parent.tree, Node: s.parent.row}
	case p.Base == paths.RowBase && inRow:
		at = paths.Place{Tree: s.tree, Node: s.row}
	case p.Base == paths.RowBase:
		at.Tree = s.message
	}
	return c.plan.trees.Add(at, p.Steps)
}

// when compiles a condition.
func (c *compiler) when(w paths.When, s scope, what string) paths.Condition {
	return w.Compile(func(t *paths.Test) paths.Place { return c.find(t.Path, s, false, t.Pos, what) })
}

// discriminate finds the path that most tables' conditions begin with: messages that no table
// takes are counted by its value.
func (c *compiler) discriminate() {
	count, most := map[paths.Place]int{}, 0
	for i := range c.plan.tables {
		for _, at := range c.plan.tables[i].when.First() {
			if at.Tree != 0 {
				continue
			}
			if count[at]++; count[at] > most {
				most, c.plan.discriminator = count[at], discriminator{at, c.plan.trees.String(at)}
			}
			break
		}
	}
}

// table compiles one table. Those that it belongs to were compiled before.
func (c *compiler) table(t *Table) {
	out := planned{spec: t, index: len(c.plan.tables), nest: nesting{parent: -1}, row: rowPlan{nested: len(t.At.Steps) > 0},
		fields: fieldPlan{names: c.names, used: map[int32]bool{}, taken: map[int32]bool{}}}
	s, what := scope{tree: c.row}, fmt.Sprintf("table %q", t.Name)
	if t.Each.Base != paths.NoBase {
		s = c.child(t, &out, what)
	} else {
		out.row.inLine, out.from = c.plan.stream == nil && !out.row.nested, t.patterns()
	}
	if out.row.at = (paths.Place{Tree: s.tree}); out.row.nested {
		if out.row.at = c.find(t.At, s, true, t.Pos, what+": row"); out.row.at.Tree != s.tree {
			c.fault(t.Pos, "%s: row: must be a path within the element", what)
		}
		s.row = out.row.at.Node
	}
	out.nest.element = s.tree
	out.when = c.when(t.When, s, what+": when")
	if !out.nest.set {
		out.deletes = c.when(t.DeleteWhen, s, what+": delete_when")
	}
	c.columns(t, &out, s, what)
	c.key(t, &out)
	c.oneName(&out)
	c.options(t, &out, s, what)
	c.hides(&out, s, what)
	c.byName[t.Name] = out.index
	switch {
	case out.nest.parent >= 0:
		p := &c.plan.tables[out.nest.parent].nest
		p.children = append(p.children, out.index)
	case out.nest.each != nil:
		c.plan.loose = append(c.plan.loose, out.index)
	default:
		c.plan.tops = append(c.plan.tops, out.index)
	}
	c.plan.tables = append(c.plan.tables, out)
	c.scopes = append(c.scopes, &s)
}

// oneName demands that no two columns of a table have names which are one to the database.
func (c *compiler) oneName(t *planned) {
	named := map[string]string{}
	check := func(name string, at paths.Pos) {
		of := c.plan.limits.FoldName(name)
		if other, taken := named[of]; taken && other != name {
			c.fault(at, "table %q: %q and %q are one column to the database: rename one", t.spec.Name, other, name)
		}
		named[of] = name
	}
	for _, k := range t.key {
		check(k.title, t.spec.Pos)
	}
	for i := range t.columns {
		check(t.columns[i].spec.Name, t.columns[i].spec.Pos)
	}
}

// child compiles what a table whose rows are elements of an array is to the one above.
func (c *compiler) child(t *Table, out *planned, what string) scope {
	above, n := &scope{tree: c.row}, &out.nest
	if t.Of == "" {
		out.from = t.patterns()
	} else {
		n.parent = c.byName[t.Of]
		p := &c.plan.tables[n.parent]
		above = c.scopes[n.parent]
		n.set = t.Set != MergeSet
		if !n.set && p.nest.set {
			c.fault(t.Pos, "%s: set: merge: the rows of %q are a set, in which each row is whole", what, t.Of)
		}
		p.fields.use(t.Each)
		n.setName = c.names.Number(setColumn(t.Name))
	}
	each := c.find(t.Each, *above, true, t.Pos, what+": each")
	n.each = &each
	element := c.plan.trees.Grow()
	return scope{tree: element, message: element, parent: above}
}

// columns compiles the columns of a table.
func (c *compiler) columns(t *Table, out *planned, s scope, what string) {
	out.fields.all = t.Columns == nil
	for i := range t.Columns {
		col := &t.Columns[i]
		x := column{spec: col, name: c.names.Number(col.Name), key: -1}
		out.fields.used[x.name] = true
		for j := range col.From {
			src := &col.From[j]
			out.fields.use(src.From)
			if src.Stamp != NoStamp {
				x.stamp = src.Stamp
				continue
			}
			x.sources = append(x.sources, c.source(t, src, s, fmt.Sprintf("%s, column %q", what, col.Name)))
			if src.References != "" {
				c.refers(&x, t, src)
			}
		}
		out.columns = append(out.columns, x)
	}
	for _, w := range []paths.When{t.When, t.DeleteWhen} {
		for _, all := range w {
			for i := range all {
				if out.row.at == (paths.Place{Tree: s.message}) && !out.fields.all {
					out.fields.use(all[i].Path)
				}
			}
		}
	}
}

// refers makes a column one whose values are keys of rows of another table.
func (c *compiler) refers(x *column, t *Table, src *Source) {
	x.refers = &reference{table: c.byName[src.References]}
	to := &c.plan.tables[x.refers.table]
	key := to.key[0].cast
	if src.As.Kind != cast.DefaultType && src.As != key.Type {
		c.fault(src.Pos, "table %q, column %q: it is read as %s, and the key of %q as %s: read both alike", t.Name, x.spec.Name, src.As, src.References, key.Type)
	}
	x.sources[0].cast = key
	if to.spec.ID == "" {
		return
	}
	x.refers.hidden = hiddenColumn(to.spec.Name, x.spec.Name)
	x.name = c.names.Number(x.refers.hidden)
	if slices.Contains(t.Key, x.spec.Name) {
		c.fault(x.spec.Pos, "table %q: the key column %q is one that the database generates for a row of %q: no message has it", t.Name, x.spec.Name, src.References)
	}
}

func (c *compiler) source(t *Table, src *Source, s scope, what string) source {
	x := source{spec: src, when: c.when(src.When, s, what+": when"), at: paths.Nowhere, cast: c.plan.cast(t.TypeOf(src))}
	switch {
	case src.Value != nil:
		x.kind = aConstant
		why := x.fix()
		if c.plan.limits.NoNUL && strings.Contains(string(src.Value), `\u0000`) {
			why = "it holds a NUL, which the database's text cannot" // the fold looks for it in the message
		}
		if why != "" {
			c.fault(src.Pos, "%s: the value %s: %s", what, src.Value, why)
		}
	case src.Meta != NoMeta:
		x.kind = aMeta
	default:
		x.kind = aPath
		x.at = c.find(src.From, s, true, src.Pos, what)
	}
	return x
}

// key compiles the key: that of the table above, and the columns of its own.
func (c *compiler) key(t *Table, out *planned) {
	if out.nest.parent >= 0 {
		p := &c.plan.tables[out.nest.parent]
		as := func(name string) string {
			if to, renamed := t.Parent[name]; renamed {
				return to
			}
			return name
		}
		if p.spec.ID != "" {
			out.owner = &owner{column: as(p.spec.ID), table: out.nest.parent, parts: len(p.key)}
		} else if p.owner != nil {
			out.owner = &owner{column: as(p.owner.column), table: p.owner.table, parts: p.owner.parts}
		}
		for _, k := range p.key {
			switch k.above = true; {
			case k.hidden:
			case p.spec.ID != "":
				k.title, k.hidden = hiddenColumn(p.spec.Name, k.title), true
			default:
				k.title = as(k.title)
			}
			k.name = c.names.Number(k.title)
			out.key = append(out.key, k)
		}
	}
	for _, name := range t.Key {
		k := keyPart{title: name, name: c.names.Number(name), cast: c.plan.cast(t.Type)}
		if at := slices.IndexFunc(out.columns, func(x column) bool { return x.spec.Name == name }); at >= 0 && len(out.columns[at].sources) > 0 {
			out.columns[at].key, k.cast = len(out.key), out.columns[at].cast(c.plan)
			if k.cast.Kind == cast.JSON || !c.plan.limits.TextTypes && (k.cast.Kind == cast.Bytes || k.cast.Precision > 0) {
				c.fault(out.columns[at].spec.Pos, "table %q: the key column %q: %s cannot be a key: equality is undefined", t.Name, name, k.cast.Type)
			}
		}
		out.key = append(out.key, k)
	}
}

// hides finds the fields of an element that no column can take, because the parent's key has their names.
func (c *compiler) hides(out *planned, s scope, what string) {
	if out.nest.parent < 0 || !out.fields.byName() {
		return
	}
	hide := func(h hiddenField) {
		if number := c.names.Number(h.title); !out.fields.used[number] {
			out.fields.used[number] = true
			h.at = c.find(paths.FieldPath(h.title), s, true, out.spec.Pos, what)
			out.fields.hidden = append(out.fields.hidden, h)
		}
	}
	p := &c.plan.tables[out.nest.parent]
	for part, k := range p.key {
		if !out.key[part].hidden {
			hide(hiddenField{title: out.key[part].title, parents: k.title, part: part})
		}
	}
	if out.owner != nil {
		parents := p.spec.ID
		if parents == "" {
			parents = p.owner.column
		}
		hide(hiddenField{title: out.owner.column, parents: parents, part: -1})
	}
}

// ParentColumn is a name for the column that a child takes over from its parent, where it needs another.
func ParentColumn(parent, name string) string {
	return strings.TrimSuffix(parent[strings.LastIndex(parent, ".")+1:], "s") + "_" + name
}

// options compiles what the fold of a table is to do.
func (c *compiler) options(t *Table, out *planned, s scope, what string) {
	o := fold.Options{Limits: c.plan.limits, Null: t.Null, FillOnly: t.FillOnly, Columns: t.Rest, MaxColumns: t.MaxColumns}
	for _, k := range out.key {
		o.Key = append(o.Key, k.title)
	}
	if t.Columns != nil && o.Columns == "" {
		o.Columns = fold.IgnoreColumns
	}
	out.fields.unknown = o.Columns
	if out.nest.set { // its rows are whole, and have the version of the message
		o.Null, o.FillOnly = fold.ClearNull, false
	} else if of := c.versioned(t); of != nil {
		o.Version, o.Scope = c.versionTitle(of.Version), fold.ColumnScope
		switch {
		case of != t: // of the message, or element, that the row above is of
			above := &c.plan.tables[out.nest.parent].row
			out.row.version, out.row.envelopeVersion = above.version, above.envelopeVersion
		case t.Version.Base == paths.VersionBase:
			out.row.envelopeVersion = true
		default:
			at := c.find(t.Version, s, false, t.Pos, what+": version_field")
			out.row.version = &at
		}
		if of.Scope == fold.RowScope {
			o.Version, o.Scope = c.versionColumn(of, out, what), fold.RowScope
		}
	}
	out.options = o
}

// versionTitle is where messages have their version, for people.
func (c *compiler) versionTitle(p paths.Path) string {
	if p.Base != paths.VersionBase {
		return p.String()
	}
	var parts []string
	for _, v := range c.mapping.Envelope.Version {
		parts = append(parts, v.String())
	}
	return strings.Join(parts, ", ")
}

// versioned returns the table that says which version the messages of a table have: itself, or one
// above; nil for none.
func (c *compiler) versioned(t *Table) *Table {
	for ; t.Version.Base == paths.NoBase; t = c.plan.tables[c.byName[t.Of]].spec {
		if t.Of == "" {
			return nil
		}
	}
	return t
}

// versionColumn is the column that keeps the version of a whole row.
func (c *compiler) versionColumn(of *Table, out *planned, what string) string {
	for i := range out.columns {
		x := &out.columns[i]
		if len(x.sources) != 1 || out.row.version == nil || x.sources[0].at != *out.row.version || x.sources[0].when != nil {
			continue
		}
		switch x.sources[0].cast.Kind {
		case cast.Auto, cast.DefaultType, cast.Text, cast.Integer, cast.Numeric:
			return x.spec.Name
		}
	}
	if steps := of.Version.Steps; out.spec == of && out.fields.all && !out.row.nested && of.Version.Base == paths.RowBase && len(steps) == 1 && steps[0].Index < 0 {
		return steps[0].Name
	}
	path := of.Version.String()
	if out.spec != of {
		path = fmt.Sprintf("the version of the row of %q", out.spec.Of)
	}
	c.fault(out.spec.Pos, "%s: version_scope: row keeps the version in a column: add one that takes %s as it is, as an integer, numeric or text", what, path)
	return ""
}
