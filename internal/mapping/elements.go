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
	t       *TablePlan
	w       feed.Walker
	members []namedElement // if it is an object
	object  bool
	index   int
}

// walk starts to step through the elements of a table. ok is false if they are absent or null.
func (b *rowBuilder) walk(t *TablePlan) (e elementWalk, ok bool, _ *refusal) {
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
func (t *TablePlan) readsMemberNames() bool {
	for i := range t.columns {
		for j := range t.columns[i].sources {
			if t.columns[i].sources[j].Meta == KeyMeta {
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
		m := namedElement{name: w.Name, value: w.Field()}
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
			v := e.w.Field()
			b.read.BeginElement(n.element, v.Value, v.Kind, paths.Element{Index: e.index})
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
func (b *rowBuilder) addElements(msg *message, t *TablePlan, parentKey []feed.Field) (some bool, _ *refusal) {
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

// addSet adds the elements of a table to the fields of its parent row, as one value. parent is the key of that row.
func (b *rowBuilder) addSet(msg *message, t *TablePlan, parent []feed.Field) *refusal {
	v := b.read.Get(t.nest.each)
	inSet := t.nest.parent.nest.set // the parent row is whole: without elements, its set is empty
	if v == nil && !inSet {
		return nil
	}
	f := feed.Field{Name: t.nest.setName, Value: null, Kind: feed.Null}
	if inSet || v.Kind != feed.Null {
		set, refused := b.set(msg, t, parent)
		if refused != nil {
			return refused
		}
		from := len(b.bytes)
		b.bytes = append(b.bytes, set...)
		f.Value, f.Kind = b.bytes[from:len(b.bytes):len(b.bytes)], feed.JSON
	}
	b.fields = append(b.fields, f)
	return nil
}

// set returns the elements of a table as one value, which is valid until the table's next set.
func (b *rowBuilder) set(msg *message, t *TablePlan, parent []feed.Field) ([]byte, *refusal) {
	set, unnumbered := append(b.tables[t.index].set[:0], '['), b.unknownNames.unnumbered
	e, ok, refused := b.walk(t)
	for ok && refused == nil {
		if ok, refused = e.next(b); !ok {
			break
		}
		object, none, bad := b.object(t)
		if !none && bad == nil {
			from := len(b.fields)
			bad = b.addValues(msg, t, nil, object, b.key(t, parent), false)
			if len(set) > 1 {
				set = append(set, ',')
			}
			set = appendSetRow(set, b.fields[from+len(parent):], b.unknownNames.unnumbered)
			b.fields = b.fields[:from]
		}
		if bad != nil {
			refused = e.atElement(bad)
		}
	}
	b.tables[t.index].set, b.unknownNames.unnumbered = set, unnumbered
	return append(set, ']'), refused
}
