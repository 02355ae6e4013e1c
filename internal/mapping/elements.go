package mapping

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A namedElement is a member of an object whose members are rows.
type namedElement struct {
	name  []byte // the raw name, between its quotes
	value feed.Field
}

// An elementWalk steps through the elements of an array or object.
type elementWalk struct {
	t       *tablePlan
	w       feed.Walker
	members []namedElement // if it is an object
	object  bool
	index   int
}

// walk starts to step through the elements of a table. ok is false if they are absent or null.
func (b *rowBuilder) walk(t *tablePlan) (e elementWalk, ok bool, _ *refusal) {
	v := b.read.Get(t.nest.each)
	if v == nil || v.Kind == feed.Null {
		return e, false, nil
	}
	e = elementWalk{t: t, index: -1}
	if v.Kind == feed.JSON {
		e.w = feed.Walk(v.Value)
		e.w.Next()
		e.object = !e.w.Array()
	}
	switch {
	case v.Kind != feed.JSON:
		return e, false, t.refuse(feed.Errorf(feed.BadValue, "table %q: %s is no array but %s", t.spec.Name, t.spec.Each, feed.Clip(v.Value)))
	case e.object && !t.readsMemberNames():
		return e, false, t.refuse(feed.Errorf(feed.BadValue, "table %q: %s is an object, not an array: add a column with meta: key for its member names", t.spec.Name, t.spec.Each))
	case e.object:
		e.members = lastMembers(&e.w)
	}
	return e, true, nil
}

// readsMemberNames reports whether the elements of a table may be the members of an object.
func (t *tablePlan) readsMemberNames() bool {
	for i := range t.columns {
		for j := range t.columns[i].sources {
			if t.columns[i].sources[j].spec.Meta == KeyMeta {
				return true
			}
		}
	}
	return false
}

// lastMembers returns the members of an object; if a name occurs several times, only the last one.
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

// next points the reader at the next element that matches the table's when.
func (e *elementWalk) next(b *rowBuilder) (bool, *refusal) {
	n := &e.t.nest
	for {
		e.index++
		switch {
		case e.object && e.index >= len(e.members), !e.object && !e.w.Next():
			return false, nil
		case e.index >= b.plan.maxEach:
			return false, e.t.refuse(feed.Errorf(feed.BadValue, "table %q: %s has more than %d elements (max_each)", e.t.spec.Name, e.t.spec.Each, b.plan.maxEach))
		case e.object:
			m := &e.members[e.index]
			b.read.BeginElement(n.element, m.value.Value, m.value.Kind, paths.Element{Index: e.index, Key: m.name})
		default:
			k := e.w.Kind
			b.read.BeginElement(n.element, e.w.Raw(), k, paths.Element{Index: e.index})
		}
		if b.read.Holds(e.t.when) {
			return true, nil
		}
	}
}

// atElement adds to a refusal which element it is about.
func (e *elementWalk) atElement(r *refusal) *refusal {
	return &refusal{feed.Errorf(r.why.Reason, "%s (element %d of %s)", r.why.Detail, e.index, e.t.spec.Each), r.table}
}

// addElements adds the changes for the elements of a table. some reports whether the table has a row for one of them.
func (b *rowBuilder) addElements(msg *message, t *tablePlan, parentKey []feed.Field) (some bool, _ *refusal) {
	e, ok, refused := b.walk(t)
	if refused != nil || !ok {
		return false, refused
	}
	for {
		more, refused := e.next(b)
		if refused != nil || !more {
			return some, refused
		}
		some = true
		if refused := b.addRow(msg, t, nil, parentKey); refused != nil {
			return some, e.atElement(refused)
		}
	}
}

// addSetCell adds the elements of a table to the fields of the parent row, as one value. parent is the key of that
// row.
func (b *rowBuilder) addSetCell(msg *message, t *tablePlan, parent []feed.Field) *refusal {
	v := b.read.Get(t.nest.each)
	if v == nil {
		return nil
	}
	f := feed.Field{Name: t.nest.setName, Value: v.Value, Kind: v.Kind}
	if v.Kind != feed.Null {
		from := b.sets.begin()
		if refused := b.appendSet(msg, t, parent); refused != nil {
			return refused
		}
		f.Value, f.Kind = b.sets.since(from), feed.JSON
	}
	b.fields = append(b.fields, f)
	return nil
}

// appendSet appends the elements of a table to a set. If they are absent the set is empty, because the parent row is
// whole.
func (b *rowBuilder) appendSet(msg *message, t *tablePlan, parent []feed.Field) *refusal {
	b.sets.open('[')
	defer b.sets.close(']')
	e, ok, refused := b.walk(t)
	for ok && refused == nil {
		if ok, refused = e.next(b); !ok {
			break
		}
		if refused := b.appendRow(msg, t, parent); refused != nil {
			return e.atElement(refused)
		}
	}
	return refused
}

// appendRow appends the row of the current element to a set.
func (b *rowBuilder) appendRow(msg *message, t *tablePlan, parent []feed.Field) *refusal {
	b.tables[t.index].hasRows = true
	object, none, refused := b.object(t)
	if refused != nil || none {
		return refused
	}
	key := b.key(t, parent)
	if refused := b.checkShadowed(t, key); refused != nil {
		return refused
	}
	b.sets.open('[')
	for i := range t.columns {
		col := &t.columns[i]
		if col.stamp != NoStamp {
			continue
		}
		f, ok, refused := b.value(msg, t, nil, col)
		if refused != nil {
			return refused
		}
		if !ok {
			f.Value = null
		}
		if ok && col.references != nil {
			b.addReferenced(msg, col, f)
		}
		if ok && col.key >= 0 {
			key[col.key] = f
		}
		b.sets.value(f.Value)
	}
	for _, i := range t.nest.children {
		if refused := b.appendSet(msg, &b.plan.tables[i], key); refused != nil {
			return refused
		}
	}
	if t.fields.byName() {
		b.sets.open('{')
		if object != nil {
			if refused := b.eachUnknownField(msg, t, object, func(f feed.Field, name []byte) {
				t.setKeyPart(f, key)
				b.sets.member(name, f.Value)
			}); refused != nil {
				return refused
			}
		}
		b.sets.close('}')
	}
	b.sets.close(']')
	return t.checkKey(key)
}
