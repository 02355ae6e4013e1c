package mapping

import (
	"slices"
	"strconv"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// This file is about sets: child rows that are one value of their parent row until they are written. A set is an array
// with an array for each row: [NUMBER,VALUE,...] with the numbers of names, or a name that has no number. A set of rows
// below the row is the value of their parent's column for it.

// setColumn returns the name of the parent's column for the sets of a table.
func setColumn(table string) string { return schema.HiddenName("rows of " + table) }

// hiddenColumn returns the name of the column with a part of the key of a row that has a generated key.
func hiddenColumn(table, column string) string { return schema.HiddenName(column + " of " + table) }

// setColumn returns the name of the parent's column for the sets of a table, which [Plan.Exploder] reads. It is "" if
// each row is a change of its own, or if the set is part of the parent's own set.
func (t *TablePlan) setColumn() string {
	if t.nest.set && !t.nest.parent.nest.set {
		return setColumn(t.spec.Name)
	}
	return ""
}

func appendSetRow(set []byte, fields []feed.Field, unnumbered [][]byte) []byte {
	set = append(set, '[')
	for i, f := range fields {
		if i > 0 {
			set = append(set, ',')
		}
		if f.Name >= 0 {
			set = strconv.AppendInt(set, int64(f.Name), 10)
		} else {
			set = feed.AppendString(set, string(unnumbered[^f.Name]))
		}
		set = append(append(set, ','), f.Value...)
	}
	return append(set, ']')
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
	return (&exploder{same: same, plan: p, levels: make([]level, len(p.Tables))}).explode
}

// explode calls each with a change for every row of a set, and of the sets in it, parents first. The rows are whole:
// columns without a value become NULL, and other rows with the same parent are to be deleted. parentKey is the key of
// the parent row, as raw values. A change is valid until each returns; its text is the row's part of the set.
func (e *exploder) explode(table int, parentKey [][]byte, set []byte, each func(*Row) error) error {
	if feed.KindOf(set) == feed.Null {
		return nil
	}
	t, l := e.plan.Tables[table], &e.levels[table]
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
			if err := e.explode(child.index, key, l.sets[n], each); err != nil {
				return err
			}
		}
		return nil
	})
}

// rows calls each with the rows of a set, but not with the rows of the sets in it: these sets are left in the table's
// level.
func (e *exploder) rows(table int, parentKey [][]byte, set []byte, each func(i int, r *Row) error) error {
	t, l := e.plan.Tables[table], &e.levels[table]
	w := feed.Walk(set)
	w.Next()
	for i := 0; w.Next(); i++ {
		r := Row{Table: table}
		r.Text = w.Raw()
		e.unknownNames.unnumbered = nil
		l.fields, l.sets = l.fields[:0], append(l.sets[:0], make([][]byte, len(t.nest.children))...)
		for part, value := range parentKey {
			l.fields = append(l.fields, feed.Field{Name: t.key[part].name, Value: value, Kind: feed.KindOf(value)})
		}
		e.fields(t, l, r.Text)
		for c := range t.columns {
			isColumn := func(f feed.Field) bool { return f.Name == t.columns[c].name }
			if t.columns[c].stamp == schema.NoStamp && !slices.ContainsFunc(l.fields, isColumn) { // the row is whole
				l.fields = append(l.fields, feed.Field{Name: t.columns[c].name, Value: null, Kind: feed.Null})
			}
		}
		r.Fields, r.Unnumbered = l.fields, e.unknownNames.unnumbered
		if err := each(i, &r); err != nil {
			return err
		}
	}
	return nil
}

// fields reads the fields and sets of a row into the table's level.
func (e *exploder) fields(t *TablePlan, l *level, row []byte) {
	w := feed.Walk(row)
	w.Next()
	for w.Next() {
		name := w.Raw()
		w.Next()
		f := w.Field()
		if name[0] == '"' {
			f.Name = e.unknownNames.number(e.plan.names, name[1:len(name)-1])
		} else {
			n, _ := strconv.Atoi(string(name)) // written by appendSetRow
			f.Name = int32(n)
		}
		if n := slices.IndexFunc(t.nest.children, func(c *TablePlan) bool { return c.nest.setName == f.Name }); n >= 0 {
			l.sets[n] = f.Value
		} else {
			l.fields = append(l.fields, f)
		}
	}
}
