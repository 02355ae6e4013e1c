package fold

import "slices"

// This file is about rows that are changes of their own and belong to rows of another table: they go
// with these.

// A link is where such a row stands in its batch.
type link struct {
	above int32 // the number of the row that it belongs to, in the batch of that
	next  int32 // the number of the next row that belongs to the same one, from 1; 0 is none
}

// perLinked is what a row takes that is linked: its link, and the first row below one above.
const perLinked = 8 + 4

// link notes whose row the one at hand is, which the change before it in the message was about.
func (f Folders) link(s *Set, table int) {
	b, above := s.Batches[table], f[f[table].nested.parent].row
	if len(b.links) == len(b.rows) {
		return
	}
	for len(b.firsts) <= int(above) {
		b.firsts = append(b.firsts, 0)
	}
	b.links = append(b.links, link{above, b.firsts[above]})
	b.firsts[above] = int32(len(b.links))
}

// eachBelow calls each with the numbers of the rows that belong to a row of the table above.
func (b *Batch) eachBelow(above int32, each func(row int32)) {
	if int(above) >= len(b.firsts) {
		return
	}
	for n := b.firsts[above]; n > 0; n = b.links[n-1].next {
		each(n - 1)
	}
}

// take has the rows go that belong to a row of a table, at all levels.
func (f Folders) take(s *Set, table int, row int32) {
	for _, i := range f[table].nested.updated {
		b := s.Batches[i]
		b.eachBelow(row, func(n int32) {
			if r := &b.rows[n]; !r.Deleted { // else what belongs to it has gone before
				r.take(f[i].table.Key)
				f.take(s, i, n)
			}
		})
	}
}

// take removes a row with the one that it belongs to.
func (r *Row) take(key []int) {
	for i := range r.cells {
		if !slices.Contains(key, i) {
			r.cells[i] = 0
		}
	}
	r.Deleted, r.Replaces = true, true
}

// replaceBelow has the rows of a table replace what the database has where the rows do that they
// belong to. row and above give the rows of the batch, and those of the table above, by number; nil
// for none.
func (b *Batch) replaceBelow(row, above func(n int32) *Row) {
	for n := range b.links {
		r, a := row(int32(n)), above(b.links[n].above)
		if r != nil && a != nil && a.Replaces {
			r.Replaces = true
		}
	}
}

// at returns a row of the batch by its number.
func (b *Batch) at(n int32) *Row { return &b.rows[n] }
