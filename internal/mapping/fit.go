package mapping

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A fitter adapts a table of the database and a table of the plan to each other.
type fitter struct {
	*Plan
	of     *TablePlan
	table  *schema.Table
	faults []error
}

// fault reports why the settings do not fit a column.
func (f *fitter) fault(at paths.Pos, column, format string, args ...any) {
	why := fmt.Sprintf("table %q, column %q: ", f.table.Name, column) + fmt.Sprintf(format, args...)
	f.faults = append(f.faults, &Fault{File: f.mapping.File, Pos: at, Text: why})
}

// find returns the index of the table's column with a name, or -1.
func (f *fitter) find(name string) int { return f.limits.Find(f.table, name, len(f.table.Columns)) }

// Fit adapts a table of the database and a table of the plan to each other. If the table does not exist, or weir
// created it, it gets the mapping's columns. Call it for all tables in their order. It returns the options of the fold of
// its rows; the caller sets Log. The error joins a [Fault] for each contradiction between the two.
func (p *Plan) Fit(table int, t *schema.Table) (fold.Options, error) {
	x := p.Tables[table]
	f := &fitter{Plan: p, of: x, table: t}
	f.isOneTable()
	for _, s := range x.spec.OnCreate {
		t.OnCreate = append(t.OnCreate, s.SQL)
	}
	if x.spec.ID != "" {
		f.surrogate()
	}
	if x.owner != nil {
		f.owner()
	}
	for i := range x.key {
		if k := &x.key[i]; k.fromParent && !k.hidden || x.fields.all && !k.fromParent {
			if k.fromParent {
				f.parentKey(i)
			}
			f.column(x.spec.Pos, k.title, true, k.cast, nil)
		}
	}
	for i := range x.columns {
		switch c := &x.columns[i]; {
		case c.stamp != schema.NoStamp:
			if err := p.limits.AddStamp(t, c.spec.Name, c.stamp); err != nil {
				f.faults = append(f.faults, &Fault{File: p.mapping.File, Pos: c.spec.Pos, Text: err.Error()})
			}
		case c.references != nil:
			f.reference(c)
		default:
			f.column(c.spec.Pos, c.spec.Name, c.key >= 0, c.cast(p), c)
		}
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; !x.declares(p, c.Name) {
			c.Undeclare()
		}
	}
	for _, child := range x.nest.children {
		if name := child.setColumn(); name != "" && p.limits.Find(t, name, 0) < 0 {
			t.Columns = append(t.Columns, schema.Column{Name: name, Type: schema.Rows})
		}
	}
	// A foreign key prevents the deletion of a referenced row.
	t.HasConstraints = t.HasConstraints || p.isReferenced(x) && p.canLoseRows(x)
	if parent := x.nest.parent; parent != nil && !t.Exists {
		to := parent.identity()
		t.AddForeignKey(schema.ForeignKey{Columns: x.StoredKey()[:len(to)], Table: parent.fitted.Name, To: to, Cascade: true})
	}
	x.fitted = t.Clone()
	return f.options(), errors.Join(f.faults...)
}

// isOneTable reports a table that is another name of one before it.
func (f *fitter) isOneTable() {
	for _, other := range f.Tables[:f.of.index] {
		if other.fitted.FullName == f.table.FullName && f.table.FullName != "" { // else it was not looked up in a database
			err := fmt.Errorf("%q and %q are one table of the database: make them one table here", other.spec.Name, f.of.spec.Name)
			f.faults = append(f.faults, f.Fault(f.of, "", err))
		}
	}
}

// options returns the options of the fold for the table as the database has it.
func (f *fitter) options() fold.Options {
	o, t := f.of.Options, f.table
	if len(f.faults) > 0 { // else a missing column would be told twice
		return o
	}
	if err := fold.CheckVersion(t, o); err != nil {
		f.faults = append(f.faults, f.Fault(f.of, "version_scope", ruleError{err}))
	}
	f.faults = append(f.faults, f.mergeFaults(f.of, t)...)
	if o.UnknownFields == "" {
		o.UnknownFields = fold.IgnoreUnknown
		if t.Made || !t.Exists {
			o.UnknownFields = fold.AddUnknown
		}
	}
	return o
}

// declares reports whether a table's settings name a type for a column.
func (t *TablePlan) declares(p *Plan, name string) bool {
	return slices.ContainsFunc(t.key, func(k keyPart) bool { return k.title == name && isType(k.cast) }) ||
		slices.ContainsFunc(t.columns, func(c column) bool { return c.spec.Name == name && isType(c.cast(p)) })
}

// isType reports whether a cast is to a type, and not to whatever the values are.
func isType(c cast.Cast) bool { return c.Kind != cast.Auto && c.Kind != cast.DefaultType }

// canLoseRows reports whether messages may remove rows of a table.
func (p *Plan) canLoseRows(x *TablePlan) bool {
	return x.deletes != nil || p.stream != nil && p.stream.Removes() && !x.spec.isHistory()
}

// parentKey adds a missing part of the parent's key, with the parent's type.
func (f *fitter) parentKey(part int) {
	name := f.of.key[part].title
	if f.table.Exists && !f.table.Made || f.find(name) >= 0 {
		return
	}
	above := f.of.nest.parent
	if at := f.limits.Find(&above.fitted, above.key[part].title, part); at >= 0 {
		f.table.Columns = append(f.table.Columns, above.fitted.Columns[at].Like(name, true))
	}
}

// surrogate marks the column with the generated key.
func (f *fitter) surrogate() {
	t, name, pos := f.table, f.of.spec.ID, f.of.spec.Pos
	switch at := f.find(name); {
	case at >= 0 && t.Columns[at].Serial:
		t.Columns[at].Generated = true
	case at >= 0:
		f.fault(pos, name, "it is %s, not a database-generated unique integer", t.Columns[at].Declared())
	case t.Exists:
		f.fault(pos, name, "the table has no such column, and its rows would have no value in it")
	default:
		t.Columns = append(t.Columns, schema.Column{Name: name, Type: schema.Int, Serial: true, Generated: true, New: true})
	}
}

// owner makes the rows refer to an ancestor by its generated key.
func (f *fitter) owner() {
	t, x := f.table, f.of
	ref := schema.Ref{To: x.owner.table.lookup(), Table: x.owner.table.index, Owner: true}
	if !f.generatedKey(x.spec.Pos, x.owner.column, ref.To.Table, true) {
		return
	}
	ref.Column = f.find(x.owner.column)
	for part := range x.owner.parts {
		ref.From = append(ref.From, f.hidden(x.nest.parent, part, x.key[part].title, true))
	}
	t.Refs = append(t.Refs, ref)
	if t.Exists {
		t.Key = append(slices.Clone(ref.From), t.Key[1:]...)
	}
}

// hidden adds a column that the database does not have, for a part of the key of another table, and returns its index.
func (f *fitter) hidden(of *TablePlan, part int, name string, key bool) int {
	c := of.fitted.Columns[f.limits.Find(&of.fitted, of.key[part].title, 0)]
	c.Name, c.Hidden, c.Key, c.NotNull, c.New = name, true, key, key && c.NotNull, !f.table.Exists
	f.table.Columns = append(f.table.Columns, c)
	return len(f.table.Columns) - 1
}

// reference makes a column a foreign key to another table.
func (f *fitter) reference(c *column) {
	t, to := f.table, c.references.table.lookup()
	if c.references.hidden == "" {
		f.column(c.spec.Pos, c.spec.Name, c.key >= 0, c.cast(f.Plan), c)
	} else if !f.generatedKey(c.spec.Pos, c.spec.Name, to.Table, false) {
		return
	}
	ref := schema.Ref{To: to, Table: c.references.table.index, Column: f.find(c.spec.Name)}
	if ref.Column < 0 {
		return
	}
	ref.From = []int{ref.Column}
	if c.references.hidden != "" {
		ref.From[0] = f.hidden(c.references.table, 0, c.references.hidden, false)
	}
	t.Refs = append(t.Refs, ref)
	if !t.Exists && t.Columns[ref.Column].Type != schema.Any { // else the two could get different types
		t.AddForeignKey(schema.ForeignKey{Columns: []string{c.spec.Name}, Table: to.Table, To: []string{to.Column}})
	}
}

// generatedKey prepares a column for generated keys of another table, and reports whether it takes them.
func (f *fitter) generatedKey(pos paths.Pos, name, of string, key bool) bool {
	t := f.table
	switch at := f.find(name); {
	case at < 0 && t.Exists && (key || !t.Made):
		f.fault(pos, name, "the table has no such column")
	case at < 0:
		t.Columns = append(t.Columns, schema.Column{Name: name, Type: schema.Int, Key: key, NotNull: key, New: true})
		return true
	case t.Columns[at].Type != schema.Int:
		f.fault(pos, name, "it is %s, which does not take the keys of table %q", t.Columns[at].Declared(), of)
	default:
		return true
	}
	return false
}

// column adapts a column and the sources of its values to each other.
func (f *fitter) column(pos paths.Pos, name string, key bool, as cast.Cast, sources *column) {
	t, at := f.table, f.find(name)
	if at < 0 {
		if t.Exists && !t.Made {
			f.fault(pos, name, "the table has no such column")
			return
		}
		at = len(t.Columns)
		t.Columns = append(t.Columns, as.Make(name, key, f.limits.TextTypes))
	}
	c := &t.Columns[at]
	if c.Generated {
		f.fault(pos, name, "the database computes it")
		return
	}
	if isType(as) {
		want := as.Make(name, key, f.limits.TextTypes)
		if err := (*schema.TypeError)(nil); errors.As(c.Declare(&want), &err) {
			f.fault(pos, name, "it %s: --restart rebuild makes the table with the new type", err.Why)
			return
		}
	}
	if as.Kind == cast.Bytes && c.TakesBytes() {
		c.Type = schema.Bytes
	}
	if as.MatchesDeclaration(c) {
		c.Judged = false
	}
	if sources == nil {
		return
	}
	for i := range sources.sources {
		s := &sources.sources[i]
		if !s.cast.CanStoreIn(c) {
			f.fault(pos, name, "it is %s, which does not take %s", c.Declared(), cast.Article(s.cast.Type))
			return
		}
		s.cast.TextJSON = c.Type != schema.JSON
		if s.Value != nil {
			if why := s.fix(); why != "" {
				f.fault(pos, name, "the value %s: %s", s.Value, why)
			}
		}
	}
}

// isReferenced reports whether rows of other tables refer to a table.
func (p *Plan) isReferenced(t *TablePlan) bool {
	return slices.ContainsFunc(p.Tables, func(x *TablePlan) bool {
		return slices.ContainsFunc(x.columns, func(c column) bool { return c.references != nil && c.references.table == t })
	})
}

// lookup returns how a row of a table is found by its key.
func (t *TablePlan) lookup() *schema.Lookup {
	l := &schema.Lookup{Table: t.spec.Name, Column: t.spec.ID, Key: t.StoredKey()}
	if l.Column == "" { // the key itself
		l.Column = l.Key[0]
	}
	if t.owner != nil {
		l.Above = t.owner.table.lookup()
	}
	return l
}
