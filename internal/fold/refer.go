package fold

import "github.com/weirsync/weir/internal/schema"

// This file is about rows that name rows of other tables.

// referTo has the folder know the tables whose rows its own name.
func (f *Folder) referTo(folders Folders) {
	for _, r := range f.table.Refs {
		if r.Missing == schema.NoRow {
			continue
		}
		if f.refers == nil {
			f.refers = map[int32]*Folder{}
		}
		f.refers[int32(r.From[0])] = folders[r.Table]
	}
}

// widenReferred has the key of a table of weir's hold a value that names a row of it, which may be
// made for it.
func (f *Folder) widenReferred(col int32, c *Change, field int) {
	of := f.refers[col]
	if of == nil {
		return
	}
	if to := &of.table.Columns[of.table.Key[0]]; to.Own && !to.Holds(c.Fields[field].Kind) {
		_ = to.Admit(c.Fields[field].Value, c.Fields[field].Kind) // which takes everything
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
				if to := s.Batches[r.Table]; r.Missing != schema.NoRow && used(i) && !to.Used() && f[r.Table].keyHasTypes() {
					to.used, again = true, true
				}
			}
		}
	}
}
