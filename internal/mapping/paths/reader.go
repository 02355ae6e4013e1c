package paths

import (
	"bytes"

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

// Holds reports whether a condition holds; nil always holds.
func (r *Reader) Holds(c Condition) bool {
	if c == nil {
		return true
	}
	for _, all := range c {
		if r.holdAll(all) {
			return true
		}
	}
	return false
}

// Matches is [Reader.Holds], except that nil never holds.
func (r *Reader) Matches(c Condition) bool { return c != nil && r.Holds(c) }

func (r *Reader) holdAll(all []test) bool {
	for i := range all {
		if !r.holdsTest(&all[i]) {
			return false
		}
	}
	return true
}

func (r *Reader) holdsTest(t *test) bool {
	v := r.At(t.at)
	switch {
	case v == nil && t.present == MustBePresent, v != nil && t.present == MustBeAbsent:
		return false
	case !t.compares:
		return true
	case v == nil:
		return t.not
	}
	return r.isOneOf(v, t) != t.not
}

func (r *Reader) isOneOf(v *feed.Field, t *test) bool {
	if v.Kind == feed.Null {
		return t.null
	}
	text := r.Text(v)
	for _, want := range t.in {
		if bytes.Equal(text, want) {
			return true
		}
	}
	return false
}

// Decides returns the place to name in an error about a condition: its first test that fails, or else its first test.
// Only the first alternative counts.
func (r *Reader) Decides(c Condition) Place {
	for i := range c[0] {
		if !r.holdsTest(&c[0][i]) {
			return c[0][i].at
		}
	}
	return c[0][0].at
}

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
