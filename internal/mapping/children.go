package mapping

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
)

// A namedElement is an element of an object whose elements are rows.
type namedElement struct {
	name  []byte // what is between the quotes
	value feed.Field
}

// An elementWalk steps through the elements of an array or object.
type elementWalk struct {
	t       *planned
	w       feed.Walker
	members []namedElement // of an object
	object  bool
	index   int
}

// walk begins to step through the elements of a table. state tells whether they are absent or
// null.
func (s *Scratch) walk(table int) (e elementWalk, state feed.Kind, ok bool, err *feed.Error) {
	t := &s.plan.tables[table]
	s.table = table
	v := s.get(*t.each)
	if v == nil || v.Kind == feed.Null {
		return e, feed.Null, v != nil, nil
	}
	e = elementWalk{t: t, index: -1}
	if v.Kind == feed.JSON {
		e.w = feed.Walk(v.Value)
		e.w.Next()
		e.object = !e.w.Array()
	}
	switch {
	case v.Kind != feed.JSON:
		return e, v.Kind, false, feed.Errorf(feed.BadValue, "table %q: %s is no array but %s", t.spec.Name, t.spec.Each, brief(v))
	case e.object && !t.takesObjects():
		return e, v.Kind, false, feed.Errorf(feed.BadValue, "table %q: %s is no array but an object: a column with meta: key takes the names of its members", t.spec.Name, t.spec.Each)
	case e.object:
		e.members = lastMembers(&e.w)
	}
	return e, feed.JSON, true, nil
}

// takesObjects tells that the elements of a table may be those of an object.
func (t *planned) takesObjects() bool {
	for i := range t.columns {
		for j := range t.columns[i].sources {
			if t.columns[i].sources[j].spec.Meta == KeyMeta {
				return true
			}
		}
	}
	return false
}

// lastMembers are the members of an object; of equal names the last alone.
func lastMembers(w *feed.Walker) (members []namedElement) {
	last := map[string]int{}
	for w.Next() {
		m := namedElement{name: w.Name, value: feed.Field{Kind: w.Kind, Value: w.Raw()}}
		name := string(feed.AppendUnquoted(nil, w.Name))
		if at, twice := last[name]; twice {
			members[at].value.Value = nil
		}
		last[name] = len(members)
		members = append(members, m)
	}
	kept := members[:0]
	for _, m := range members {
		if m.value.Value != nil {
			kept = append(kept, m)
		}
	}
	return kept
}

// next makes the next element the one at hand.
func (e *elementWalk) next(s *Scratch) (bool, *feed.Error) {
	e.index++
	f := &s.frames[e.t.element]
	switch {
	case e.object && e.index >= len(e.members), !e.object && !e.w.Next():
		return false, nil
	case e.index >= s.plan.maxEach:
		return false, feed.Errorf(feed.BadValue, "table %q: %s has more than %d elements (max_each)", e.t.spec.Name, e.t.spec.Each, s.plan.maxEach)
	case e.object:
		m := &e.members[e.index]
		f.begin(m.value.Value, m.value.Kind)
		f.key = m.name
	default:
		k := e.w.Kind
		f.begin(e.w.Raw(), k)
		f.key = nil
	}
	f.index = e.index
	return true, nil
}

// inElement has an error of an element's row say which element it is.
func (e *elementWalk) inElement(err *feed.Error) *feed.Error {
	return feed.Errorf(err.Reason, "%s (element %d of %s)", err.Detail, e.index, e.t.spec.Each)
}

// elements adds the changes of the rows that the elements of a table are about; some tells that
// the table takes one of them.
func (s *Scratch) elements(table int, above []feed.Field) (some bool, _ *feed.Error) {
	e, state, ok, err := s.walk(table)
	if err != nil || !ok || state == feed.Null {
		return false, err
	}
	for {
		more, err := e.next(s)
		if err != nil || !more {
			return some, err
		}
		if !s.holds(e.t.when) {
			continue
		}
		some = true
		if err := s.row(table, above); err != nil {
			return some, e.inElement(err)
		}
	}
}

// setCell adds the elements of a table to the fields of the row that they belong to, as one value
// of it. It is an array with an element for each row: the values of the table's columns but for
// stamps, in their order; the sets of the tables that belong to it; and, where it takes fields by
// their names, an object with these.
func (s *Scratch) setCell(table int) *feed.Error {
	t := &s.plan.tables[table]
	v := s.get(*t.each)
	if v == nil {
		return nil
	}
	f := feed.Field{Name: t.setName, Value: v.Value, Kind: v.Kind}
	if v.Kind != feed.Null {
		from := len(s.sets)
		if err := s.appendSet(table); err != nil {
			return err
		}
		f.Value, f.Kind = s.sets[from:len(s.sets):len(s.sets)], feed.JSON
	}
	s.fields = append(s.fields, f)
	return nil
}

func (s *Scratch) appendSet(table int) *feed.Error {
	e, state, ok, err := s.walk(table)
	if err != nil {
		return err
	}
	if !ok || state == feed.Null { // of an element that is whole: there are none
		s.sets = append(s.sets, "[]"...)
		return nil
	}
	s.sets = append(s.sets, '[')
	from := len(s.sets)
	for {
		more, err := e.next(s)
		if err != nil {
			return err
		}
		if !more {
			s.sets = append(s.sets, ']')
			return nil
		}
		if !s.holds(e.t.when) {
			continue
		}
		if err := s.appendWhole(table, len(s.sets) > from); err != nil {
			return e.inElement(err)
		}
	}
}

// appendWhole adds the row of the element at hand to a set.
func (s *Scratch) appendWhole(table int, comma bool) *feed.Error {
	t := &s.plan.tables[table]
	s.table, s.took[table] = table, true
	object, none, err := s.object(t)
	if err != nil || none {
		return err
	}
	if comma {
		s.sets = append(s.sets, ',')
	}
	s.sets = append(s.sets, '[')
	from, key := len(s.sets), s.keys[table]
	clear(key[copy(key, s.keys[t.parent]):])
	if err := s.checkHidden(t, key); err != nil {
		return err
	}
	for i := range t.columns {
		col := &t.columns[i]
		if col.stamp != NoStamp {
			continue
		}
		f, ok, err := s.value(t, col)
		if err != nil {
			return err
		}
		if !ok {
			f.Value = null
		}
		if ok && col.refers != nil {
			s.refer(col, f)
		}
		if ok && col.key >= 0 {
			key[col.key] = f
		}
		s.appendPart(from, f.Value)
	}
	for _, i := range t.children {
		s.appendPart(from, nil)
		if err := s.appendSet(i); err != nil {
			return err
		}
	}
	s.table = table
	if t.named() {
		s.appendPart(from, []byte("{"))
		if object != nil {
			if err := s.namedFields(t, object, func(f feed.Field, name []byte) {
				t.noteKey(f, key)
				if s.sets[len(s.sets)-1] != '{' {
					s.sets = append(s.sets, ',')
				}
				s.sets = append(append(append(s.sets, '"'), name...), '"', ':')
				s.sets = append(s.sets, f.Value...)
			}); err != nil {
				return err
			}
		}
		s.sets = append(s.sets, '}')
	}
	s.sets = append(s.sets, ']')
	return t.checkKey(key)
}

var null = []byte("null")

// appendPart adds a part of a row to a set; from is where the parts begin.
func (s *Scratch) appendPart(from int, part []byte) {
	if len(s.sets) > from {
		s.sets = append(s.sets, ',')
	}
	s.sets = append(s.sets, part...)
}

// An exploder makes the rows of sets. It is not safe for concurrent use.
type exploder struct {
	same   func(table int, c *fold.Change) string
	plan   *Plan
	rest   restNames
	levels []level // by table
}

// A level is the memory for one table's rows.
type level struct {
	fields []feed.Field
	parts  [][]byte
	keys   []string // of the rows, as same told them before any was passed on, which may change it
	last   map[string]int
}

// Exploder returns what makes rows of the sets that [Plan.Map] makes values of. same returns one
// text for all spellings of the key of a change: of the elements of one key the last counts.
func (p *Plan) Exploder(same func(table int, c *fold.Change) string) fold.Exploder {
	return (&exploder{same: same, plan: p, levels: make([]level, len(p.tables))}).explode
}

// explode calls each with the change of every row of a set, and of the sets in it, parents first.
// The rows are whole: columns that a change does not name are to be NULL, and rows of the table,
// or of those that belong to it, that belong to the same row above and do not come are to go.
// above is the key of the row that has the set, as raw values. A change is good until each
// returns; its text is the row's part of the set.
func (e *exploder) explode(table int, above [][]byte, set []byte, each func(*Row) error) error {
	if feed.KindOf(set) == feed.Null {
		return nil
	}
	t, l := &e.plan.tables[table], &e.levels[table]
	if len(t.children) > 0 {
		l.keys, l.last = l.keys[:0], map[string]int{}
		if err := e.rows(table, above, set, func(i int, r *Row) error {
			key := e.same(table, &r.Change)
			l.keys, l.last[key] = append(l.keys, key), i
			return nil
		}); err != nil {
			return err
		}
	}
	return e.rows(table, above, set, func(i int, r *Row) error {
		if len(t.children) == 0 {
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
		sets := l.parts[len(l.parts)-len(t.children):]
		for n, child := range t.children {
			if err := e.explode(child, key, sets[n], each); err != nil {
				return err
			}
		}
		return nil
	})
}

// rows calls each with the rows of a set, without those of the sets in it, which are left in
// the parts of the table's level.
func (e *exploder) rows(table int, above [][]byte, set []byte, each func(i int, r *Row) error) error {
	t, l := &e.plan.tables[table], &e.levels[table]
	w := feed.Walk(set)
	w.Next()
	for i := 0; w.Next(); i++ {
		r := Row{Table: table}
		r.Text = w.Raw()
		e.rest.unnumbered = nil
		l.fields, l.parts = l.fields[:0], l.parts[:0]
		for part, value := range above {
			l.fields = append(l.fields, feed.Field{Name: t.key[part].name, Value: value, Kind: feed.KindOf(value)})
		}
		x := feed.Walk(r.Text)
		x.Next()
		for c := range t.columns {
			if t.columns[c].stamp == NoStamp && x.Next() {
				l.fields = append(l.fields, feed.Field{Name: t.columns[c].name, Kind: x.Kind, Value: x.Raw()})
			}
		}
		for range t.children {
			x.Next()
			l.parts = append(l.parts, x.Raw())
		}
		if t.named() {
			x.Next()
			for x.Next() {
				l.fields = append(l.fields, feed.Field{Name: e.rest.number(t.names, x.Name), Kind: x.Kind, Value: x.Raw()})
			}
		}
		r.Fields, r.Unnumbered = l.fields, e.rest.unnumbered
		if err := each(i, &r); err != nil {
			return err
		}
	}
	return nil
}
