package fold

import (
	"errors"
	"slices"
)

// This file is about references to rows of other tables. A referenced row is created if it is missing, by an [Ensure]
// change of its own. Whether a referenced row may be deleted is decided by the database's foreign keys when the set
// is written: first rows that are not deleted, then deletes, parents last. So a set is written before a message that
// would change the outcome of an earlier delete, unless both are elements of one array, which is written as a whole.

// ErrSplit means that a set must be written before a message is added.
var ErrSplit = errors.New("the set must be written before the message is added")

// references describes the references between a table and others.
type references struct {
	referenced bool  // rows of other tables refer to its rows
	tables     []int // the tables that its rows and their children refer to
}

// splits reports whether a set must be written before the change that its table checked last: because the set deletes
// from a table that the change's table refers to, because the set deletes the row, or because the change deletes a
// row that messages of the set refer to.
func (f Folders) splits(s *Set, c *TableChange, at *Place) bool {
	folder, b := f[c.Table], s.Batches[c.Table]
	switch {
	case s.Unsplit, at.Element > 1:
		return false
	case slices.ContainsFunc(folder.references.tables, func(table int) bool { return s.Batches[table].relations.deletes }):
		return true
	case !folder.references.referenced || !b.relations.deletes && c.Op != Delete:
		return false
	}
	folder.makeKey(c.Fields)
	r := b.rows.find(folder.now.key)
	return r != nil && (r.Deleted || c.Op == Delete && r.referenced)
}

func (f Folders) refer() {
	for i := range f {
		for _, r := range f[i].table.Refs {
			if r.Owner {
				continue
			}
			f[r.Table].references.referenced = true
			for of := i; of >= 0; of = f[of].nested.Parent {
				f[of].references.tables = append(f[of].references.tables, r.Table)
			}
		}
	}
}

// useReferred marks referenced tables, which come before those that refer to them, as used, so they are created.
func (f Folders) useReferred(s *Set) {
	var used func(table int) bool
	used = func(table int) bool {
		n := f[table].nested
		return s.Batches[table].Used() || n != nil && n.Parent >= 0 && used(n.Parent)
	}
	for i, folder := range slices.Backward(f) {
		for _, r := range folder.table.Refs {
			if to := s.Batches[r.Table]; !r.Owner && used(i) && !to.Used() && f[r.Table].keyHasTypes() {
				to.relations.used = true
			}
		}
	}
}
