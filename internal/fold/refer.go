package fold

import (
	"bytes"
	"errors"
	"slices"

	"github.com/weirsync/weir/internal/schema"
)

// This file is about rows that name rows of other tables. A row that is named and that is to be made
// if it is missing comes as a change of its own, see [Ensure]. Else the database finds whether it
// exists, when the rows of its table that are not deleted are written, and before others are: a set is
// so composed that this was the same when the message came that names it.

// ErrSplit says that a set must be written before a message is added to it: whether rows exist that
// a message names, of the set or the one to be added, would be found too late.
var ErrSplit = errors.New("the set must be written before the message is added")

// expect notes that the row of the key at hand is named by another: whether it is certain to exist by
// what the batch has of it, or is the database's to tell, as where its version may be too old.
func (f *Folder) expect(b *Batch) {
	r := b.find(f.key)
	certain := r != nil && !r.Deleted && (f.opt.Version == "" || b.versionsOf(r).kept)
	was, known := b.expected[string(f.key)]
	if known && was == certain {
		return
	}
	if b.expected == nil {
		b.expected = map[string]bool{}
	}
	if !known {
		b.extra += perExpected + len(f.key)
	}
	b.expected[string(f.key)] = certain
}

// perExpected is what an entry of Batch.expected takes beside its key, with room to grow.
const perExpected = 64

// splits reports whether a change, which its table judged last, must not be added to a set: because of
// what an earlier message names, or because of what it names itself.
func (f Folders) splits(s *Set, c *TableChange) bool {
	folder, b := f[c.Table], s.Batches[c.Table]
	if s.Unsplit || c.Op != Expect && len(b.expected) == 0 && len(folder.refers) == 0 {
		return false
	}
	folder.makeKey(c.Fields)
	r := b.find(folder.key)
	if c.Op == Expect {
		return r != nil && r.Deleted
	}
	if certain, named := b.expected[string(folder.key)]; named && (c.Op.ends() || !certain) {
		return true
	}
	return r != nil && !r.Deleted && (folder.overwrites(b, r, &c.Change) || c.Op.ends() && f.refersBelow(s, c.Table))
}

// endsNamed reports whether a message names a row of a set that its changes before take: it exists for
// the message, and not for what writes the set.
func (f Folders) endsNamed(s *Set, before []TableChange, c *TableChange) bool {
	if s.Unsplit || c.Op != Expect {
		return false
	}
	var ended []string
	for i := range before {
		if b := &before[i]; b.Table == c.Table && b.Op.ends() {
			ended = append(ended, f.sameKey(b.Table, &b.Change))
		}
	}
	if len(ended) == 0 {
		return false
	}
	key := f.sameKey(c.Table, &c.Change) // the last one, for the folder keeps where its parts are
	return slices.Contains(ended, key) && s.Batches[c.Table].Has([]byte(key))
}

// overwrites reports whether a change takes a value of a row by which its message was to be judged.
func (f *Folder) overwrites(b *Batch, r *Row, c *Change) bool {
	for _, col := range f.refers {
		was := b.Value(r, int(col))
		if was == nil || was[0] == 'n' {
			continue
		}
		if c.Op.ends() {
			return true
		}
		if i := slices.IndexFunc(f.hits, func(h int32) bool { return f.fields[h].col == col }); i >= 0 && !bytes.Equal(was, c.Fields[i].Value) {
			return true
		}
	}
	return false
}

// refersBelow reports whether a set has rows that are judged so and that belong to those of a table.
func (f Folders) refersBelow(s *Set, table int) bool {
	return f[table].nested != nil && slices.ContainsFunc(f[table].nested.updated, func(i int) bool {
		return len(f[i].refers) > 0 && s.Batches[i].Rows() > 0 || f.refersBelow(s, i)
	})
}

// refer has the folders know the columns by whose values messages are judged, and those that have the
// rows of sets with such columns.
func (f Folders) refer() {
	for i := range f {
		for _, r := range f[i].table.Refs {
			if r.Missing != schema.Reject && !(r.Missing == schema.Null && f[i].opt.FillOnly) {
				continue
			}
			top, col := i, int32(r.From[0])
			for n := f[i].nested; n.parent >= 0 && n.Set(n.table); n = f[n.parent].nested {
				top, col = n.parent, int32(f[n.parent].opt.Limits.Find(&f[n.parent].table, n.SetColumn(n.table), 0))
			}
			f[top].refers = append(f[top].refers, col)
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
				if to := s.Batches[r.Table]; r.Missing != schema.NoRow && used(i) && !to.Used() && f[r.Table].keyHasTypes() {
					to.used, again = true, true
				}
			}
		}
	}
}
