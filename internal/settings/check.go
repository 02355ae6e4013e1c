package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A checker checks the parts of a mapping against each other.
type checker struct {
	*reader
	tables []*tableDraft
	byName map[string]*tableDraft
	// namesKeys is true if messages of the envelope may name the keys of tables.
	namesKeys bool
	family
	// parents holds, for each table, the tables whose rows must exist first.
	parents map[*tableDraft][]edge
}

// An edge leads to a parent.
type edge struct {
	to   *tableDraft
	at   paths.Pos
	word string // the key in the file that makes it a parent
}

func (r *reader) check(m *mappingDraft) {
	c := checker{reader: r, tables: m.Drafts, byName: map[string]*tableDraft{}, family: family{}, parents: map[*tableDraft][]edge{}}
	c.namesKeys = m.Envelope != nil && m.Envelope.NamesKeys()
	if len(m.Drafts) > m.MaxTables {
		r.fault(m.Drafts[m.MaxTables].Pos, "tables", "%d tables, and max_tables is %d", len(m.Drafts), m.MaxTables)
	}
	for _, t := range m.Drafts {
		c.byName[t.Name] = t
		c.family[t.Name] = &t.Table
	}
	for _, t := range m.Drafts {
		c.parentage(t)
		c.references(t)
	}
	c.envelopes(m)
	cyclic := c.cycles()
	for _, t := range m.Drafts {
		if !cyclic {
			c.names(t)
			c.versions(t)
		}
		c.columns(t)
		c.rules(t)
		c.paths(t)
	}
	if !cyclic {
		c.wanted(m.Cases)
	}
}

// child reports whether the rows of a table come from the row of another table.
func (t *tableDraft) child() bool { return t.given["of"] != nil }

func (t *tableDraft) replaced() bool { return t.child() && t.Set != mapping.MergeSet }

// parentage checks what makes a table a child.
func (c *checker) parentage(t *tableDraft) {
	if t.child() {
		if parent := c.byName[t.Of]; t.Of == mapping.Star {
			c.fault(t.place("of"), t.where+".of", "%q stands for tables that have no name here: name the one whose rows have these", t.Of)
		} else if parent != nil {
			c.parents[t] = append(c.parents[t], edge{parent, t.place("of"), "of"})
		} else {
			c.fault(t.place("of"), t.where+".of", "no table %q in this file%s", t.Of, DidYouMean(t.Of, c.tableNames()))
		}
		if t.given["each"] == nil {
			c.fault(t.Pos, t.where, "each is missing: the path of the array in %s whose elements are the rows", t.Of)
		}
		if t.given["key"] == nil {
			c.fault(t.Pos, t.where, "key is missing: the column that identifies an element")
		}
		return
	}
	for _, name := range []string{"set", "parent"} {
		if t.given[name] != nil {
			c.fault(t.place(name), join(t.where, name), "is for child tables, which have of and each")
		}
	}
}

func (c *checker) tableNames() []string {
	names := make([]string, len(c.tables))
	for i, t := range c.tables {
		names[i] = t.Name
	}
	return names
}

func (c *checker) references(t *tableDraft) {
	for _, col := range t.Columns {
		where := t.where + ".columns." + col.Name
		for _, s := range col.From {
			if s.References == "" {
				continue
			}
			to := c.byName[s.References]
			switch {
			case len(col.From) > 1:
				c.fault(s.Pos, where, "a column with references has one source")
			case s.References == mapping.Star:
				c.fault(s.Pos, where, "%q stands for tables that have no name here: name the one that it references", s.References)
			case to == nil:
				c.fault(s.Pos, where, "references %q, which is no table of this file%s", s.References, DidYouMean(s.References, c.tableNames()))
			case len(to.Key) == 0:
				c.fault(s.Pos, where, "references %s, which has no key (key: none), so a column cannot reference its rows", s.References)
			case to.child() || len(to.Key) != 1:
				c.fault(s.Pos, where, "references %s, whose key has several columns: one column cannot name a row of it", s.References)
			default:
				c.parents[t] = append(c.parents[t], edge{to, s.Pos, "references"})
			}
		}
	}
}

// cycles reports tables that are their own ancestors.
func (c *checker) cycles() (found bool) {
	const done = 2
	state := map[*tableDraft]int{}
	var path []string
	var visit func(t *tableDraft)
	visit = func(t *tableDraft) {
		state[t] = 1
		path = append(path, t.Name)
		for _, e := range c.parents[t] {
			switch state[e.to] {
			case 0:
				visit(e.to)
			case 1:
				found = true
				round := append(slices.Clone(path[slices.Index(path, e.to.Name):]), e.to.Name)
				c.fault(e.at, t.where, "%s makes a cycle, and no table can be written first: %s", e.word, strings.Join(round, " → "))
			}
		}
		path = path[:len(path)-1]
		state[t] = done
	}
	for _, t := range c.tables {
		if state[t] == 0 {
			visit(t)
		}
	}
	return found
}

// names checks that each name in a table is a single column.
func (c *checker) names(t *tableDraft) {
	own := map[string]bool{}
	for _, col := range t.Columns {
		own[col.Name] = true
	}
	if t.Columns == nil { // the key at least is known
		for _, k := range t.Key {
			own[k] = true
		}
	}
	if own[t.ID] && t.ID != "" {
		c.fault(t.place("id"), t.where+".id", "%q is a column of the mapping: the database generates id, so it needs a name of its own", t.ID)
	}
	if slices.Contains(t.Key, t.ID) && t.Columns != nil {
		c.fault(t.place("key"), t.where+".key", "%q is generated by the database: the key names columns that messages set", t.ID)
	}
	for _, name := range []string{t.ID, t.OnDelete.Mark} {
		own[name] = own[name] || name != ""
	}
	if parent := c.byName[t.Of]; t.child() && parent != nil {
		has := c.identity(&parent.Table)
		for name := range t.Parent {
			if !slices.Contains(has, name) {
				c.fault(t.place("parent"), t.where+".parent", "%s gives its children no column %q%s", t.Of, name, DidYouMean(name, has))
			}
		}
		seen := map[string]bool{}
		for i, name := range c.inherited(&t.Table) {
			switch {
			case seen[name]:
				c.fault(t.place("parent"), t.where+".parent", "two columns of %s get the name %q", t.Of, name)
			case own[name]:
				c.fault(t.Pos, t.where, "the column %q of %s, which children take over, has the name of a column of this table: parent: {%s: %s} renames it", has[i], t.Of, has[i], mapping.ParentColumn(t.Of, has[i]))
			}
			seen[name] = true
		}
	}
}

// columns checks the sources of a table's columns, and its key.
func (c *checker) columns(t *tableDraft) {
	for _, k := range t.Key {
		i := slices.IndexFunc(t.Columns, func(col mapping.Column) bool { return col.Name == k })
		switch {
		case t.Columns == nil || k == t.ID && k != "" || t.IsStar() || t.KeyByDefault && c.namesKeys: // its columns include a key that becomes known later
		case i < 0 && t.given["key"] == nil:
			c.fault(t.Pos, t.where, "key is missing, and the table has no column %q", k)
		case i < 0:
			names := make([]string, len(t.Columns))
			for j, col := range t.Columns {
				names[j] = col.Name
			}
			c.fault(t.place("key"), t.where+".key", "no column %q among the table's columns%s", k, DidYouMean(k, names))
		case len(t.Columns[i].From) == 1 && t.Columns[i].From[0].Stamp != mapping.NoStamp:
			c.fault(t.Columns[i].Pos, t.where+".key", "%s is a stamp, which no message has: it cannot identify a row", k)
		}
	}
	for _, col := range t.Columns {
		c.sources(t, col)
	}
}

func (c *checker) sources(t *tableDraft, col mapping.Column) {
	where := t.where + ".columns." + col.Name
	for i, s := range col.From {
		switch {
		case s.Stamp != mapping.NoStamp && len(col.From) > 1:
			c.fault(s.Pos, where, "a column with a stamp has no other source")
		case (s.Meta == mapping.IndexMeta || s.Meta == mapping.KeyMeta) && t.given["each"] == nil:
			c.fault(s.Pos, where, "meta: %s belongs to an element, and the table has no each", s.Meta)
		}
		if exclude(t.When, s.When, t.conditionPath) {
			c.fault(s.Pos, where, "no message meets both this when and the table's")
		}
		for _, before := range col.From[:i] {
			if before.When == nil && (before.Value != nil || before.Meta != mapping.NoMeta || before.From.Base != paths.NoBase && before.From.String() == s.From.String()) {
				c.fault(s.Pos, where, "unreachable: an earlier source always has a value")
				break
			}
		}
	}
}

// conditionPath returns the normalized form of a path in the conditions of a table.
func (t *tableDraft) conditionPath(p paths.Path) string {
	if p.Base == paths.DefaultBase && t.given["each"] == nil {
		p.Base = paths.MessageBase
	}
	return p.String()
}

// rules checks that the update rules of a table are compatible. Rules that all come from the top of the file are
// checked there.
func (c *checker) rules(t *tableDraft) {
	clash := func(one, other, why string) {
		at := one
		if t.given[at] == nil {
			at = other
		}
		if t.given[at] != nil {
			c.fault(t.place(at), join(t.where, at), "%s", why)
		}
	}
	if t.FillOnly && t.DeleteWhen != nil {
		clash("fill_only", "delete_when", "fill_only never removes a row: leave delete_when out")
	}
	if t.FillOnly && t.Version.Base != paths.NoBase {
		clash("fill_only", "version_field", "fill_only needs no version: leave one of version_field and fill_only out")
	}
	if t.FillOnly && t.OnDelete.Mark != "" {
		clash("fill_only", "on_delete", "fill_only never changes a value: leave one of on_delete and fill_only out")
	}
	switch appends := t.Key != nil && len(t.Key) == 0; {
	case t.OnDelete.Mark != "" && appends:
		clash("on_delete", "key", "no message can mark a row of a table without a key: on_delete: row inserts the deleted row")
	case t.OnDelete.Insert && !appends:
		clash("on_delete", "key", "row is for a table in which each message is its own row: key: none")
	}
	if t.given["version_scope"] != nil && !t.child() && t.Scope == fold.RowScope && t.Version.Base == paths.NoBase {
		clash("version_scope", "version_scope", "name the field with version_field")
	}
	if above := c.byName[t.Of]; t.replaced() && above != nil && above.FillOnly {
		c.fault(above.place("fill_only"), join(above.where, "fill_only"), "the rows of %s are a set that each message replaces: leave fill_only out, or give %[1]s set: merge", t.Name)
	}
	if t.replaced() {
		const noEffect = "the array replaces all rows, so %s has no effect: with set: merge, elements are updates"
		for _, col := range t.Columns {
			if t.Merge[col.Name] != merge.Last {
				c.fault(col.Pos, t.where+".columns."+col.Name, noEffect, "merge")
			}
		}
		for _, name := range []string{"delete_when", "on_delete", "null", "fill_only", "version_field", "version_scope"} {
			clash(name, name, fmt.Sprintf(noEffect, name))
		}
	}
}

// versions checks that the rows of a child whose elements are updates can have their parent's version, because deleting
// the parent deletes them too.
func (c *checker) versions(t *tableDraft) {
	if !t.child() || t.replaced() {
		return
	}
	own := t.Version.Base != paths.NoBase
	if t.given["version_scope"] != nil && !own {
		c.fault(t.place("version_scope"), t.where+".version_scope", "the version and its scope come from %s: leave version_scope out", t.Of)
	}
	for of := c.byName[t.Of]; of != nil; of = c.byName[of.Of] {
		if own && of.DeleteWhen != nil {
			c.fault(t.place("version_field"), t.where+".version_field", "%s has delete_when, and a delete of its row deletes the rows here: they use its version; leave version_field out", of.Name)
			return
		}
		if t.FillOnly && !own && of.Version.Base != paths.NoBase {
			c.fault(t.place("fill_only"), t.where+".fill_only", "fill_only needs no version, and the rows use the version of %s: leave one of version_field and fill_only out", of.Name)
			return
		}
	}
}

// paths checks that only elements refer to a parent.
func (c *checker) paths(t *tableDraft) {
	if t.given["each"] != nil && t.Each.Base != paths.ParentBase {
		return
	}
	fault := func(at paths.Pos, where string, p paths.Path) {
		if p.Base == paths.ParentBase {
			c.fault(at, where, "%s: ^ is the parent of an element", p.Text)
		}
	}
	fault(t.place("each"), t.where+".each", t.Each)
	if t.given["each"] != nil {
		return
	}
	whens := func(w paths.When, where string) {
		for _, all := range w {
			for _, test := range all {
				fault(test.Pos, where, test.Path)
			}
		}
	}
	fault(t.place("row"), t.where+".row", t.Row.Path)
	fault(t.place("version_field"), t.where+".version_field", t.Version)
	whens(t.When, t.where+".when")
	whens(t.DeleteWhen, t.where+".delete_when")
	for _, col := range t.Columns {
		for _, s := range col.From {
			fault(s.Pos, t.where+".columns."+col.Name, s.From)
			whens(s.When, t.where+".columns."+col.Name)
		}
	}
}
