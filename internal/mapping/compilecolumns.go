package mapping

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// columns compiles the columns of a table.
func (c *compiler) columns(t *Table, out *tablePlan, s scope, what string) {
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
			if as := t.TypeOf(src); t.Merge[col.Name] == merge.Patch && !slices.Contains(patched, as.Kind) {
				c.fault(src.Pos, "%s, column %q: merge: patch takes objects, and %s is none: read it as json or json_text", what, col.Name, cast.Article(as))
			}
			if src.References != "" {
				c.refers(&x, t, src)
			}
		}
		x.ofMessage = len(x.sources) > 0 && !slices.ContainsFunc(col.From, readsRow)
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

// patched are the types of values that patch other values.
var patched = []cast.TypeKind{cast.DefaultType, cast.Auto, cast.JSON, cast.JSONText}

// readsRow reports whether a value comes from the row, or refers to a row of another table.
func readsRow(s Source) bool {
	return s.From.Base != paths.NoBase && s.From.Base != paths.MessageBase || s.References != ""
}

// mark compiles the column that marks deleted rows. A table without a key has none.
func (c *compiler) mark(t *Table, out *tablePlan) {
	name := t.OnDelete.Mark
	if name == "" || len(t.Key) == 0 {
		return
	}
	same := func(other string) bool { return strings.EqualFold(other, name) } // databases differ in which names are one
	if same(t.ID) || slices.ContainsFunc(t.Key, same) || slices.ContainsFunc(t.Columns, func(col Column) bool { return same(col.Name) }) {
		c.fault(t.Pos, "table %q: on_delete sets the column %q: leave it out of key, id and columns", t.Name, name)
		return
	}
	x := column{spec: &Column{Pos: t.Pos, Name: name}, name: c.names.Number(name), key: -1}
	for _, value := range []string{liveSource: "false", deletedSource: "true"} {
		src := &Source{Pos: t.Pos, As: cast.Type{Kind: cast.Boolean}, Value: []byte(value)}
		x.sources = append(x.sources, c.source(t, src, scope{}, ""))
	}
	out.fields.used[x.name] = true
	out.mark = len(out.columns)
	out.columns = append(out.columns, x)
}

// refers makes a column a foreign key to another table.
func (c *compiler) refers(x *column, t *Table, src *Source) {
	x.references = &reference{table: c.byName[src.References]}
	to := &c.plan.tables[x.references.table]
	key := to.key[0].cast
	if src.As.Kind != cast.DefaultType && src.As != key.Type {
		c.fault(src.Pos, "table %q, column %q: it is read as %s, and the key of %q as %s: read both alike", t.Name, x.spec.Name, src.As, src.References, key.Type)
	}
	x.sources[0].cast = key
	if to.spec.ID == "" {
		return
	}
	x.references.hidden = hiddenColumn(to.spec.Name, x.spec.Name)
	x.name = c.names.Number(x.references.hidden)
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
			why = "it contains a NUL, which the database cannot store in text" // the fold only searches the message
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

// oneName reports two columns of a table whose names are the same for the database.
func (c *compiler) oneName(t *tablePlan) {
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
