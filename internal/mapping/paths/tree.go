package paths

import "github.com/weirsync/weir/internal/feed"

// Trees are the paths that a plan follows: a tree for each kind of value where paths start, such as the message or
// the elements of an array. Paths are added while the plan is made.
type Trees []*tree

// A Place is a node of a tree: the value that a path leads to.
type Place struct{ Tree, Node int32 }

// Nowhere is the place of a path that is not set. The zero Place is not Nowhere but the root of tree 0.
var Nowhere = Place{Tree: -1}

// IsNowhere reports whether the place is [Nowhere].
func (p Place) IsNowhere() bool { return p.Tree < 0 }

// A tree holds the paths into one kind of value.
type tree struct {
	nodes []node
	slots []int32 // by number of a field's name: its node below the root; 0 means none. See [Trees.Number]
}

// A node is a step of a path. Node 0 is the value itself.
type node struct {
	step   Step
	parent int32
	kids   []int32
}

// Grow adds a tree and returns its number.
func (t *Trees) Grow() int32 {
	*t = append(*t, &tree{nodes: []node{{parent: -1}}})
	return int32(len(*t) - 1)
}

// Add adds steps from a place, and returns the place they lead to.
func (t Trees) Add(from Place, steps []Step) Place {
	tree := t[from.Tree]
	for _, step := range steps {
		at := tree.child(from.Node, step)
		if at < 0 {
			at = int32(len(tree.nodes))
			tree.nodes = append(tree.nodes, node{step: step, parent: from.Node})
			tree.nodes[from.Node].kids = append(tree.nodes[from.Node].kids, at)
		}
		from.Node = at
	}
	return from
}

// child returns the node that a step leads to from another one; -1 if no path has it.
func (t *tree) child(of int32, step Step) int32 {
	for _, k := range t.nodes[of].kids {
		if t.nodes[k].step == step {
			return k
		}
	}
	return -1
}

// Number links a tree's top-level nodes to the numbers of their names, for [Reader.BeginLine].
func (t Trees) Number(tree int32, names *feed.Names) {
	x := t[tree]
	for _, k := range x.nodes[0].kids {
		if step := x.nodes[k].step; step.Index < 0 {
			n := names.Number(step.Name)
			for int(n) >= len(x.slots) {
				x.slots = append(x.slots, 0)
			}
			x.slots[n] = k
		}
	}
}

// ReadsField reports whether a path starts with the field of a line whose name has a number.
func (t Trees) ReadsField(tree, name int32) bool {
	slots := t[tree].slots
	return uint(name) < uint(len(slots)) && slots[name] > 0
}

// ReadsMember reports whether a path leads from a place to a member with a name.
func (t Trees) ReadsMember(at Place, name []byte) bool {
	return t[at.Tree].child(at.Node, Step{Name: string(name), Index: -1}) >= 0
}

// Members returns the names of the value's own members that paths of a tree start with.
func (t Trees) Members(tree int32) (names []string) {
	nodes := t[tree].nodes
	for _, k := range nodes[0].kids {
		names = append(names, nodes[k].step.Name)
	}
	return names
}

// IsMember reports whether a place is the member with a name of the value itself.
func (t Trees) IsMember(at Place, name string) bool {
	return t[at.Tree].child(0, Step{Name: name, Index: -1}) == at.Node
}

// String returns the path to a place in its tree, for messages.
func (t Trees) String(at Place) string {
	var steps []Step
	for nodes, n := t[at.Tree].nodes, at.Node; n > 0; n = nodes[n].parent {
		steps = append([]Step{nodes[n].step}, steps...)
	}
	return Path{Base: DefaultBase, Steps: steps}.String()
}
