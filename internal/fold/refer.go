package fold

import (
	"errors"
	"slices"
)

// This file is about rows that name rows of other tables. A row that is named is made if it is missing,
// by a change of its own, see [Ensure]. Whether one that others name may be deleted is decided by the
// foreign keys of the database, when the set is written: what is not deleted first, then what is, parents
// last. A set is therefore written before a message by which that would be decided otherwise than when
// the delete came.

// ErrSplit says that a set must be written before a message is added to it.
var ErrSplit = errors.New("the set must be written before the message is added")

// references say how the rows of a table and those of others name each other.
type references struct {
	named  bool  // rows of others name its rows
	tables []int // whose rows its rows name, and those that belong to them
}

// splits reports whether a set must be written before a change, which its table judged last: it is about
// a table whose rows name rows of a table that the set deletes from, or about a row that the set deletes,
// or it deletes a row that messages of the set name.
func (f Folders) splits(s *Set, c *TableChange) bool {
	folder, b := f[c.Table], s.Batches[c.Table]
	switch {
	case s.Unsplit:
		return false
	case slices.ContainsFunc(folder.references.tables, func(table int) bool { return s.Batches[table].relations.deletes }):
		return true
	case !folder.references.named || !b.relations.deletes && c.Op != Delete:
		return false
	}
	folder.makeKey(c.Fields)
	r := b.rows.find(folder.now.key)
	return r != nil && (r.Deleted || c.Op == Delete && r.named)
}

// refer notes for each table whether rows of others name its rows, and whose rows are named by its own
// and by those that belong to them.
func (f Folders) refer() {
	for i := range f {
		for _, r := range f[i].table.Refs {
			if r.Owner {
				continue
			}
			f[r.Table].references.named = true
			for of := i; of >= 0; of = f[of].nested.parent {
				f[of].references.tables = append(f[of].references.tables, r.Table)
			}
		}
	}
}

// useReferred has the tables be made that rows of others name.
func (f Folders) useReferred(s *Set) {
	var used func(table int) bool
	used = func(table int) bool {
		n := f[table].nested
		return s.Batches[table].Used() || n != nil && n.parent >= 0 && used(n.parent)
	}
	for again := true; again; {
		again = false
		for i := range f {
			for _, r := range f[i].table.Refs {
				if to := s.Batches[r.Table]; !r.Owner && used(i) && !to.Used() && f[r.Table].keyHasTypes() {
					to.relations.used, again = true, true
				}
			}
		}
	}
}
