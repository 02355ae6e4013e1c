package mapping

import (
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// A Plan is a mapping that is ready to take lines. Once its tables fit those of a database (see
// [Plan.Fit]) several goroutines may use it, each with a [Scratch] of its own.
//
// Its tables are numbered so that those that others belong or refer to come first, and else as
// in the mapping.
type Plan struct {
	names    *feed.Names
	limits   schema.Limits
	trees    []*tree // 0 is that of messages
	slots    []int32 // by number of a field's name: its node in the messages' tree; 0 is none
	tables   []planned
	tops     []int     // the tables that have a row per message
	loose    []int     // those whose elements belong to no row
	envelope *envelope // nil: the messages are the rows
	// tombstones tells that what has only the key of a row removes it, where there is an envelope.
	tombstones bool
	star       *planned // stands for tables that are added; nil: none does
	maxTables  int
	ignore     condition
	unmatched  Unmatched
	by         place // the discriminating value
	maxEach    int
	fitted     []schema.Table // see Fit
}

// planned is a table of a plan.
type planned struct {
	spec    *Table
	names   *feed.Names
	options fold.Options

	parent   int    // the table whose rows these belong to, -1 for none
	each     *place // where the array of the elements is, nil for none
	element  int32  // the tree of an element, or of the message
	set      bool   // the rows are a set: one value of their parent's row
	children []int

	when, deletes condition
	hasAt         bool
	inLine        bool      // the message is the row
	row           place     // the object that is the row
	from          []pattern // of its names in the stream
	version       *place
	columns       []column
	described     bool // by the stream: it need not have what it describes
	everything    bool // the row's fields are columns by their names
	rest          fold.NewColumns
	used          map[int32]bool // names of the row's fields that are no such columns
	taken         map[int32]bool // those of them that are read by no path: a column of the name has another source
	key           []keyPart
	owner         *owner
	hides         []hiddenField
	setName       int32 // the name of the column of its parent that has the set
}

// A hiddenField is a field of an element that has the name of a column with the parent's key, so that no
// column can take it.
type hiddenField struct {
	title, parents string // of the column: here, and in the parent
	at             place
	part           int // of the key, whose value the field may repeat; -1: none, the database generates it
}

// An owner is the row above, of those that a row belongs to, whose key the database generates: the
// nearest one. nil: there is none.
type owner struct {
	column string // of the row, with that key
	table  int    // of the row above
	parts  int    // how many of the key are that one's, as messages have it: they are hidden
}

// A keyPart is a column of a key.
type keyPart struct {
	title string
	name  int32
	cast  cast
	above bool // it is of the key of the parent's row
	// hidden tells that the table does not have the column: instead of it, it has the key that the
	// database generated for a row above.
	hidden bool
}

type column struct {
	spec    *Column
	name    int32
	refers  *reference // nil: to no row
	key     int        // which part of the key, -1: none
	stamp   Stamp
	sources []source
}

// A reference is what a column is whose values are keys of rows of another table.
type reference struct {
	table int
	// hidden is the name of the column with the key as messages have it, where the table of the row
	// has one that the database generates; else "".
	hidden string
}

// cast is how values of a column are read; where its sources differ, as the values are.
func (c *column) cast(p *Plan) cast {
	if len(c.sources) == 0 {
		return p.cast(Type{Kind: Timestamp})
	}
	of := c.sources[0].cast
	for i := range c.sources {
		t := c.sources[i].cast.Type
		switch {
		case t.column(p.limits.TextTypes) != of.column(p.limits.TextTypes):
			return p.cast(Type{Kind: Auto})
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
	when  condition
	at    place
	cast  cast
	value feed.Field // of a constant
}

// fix reads a constant as its type.
func (s *source) fix() (why string) {
	v := feed.Field{Value: s.spec.Value, Kind: feed.KindOf(s.spec.Value)}
	s.value, why = (&Scratch{}).read(&v, &s.cast)
	return why
}

// Fields are the fields of messages that the paths of the mapping begin with.
func (p *Plan) Fields() (names []string) {
	for _, k := range p.trees[0].nodes[0].kids {
		names = append(names, p.trees[0].nodes[k].step.Name)
	}
	return names
}

// Tables returns the number of the plan's tables.
func (p *Plan) Tables() int { return len(p.tables) }

// Table returns what the mapping says of a table.
func (p *Plan) Table(table int) *Table { return p.tables[table].spec }

// Options are the rules of the fold of a table's rows; Warn is to be added.
func (p *Plan) Options(table int) fold.Options { return p.tables[table].options }

// StoredKey returns the columns of the key of a table as the database has it.
func (p *Plan) StoredKey(table int) (key []string) {
	t, own := &p.tables[table], 0
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
		if k.above {
			key = append(key, k.title)
		}
	}
	return t.parent, key
}

// Set reports whether the rows of a table are one value of the row that they belong to.
func (p *Plan) Set(table int) bool { return p.tables[table].set }

// ByName reports whether a table takes fields of the row by their names.
func (p *Plan) ByName(table int) bool { return p.tables[table].named() }

// SetColumn returns the name of the column of its parent's batch that has the rows of a table
// as one value, which [Plan.Exploder] reads; "" where each row is a change of its own, and where
// the value of the table above holds them.
func (p *Plan) SetColumn(table int) string {
	if t := &p.tables[table]; t.set && !p.tables[t.parent].set {
		return setColumn(t.spec.Name)
	}
	return ""
}

// setColumn is the name of a column that no database has, and no feed: it is not UTF-8.
func setColumn(table string) string { return "\xffrows of " + table }

// hiddenColumn is the same for a part of the key of a row that has one that the database
// generates.
func hiddenColumn(table, column string) string { return "\xff" + column + " of " + table }

// Hidden reports whether a column has such a name.
func Hidden(column string) bool { return strings.HasPrefix(column, "\xff") }
