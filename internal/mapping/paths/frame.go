package paths

import (
	"bytes"

	"github.com/weirsync/weir/internal/feed"
)

// A frame caches the values at the nodes of a tree for the tree's current value. An object is scanned once, when one
// of its members is first read.
type frame struct {
	tree  *tree
	value uint32 // number of the current value; cells with another number are stale
	cells []cell

	// mismatches counts, by node, values that a path steps into but that are not an object, or not an array.
	mismatches []int64

	element Element
	name    []byte
}

type cell struct {
	value  uint32 // number of the value that field is from
	opened uint32 // number of the value that the children were read from
	parent int32  // copied from the node
	field  feed.Field
}

func newFrame(t *tree) frame {
	cells := make([]cell, len(t.nodes))
	for i := range cells {
		cells[i].parent = t.nodes[i].parent
	}
	return frame{tree: t, cells: cells, mismatches: make([]int64, len(t.nodes))}
}

// begin sets the current value.
func (f *frame) begin(value []byte, k feed.Kind) {
	if f.value++; f.value == 0 {
		for i := range f.cells {
			f.cells[i].value, f.cells[i].opened = 0, 0
		}
		f.value = 1
	}
	f.set(0, value, k)
}

func (f *frame) set(at int32, value []byte, k feed.Kind) {
	c := &f.cells[at]
	c.value, c.field.Value, c.field.Kind = f.value, value, k
}

// get returns the value at a node, nil if it is absent.
func (f *frame) get(at int32) *feed.Field {
	c := &f.cells[at]
	if c.value == f.value || f.find(at) {
		return &c.field
	}
	return nil
}

// find reads the children of a node's parent, and reports whether the node then has a value.
func (f *frame) find(at int32) bool {
	parent := f.cells[at].parent
	if parent < 0 || f.cells[parent].opened == f.value {
		return false
	}
	f.open(parent)
	return f.cells[at].value == f.value
}

// open finds the values of a node's children. The children of null are null.
func (f *frame) open(at int32) {
	f.cells[at].opened = f.value
	v, kids := f.get(at), f.tree.nodes[at].kids
	switch {
	case v == nil:
		return
	case v.Kind == feed.Null:
		for _, k := range kids {
			f.set(k, v.Value, feed.Null)
		}
		return
	case v.Kind != feed.JSON:
		f.mismatches[at]++
		return
	}
	w := feed.Walk(v.Value)
	w.Next()
	array, mismatch := w.Array(), false
	for _, k := range kids {
		mismatch = mismatch || array != (f.tree.nodes[k].step.Index >= 0)
	}
	if mismatch {
		f.mismatches[at]++
	}
	next := 0 // index into kids: members usually have the same order as in the last object
	for i := 0; w.Next(); i++ {
		name := w.Name
		if bytes.IndexByte(name, '\\') >= 0 {
			f.name = feed.AppendUnquoted(f.name[:0], name)
			name = f.name
		}
		k := w.Kind
		for n := range kids {
			kid := kids[(next+n)%len(kids)]
			if step := &f.tree.nodes[kid].step; array && step.Index == i || !array && step.Index < 0 && step.Name == string(name) {
				f.set(kid, w.Raw(), k)
				next += n + 1
				break
			}
		}
		if k == feed.JSON {
			w.Raw() // skips it
		}
	}
}
