package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
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
	// Setting is the key of the setting at fault, if the table does not set the rule itself; else "".
	Setting string
	Err     error // the cause, with the same text; may be nil
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

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

// AnyLimits are limits with which a mapping has only the faults that it has with any database.
var AnyLimits = schema.Limits{TextTypes: true}

// Compile compiles a mapping to a plan, for a database with the limits. The lines must be scanned with the plan's names,
// by scanners that are created after it. The error joins all [Fault]s of the mapping; the plan then has only what has
// none.
func Compile(m *Mapping, limits schema.Limits) (*Plan, error) {
	names := &feed.Names{}
	plan, err := compiled(m, names, limits)
	if m.whole != nil && err == nil {
		plan.whole, err = compiled(m.whole, names, limits)
	}
	return plan, err
}

func compiled(m *Mapping, names *feed.Names, limits schema.Limits) (*Plan, error) {
	c := compile(m, names, limits)
	c.discriminate()
	c.trees.Number(0, names)
	c.plain = len(c.Tables) == 1 && c.Tables[0].isLine() && c.Tables[0].when == nil && c.ignore == nil
	return c.Plan, errors.Join(c.faults...)
}

// compile compiles what has no faults, and collects the faults of the rest.
func compile(m *Mapping, names *feed.Names, limits schema.Limits) *compiler {
	c := &compiler{Plan: &Plan{mapping: m, names: names, limits: limits,
		unmatched: m.Unmatched, maxEach: cmp.Or(m.MaxEach, DefaultMaxEach), discriminator: discriminator{at: paths.Nowhere}}}
	if most := cmp.Or(m.MaxTables, DefaultMaxTables); len(m.Tables) > most {
		c.fault(m.Tables[most].Pos, "tables", "%d tables, and max_tables is %d", len(m.Tables), most)
	}
	c.trees.Grow()
	c.ignore = c.when(m.Ignore, scope{}, "ignore")
	if m.Envelope != nil {
		c.envelope(m)
	}
	order, cycle := m.order()
	if c.cyclic = cycle != nil; c.cyclic {
		c.cycle(cycle)
	}
	for _, i := range order {
		t := &m.Tables[i]
		if m.File == "" || t.UnknownFields == fold.AddUnknown {
			t = t.withKeyColumns()
		}
		if !t.IsStar() {
			c.table(t)
		}
	}
	if star := m.Table(Star); star != nil {
		c.star(star)
	}
	return c
}

// cycle reports tables that refer to each other in a circle.
func (c *compiler) cycle(names []string) {
	t := c.mapping.Table(names[0])
	at, word := t.Place("of"), "of"
	for _, col := range t.Columns {
		for _, s := range col.From {
			if s.References == names[1] && t.Of != names[1] {
				at, word = s.Pos, "references"
			}
		}
	}
	c.fault(at, c.where(t, ""), "%s makes a cycle, and no table can be written first: %s", word, strings.Join(names, " → "))
}

// envelope compiles the envelope, and creates the tree of rows.
func (c *compiler) envelope(m *Mapping) {
	p, versioned := c.Plan, slices.ContainsFunc(m.Tables, func(t Table) bool { return t.Version.Base == paths.VersionBase })
	compiled := envelope.Compile(m.Envelope, &p.trees, c.names, p.ignore, versioned)
	p.stream = &streamPlan{Compiled: compiled, oneTable: m.Envelope.OneTable, tombstones: m.AppliesTombstones(), maxTables: cmp.Or(m.MaxTables, DefaultMaxTables)}
	c.row = compiled.RowTree()
}

type compiler struct {
	*Plan
	row    int32 // the tree of rows
	cyclic bool  // some parents and referenced tables are not compiled before the tables that name them
	faults []error
}

func (c *compiler) fault(at paths.Pos, where, format string, args ...any) {
	c.faults = append(c.faults, &Fault{File: c.mapping.File, Pos: at, Where: where, Text: fmt.Sprintf(format, args...)})
}

func (c *compiler) keyFault(t *Table, key, format string, args ...any) {
	c.fault(t.Place(key), c.where(t, key), format, args...)
}

func (c *compiler) where(t *Table, key string) string { return c.mapping.where(t, key) }

// where names a key of a table in the file; "": the table. Flags make one table, which needs no name.
func (m *Mapping) where(t *Table, key string) string {
	if m.File == "" {
		return key
	}
	return strings.TrimSuffix("tables."+t.Name+"."+key, ".")
}

// named returns the table with a name in the settings, or nil.
func (p *Plan) named(name string) *TablePlan {
	if i := slices.IndexFunc(p.Tables, func(t *TablePlan) bool { return t.spec.Name == name }); i >= 0 {
		return p.Tables[i]
	}
	return nil
}

// A scope is what paths can start from: a value, and the object in it that is the row.
type scope struct {
	tree    int32
	row     int32
	message int32  // the tree that conditions read
	parent  *scope // of an element: the scope of the row that contains its array
}

// find adds a path to the plan's trees. If inRow is set, a path without $ or ^ starts at the row.
func (c *compiler) find(p paths.Path, s scope, inRow bool, pos paths.Pos, where string) paths.Place {
	at := paths.Place{}
	switch {
	case p.Base == paths.ParentBase && s.parent == nil:
		at = paths.Place{Tree: s.tree, Node: s.row}
		c.fault(pos, where, "%s: ^ is the parent of an element", p)
	case p.Base == paths.ParentBase:
		at = paths.Place{Tree: s.parent.tree, Node: s.parent.row}
	case p.Base == paths.DefaultBase && inRow:
		at = paths.Place{Tree: s.tree, Node: s.row}
	case p.Base == paths.DefaultBase:
		at.Tree = s.message
	}
	return c.trees.Add(at, p.Steps)
}

// when places the paths of a condition.
func (c *compiler) when(w paths.When, s scope, where string) paths.When {
	return w.Placed(func(t *paths.Test) paths.Place { return c.find(t.Path, s, false, t.Pos, where) })
}

// discriminate finds the path that most tables' conditions test first: messages that match no table are counted by
// its value.
func (c *compiler) discriminate() {
	count, most := map[paths.Place]int{}, 0
	for _, t := range c.Tables {
		when := t.when
		first := slices.IndexFunc(when, func(all paths.All) bool { return len(all) > 0 && all[0].Path.Place().Tree == 0 })
		if first < 0 {
			continue
		}
		at := when[first][0].Path.Place()
		if count[at]++; count[at] > most {
			most, c.discriminator = count[at], discriminator{at, c.trees.String(at)}
		}
	}
}

// table compiles one table, after its ancestors.
func (c *compiler) table(t *Table) {
	out := &TablePlan{spec: t, Name: c.limits.TableName(t.Name), index: len(c.Tables), nest: nesting{each: paths.Nowhere}, row: rowPlan{nested: len(t.Row.Steps) > 0 || t.Row.InText || t.Row.Base == paths.ParentBase, text: paths.Nowhere, version: paths.Nowhere},
		fields: fieldPlan{used: map[int32]bool{}}}
	s := scope{tree: c.row}
	c.streamNames(t)
	c.parentage(t)
	if t.Of != "" || t.Each.Base != paths.NoBase || t.Has("each") {
		s = c.child(t, out)
	} else {
		out.row.inLine, out.from = c.stream == nil && !out.row.nested, c.patterns(t)
	}
	if out.row.at = (paths.Place{Tree: s.tree}); out.row.nested {
		if out.row.at = c.find(t.Row.Path, s, true, t.Place("row"), c.where(t, "row")); out.row.at.Tree != s.tree {
			c.keyFault(t, "row", "must be a path within the element")
			out.row.at = paths.Place{Tree: s.tree}
		}
		s.row = out.row.at.Node
	}
	out.nest.element = s.tree
	if t.Row.InText {
		out.row.text, s.tree, s.row = out.row.at, c.trees.Grow(), 0
		out.row.at = paths.Place{Tree: s.tree}
	}
	out.when = c.when(t.When, s, c.where(t, "when"))
	if !out.nest.set {
		out.deletes = c.when(t.DeleteWhen, s, c.where(t, "delete_when"))
	}
	c.columns(t, out, s)
	c.key(t, out)
	c.conflicts(t)
	c.childRules(out)
	c.oneName(out)
	c.options(t, out, s)
	switch parent := out.nest.parent; {
	case parent != nil:
		parent.nest.children = append(parent.nest.children, out)
	case out.nest.isElement():
		c.loose = append(c.loose, out)
	default:
		c.tops = append(c.tops, out)
	}
	out.scope = s
	c.Tables = append(c.Tables, out)
}

// child compiles how a table whose rows are elements of an array relates to its parent.
func (c *compiler) child(t *Table, out *TablePlan) scope {
	parent, n := &scope{tree: c.row}, &out.nest
	if t.Of == "" {
		out.from = c.patterns(t)
	} else if p := c.named(t.Of); p != nil {
		n.parent, parent = p, &p.scope
		n.set = t.Set != MergeSet
		if !n.set && p.nest.set {
			c.keyFault(t, "set", "merge: the rows of %q are a set, in which each row is whole", t.Of)
		}
		c.use(p, t.Each)
		n.setName = c.names.Number(setColumn(t.Name))
	}
	from := *parent
	from.parent = nil // the array of an element is in it
	n.each = c.find(t.Each, from, true, t.Place("each"), c.where(t, "each"))
	element := c.trees.Grow()
	return scope{tree: element, message: element, parent: parent}
}

// namesTables reports whether messages name their tables.
func (c *compiler) namesTables() bool {
	return c.mapping.Envelope != nil && c.mapping.Envelope.Table != nil
}

// streamNames checks the names that a table has in the stream.
func (c *compiler) streamNames(t *Table) {
	switch given := t.Has("from"); {
	case given && t.Of != "":
		c.keyFault(t, "from", "the rows come from messages of %s: set from there", t.Of)
	case given && !c.namesTables():
		c.keyFault(t, "from", "needs an envelope with table: the path of the table's name")
	case !given && t.From == nil && !t.IsStar() && c.mapping.Envelope != nil && strings.ContainsAny(t.Name, "*?"):
		c.fault(t.Pos, c.where(t, ""), "a table has one name in the database: give it a name, and put the pattern into from")
	}
}

// parentage checks what makes a table a child.
func (c *compiler) parentage(t *Table) {
	if t.Of == "" {
		for _, key := range []string{"set", "parent"} {
			if t.Has(key) {
				c.keyFault(t, key, "is for child tables, which have of and each")
			}
		}
		return
	}
	switch parent := c.mapping.Table(t.Of); {
	case t.Of == Star:
		c.keyFault(t, "of", "%q stands for tables that have no name here: name the one whose rows have these", t.Of)
	case parent == nil:
		c.keyFault(t, "of", "no table %q in this file%s", t.Of, feed.DidYouMean(t.Of, c.mapping.Names()))
	case len(parent.Key) == 0:
		c.keyFault(t, "of", "%s has no key (key: none), so it cannot be a parent", t.Of)
	}
	if t.Each.Base == paths.NoBase && !t.Has("each") {
		c.fault(t.Pos, c.where(t, ""), "each is missing: the path of the array in %s whose elements are the rows", t.Of)
	}
	if t.Key == nil && !t.Has("key") {
		c.fault(t.Pos, c.where(t, ""), "key is missing: the column that identifies an element")
	}
}
