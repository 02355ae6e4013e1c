package mapping

import (
	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/paths"
	"github.com/weirsync/weir/internal/schema"
)

// A Plan is a mapping that is ready to take lines. Once its tables fit those of a database (see
// [Plan.Fit]) several goroutines may use it, each with a [Mapper] of its own.
//
// Its tables are numbered so that those that others belong or refer to come first, and else as
// in the mapping.
type Plan struct {
	mapping       *Mapping
	names         *feed.Names
	limits        schema.Limits
	trees         paths.Trees // the first is that of messages
	tables        []planned
	tops          []int       // the tables that have a row per message
	loose         []int       // those whose elements belong to no row
	stream        *streamPlan // nil: the messages are the rows
	ignore        paths.Condition
	discriminator discriminator
	unmatched     Unmatched
	maxEach       int
	fitted        []schema.Table // see Fit
}

// discriminator is where messages differ that no table takes; nowhere: the mapping has no conditions.
type discriminator struct {
	at    paths.Place
	title string
}

// streamPlan is what a plan has of the messages of a change stream.
type streamPlan struct {
	*envelope.Compiled
	oneTable bool
	// tombstones tells that what has only the key of a row removes it.
	tombstones bool
	star       *planned // stands for tables that are added; nil: none does
	maxTables  int
}

// planned is a table of a plan.
type planned struct {
	spec    *Table
	index   int // among the plan's tables
	options fold.Options

	nest          nesting
	when, deletes paths.Condition
	row           rowPlan
	columns       []column
	mark          int // index of the column that marks deleted rows, -1: none
	fields        fieldPlan
	key           []keyPart
	owner         *owner
	streamKey     []string  // the fields of the key, if it is the stream's to name; nil: the mapping names it
	from          []pattern // of its names in the stream
	described     bool      // by the stream: it need not have what it describes
}

// nesting is how the rows of a table relate to the rows of other tables.
type nesting struct {
	parent   int         // the table whose rows these belong to, -1 for none
	each     paths.Place // where the array or object of the elements is; nowhere: a row is no element
	element  int32       // the tree of an element, or of the message
	set      bool        // the rows are a set: one value of their parent's row
	setName  int32       // the name of the column of its parent that has the set
	children []int
}

// isElement reports whether each row is an element of an array or object.
func (n *nesting) isElement() bool { return !n.each.IsNowhere() }

// rowPlan is where a row is in its message, or element, and its version.
type rowPlan struct {
	inLine  bool        // the message is the row
	nested  bool        // the row is an object within the message, or element
	at      paths.Place // of the object
	version paths.Place // nowhere: it has none, or that of the envelope
	// envelopeVersion tells that the version is that of the message's envelope.
	envelopeVersion bool
}

// fieldPlan is what becomes of the fields of a row that no column names.
type fieldPlan struct {
	names    *feed.Names
	all      bool // all fields are columns by their names
	unknown  fold.UnknownFields
	used     map[int32]bool // fields that a column or path uses
	nameOnly map[int32]bool // used only as a column's name: the column has another source, so the field's value is lost
	shadowed []shadowedField
}

// byName tells that a table takes fields of the row by their names.
func (f *fieldPlan) byName() bool { return f.all || f.unknown != fold.IgnoreUnknown }

// use marks the first field of a path as used.
func (f *fieldPlan) use(p paths.Path) {
	if p.Base == paths.DefaultBase && len(p.Steps) > 0 && p.Steps[0].Index < 0 {
		f.used[f.names.Number(p.Steps[0].Name)] = true
	}
}

// A shadowedField is a field of an element that has the name of a column with the parent's key, so that no
// column can take it.
type shadowedField struct {
	title, parents string // of the column: here, and in the parent
	at             paths.Place
	part           int // of the key, whose value the field may repeat; -1: none, the database generates it
}

// An owner is the nearest ancestor of a row whose key the database generates. nil: there is none.
type owner struct {
	column string // of the row, with that key
	table  int    // of the parent row
	parts  int    // how many parts of the child's key are the owner's natural key; these columns are hidden
}

// A keyPart is a column of a key.
type keyPart struct {
	title      string
	name       int32
	cast       cast.Cast
	fromParent bool // it is of the key of the parent's row
	// hidden tells that the table does not have the column: instead of it, it has the key that the
	// database generated for an ancestor row.
	hidden bool
}

type column struct {
	spec       *Column
	name       int32
	references *reference // nil: to no row
	key        int        // which part of the key, -1: none
	stamp      Stamp
	// ofMessage tells that the column is not about the row, but about the message: no source of it reads the row.
	ofMessage bool
	sources   []source
}

// The sources of the column that marks deleted rows.
const (
	liveSource = iota
	deletedSource
)

// A reference is what a column is whose values are keys of rows of another table.
type reference struct {
	table int
	// hidden is the name of the column with the key as messages have it, where the table of the row
	// has one that the database generates; else "".
	hidden string
}

// cast is how values of a column are read; where its sources differ, as the values are.
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

type sourceKind uint8

const (
	aPath sourceKind = iota
	aConstant
	aMeta
)

type source struct {
	spec  *Source
	kind  sourceKind
	when  paths.Condition
	at    paths.Place
	cast  cast.Cast
	value feed.Field // of a constant
}

// fix reads a constant as its type.
func (s *source) fix() (why string) {
	v := feed.Field{Value: s.spec.Value, Kind: feed.KindOf(s.spec.Value)}
	s.value, why = new(cast.Reader).Read(&v, &s.cast)
	return why
}

// Fields are the fields of messages that the paths of the mapping begin with.
func (p *Plan) Fields() (names []string) { return p.trees.Members(0) }

// Tables returns the number of the plan's tables.
func (p *Plan) Tables() int { return len(p.tables) }

// Table returns what the mapping says of a table.
func (p *Plan) Table(table int) *Table { return p.tables[table].spec }

// Options are the rules of the fold of a table's rows; Warn is to be added.
func (p *Plan) Options(table int) fold.Options { return p.tables[table].options }

// StoredKey returns the columns of the key of a table as the database has it.
func (p *Plan) StoredKey(table int) (key []string) {
	t, own := &p.tables[table], 0
	key = make([]string, 0, len(t.key))
	if t.owner != nil {
		key, own = append(key, t.owner.column), t.owner.parts
	}
	for _, k := range t.key[own:] {
		key = append(key, k.title)
	}
	return key
}

// Parent returns the table whose rows those of a table belong to, and the columns that have
// the key of such a row, in the order of its key; -1 for none.
func (p *Plan) Parent(table int) (parent int, key []string) {
	t := &p.tables[table]
	for _, k := range t.key {
		if k.fromParent {
			key = append(key, k.title)
		}
	}
	return t.nest.parent, key
}

// Set reports whether the rows of a table are one value of the row that they belong to.
func (p *Plan) Set(table int) bool { return p.tables[table].nest.set }

// ByName reports whether a table takes fields of the row by their names.
func (p *Plan) ByName(table int) bool { return p.tables[table].fields.byName() }

// cast is how values of a type are read.
func (p *Plan) cast(as cast.Type) cast.Cast { return cast.New(as, p.limits.TextTypes) }

// title is the path of a place for people: items[].price of an element.
func (p *Plan) title(at paths.Place) string {
	path := p.trees.String(at)
	for i := range p.tables {
		if n := &p.tables[i].nest; n.isElement() && n.element == at.Tree {
			if at.Node == 0 {
				return p.title(n.each) + "[]"
			}
			return p.title(n.each) + "[]." + path
		}
	}
	return path
}
