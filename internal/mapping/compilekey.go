package mapping

import (
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// key compiles the key: the parent's columns, then the table's own.
func (c *compiler) key(t *Table, out *TablePlan) {
	if t.KeyByDefault && t.Of == "" {
		out.streamKey = t.fieldsOf(t.Key)
	}
	if p := out.nest.parent; p != nil {
		as := func(name string) string {
			if to, renamed := t.Parent[name]; renamed {
				return to
			}
			return name
		}
		if p.spec.ID != "" {
			out.owner = &owner{column: as(p.spec.ID), table: p, parts: len(p.key)}
		} else if p.owner != nil {
			out.owner = &owner{column: as(p.owner.column), table: p.owner.table, parts: p.owner.parts}
		}
		if out.owner != nil {
			out.owner.name = c.names.Number(out.owner.column)
		}
		for _, k := range p.key {
			switch k.fromParent = true; {
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
		c.checkKeyColumn(t, name)
		k := keyPart{title: name, name: c.names.Number(name), cast: c.cast(t.Type)}
		if at := slices.IndexFunc(out.columns, func(x column) bool { return x.spec.Name == name }); at >= 0 && len(out.columns[at].sources) > 0 {
			out.columns[at].key, k.cast = len(out.key), out.columns[at].cast(c.Plan)
			if k.cast.Kind == cast.JSON || !c.limits.TextTypes && (k.cast.Kind == cast.Bytes || k.cast.Precision > 0) {
				c.fault(out.columns[at].spec.Pos, c.where(t, ""), "the key column %q: %s cannot be a key: equality is undefined", name, k.cast.Type)
			}
		}
		out.key = append(out.key, k)
	}
}

// withKeyColumns returns the table with its key's columns, if others are listed and these are not. Each is the field of
// its name, unless another column reads that field.
func (t *Table) withKeyColumns() *Table {
	if t.Columns == nil || t.IsStar() {
		return t
	}
	var key []Column
	for _, k := range t.Key {
		c := Column{Pos: t.Place("key"), Name: k, From: []Source{{From: paths.FieldPath(k)}}}
		if k != t.ID && !slices.ContainsFunc(t.Columns, c.overlaps) {
			key = append(key, c)
		}
	}
	of := *t
	of.Columns = slices.Concat(key, t.Columns)
	return &of
}

// overlaps reports whether another column has the name of a column, or reads its field.
func (c Column) overlaps(other Column) bool {
	return other.Name == c.Name || slices.ContainsFunc(other.From, func(s Source) bool {
		return s.From.Base == paths.DefaultBase && slices.Equal(s.From.Steps, c.From[0].From.Steps)
	})
}

// checkKeyColumn reports a key column that no message sets.
func (c *compiler) checkKeyColumn(t *Table, name string) {
	i := slices.Index(t.columnNames(), name)
	switch {
	case t.Columns == nil || name == t.ID && name != "" || t.IsStar():
	case i < 0 && !t.Has("key"):
		c.fault(t.Pos, c.where(t, ""), "key is missing, and the table has no column %q", name)
	case i < 0:
		c.keyFault(t, "key", "no column %q among the table's columns%s", name, feed.DidYouMean(name, t.columnNames()))
	case len(t.Columns[i].From) == 1 && t.Columns[i].From[0].Stamp != schema.NoStamp:
		c.fault(t.Columns[i].Pos, c.where(t, "key"), "%s is a stamp, which no message has: it cannot identify a row", name)
	}
}

// fieldsOf returns the fields of the row that columns read; nil if a column reads something else.
func (t *Table) fieldsOf(columns []string) []string {
	fields := slices.Clone(columns)
	for i, name := range columns {
		at := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
		if at < 0 {
			continue
		}
		from := t.Columns[at].From
		if len(from) != 1 || from[0].From.Base != paths.DefaultBase || len(from[0].From.Steps) == 0 || from[0].From.Steps[0].Index >= 0 {
			return nil
		}
		fields[i] = from[0].From.Steps[0].Name
	}
	return fields
}

// parentColumn suggests another name for a column that a child inherits from its parent.
func parentColumn(parent, name string) string {
	return strings.TrimSuffix(parent[strings.LastIndex(parent, ".")+1:], "s") + "_" + name
}
