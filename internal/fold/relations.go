package fold

// This file is about child rows that are changes of their own, and are deleted with their parents.

// relations link a batch's rows to rows of other tables.
type relations struct {
	links   []link  // by row: the parents of child rows that are changes of their own
	firsts  []int32 // by row of the parent table: its first child, from 1
	nested  *nested // of a child table
	used    bool    // see [Batch.Used]
	deletes bool    // a message deletes a row of a table that others refer to
}

// A link says which parent a row has.
type link struct {
	parent int32 // number of the parent row in its batch
	next   int32 // number of the parent's next child, from 1; 0 means none
}

// perLinked is the memory of a linked row: its link, and the first child of its parent.
const perLinked = 8 + 4

func (s *relations) bytes() int { return perLinked * cap(s.links) }

func (s *relations) reset() { *s = relations{links: s.links[:0], firsts: s.firsts[:0]} }

// link makes the newest row a child of a row of the parent table.
func (s *relations) link(parent int32) {
	for len(s.firsts) <= int(parent) {
		s.firsts = append(s.firsts, 0)
	}
	s.links = append(s.links, link{parent, s.firsts[parent]})
	s.firsts[parent] = int32(len(s.links))
}

// eachChild calls each with the numbers of the children of a row of the parent table.
func (s *relations) eachChild(parent int32, each func(row int32)) {
	if int(parent) >= len(s.firsts) {
		return
	}
	for n := s.firsts[parent]; n > 0; n = s.links[n-1].next {
		each(n - 1)
	}
}

// A family is the rows of parent and child batches, made by all messages or by some of them.
type family struct {
	batches []*Batch
	apart   []map[int32]*Row // by table and number of the row in its batch; nil: the rows of all messages
}

// row returns a row by its number, nil if no message makes it.
func (f family) row(table int, n int32) *Row {
	if f.apart == nil {
		return &f.batches[table].rows.all[n]
	}
	return f.apart[table][n]
}

func (f family) parent(table int, n int32) *Row {
	b := f.batches[table]
	return f.row(b.rules.parent, b.relations.links[n].parent)
}

// deleteChildren deletes the children of a deleted row, at all levels. They have no versions, see [Folders.Nest].
func (f family) deleteChildren(table int, row int32) {
	for _, i := range f.batches[table].rules.children {
		b := f.batches[i]
		b.relations.eachChild(row, func(n int32) {
			if r := f.row(i, n); r != nil && !r.Deleted { // otherwise its children were deleted with it
				r.delete(b.rules.table)
				f.deleteChildren(i, n)
			}
		})
	}
}

// replaceChildren sets Replaces in the children of rows that replace what the database has.
func (f family) replaceChildren(table int) {
	b := f.batches[table]
	for n := range b.relations.links {
		r, parent := f.row(table, int32(n)), f.parent(table, int32(n))
		if r != nil && parent != nil && parent.Replaces {
			r.Replaces = true
		}
	}
}
