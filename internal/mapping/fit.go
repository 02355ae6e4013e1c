package mapping

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

var stamps = map[Stamp]schema.Stamp{InsertStamp: schema.InsertStamp, UpdateStamp: schema.UpdateStamp}

// Fit adapts a table of the database and a table of the plan to each other. If the table does not exist, or weir
// created it, it gets the mapping's columns. Call it for all tables in their order. The error joins a [Fault] for
// each contradiction between the two.
func (p *Plan) Fit(table int, t *schema.Table) error {
	x := &p.tables[table]
	for _, s := range x.spec.OnCreate {
		t.OnCreate = append(t.OnCreate, s.SQL)
	}
	var faults []error
	fault := func(at paths.Pos, format string, args ...any) {
		faults = append(faults, &Fault{File: p.mapping.File, Pos: at, Text: fmt.Sprintf(format, args...)})
	}
	if x.spec.ID != "" {
		p.fitSurrogate(t, x.spec.ID, func(why string) { fault(x.spec.Pos, "table %q, column %q: %s", t.Name, x.spec.ID, why) })
	}
	if x.owner != nil {
		p.fitOwner(table, t, func(why string) { fault(x.spec.Pos, "table %q, column %q: %s", t.Name, x.owner.column, why) })
	}
	for i := range x.key {
		if k := &x.key[i]; k.fromParent && !k.hidden || x.fields.all && !k.fromParent {
			if k.fromParent {
				p.fitParentKey(x, i, t)
			}
			p.fitColumn(t, k.title, true, k.cast, nil, func(why string) { fault(x.spec.Pos, "table %q, column %q: %s", t.Name, k.title, why) })
		}
	}
	for i := range x.columns {
		c := &x.columns[i]
		if c.stamp != NoStamp {
			if err := p.limits.AddStamp(t, c.spec.Name, stamps[c.stamp]); err != nil {
				fault(c.spec.Pos, "%v", err)
			}
			continue
		}
		if c.references != nil {
			p.fitReference(t, c, func(why string) { fault(c.spec.Pos, "table %q, column %q: %s", t.Name, c.spec.Name, why) })
			continue
		}
		p.fitColumn(t, c.spec.Name, c.key >= 0, c.cast(p), c, func(why string) { fault(c.spec.Pos, "table %q, column %q: %s", t.Name, c.spec.Name, why) })
	}
	for i := range t.Columns {
		if c := &t.Columns[i]; !x.declares(p, c.Name) {
			c.Undeclare()
		}
	}
	for _, child := range x.nest.children {
		if name := p.SetColumn(child); name != "" && p.limits.Find(t, name, 0) < 0 {
			t.Columns = append(t.Columns, schema.Column{Name: name, Type: schema.Rows})
		}
	}
	// A foreign key prevents the deletion of a referenced row.
	t.HasConstraints = t.HasConstraints || p.isReferenced(table) && p.canLoseRows(x)
	if x.nest.parent >= 0 && !t.Exists {
		t.AddForeignKey(p.parentForeignKey(table))
	}
	x.fitted = t.Clone()
	return errors.Join(faults...)
}

// declares reports whether a table's settings name a type for a column.
func (t *tablePlan) declares(p *Plan, name string) bool {
	return slices.ContainsFunc(t.key, func(k keyPart) bool { return k.title == name && isType(k.cast) }) ||
		slices.ContainsFunc(t.columns, func(c column) bool { return c.spec.Name == name && isType(c.cast(p)) })
}

// isType reports whether a cast is to a type, and not to whatever the values are.
func isType(c cast.Cast) bool { return c.Kind != cast.Auto && c.Kind != cast.DefaultType }

// canLoseRows reports whether messages may remove rows of a table.
func (p *Plan) canLoseRows(x *tablePlan) bool {
	return x.deletes != nil || p.stream != nil && p.stream.Removes() && !x.spec.isHistory()
}

// fitParentKey adds a missing part of the parent's key to a table, with the parent's type.
func (p *Plan) fitParentKey(x *tablePlan, part int, t *schema.Table) {
	if t.Exists && !t.Made || p.limits.Find(t, x.key[part].title, len(t.Columns)) >= 0 {
		return
	}
	above := &p.tables[x.nest.parent]
	if at := p.limits.Find(&above.fitted, above.key[part].title, part); at >= 0 {
		t.Columns = append(t.Columns, above.fitted.Columns[at].Like(x.key[part].title, true))
	}
}

// parentForeignKey returns the foreign key of a table to its parent.
func (p *Plan) parentForeignKey(table int) schema.ForeignKey {
	parent := p.parent(&p.tables[table])
	to := parent.identity()
	return schema.ForeignKey{Columns: p.StoredKey(table)[:len(to)], Table: parent.fitted.Name, To: to, Cascade: true}
}

// fitSurrogate marks the column with the generated key.
func (p *Plan) fitSurrogate(t *schema.Table, name string, fault func(why string)) {
	at := p.limits.Find(t, name, len(t.Columns))
	switch {
	case at >= 0 && t.Columns[at].Serial:
		t.Columns[at].Generated = true
	case at >= 0:
		fault(fmt.Sprintf("it is %s, not a database-generated unique integer", t.Columns[at].Declared()))
	case t.Exists:
		fault("the table has no such column, and its rows would have no value in it")
	default:
		t.Columns = append(t.Columns, schema.Column{Name: name, Type: schema.Int, Serial: true, Generated: true, New: true})
	}
}

// fitOwner makes the rows of a table refer to an ancestor by its generated key.
func (p *Plan) fitOwner(table int, t *schema.Table, fault func(why string)) {
	x := &p.tables[table]
	ref := schema.Ref{To: p.lookup(x.owner.table), Table: x.owner.table, Owner: true}
	if !p.fitGeneratedKey(t, x.owner.column, ref.To.Table, true, fault) {
		return
	}
	ref.Column = p.limits.Find(t, x.owner.column, 0)
	parent := &p.tables[x.nest.parent]
	above := &parent.fitted
	for part := range x.owner.parts {
		c := above.Columns[p.limits.Find(above, parent.key[part].title, 0)]
		c.Name, c.Hidden, c.Key, c.New = x.key[part].title, true, true, !t.Exists
		ref.From = append(ref.From, len(t.Columns))
		t.Columns = append(t.Columns, c)
	}
	t.Refs = append(t.Refs, ref)
	if t.Exists {
		t.Key = append(slices.Clone(ref.From), t.Key[1:]...)
	}
}

// fitReference makes a column a foreign key to another table.
func (p *Plan) fitReference(t *schema.Table, c *column, fault func(why string)) {
	to := &p.tables[c.references.table].fitted
	ref := schema.Ref{To: p.lookup(c.references.table), Table: c.references.table}
	if c.references.hidden == "" {
		p.fitColumn(t, c.spec.Name, c.key >= 0, c.cast(p), c, fault)
	} else if !p.fitGeneratedKey(t, c.spec.Name, ref.To.Table, false, fault) {
		return
	}
	if ref.Column = p.limits.Find(t, c.spec.Name, 0); ref.Column < 0 {
		return
	}
	ref.From = []int{ref.Column}
	if c.references.hidden != "" {
		x := to.Columns[p.limits.Find(to, p.tables[c.references.table].key[0].title, 0)]
		x.Name, x.Hidden, x.Key, x.NotNull, x.New = c.references.hidden, true, false, false, !t.Exists
		ref.From[0] = len(t.Columns)
		t.Columns = append(t.Columns, x)
	}
	t.Refs = append(t.Refs, ref)
	if !t.Exists && t.Columns[ref.Column].Type != schema.Any { // else the two could get different types
		t.AddForeignKey(schema.ForeignKey{Columns: []string{c.spec.Name}, Table: ref.To.Table, To: []string{ref.To.Column}})
	}
}

// isReferenced reports whether rows of other tables refer to a table.
func (p *Plan) isReferenced(table int) bool {
	return slices.ContainsFunc(p.tables, func(x tablePlan) bool {
		return slices.ContainsFunc(x.columns, func(c column) bool { return c.references != nil && c.references.table == table })
	})
}

// fitGeneratedKey prepares a column for generated keys of another table.
func (p *Plan) fitGeneratedKey(t *schema.Table, name, of string, key bool, fault func(why string)) bool {
	at := p.limits.Find(t, name, len(t.Columns))
	switch {
	case at < 0 && t.Exists && (key || !t.Made):
		fault("the table has no such column")
	case at < 0:
		t.Columns = append(t.Columns, schema.Column{Name: name, Type: schema.Int, Key: key, NotNull: key, New: true})
		return true
	case t.Columns[at].Type != schema.Int:
		fault(fmt.Sprintf("it is %s, which does not take the keys of table %q", t.Columns[at].Declared(), of))
	default:
		return true
	}
	return false
}

// lookup returns how a row of a table is found by its key.
func (p *Plan) lookup(table int) *schema.Lookup {
	t := &p.tables[table]
	l := &schema.Lookup{Table: t.spec.Name, Column: t.spec.ID, Key: p.StoredKey(table)}
	if l.Column == "" { // the key itself
		l.Column = l.Key[0]
	}
	if t.owner != nil {
		l.Above = p.lookup(t.owner.table)
	}
	return l
}

// fitColumn adapts a column of a table and the sources of its values to each other.
func (p *Plan) fitColumn(t *schema.Table, name string, key bool, as cast.Cast, sources *column, fault func(why string)) {
	at := p.limits.Find(t, name, len(t.Columns))
	if at < 0 {
		if t.Exists && !t.Made {
			fault("the table has no such column")
			return
		}
		at = len(t.Columns)
		t.Columns = append(t.Columns, as.Make(name, key, p.limits.TextTypes))
	}
	c := &t.Columns[at]
	if c.Generated {
		fault("the database computes it")
		return
	}
	if isType(as) {
		want := as.Make(name, key, p.limits.TextTypes)
		if err := (*schema.TypeError)(nil); errors.As(c.Declare(&want), &err) {
			fault("it " + err.Why + ": --restart rebuild makes the table with the new type")
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
			fault(fmt.Sprintf("it is %s, which does not take %s", c.Declared(), cast.Article(s.cast.Type)))
			return
		}
		s.cast.TextJSON = c.Type != schema.JSON
		if s.Value != nil {
			if why := s.fix(); why != "" {
				fault(fmt.Sprintf("the value %s: %s", s.Value, why))
			}
		}
	}
}
