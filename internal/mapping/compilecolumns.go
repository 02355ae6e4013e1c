package mapping

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

func (c *compiler) columns(t *Table, out *TablePlan, s scope) {
	out.fields.all = t.Columns == nil
	for i := range t.Columns {
		col := &t.Columns[i]
		where := c.where(t, "columns."+col.Name)
		c.checkSources(t, col, where)
		x := column{spec: col, name: c.names.Number(col.Name), key: -1}
		if t.UnknownFields != fold.RejectUnknown { // else its field is used if a path reads it
			out.fields.used[x.name] = true
		}
		for j := range col.From {
			src := &col.From[j]
			c.use(out, src.From)
			if src.Stamp != schema.NoStamp {
				x.stamp = src.Stamp
				continue
			}
			x.sources = append(x.sources, c.source(t, src, s, where))
			if as := t.TypeOf(src); t.Merge[col.Name] == merge.Patch && !slices.Contains(patched, as.Kind) {
				c.fault(src.Pos, where, "merge: patch takes objects, and %s is none: read it as json or json_text", cast.Article(as))
			}
			if src.References != "" {
				c.refers(&x, t, src, where)
			}
		}
		out.columns = append(out.columns, x)
	}
	for _, w := range []paths.When{t.When, t.DeleteWhen} {
		for _, all := range w {
			for i := range all {
				if out.row.at == (paths.Place{Tree: s.message}) && !out.fields.all {
					c.use(out, all[i].Path)
				}
			}
		}
	}
}

// use marks the first field of a path in the row as used.
func (c *compiler) use(t *TablePlan, p paths.Path) {
	if p.Base == paths.DefaultBase && len(p.Steps) > 0 && p.Steps[0].Index < 0 {
		t.fields.used[c.names.Number(p.Steps[0].Name)] = true
	}
}

// patched are the types of values that patch other values.
var patched = []cast.TypeKind{cast.DefaultType, cast.Auto, cast.JSON, cast.JSONText}

// refers makes a column a foreign key to another table.
func (c *compiler) refers(x *column, t *Table, src *Source, where string) {
	if t.IsStar() {
		c.fault(src.Pos, where, "references is for a table that has a name: give it one")
	}
	spec, why := c.mapping.Table(src.References), ""
	switch {
	case len(x.spec.From) > 1:
		why = "a column with references has one source"
	case src.References == Star:
		why = fmt.Sprintf("%q stands for tables that have no name here: name the one that it references", src.References)
	case spec == nil:
		why = fmt.Sprintf("references %q, which is no table of this file%s", src.References, feed.DidYouMean(src.References, c.mapping.Names()))
	case len(spec.Key) == 0:
		why = fmt.Sprintf("references %s, which has no key (key: none), so a column cannot reference its rows", src.References)
	case spec.Of != "" || len(spec.Key) != 1:
		why = fmt.Sprintf("references %s, whose key has several columns: one column cannot name a row of it", src.References)
	}
	if why != "" {
		c.fault(src.Pos, where, "%s", why)
	}
	to := c.named(src.References)
	if why != "" || to == nil {
		return
	}
	x.references = &reference{table: to}
	key := to.key[0].cast
	if src.As.Kind != cast.DefaultType && src.As != key.Type {
		c.fault(src.Pos, where, "it is read as %s, and the key of %q as %s: read both alike", src.As, src.References, key.Type)
	}
	x.sources[0].cast = key
	if to.spec.ID == "" {
		return
	}
	x.references.hidden = hiddenColumn(to.spec.Name, x.spec.Name)
	x.name = c.names.Number(x.references.hidden)
	if slices.Contains(t.Key, x.spec.Name) {
		c.fault(x.spec.Pos, where, "the database generates the key column for a row of %q: no message has it", src.References)
	}
}

func (c *compiler) source(t *Table, src *Source, s scope, where string) source {
	x := source{Source: *src, cast: c.cast(t.TypeOf(src))}
	x.When = c.when(src.When, s, where)
	switch {
	case src.Value != nil:
		why := x.fix()
		if c.limits.NoNUL && strings.Contains(string(src.Value), `\u0000`) {
			why = "it contains a NUL, which the database cannot store in text" // the fold only searches the message
		}
		if why != "" {
			c.fault(src.Pos, where, "the value %s: %s", src.Value, why)
		}
	case src.Meta == NoMeta:
		x.From = src.From.Placed(c.find(src.From, s, true, src.Pos, where))
	}
	return x
}

// checkSources reports sources of a column that never give a value.
func (c *compiler) checkSources(t *Table, col *Column, where string) {
	element := t.Each.Base != paths.NoBase || t.Has("each")
	spell := func(p paths.Path) string {
		if p.Base == paths.DefaultBase && !element {
			p.Base = paths.MessageBase
		}
		return p.String()
	}
	for i, s := range col.From {
		switch {
		case s.Stamp != schema.NoStamp && len(col.From) > 1:
			c.fault(s.Pos, where, "a column with a stamp has no other source")
		case (s.Meta == IndexMeta || s.Meta == KeyMeta) && !element:
			c.fault(s.Pos, where, "meta: %s belongs to an element, and the table has no each", s.Meta)
		}
		if exclude(t.When, s.When, spell) {
			c.fault(s.Pos, where, "no message meets both this when and the table's")
		}
		if slices.ContainsFunc(col.From[:i], func(before Source) bool {
			return before.When == nil && (before.Value != nil || before.Meta != NoMeta || before.From.Base != paths.NoBase && before.From.String() == s.From.String())
		}) {
			c.fault(s.Pos, where, "unreachable: an earlier source always has a value")
		}
	}
}

// exclude reports whether no message meets both conditions: any two of their alternatives test a path for different
// values. spell normalizes a path.
func exclude(a, b paths.When, spell func(paths.Path) string) bool {
	for _, x := range a {
		for _, y := range b {
			differ := func(t paths.Test) bool {
				return slices.ContainsFunc(y, func(u paths.Test) bool {
					return spell(t.Path) == spell(u.Path) && t.In != nil && u.In != nil && !t.Not && !u.Not &&
						!slices.ContainsFunc(t.In, func(v paths.Value) bool { return slices.Contains(u.In, v) })
				})
			}
			if !slices.ContainsFunc(x, differ) {
				return false
			}
		}
	}
	return a != nil && b != nil
}

// oneName reports two columns of a table whose names are the same, or the same for the database.
func (c *compiler) oneName(t *TablePlan) {
	c.checkNames(t)
	named := map[string]string{}
	check := func(name string, at paths.Pos) {
		of := c.limits.FoldName(name)
		if other, taken := named[of]; taken && other != name {
			c.fault(at, c.where(t.spec, ""), "%q and %q are one column to the database: rename one", other, name)
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

// checkNames reports two columns of a table with one name.
func (c *compiler) checkNames(out *TablePlan) {
	t := out.spec
	own := t.columnNames()
	if t.Columns == nil {
		own = t.Key // it at least is known
	}
	if t.ID != "" && slices.Contains(own, t.ID) {
		c.keyFault(t, "id", "%q is a column of the mapping: the database generates id, so it needs a name of its own", t.ID)
	}
	if t.Columns != nil && slices.Contains(t.Key, t.ID) {
		c.keyFault(t, "key", "%q is generated by the database: the key names columns that messages set", t.ID)
	}
	if out.nest.parent == nil || c.cyclic {
		return
	}
	parents := out.nest.parent.identity()
	inherited := out.StoredKey()[:len(parents)]
	for _, name := range slices.Sorted(maps.Keys(t.Parent)) {
		if !slices.Contains(parents, name) {
			c.keyFault(t, "parent", "%s gives its children no column %q%s", t.Of, name, feed.DidYouMean(name, parents))
		}
	}
	for i, name := range inherited {
		switch {
		case name == "": // a fault of parent
		case slices.Contains(inherited[:i], name):
			c.keyFault(t, "parent", "two columns of %s get the name %q", t.Of, name)
		case name == t.ID || slices.Contains(own, name):
			c.fault(t.Pos, c.where(t, ""), "the column %q of %s, which children take over, has the name of a column of this table: parent: {%s: %s} renames it", parents[i], t.Of, parents[i], parentColumn(t.Of, parents[i]))
		}
	}
}
