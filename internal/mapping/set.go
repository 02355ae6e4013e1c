package mapping

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// This file is about sets: child rows that are one value of their parent row until they are written. A set is an
// array with an array for each row. That contains the values of the table's columns except timestamps, in order; the
// sets of its child tables; and, if fields become columns with their names, an object with them.

// setColumn returns the name of the parent's column for the sets of a table.
func setColumn(table string) string { return schema.HiddenName("rows of " + table) }

// hiddenColumn returns the name of the column with a part of the key of a row that has a generated key.
func hiddenColumn(table, column string) string { return schema.HiddenName(column + " of " + table) }

// SetColumn returns the name of the parent's column for the sets of a table, which [Plan.Exploder] reads. It is "" if
// each row is a change of its own, or if the set is part of the parent's own set.
func (p *Plan) SetColumn(table int) string {
	if t := &p.tables[table]; t.nest.set && !p.tables[t.nest.parent].nest.set {
		return setColumn(t.spec.Name)
	}
	return ""
}

// A setEncoder encodes sets, one after another.
type setEncoder struct {
	bytes []byte
	from  int // where the current set starts
}

func (e *setEncoder) reset() { e.bytes = e.bytes[:0] }

// begin starts a set and returns its offset, for since.
func (e *setEncoder) begin() (from int) {
	e.from = len(e.bytes)
	return e.from
}

// since returns the set that starts at an offset.
func (e *setEncoder) since(from int) []byte { return e.bytes[from:len(e.bytes):len(e.bytes)] }

// comma appends a comma unless the next value is the first in its array or object.
func (e *setEncoder) comma() {
	if n := len(e.bytes); n > e.from && e.bytes[n-1] != '[' && e.bytes[n-1] != '{' {
		e.bytes = append(e.bytes, ',')
	}
}

// open appends the bracket that starts a set, a row, or the named fields of a row.
func (e *setEncoder) open(bracket byte) {
	e.comma()
	e.bytes = append(e.bytes, bracket)
}

func (e *setEncoder) close(bracket byte) { e.bytes = append(e.bytes, bracket) }

// value appends the value of a column.
func (e *setEncoder) value(v []byte) {
	e.comma()
	e.bytes = append(e.bytes, v...)
}

// member appends a named field. name is the raw name, between its quotes.
func (e *setEncoder) member(name, value []byte) {
	e.comma()
	e.bytes = append(append(append(e.bytes, '"'), name...), '"', ':')
	e.bytes = append(e.bytes, value...)
}

// eachSetRow calls each with the rows of a set.
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

// A setRow is a row of a set. Its parts must be read in order.
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

// members calls each with the named fields, which come last.
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

// Exploder returns a function that makes rows from the sets of [Mapper.Map]. same returns the same text for all
// spellings of the key of a change: if a key occurs several times, the last element counts.
func (p *Plan) Exploder(same func(table int, c *fold.Change) string) fold.Exploder {
	return (&exploder{same: same, plan: p, levels: make([]level, len(p.tables))}).explode
}

// explode calls each with a change for every row of a set, and of the sets in it, parents first. The rows are whole:
// columns without a value become NULL, and other rows with the same parent are to be deleted. parentKey is the key of
// the parent row, as raw values. A change is valid until each returns; its text is the row's part of the set.
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

// rows calls each with the rows of a set, but not with the rows of the sets in it: these sets are left in the table's
// level.
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
