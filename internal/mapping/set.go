package mapping

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// This file is about the rows of a set, which are one value of the row that they belong to, until they are written. It is
// an array with an element for each row, an array in turn: the values of the table's columns but for stamps, in their
// order; the sets of the tables that belong to it; and, where it takes fields by their names, an object with these.

// setColumn is the name of the column of the parent's batch that has the rows of a table.
func setColumn(table string) string { return schema.HiddenName("rows of " + table) }

// hiddenColumn is the name of the column with a part of the key of a row that has one that the database generates.
func hiddenColumn(table, column string) string { return schema.HiddenName(column + " of " + table) }

// SetColumn returns the name of the column of its parent's batch that has the rows of a table
// as one value, which [Plan.Exploder] reads; "" where each row is a change of its own, and where
// the value of the parent table holds them.
func (p *Plan) SetColumn(table int) string {
	if t := &p.tables[table]; t.nest.set && !p.tables[t.nest.parent].nest.set {
		return setColumn(t.spec.Name)
	}
	return ""
}

// A setEncoder writes sets, one behind the other.
type setEncoder struct {
	bytes []byte
	from  int // where the set at hand begins
}

func (e *setEncoder) reset() { e.bytes = e.bytes[:0] }

// begin starts a set and returns its offset, for since.
func (e *setEncoder) begin() (from int) {
	e.from = len(e.bytes)
	return e.from
}

// since is the set that began there.
func (e *setEncoder) since(from int) []byte { return e.bytes[from:len(e.bytes):len(e.bytes)] }

// comma separates what follows from what is before it, in the same array or object.
func (e *setEncoder) comma() {
	if n := len(e.bytes); n > e.from && e.bytes[n-1] != '[' && e.bytes[n-1] != '{' {
		e.bytes = append(e.bytes, ',')
	}
}

// open begins a set or a row, or the named fields of one, by its bracket.
func (e *setEncoder) open(bracket byte) {
	e.comma()
	e.bytes = append(e.bytes, bracket)
}

func (e *setEncoder) close(bracket byte) { e.bytes = append(e.bytes, bracket) }

// value adds the value of a column.
func (e *setEncoder) value(v []byte) {
	e.comma()
	e.bytes = append(e.bytes, v...)
}

// member adds a named field. name is what stands between the quotes.
func (e *setEncoder) member(name, value []byte) {
	e.comma()
	e.bytes = append(append(append(e.bytes, '"'), name...), '"', ':')
	e.bytes = append(e.bytes, value...)
}

// eachSetRow calls back with each row of a set.
func eachSetRow(set []byte, each func(i int, r *setRow) error) error {
	w := feed.Walk(set)
	w.Next()
	var r setRow
	for i := 0; w.Next(); i++ {
		r.text = w.Raw()
		r.w = feed.Walk(r.text)
		r.w.Next()
		if err := each(i, &r); err != nil {
			return err
		}
	}
	return nil
}

// A setRow is a row of a set, whose parts are read in their order.
type setRow struct {
	text []byte
	w    feed.Walker
}

// value reads the value of a column.
func (r *setRow) value() (f feed.Field) {
	if r.w.Next() {
		f.Kind = r.w.Kind
		f.Value = r.w.Raw()
	}
	return f
}

// set reads a set.
func (r *setRow) set() []byte { return r.value().Value }

// members calls back with each named field, which come last.
func (r *setRow) members(each func(name []byte, f feed.Field)) {
	r.w.Next()
	for r.w.Next() {
		name, f := r.w.Name, feed.Field{Kind: r.w.Kind}
		f.Value = r.w.Raw()
		each(name, f)
	}
}

// An exploder makes the rows of sets. It is not safe for concurrent use.
type exploder struct {
	same         func(table int, c *fold.Change) string
	plan         *Plan
	unknownNames fieldNumbers
	levels       []level // by table
}

// A level is the memory for one table's rows.
type level struct {
	fields []feed.Field
	sets   [][]byte
	keys   []string // of the rows, from same; computed before each is called, which may change the row
	last   map[string]int
}

// Exploder returns what makes rows of the sets that [Mapper.Map] makes values of. same returns one
// text for all spellings of the key of a change: of the elements of one key the last counts.
func (p *Plan) Exploder(same func(table int, c *fold.Change) string) fold.Exploder {
	return (&exploder{same: same, plan: p, levels: make([]level, len(p.tables))}).explode
}

// explode calls each with the change of every row of a set, and of the sets in it, parents first.
// The rows are whole: columns that a change does not name are to be NULL, and rows of the table,
// or of those that belong to it, that belong to the same parent row and do not come are to go.
// parentKey is the key of the row that has the set, as raw values. A change is good until each
// returns; its text is the row's part of the set.
func (e *exploder) explode(table int, parentKey [][]byte, set []byte, each func(*Row) error) error {
	if feed.KindOf(set) == feed.Null {
		return nil
	}
	t, l := &e.plan.tables[table], &e.levels[table]
	children := t.nest.children
	if len(children) > 0 {
		l.keys, l.last = l.keys[:0], map[string]int{}
		if err := e.rows(table, parentKey, set, func(i int, r *Row) error {
			key := e.same(table, &r.Change)
			l.keys, l.last[key] = append(l.keys, key), i
			return nil
		}); err != nil {
			return err
		}
	}
	return e.rows(table, parentKey, set, func(i int, r *Row) error {
		if len(children) == 0 {
			return each(r)
		}
		if l.last[l.keys[i]] != i {
			return nil
		}
		if err := each(r); err != nil {
			return err
		}
		key := make([][]byte, len(t.key))
		for _, f := range r.Fields {
			for part := range t.key {
				if t.key[part].name == f.Name {
					key[part] = f.Value
				}
			}
		}
		for n, child := range children {
			if err := e.explode(child, key, l.sets[n], each); err != nil {
				return err
			}
		}
		return nil
	})
}

// rows calls each with the rows of a set, without those of the sets in it, which are left in
// the table's level.
func (e *exploder) rows(table int, parentKey [][]byte, set []byte, each func(i int, r *Row) error) error {
	t, l := &e.plan.tables[table], &e.levels[table]
	return eachSetRow(set, func(i int, x *setRow) error {
		r := Row{Table: table}
		r.Text = x.text
		e.unknownNames.unnumbered = nil
		l.fields, l.sets = l.fields[:0], l.sets[:0]
		for part, value := range parentKey {
			l.fields = append(l.fields, feed.Field{Name: t.key[part].name, Value: value, Kind: feed.KindOf(value)})
		}
		for c := range t.columns {
			if t.columns[c].stamp == NoStamp {
				f := x.value()
				f.Name = t.columns[c].name
				l.fields = append(l.fields, f)
			}
		}
		for range t.nest.children {
			l.sets = append(l.sets, x.set())
		}
		if t.fields.byName() {
			x.members(func(name []byte, f feed.Field) {
				f.Name = e.unknownNames.number(e.plan.names, name)
				l.fields = append(l.fields, f)
			})
		}
		r.Fields, r.Unnumbered = l.fields, e.unknownNames.unnumbered
		return each(i, &r)
	})
}
