package paths

import (
	"bytes"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// A Reader reads the values at places. Each tree has one current value, which a Begin method sets. A result is valid
// until the next Begin of its tree.
type Reader struct {
	feed.Unquoter
	trees  *Trees
	frames []frame // by tree
}

// NewReader returns a reader. Trees and paths may be added later: see [Reader.Grow].
func (t *Trees) NewReader() *Reader {
	r := &Reader{trees: t}
	r.Grow()
	return r
}

// Grow makes the reader follow paths that were added.
func (r *Reader) Grow() {
	for i, t := range *r.trees {
		if i == len(r.frames) {
			r.frames = append(r.frames, newFrame(t))
		} else if len(r.frames[i].cells) < len(t.nodes) {
			f := newFrame(t)
			copy(f.mismatches, r.frames[i].mismatches)
			r.frames[i] = f
		}
	}
}

// Begin sets a tree's current value.
func (r *Reader) Begin(tree int32, value []byte, k feed.Kind) { r.frames[tree].begin(value, k) }

// BeginLine sets a tree's current value to a line.
func (r *Reader) BeginLine(tree int32, l *feed.Line) {
	f := &r.frames[tree]
	f.begin(bytes.TrimSpace(l.Text), feed.JSON)
	f.cells[0].opened = f.value
	slots := f.tree.slots
	for i := range l.Fields {
		if n := l.Fields[i].Name; uint(n) < uint(len(slots)) && slots[n] > 0 {
			f.set(slots[n], l.Fields[i].Value, l.Fields[i].Kind)
		}
	}
}

// An Element identifies an element of an array, or a member of an object.
type Element struct {
	Index int
	Key   []byte // for a member of an object: its raw name; nil for an array
}

// BeginElement sets a tree's current value to an element.
func (r *Reader) BeginElement(tree int32, value []byte, k feed.Kind, e Element) {
	f := &r.frames[tree]
	f.begin(value, k)
	f.element = e
}

// Element returns the current element of a tree.
func (r *Reader) Element(tree int32) Element { return r.frames[tree].element }

// Get returns the value at a place; nil if it is absent or the place is [Nowhere].
func (r *Reader) Get(at Place) *feed.Field {
	if at.Tree < 0 {
		return nil
	}
	return r.frames[at.Tree].get(at.Node)
}

// At is [Reader.Get] for a place that is not [Nowhere].
func (r *Reader) At(at Place) *feed.Field { return r.frames[at.Tree].get(at.Node) }

// Value returns the value at a placed path; nil if it is absent or the path is zero.
func (r *Reader) Value(p *Path) *feed.Field { return r.Get(p.Place()) }

// Holds reports whether a placed condition holds; nil always holds.
func (r *Reader) Holds(w When) bool {
	return w == nil || slices.ContainsFunc(w, func(all All) bool { return r.failing(all) < 0 })
}

// Matches is [Reader.Holds], except that nil never holds.
func (r *Reader) Matches(w When) bool { return w != nil && r.Holds(w) }

// failing returns the index of the first test that fails; -1 if all hold.
func (r *Reader) failing(all All) int {
	for i := range all {
		if !r.holds(&all[i]) {
			return i
		}
	}
	return -1
}

func (r *Reader) holds(t *Test) bool {
	v := r.At(t.Path.place)
	switch {
	case v == nil && t.Present == MustBePresent, v != nil && t.Present == MustBeAbsent:
		return false
	case t.In == nil:
		return true
	case v == nil:
		return t.Not
	}
	null, text := v.Kind == feed.Null, r.Text(v)
	for i := range t.In {
		if want := &t.In[i]; null == want.Null && (null || string(text) == want.Text) {
			return !t.Not
		}
	}
	return t.Not
}

// Decides returns the path to name in an error about a condition: of its first test that fails, or else of its first
// test. Only the first alternative counts.
func (r *Reader) Decides(w When) *Path { return &w[0][max(r.failing(w[0]), 0)].Path }

// TakeMismatches calls each with the places whose value was not the object or array that a path expects, and how often
// that happened since the last call. Values below such a place are absent.
func (r *Reader) TakeMismatches(each func(at Place, n int64)) {
	for i := range r.frames {
		for at, n := range r.frames[i].mismatches {
			if n > 0 {
				each(Place{int32(i), int32(at)}, n)
				r.frames[i].mismatches[at] = 0
			}
		}
	}
}
