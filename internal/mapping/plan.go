package mapping

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A Plan is a compiled mapping. Once its tables fit a database (see [Plan.Fit]) several goroutines may use it, each
// with its own [Mapper].
//
// Its tables are numbered with parents and referenced tables first, and otherwise in the mapping's order.
type Plan struct {
	mapping *Mapping
	names   *feed.Names
	limits  schema.Limits
	trees   paths.Trees // the first is for messages
	tablePlans
	whole         *Plan       // of all tables, if this one is for some of them: it decides what happens to a message
	stream        *streamPlan // nil: the messages are the rows
	ignore        paths.When
	discriminator discriminator
	unmatched     Unmatched
	maxEach       int
	plain         bool // each line is a row of the only table
}

// tablePlans are the part of a plan to which [Mapper.Add] adds tables.
type tablePlans struct {
	Tables []*TablePlan
	tops   []*TablePlan // with a row per message
	loose  []*TablePlan // whose elements have no parent row
}

// discriminator is the path of [Discriminator]; nowhere: the mapping has no conditions.
type discriminator struct {
	at    paths.Place
	title string
}

// streamPlan is the part of a plan for CDC messages.
type streamPlan struct {
	*envelope.Compiled
	oneTable bool
	// tombstones: a key without a row deletes the row.
	tombstones bool
	star       *TablePlan // the settings of added tables; nil if none are added
	maxTables  int
}

// A TablePlan is a compiled table: where its rows and values are in messages, and how they are folded. A [Table] is as
// written in settings, a [schema.Table] as in the database, and a driver's is what it needs to write it.
type TablePlan struct {
	Name    string       // in the database; a run sets it to the found table's, which may differ in case
	Options fold.Options // of its rows; the table in the database may decide more, see [Plan.Fit]

	spec          *Table
	index         int // index among the plan's tables
	nest          nesting
	when, deletes paths.When
	row           rowPlan
	columns       []column
	fields        fieldPlan
	key           []keyPart
	owner         *owner
	streamKey     []string     // the key's fields, if the stream may change the key; nil: the mapping sets it
	from          []pattern    // patterns for its names in the stream
	scope         scope        // what its paths can start from
	fitted        schema.Table // see [Plan.Fit]
}

// nesting describes how rows of a table relate to rows of other tables.
type nesting struct {
	parent   *TablePlan  // nil for none
	each     paths.Place // path to the array or object of the elements; nowhere: rows are not elements
	element  int32       // tree of the element, or of the message
	set      bool        // the rows are a set: one value of their parent row
	setName  int32       // number of the name of the parent's column with the set
	children []*TablePlan
}

// isElement reports whether each row is an element of an array or object.
func (n *nesting) isElement() bool { return !n.each.IsNowhere() }

// rowPlan says where the row is in its message or element, and its version.
type rowPlan struct {
	inLine  bool        // the message is the row
	nested  bool        // the row is an object in the message or element
	at      paths.Place // of the row; the root of its own tree if it is in a string
	text    paths.Place // of the string that contains the row; nowhere: it is in none
	version paths.Place // nowhere: there is none, or it is the envelope's
	// envelopeVersion: the version is in the message's envelope.
	envelopeVersion bool
}

// fieldPlan says what happens to fields of the row that are not listed as columns.
type fieldPlan struct {
	all  bool           // all fields are columns with their names
	used map[int32]bool // fields that a column or path uses
}

// byName reports whether fields of the row become columns with their names.
func (t *TablePlan) byName() bool {
	return t.fields.all || t.Options.UnknownFields != fold.IgnoreUnknown
}

// An owner is the nearest ancestor with a generated key. nil means none.
type owner struct {
	column string     // column of the row with that key
	name   int32      // number of its name
	table  *TablePlan // the ancestor
	parts  int        // number of parts of the child's key that are the owner's natural key; these columns are hidden
}

// A keyPart is a column of a key.
type keyPart struct {
	title      string
	name       int32
	cast       cast.Cast
	fromParent bool // it is part of the parent's key
	// hidden: the table does not have the column, but the generated key of an ancestor.
	hidden bool
}

// A column is a compiled column: where its values are, and how they are converted. A [Column] is as written in settings,
// a [schema.Column] as in the database, and a driver's is what it needs to write it.
type column struct {
	spec       *Column
	name       int32
	references *reference // nil if the column refers to no table
	key        int        // index of the part of the key; -1 for none
	stamp      schema.Stamp
	sources    []source
}

// A reference describes a column with keys of another table's rows.
type reference struct {
	table *TablePlan
	// hidden is the name of the hidden column with the key as in messages, if the other table has generated keys;
	// else "".
	hidden string
}

// cast returns how values of a column are converted; unconverted if its sources differ.
func (c *column) cast(p *Plan) cast.Cast {
	if len(c.sources) == 0 {
		return p.cast(cast.Type{Kind: cast.Timestamp})
	}
	of := c.sources[0].cast
	for i := range c.sources {
		t := c.sources[i].cast.Type
		switch {
		case t.Column(p.limits.TextTypes) != of.Column(p.limits.TextTypes):
			return p.cast(cast.Type{Kind: cast.Auto})
		case t.Precision == 0:
			of.Precision, of.Scale = 0, 0
		case of.Precision > 0:
			whole := max(of.Precision-of.Scale, t.Precision-t.Scale)
			of.Scale = max(of.Scale, t.Scale)
			of.Precision = whole + of.Scale
		}
	}
	return of
}

// A source is a [Source] with its places, and the conversion of its values.
type source struct {
	Source
	cast  cast.Cast
	fixed feed.Field // a constant, converted
}

// fix converts a constant to its type.
func (s *source) fix() (why string) {
	v := feed.Field{Value: s.Value, Kind: feed.KindOf(s.Value)}
	s.fixed, why = new(cast.Reader).Read(&v, &s.cast)
	return why
}

// Fields returns the fields of messages that the mapping names; none of a change stream.
func (p *Plan) Fields() (names []string) {
	if p.stream != nil {
		return nil
	}
	names = p.trees.Members(0)
	for _, t := range p.Tables {
		if t.isLine() {
			names = append(names, t.spec.Key...)
			names = slices.AppendSeq(names, maps.Keys(t.spec.Merge))
		}
	}
	return names
}

// Names returns the numbers of the fields of lines.
func (p *Plan) Names() *feed.Names { return p.names }

// Mapping returns the mapping that the plan was compiled from.
func (p *Plan) Mapping() *Mapping { return p.mapping }

// IsPlain reports whether each line is a row of the only table.
func (p *Plan) IsPlain() bool { return p.plain }

// Fault returns what is wrong with a table in the database as a fault of a key of the table, or of the table.
func (p *Plan) Fault(t *TablePlan, key string, err error) error {
	return &Fault{File: p.mapping.File, Pos: t.spec.Place(key), Text: err.Error(), Err: err}
}

// TableNames returns the names of the tables in the database.
func (p *Plan) TableNames() []string {
	names := make([]string, len(p.Tables))
	for i, t := range p.Tables {
		names[i] = t.Name
	}
	return names
}

// StoredKey returns the columns of the key in the database.
func (t *TablePlan) StoredKey() []string {
	own, key := 0, make([]string, 0, len(t.key))
	if t.owner != nil {
		key, own = append(key, t.owner.column), t.owner.parts
	}
	for _, k := range t.key[own:] {
		key = append(key, k.title)
	}
	return key
}

// AddsTo tells what a repeated message adds to, for an error message. "": a repeated message changes nothing.
func (t *TablePlan) AddsTo() string {
	name := fmt.Sprintf("table %q", t.Name)
	if t.Name == Star {
		name = "each table of the stream"
	}
	switch column := t.Options.SumColumn(); {
	case column != "":
		return fmt.Sprintf("the sums in column %q of %s", column, name)
	case t.Options.Appends():
		return "the rows of " + name
	}
	return ""
}

// identity returns the columns by which children refer to a row: the generated key, or the key.
func (t *TablePlan) identity() []string {
	if t.spec.ID != "" {
		return []string{t.spec.ID}
	}
	return t.StoredKey()
}

// Nested implements [fold.Nesting].
func (p *Plan) Nested(table int) fold.Nested {
	t := p.Tables[table]
	n := fold.Nested{Parent: -1, Set: t.nest.set, Column: t.setColumn(), ByName: t.byName()}
	if t.nest.parent == nil {
		return n
	}
	n.Parent = t.nest.parent.index
	for _, k := range t.key {
		if k.fromParent {
			n.Key = append(n.Key, k.title)
		}
	}
	return n
}

// cast returns the conversion to a type.
func (p *Plan) cast(as cast.Type) cast.Cast { return cast.New(as, p.limits.TextTypes) }

// title returns the path to a place, for messages: items[].price for a path in an element.
func (p *Plan) title(at paths.Place) string {
	path := p.trees.String(at)
	for _, t := range p.Tables {
		if n := &t.nest; n.isElement() && n.element == at.Tree {
			if at.Node == 0 {
				return p.title(n.each) + "[]"
			}
			return p.title(n.each) + "[]." + path
		}
	}
	return path
}
