package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// DefaultMaxEach is the maximum number of elements of one array if the mapping sets none.
const DefaultMaxEach = 100_000

// A Fault is a mistake in a mapping.
type Fault struct {
	File  string // "" if flags made the mapping
	Pos   paths.Pos
	Where string // the key in the file, such as tables.flights; "" at the top
	Text  string
	Flag  string // that sets what is wrong, if flags made the mapping; "" for several
}

func (f *Fault) Error() string {
	text := f.Text
	if f.Where != "" {
		text = f.Where + ": " + text
	}
	if f.File == "" {
		return text
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, max(f.Pos.Line, 1), max(f.Pos.Column, 1), text)
}

// Compile compiles a mapping to a plan, for lines that are scanned with names. Create the scanners after it. limits
// are the limits of the database.
//
// The mapping must be consistent, like one read from a config file. The error joins a [Fault] for each table that is
// impossible all the same.
func Compile(m *Mapping, names *feed.Names, limits schema.Limits) (*Plan, error) {
	c := &compiler{mapping: m, names: names, byName: map[string]int{}, plan: &Plan{mapping: m, names: names, limits: limits,
		unmatched: m.Unmatched, maxEach: cmp.Or(m.MaxEach, DefaultMaxEach), discriminator: discriminator{at: paths.Nowhere}}}
	c.plan.trees.Grow()
	if m.Envelope != nil {
		c.envelope(m)
	}
	order, _ := m.Order()
	for _, i := range order {
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
	c.markNameOnly(c.plan.tables)
	c.plan.plain = len(c.plan.tables) == 1 && c.plan.tables[0].isLine() && c.plan.tables[0].when == nil && c.plan.ignore == nil
	return c.plan, nil
}

// envelope compiles the envelope, and creates the tree of rows.
func (c *compiler) envelope(m *Mapping) {
	p, versioned := c.plan, slices.ContainsFunc(m.Tables, func(t Table) bool { return t.Version.Base == paths.VersionBase })
	compiled := envelope.Compile(m.Envelope, &p.trees, c.names, m.Ignore, versioned, func(path paths.Path) paths.Place {
		return c.find(path, scope{}, false, paths.Pos{}, "envelope")
	})
	p.stream = &streamPlan{Compiled: compiled, oneTable: m.Envelope.OneTable, tombstones: m.AppliesTombstones(), maxTables: cmp.Or(m.MaxTables, DefaultMaxTables)}
	p.ignore, c.row = compiled.Ignore(), compiled.RowTree()
}

// markNameOnly marks fields that have the name of a column but that no path reads. Call it when all paths are compiled.
func (c *compiler) markNameOnly(tables []tablePlan) {
	for i := range tables {
		t := &tables[i]
		for j := range t.columns {
			if col := &t.columns[j]; !c.plan.trees.ReadsMember(t.row.at, []byte(col.spec.Name)) {
				t.fields.nameOnly[c.names.Number(col.spec.Name)] = true // col.name may be hidden
			}
		}
	}
}

type compiler struct {
	mapping *Mapping
	names   *feed.Names
	plan    *Plan
	row     int32          // the tree of rows
	byName  map[string]int // index among the plan's tables
	scopes  []*scope       // by table
	faults  []error
}

func (c *compiler) fault(at paths.Pos, format string, args ...any) {
	c.faults = append(c.faults, &Fault{File: c.mapping.File, Pos: at, Text: fmt.Sprintf(format, args...)})
}

// A scope is what paths can start from: a value, and the object in it that is the row.
type scope struct {
	tree    int32
	row     int32
	message int32  // the tree that conditions read
	parent  *scope // of an element: the scope of the row that contains its array
}

// find adds a path to the plan's trees. If inRow is set, a path without $ or ^ starts at the row.
func (c *compiler) find(p paths.Path, s scope, inRow bool, pos paths.Pos, what string) paths.Place {
	at := paths.Place{}
	switch {
	case p.Base == paths.ParentBase && s.parent == nil:
		c.fault(pos, "%s: %s begins at the parent of an element, and there is none", what, p)
	case p.Base == paths.ParentBase:
		at = paths.Place{Tree: s.parent.tree, Node: s.parent.row}
	case p.Base == paths.DefaultBase && inRow:
		at = paths.Place{Tree: s.tree, Node: s.row}
	case p.Base == paths.DefaultBase:
		at.Tree = s.message
	}
	return c.plan.trees.Add(at, p.Steps)
}

// when compiles a condition.
func (c *compiler) when(w paths.When, s scope, what string) paths.Condition {
	return w.Compile(func(t *paths.Test) paths.Place { return c.find(t.Path, s, false, t.Pos, what) })
}

// discriminate finds the path that most tables' conditions test first: messages that match no table are counted by
// its value.
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

// table compiles one table. Its ancestors must have been compiled.
func (c *compiler) table(t *Table) {
	out := tablePlan{spec: t, index: len(c.plan.tables), mark: -1, nest: nesting{parent: -1, each: paths.Nowhere}, row: rowPlan{nested: len(t.Row.Steps) > 0 || t.Row.InText, text: paths.Nowhere, version: paths.Nowhere},
		fields: fieldPlan{names: c.names, used: map[int32]bool{}, nameOnly: map[int32]bool{}}}
	s, what := scope{tree: c.row}, fmt.Sprintf("table %q", t.Name)
	if t.Each.Base != paths.NoBase {
		s = c.child(t, &out, what)
	} else {
		out.row.inLine, out.from = c.plan.stream == nil && !out.row.nested, c.patterns(t)
	}
	if out.row.at = (paths.Place{Tree: s.tree}); out.row.nested {
		if out.row.at = c.find(t.Row.Path, s, true, t.Pos, what+": row"); out.row.at.Tree != s.tree {
			c.fault(t.Pos, "%s: row: must be a path within the element", what)
		}
		s.row = out.row.at.Node
	}
	out.nest.element = s.tree
	if t.Row.InText {
		out.row.text, s.tree, s.row = out.row.at, c.plan.trees.Grow(), 0
		out.row.at = paths.Place{Tree: s.tree}
	}
	out.when = c.when(t.When, s, what+": when")
	if !out.nest.set {
		out.deletes = c.when(t.DeleteWhen, s, what+": delete_when")
	}
	c.columns(t, &out, s, what)
	c.mark(t, &out)
	c.key(t, &out)
	for _, conflict := range c.mapping.Conflicts(t) { // of a table that messages add: all others were checked
		c.fault(t.Pos, "%s: %s", what, conflict.Why)
	}
	c.oneName(&out)
	c.options(t, &out, s, what)
	c.shadows(&out, s, what)
	c.byName[t.Name] = out.index
	switch {
	case out.nest.parent >= 0:
		p := &c.plan.tables[out.nest.parent].nest
		p.children = append(p.children, out.index)
	case out.nest.isElement():
		c.plan.loose = append(c.plan.loose, out.index)
	default:
		c.plan.tops = append(c.plan.tops, out.index)
	}
	c.plan.tables = append(c.plan.tables, out)
	c.scopes = append(c.scopes, &s)
}

// child compiles how a table whose rows are elements of an array relates to its parent.
func (c *compiler) child(t *Table, out *tablePlan, what string) scope {
	parent, n := &scope{tree: c.row}, &out.nest
	if t.Of == "" {
		out.from = c.patterns(t)
	} else {
		n.parent = c.byName[t.Of]
		p := &c.plan.tables[n.parent]
		parent = c.scopes[n.parent]
		n.set = t.Set != MergeSet
		if !n.set && p.nest.set {
			c.fault(t.Pos, "%s: set: merge: the rows of %q are a set, in which each row is whole", what, t.Of)
		}
		p.fields.use(t.Each)
		n.setName = c.names.Number(setColumn(t.Name))
	}
	n.each = c.find(t.Each, *parent, true, t.Pos, what+": each")
	element := c.plan.trees.Grow()
	return scope{tree: element, message: element, parent: parent}
}
