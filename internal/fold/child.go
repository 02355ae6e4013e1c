package fold

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A Nesting describes which tables are children of others. Several goroutines may use it.
type Nesting interface {
	Nested(table int) Nested
	// Exploder returns the function that makes the rows of sets. same returns the same text for all spellings of the
	// key of a change.
	Exploder(same func(table int, c *Change) string) Exploder
}

// Nested describes how rows of a table belong to rows of another one.
type Nested struct {
	Parent int      // index of the parent table, -1 for none
	Key    []string // the columns that hold the parent's key, in the order of that key
	Set    bool     // all children of a row are one value of it, a set: they are not changed one by one
	// Column is the column of the parent's batch that holds the set; "" if the set is part of a value of the parent's
	// own set.
	Column string
	ByName bool // the table's fields are listed by name, so an element need not have all of them
}

// An Exploder calls each with a change for each row of a set, and of the sets in it, parents first. parentKey is the
// key of the parent row, as raw values.
type Exploder func(table int, parentKey [][]byte, set []byte, each func(*TableChange) error) error

// A Child describes the parent of a batch's table.
type Child struct {
	Parent int   // index of the parent's batch
	Key    []int // columns of Table that hold the parent's key, in the order of that key
	// Set reports whether the rows are values of the parent rows. The batch then has no rows: [Explosion.Explode]
	// makes them when the parents are written.
	Set bool
}

// nested is what a folder knows about the folders of related tables.
type nested struct {
	Nested
	nesting Nesting
	folders Folders
	newer   string        // a table below, whose rows have versions; "" for none
	columns map[int32]int // the tables whose rows are values of this table's, by the number of their field
	keys    []int32       // numbers of the fields of this table's key
	explode Exploder
}

// Nest declares which folders are for child tables. A message cannot delete a row above rows with versions of their own:
// what a late delete leaves of them would depend on each of them.
func (f Folders) Nest(n Nesting) {
	for i, folder := range f {
		of := &nested{Nested: n.Nested(i), nesting: n, folders: f, columns: map[int32]int{}}
		folder.nested, folder.rules.parent, folder.rules.children = of, -1, nil
		if of.Parent < 0 {
			continue
		}
		parent := f[of.Parent]
		if !of.Set {
			folder.rules.parent = of.Parent
			parent.rules.children = append(parent.rules.children, i)
			for above := of.Parent; above >= 0 && folder.opt.Version != ""; above = f[above].nested.Parent {
				f[above].nested.newer = folder.table.Name
			}
		}
		if of.Column == "" {
			continue
		}
		parent.nested.columns[folder.fields.names.Number(of.Column)] = i
		if parent.nested.explode == nil {
			parent.nested.explode = n.Exploder(f.sameKey)
			for _, k := range parent.opt.Key {
				parent.nested.keys = append(parent.nested.keys, parent.fields.names.Number(k))
			}
		}
	}
	f.refer()
}

// sameKey returns the key of an element of a set. The folder does not remember the element's fields, because an
// element that a later one with the same key replaces is not checked.
func (f Folders) sameKey(table int, c *Change) string {
	of := f[table]
	for part, k := range of.opt.Key {
		number := of.fields.names.Number(k)
		of.now.keys[part] = none
		for i := range c.Fields {
			if c.Fields[i].Name == number {
				of.now.keys[part] = int32(i)
			}
		}
	}
	if of.checkKey(c.Fields) != nil {
		return "" // the last element without a key is checked and rejected
	}
	of.makeKey(c.Fields)
	return string(of.now.key)
}

// hasSets reports whether rows of other tables are values of the table's rows.
func (f *Folder) hasSets() bool { return f.nested != nil && f.nested.explode != nil }

// eachOfSets calls each with the changes for the rows of the sets of a row.
func (f *Folder) eachOfSets(c *Change, each func(*TableChange) error) error {
	if c.Op == Delete {
		return nil
	}
	var parentKey [][]byte
	for i := range c.Fields {
		child, ok := f.nested.columns[c.Fields[i].Name]
		if !ok || c.Fields[i].Kind == feed.Null {
			continue
		}
		if parentKey == nil {
			parentKey = make([][]byte, len(f.nested.keys))
			for j := range c.Fields {
				if part := slices.Index(f.nested.keys, c.Fields[j].Name); part >= 0 {
					parentKey[part] = c.Fields[j].Value
				}
			}
		}
		if err := f.nested.explode(child, parentKey, c.Fields[i].Value, each); err != nil {
			return err
		}
	}
	return nil
}

// setNeeds is what the rows of one message's sets need. These rows are made only when the message's row is written.
type setNeeds struct {
	widenings []widening
	bytes     int // the most memory that [Explosion.Explode] needs for the rows
}

// A widening is a value that a column must be widened for.
type widening struct {
	folder *Folder
	col    int32
	kind   feed.Kind
	value  []byte
}

// checkSets checks whether the tables of a change's sets accept their rows, and notes what they need. It returns the
// table that rejects one.
func (f Folders) checkSets(s *Set, c *TableChange) (table int, err error) {
	err = f[c.Table].eachOfSets(&c.Change, func(e *TableChange) error {
		table = e.Table
		of := f[table]
		to := of.extent()
		if err := of.check(s.Batches[table], &e.Change); err != nil {
			return err
		}
		if of.extent() != to {
			s.before = append(s.before, undo{of, to})
		}
		of.eachWidening(&e.Change, func(v *feed.Field, col int32) {
			s.needs.widenings = append(s.needs.widenings, widening{of, col, v.Kind, bytes.Clone(v.Value)})
		})
		s.needs.bytes += 2*perRow + perIndexed + 4*len(of.table.Columns) + len(e.Text)
		return nil
	})
	return table, err
}

// apply widens the columns for the rows that were checked, and reserves their memory in the set.
func (n *setNeeds) apply(s *Set) {
	for _, w := range n.widenings {
		_ = w.folder.table.Columns[w.col].Admit(w.value, w.kind) // no error: a column of ours admits everything
	}
	s.explodes += n.bytes
}

// keyHasTypes reports whether a missing table can be created: until it has rows, the types of its key may be unknown.
func (f *Folder) keyHasTypes() bool {
	return f.opt.Limits.Untyped || !slices.ContainsFunc(f.table.Columns, func(c schema.Column) bool { return c.Key && c.New && c.Type == schema.Any })
}

// Used reports whether the batch or the batch of a parent has rows, so its table is needed.
func (b *Batch) Used() bool { return b.relations.used || len(b.rows.all) > 0 }

func (f *Folder) sealChild(b *Batch) {
	if b.relations.nested = f.nested; f.nested == nil || f.nested.Parent < 0 {
		return
	}
	b.Child = &Child{Parent: f.nested.Parent, Set: f.nested.Set}
	for _, name := range f.nested.Key {
		b.Child.Key = append(b.Child.Key, f.opt.Limits.Find(&b.Table, name, 0))
	}
}

// Top returns the table whose rows hold the sets that a table's rows belong to; the table itself if its rows are not
// in sets.
func Top(batches []*Batch, table int) int {
	for b := batches[table]; b.Child != nil && b.Child.Set; b = batches[table] {
		table = b.Child.Parent
	}
	return table
}

// Exploded returns the batch of the rows that the last [Explosion.Explode] made for a set's table.
func (b *Batch) Exploded() *Batch { return b.sets.rows }

// Has reports whether the batch has a row with the key.
func (b *Batch) Has(key []byte) bool { return b.rows.find(key) != nil }

// setRows are the rows of a table of sets, as an [Explosion] makes them.
type setRows struct {
	rows   *Batch // nil until the first use
	sweeps []Row  // rows that sweep, stored with the batch of the rows
}

func (s *setRows) reset() {
	if s.rows != nil {
		s.rows.Reset()
	}
	s.sweeps = s.sweeps[:0]
}

// An Explosion makes the rows of sets, in [Batch.Exploded] of their batches.
type Explosion struct {
	batches []*Batch
	folders Folders // by table; nil if its rows are in no set
	explode Exploder
}

// NewExplosion returns an Explosion for the tables of the database. The rows it makes have all columns, including
// columns that others added and the run does not know.
func NewExplosion(batches []*Batch, table func(i int) *schema.Table) *Explosion {
	x := &Explosion{batches: batches, folders: make(Folders, len(batches))}
	for i, b := range batches {
		if b.Child == nil || !b.Child.Set {
			continue
		}
		whole, from := b.Table.Clone(), b.relations.nested
		for j, c := range table(i).Columns {
			if b.Limits.Find(&whole, c.Name, j) < 0 {
				whole.Columns = append(whole.Columns, c)
			}
		}
		o := from.folders[i].opt
		o.UnknownFields, o.Log = IgnoreUnknown, slog.New(slog.DiscardHandler) // logged before, when the rows were checked
		x.folders[i] = NewFolder(from.folders[i].fields.names, whole, o)
		x.folders[i].table.HasConstraints = false // the parent's message is kept, and that is enough
		if b.sets.rows == nil {
			b.sets.rows = &Batch{}
		}
		b.emptyExploded(whole)
		x.explode = from.nesting.Exploder(x.folders.sameKey)
	}
	return x
}

func (b *Batch) emptyExploded(table schema.Table) {
	e := b.sets.rows
	e.Reset()
	e.Table, e.Limits, e.Time, e.Version, e.Child, e.relations.used = table, b.Limits, b.Time, -1, b.Child, true
}

// Explode makes the rows of the sets of a batch's rows, in the order in which they are written, and then the entries
// that sweep. The rows have all columns: a column that an element omits is NULL. of is the parent batch, or a
// [Resolver]'s version of it.
func (x *Explosion) Explode(parent int, of *Batch, rows []*Row) error {
	batches := x.batches
	columns := map[int]int{} // the columns that hold the sets, by table
	for i, b := range batches {
		if x.folders[i] == nil || Top(batches, i) != parent {
			continue
		}
		b.emptyExploded(b.sets.rows.Table)
		if b.Child.Parent == parent {
			columns[i] = of.Limits.Find(&of.Table, b.relations.nested.Column, 0)
		}
	}
	parentKey := make([][]byte, len(of.Table.Key))
	for _, r := range rows {
		for part, k := range of.Table.Key {
			parentKey[part] = of.Value(r, k)
		}
		for i := range batches {
			at, ok := columns[i]
			if !ok {
				continue
			}
			var set []byte
			goes := r.Deleted || r.Replaces
			if at >= 0 && !r.Deleted {
				set, goes = of.Value(r, at), goes || of.Initial(r, at)
			}
			if set == nil && !goes {
				continue
			}
			x.sweep(i, parentKey)
			if set == nil {
				continue
			}
			if err := x.explode(i, parentKey, set, func(c *TableChange) error { return x.add(c, r.Replaces) }); err != nil {
				return fmt.Errorf("table %q: the rows of a set cannot be read back: %w", batches[i].Table.Name, err)
			}
		}
	}
	return nil
}

// add adds a row of a set.
func (x *Explosion) add(c *TableChange, replaces bool) error {
	f, b := x.folders[c.Table], x.batches[c.Table].sets.rows
	c.Op = Replace // if a key occurs several times, the last row counts
	if err := f.check(b, &c.Change); err != nil {
		return err
	}
	f.merge(b, &c.Change, f.prepareRow(b, &c.Change), &origin{})
	r := &b.rows.all[f.now.row]
	if r.Replaces = replaces; !x.batches[c.Table].relations.nested.ByName {
		return nil
	}
	for i := range b.Table.Columns {
		if col := &b.Table.Columns[i]; !col.Key && !col.NotNull && !col.Generated && !b.Table.Refers(i) && col.Stamp == schema.NoStamp {
			if v := b.rows.cells.at(&r.cells, int32(i), len(b.Table.Columns)); *v == 0 {
				*v = b.arena.put(null)
			}
		}
	}
	return nil
}

// sweep adds the entries that delete the children of a row, in a table and the tables below it, unless they are among
// the batch's rows.
func (x *Explosion) sweep(table int, parentKey [][]byte) {
	for i := table; i < len(x.batches); i++ {
		if i != table && (x.folders[i] == nil || !x.isDescendant(i, table)) {
			continue
		}
		b := x.batches[i].sets.rows
		r := Row{Sweeps: true}
		for part, value := range parentKey {
			*b.rows.cells.at(&r.cells, int32(b.Child.Key[part]), len(b.Table.Columns)) = b.arena.put(value)
		}
		b.sets.sweeps = append(b.sets.sweeps, r)
	}
}

// isDescendant reports whether a table is a child of another, at any level.
func (x *Explosion) isDescendant(table, ancestor int) bool {
	for b := x.batches[table]; b.Child != nil; b = x.batches[b.Child.Parent] {
		if b.Child.Parent == ancestor {
			return true
		}
	}
	return false
}

// Sweeps returns the entries that sweep. Only the columns of the parent's key have values.
func (b *Batch) Sweeps() []*Row {
	return pointers(b.sets.sweeps)
}
