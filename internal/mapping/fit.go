package mapping

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/schema"
)

// columnTypes are the types of the columns that weir makes for values of a type, in a database
// that has such types and in one where they are texts. Those that are missing are as the values
// are.
var columnTypes = map[TypeKind][2]schema.Type{
	Text:         {schema.Text, schema.Text},
	Integer:      {schema.Int, schema.Int},
	Real:         {schema.Real, schema.Real},
	Numeric:      {schema.Number, schema.Any},
	Base64Number: {schema.Number, schema.Any},
	Boolean:      {schema.Bool, schema.Bool},
	JSON:         {schema.JSON, schema.Text},
	JSONText:     {schema.JSON, schema.Text},
	Timestamp:    {schema.Instant, schema.Text},
	TimestampUTC: {schema.Instant, schema.Text},
	TimestampMs:  {schema.Instant, schema.Text},
	TimestampUs:  {schema.Instant, schema.Text},
	TimestampNs:  {schema.Instant, schema.Text},
	Date:         {schema.Day, schema.Text},
	DateDays:     {schema.Day, schema.Text},
	TimeMs:       {schema.Text, schema.Text},
	TimeUs:       {schema.Text, schema.Text},
	TimeNs:       {schema.Text, schema.Text},
	UUID:         {schema.UUID, schema.Text},
	Bytes:        {schema.Bytes, schema.Bytes},
}

// column is the type of a column that weir makes for values of the type; Any where it is that of
// the values that come.
func (t Type) column(textTypes bool) schema.Type {
	if textTypes {
		return columnTypes[t.Kind][1]
	}
	return columnTypes[t.Kind][0]
}

// takers are the types of columns of a table that exists that take values of a type, beside those
// that take a text of any kind. Those of types that are missing are of all types.
var takers = map[TypeKind][]schema.Type{
	Integer:      {schema.Int, schema.Real, schema.Number, schema.JSON},
	Real:         {schema.Real, schema.Number, schema.JSON},
	Numeric:      {schema.Real, schema.Number, schema.JSON},
	Base64Number: {schema.Real, schema.Number, schema.JSON},
	Boolean:      {schema.Bool, schema.JSON},
	JSON:         {schema.JSON},
	JSONText:     {schema.JSON},
	Timestamp:    {schema.Instant},
	TimestampUTC: {schema.Instant},
	TimestampMs:  {schema.Instant},
	TimestampUs:  {schema.Instant},
	TimestampNs:  {schema.Instant},
	Date:         {schema.Day, schema.Instant},
	DateDays:     {schema.Day, schema.Instant},
	TimeMs:       {},
	TimeUs:       {},
	TimeNs:       {},
	UUID:         {schema.UUID},
	Bytes:        {schema.Bytes},
}

// takes reports whether a column takes values of a type.
func (t Type) takes(c *schema.Column) bool {
	special, known := takers[t.Kind]
	if !known || c.Own || c.Type == schema.Any || c.Type == schema.External || slices.Contains(special, c.Type) {
		return true
	}
	return t.Kind != Bytes && (c.Type == schema.Text || c.Type == schema.Affine)
}

var stamps = map[Stamp]schema.Stamp{InsertStamp: schema.InsertStamp, UpdateStamp: schema.UpdateStamp}

// Fit makes a table, as a database has it, one that a table of the plan can be written to, and
// the plan one that writes to it: where the table does not exist, or weir made it, it gets the
// columns of the mapping. The tables are to be made so in their order. The error joins a [Fault] for
// each contradiction between the two.
func (p *Plan) Fit(table int, t *schema.Table) error {
	x := &p.tables[table]
	var faults []error
	fault := func(at Pos, format string, args ...any) {
		faults = append(faults, &Fault{at, fmt.Sprintf(format, args...)})
	}
	if x.spec.ID != "" {
		p.fitSurrogate(t, x.spec.ID, func(why string) { fault(x.spec.Pos, "table %q, column %q: %s", t.Name, x.spec.ID, why) })
	}
	if x.owner != nil {
		p.fitOwner(table, t, func(why string) { fault(x.spec.Pos, "table %q, column %q: %s", t.Name, x.owner.column, why) })
	}
	for i := range x.key {
		if k := &x.key[i]; k.above && !k.hidden || x.everything && !k.above {
			if k.above {
				p.fitAbove(x, i, t)
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
		if c.refers != nil {
			p.fitReference(t, c, func(why string) { fault(c.spec.Pos, "table %q, column %q: %s", t.Name, c.spec.Name, why) })
			continue
		}
		p.fitColumn(t, c.spec.Name, c.key >= 0, c.cast(p), c, func(why string) { fault(c.spec.Pos, "table %q, column %q: %s", t.Name, c.spec.Name, why) })
	}
	for _, child := range x.children {
		if name := p.SetColumn(child); name != "" && p.limits.Find(t, name, 0) < 0 {
			t.Columns = append(t.Columns, schema.Column{Name: name, Type: schema.Rows})
		}
	}
	// A row that others name cannot be deleted.
	t.HasConstraints = t.HasConstraints || p.referred(table) && (p.deletes(x) || x.spec.Expire != nil)
	if x.parent >= 0 && !t.Exists {
		t.AddForeignKey(p.belongs(table))
	}
	p.fitted[table] = t.Clone()
	return errors.Join(faults...)
}

// deletes reports whether messages may remove rows of a table.
func (p *Plan) deletes(x *planned) bool {
	return x.deletes != nil || p.envelope != nil && p.envelope.spec.Removes()
}

// fitAbove has a table that lacks a part of its parent's key get a column as its parent has it.
func (p *Plan) fitAbove(x *planned, part int, t *schema.Table) {
	if t.Exists && !t.Made || p.limits.Find(t, x.key[part].title, len(t.Columns)) >= 0 {
		return
	}
	above := &p.fitted[x.parent]
	if at := p.limits.Find(above, p.tables[x.parent].key[part].title, part); at >= 0 {
		t.Columns = append(t.Columns, above.Columns[at].Like(x.key[part].title, true))
	}
}

// belongs is the foreign key of a table to that of the rows that its own belong to.
func (p *Plan) belongs(table int) schema.ForeignKey {
	columns, to := p.named(table)
	return schema.ForeignKey{Columns: columns, Table: p.fitted[p.tables[table].parent].Name, To: to, Cascade: true}
}

// fitSurrogate makes a table one whose keys the database generates.
func (p *Plan) fitSurrogate(t *schema.Table, name string, fault func(why string)) {
	at := p.limits.Find(t, name, len(t.Columns))
	switch {
	case at >= 0 && t.Columns[at].Serial:
		t.Columns[at].Generated = true
	case at >= 0:
		fault(fmt.Sprintf("it is %s, and no integer that the database generates for each row and holds unique", t.Columns[at].Declared()))
	case t.Exists:
		fault("the table has no such column, and its rows would have no value in it")
	default:
		t.Columns = append(t.Columns, schema.Column{Name: name, Type: schema.Int, Serial: true, Generated: true, New: true})
	}
}

// fitOwner has the rows of a table name those that they belong to by a key that the database
// generates.
func (p *Plan) fitOwner(table int, t *schema.Table, fault func(why string)) {
	x := &p.tables[table]
	ref := schema.Ref{To: p.Owner(table), Table: x.owner.table, Owner: true}
	if !p.fitKeyOf(t, x.owner.column, ref.To.Table, true, fault) {
		return
	}
	ref.Column = p.limits.Find(t, x.owner.column, 0)
	above, parent := &p.fitted[x.parent], &p.tables[x.parent]
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

// fitReference makes a column of a table one whose values are keys of rows of another table.
func (p *Plan) fitReference(t *schema.Table, c *column, fault func(why string)) {
	to := &p.fitted[c.refers.table]
	ref := schema.Ref{To: p.lookup(c.refers.table), Table: c.refers.table}
	if c.refers.hidden == "" {
		p.fitColumn(t, c.spec.Name, c.key >= 0, c.cast(p), c, fault)
	} else if !p.fitKeyOf(t, c.spec.Name, ref.To.Table, false, fault) {
		return
	}
	if ref.Column = p.limits.Find(t, c.spec.Name, 0); ref.Column < 0 {
		return
	}
	ref.From = []int{ref.Column}
	if c.refers.hidden != "" {
		x := to.Columns[p.limits.Find(to, p.tables[c.refers.table].key[0].title, 0)]
		x.Name, x.Hidden, x.Key, x.NotNull, x.New = c.refers.hidden, true, false, false, !t.Exists
		ref.From[0] = len(t.Columns)
		t.Columns = append(t.Columns, x)
	}
	t.Refs = append(t.Refs, ref)
	if !t.Exists && t.Columns[ref.Column].Type != schema.Any { // else the two may come to have different types
		t.AddForeignKey(schema.ForeignKey{Columns: []string{c.spec.Name}, Table: ref.To.Table, To: []string{ref.To.Column}})
	}
}

// referred reports whether rows of other tables name those of a table.
func (p *Plan) referred(table int) bool {
	return slices.ContainsFunc(p.tables, func(x planned) bool {
		return slices.ContainsFunc(x.columns, func(c column) bool { return c.refers != nil && c.refers.table == table })
	})
}

// fitKeyOf makes a column of a table one for keys that the database generates for rows of another.
func (p *Plan) fitKeyOf(t *schema.Table, name, of string, key bool, fault func(why string)) bool {
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

// lookup is how a row of a table is found by its key.
func (p *Plan) lookup(table int) *schema.Lookup {
	t := &p.tables[table]
	l := &schema.Lookup{Table: t.spec.Name, Column: t.spec.ID, Key: p.StoredKey(table)}
	if l.Column == "" { // by its key itself
		l.Column = l.Key[0]
	}
	if t.owner != nil {
		l.Above = p.lookup(t.owner.table)
	}
	return l
}

// fitColumn makes one column of a table and the sources of its values fit each other.
func (p *Plan) fitColumn(t *schema.Table, name string, key bool, as cast, sources *column, fault func(why string)) {
	at := p.limits.Find(t, name, len(t.Columns))
	if at < 0 {
		if t.Exists && !t.Made {
			fault("the table has no such column")
			return
		}
		at = len(t.Columns)
		t.Columns = append(t.Columns, as.make(name, key, p.limits.TextTypes))
	}
	c := &t.Columns[at]
	if c.Generated {
		fault("the database computes it")
		return
	}
	if as.Kind == Bytes && c.TakesBytes() {
		c.Type = schema.Bytes
	}
	if as.fits(c) {
		c.Judged = false
	}
	if sources == nil {
		return
	}
	for i := range sources.sources {
		s := &sources.sources[i]
		if !s.cast.takes(c) {
			fault(fmt.Sprintf("it is %s, which does not take %s", c.Declared(), article(s.cast.Type)))
			return
		}
		s.cast.textJSON = c.Type != schema.JSON
		if s.kind == aConstant {
			if why := s.fix(); why != "" {
				fault(fmt.Sprintf("the value %s: %s", s.spec.Value, why))
			}
		}
	}
}

// fits tells that a column is as weir makes it for values of the type, so that the database refuses
// none of them.
func (c *cast) fits(x *schema.Column) bool {
	switch c.column(false) {
	case schema.Instant:
		return x.Decl == "timestamp with time zone"
	case schema.Day:
		return x.Decl == "date"
	case schema.Bytes:
		return x.Binary
	case schema.Number:
		return c.Precision > 0 && x.Decl == fmt.Sprintf("numeric(%d,%d)", c.Precision, c.Scale)
	}
	return false
}

// make returns a column that weir makes for values of the type.
func (c *cast) make(name string, key, textTypes bool) schema.Column {
	typ := c.column(textTypes)
	if typ == schema.Any && c.Kind != Numeric && c.Kind != Base64Number {
		return schema.New(name, key)
	}
	return schema.Column{Name: name, Type: typ, Key: key, NotNull: key, New: true, Precision: c.Precision, Scale: c.Scale}
}
