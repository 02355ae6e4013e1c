package fold

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// A Nesting says which tables have rows that belong to rows of others. Several goroutines may
// use it.
type Nesting interface {
	// Parent returns the table whose rows those of a table belong to, and the columns that have
	// the key of such a row, in the order of its key; -1 for none.
	Parent(table int) (parent int, key []string)
	// Set reports whether the rows of a table are one value of the row that they belong to, and
	// no changes of their own.
	Set(table int) bool
	// SetColumn returns the column of its parent's batch that has such a value; "" where the value
	// of the table above holds it.
	SetColumn(table int) string
	// ByName reports whether a table has fields by their names, so that a whole row does not name
	// all that it omits.
	ByName(table int) bool
	// Exploder returns what makes the rows of such values. same returns one text for all spellings
	// of the key of a change.
	Exploder(same func(table int, c *Change) string) Exploder
}

// An Exploder calls each with a change of each row of a set, and of the sets in it, parents first.
// above is the key of the row that has the set, as raw values.
type Exploder func(table int, above [][]byte, set []byte, each func(*TableChange) error) error

// A Child says whose rows those of a batch belong to.
type Child struct {
	Parent int   // the batch of the rows above
	Key    []int // the columns of Table that have the key of such a row, in the order of its table's
	// Set tells that the rows are values of the rows above: [Explode] makes them when these are
	// written, and the batch has none.
	Set bool
}

// nested is what a folder of a table of several knows of the others.
type nested struct {
	Nesting
	folders Folders
	table   int
	parent  int
	newer   string        // a table below, whose rows have versions and this one's none; "" is none
	columns map[int32]int // the tables whose rows are values of this one's, by the number of their field
	keys    []int32       // the fields of the key of such a row
	explode Exploder
}

// Nest has the folders keep tables whose rows belong to rows of others.
func (f Folders) Nest(n Nesting) error {
	for i, folder := range f {
		parent, _ := n.Parent(i)
		folder.rules.parent, folder.rules.children = -1, nil
		folder.nested = &nested{Nesting: n, folders: f, table: i, parent: parent, columns: map[int32]int{}}
		if parent < 0 {
			continue
		}
		above := f[parent]
		if !n.Set(i) {
			folder.rules.parent = parent
			above.rules.children = append(above.rules.children, i)
			for of := parent; of >= 0 && folder.opt.Version != "" && f[of].opt.Version == ""; of = f[of].nested.parent {
				f[of].nested.newer = folder.table.Name
			}
		}
		if n.Set(i) && len(folder.opt.Merge) > 0 {
			return fmt.Errorf("table %q: its rows are a set that each message replaces, and have nothing to merge with: leave one of set: replace and merge out", folder.table.Name)
		}
		if n.SetColumn(i) == "" {
			continue
		}
		if above.opt.FillOnly {
			return fmt.Errorf("table %q: its rows are a set that each message replaces, and %q is filled only: leave one of set: replace and fill_only out", folder.table.Name, above.table.Name)
		}
		above.nested.columns[folder.fields.names.Number(n.SetColumn(i))] = i
		if above.nested.explode == nil {
			above.nested.explode = n.Exploder(f.sameKey)
			for _, k := range above.opt.Key {
				above.nested.keys = append(above.nested.keys, above.fields.names.Number(k))
			}
		}
	}
	f.refer()
	return nil
}

// sameKey is the key of an element of a set. The folder comes to know nothing by it: an element
// that another one of its key makes void is not judged.
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
		return "" // the last of these is judged
	}
	of.makeKey(c.Fields)
	return string(of.now.key)
}

// hasSets tells that rows of other tables are values of the table's.
func (f *Folder) hasSets() bool { return f.nested != nil && f.nested.explode != nil }

// eachOfSets calls each with the changes of the rows that are values of a row.
func (f *Folder) eachOfSets(c *Change, each func(*TableChange) error) error {
	if c.Op == Delete {
		return nil
	}
	var above [][]byte
	for i := range c.Fields {
		child, ok := f.nested.columns[c.Fields[i].Name]
		if !ok || c.Fields[i].Kind == feed.Null {
			continue
		}
		if above == nil {
			above = make([][]byte, len(f.nested.keys))
			for j := range c.Fields {
				if part := slices.Index(f.nested.keys, c.Fields[j].Name); part >= 0 {
					above[part] = c.Fields[j].Value
				}
			}
		}
		if err := f.nested.explode(child, above, c.Fields[i].Value, each); err != nil {
			return err
		}
	}
	return nil
}

// setNeeds are what the rows need that are values of the rows of one message: they are made when those are written.
type setNeeds struct {
	wider []wider
	bytes int // that [Explosion.Explode] takes for the rows at most
}

// A wider is a value for which a column has to be widened.
type wider struct {
	folder *Folder
	col    int32
	kind   feed.Kind
	value  []byte
}

// judgeSets decides whether the tables of the rows that are values of a change's row take them, and notes what they
// need. The table that does not is returned.
func (f Folders) judgeSets(s *Set, c *TableChange) (table int, err error) {
	err = f[c.Table].eachOfSets(&c.Change, func(e *TableChange) error {
		table = e.Table
		of := f[table]
		to := of.extent()
		if err := of.judge(s.Batches[table], &e.Change); err != nil {
			return err
		}
		c.Nulled = append(c.Nulled, e.Nulled...)
		if of.extent() != to {
			s.before = append(s.before, undo{of, to})
		}
		of.eachUnheld(&e.Change, func(v *feed.Field, col int32) {
			s.needs.wider = append(s.needs.wider, wider{of, col, v.Kind, bytes.Clone(v.Value)})
		})
		s.needs.bytes += 2*perRow + perIndexed + 4*len(of.table.Columns) + len(e.Text)
		return nil
	})
	return table, err
}

// meet makes room in the set, and in the tables' columns, for the rows that were judged.
func (n *setNeeds) meet(s *Set) {
	for _, w := range n.wider {
		_ = w.folder.table.Columns[w.col].Admit(w.value, w.kind) // which takes everything
	}
	s.explodes += n.bytes
}

// keyHasTypes tells that the table can be made, if it is missing: while it has had no rows, nothing
// may tell the types of its key.
func (f *Folder) keyHasTypes() bool {
	return f.opt.Limits.Untyped || !slices.ContainsFunc(f.table.Columns, func(c schema.Column) bool { return c.Key && c.New && c.Type == schema.Any })
}

// Used reports whether the batch, or one whose rows its own belong to, has rows: its table is
// needed, if it can be made.
func (b *Batch) Used() bool { return b.relations.used || len(b.rows.all) > 0 }

// sealChild tells a batch whose rows its own belong to.
func (f *Folder) sealChild(b *Batch) {
	if b.relations.nested = f.nested; f.nested == nil || f.nested.parent < 0 {
		return
	}
	_, names := f.nested.Parent(f.nested.table)
	b.Child = &Child{Parent: f.nested.parent, Set: f.nested.Set(f.nested.table)}
	for _, name := range names {
		b.Child.Key = append(b.Child.Key, f.opt.Limits.Find(&b.Table, name, 0))
	}
}

// Top returns the table whose rows have those of a table of sets as values, itself where it is none.
func Top(batches []*Batch, table int) int {
	for b := batches[table]; b.Child != nil && b.Child.Set; b = batches[table] {
		table = b.Child.Parent
	}
	return table
}

// Exploded is the batch of the rows of a child's table that the last [Explosion.Explode] made.
func (b *Batch) Exploded() *Batch { return b.sets.rows }

// Has reports whether the batch has a row of a key.
func (b *Batch) Has(key []byte) bool { return b.rows.find(key) != nil }

// Above returns the row that one of the batch belongs to, of the batch of these; nil where that has
// none.
func (b *Batch) Above(r *Row, above *Batch) *Row {
	return above.rows.find(AppendKey(nil, &above.Table, b.keyAbove(r)))
}

// setRows are the rows of a table that are values of others', as an [Explosion] makes them.
type setRows struct {
	rows   *Batch // nil before the first time
	sweeps []Row  // in the batch of the rows
}

func (s *setRows) reset() {
	if s.rows != nil {
		s.rows.Reset()
	}
	s.sweeps = s.sweeps[:0]
}

// An Explosion makes the rows of the tables whose rows are values of others', in [Batch.Exploded] of
// their batches.
type Explosion struct {
	batches []*Batch
	folders []*Folder // by table, nil where the last Explode made none of its rows
	explode Exploder
}

// NewExplosion returns one for the tables as the database has them: the rows are whole, also in
// columns that the run does not know because others have added them.
func NewExplosion(batches []*Batch, table func(i int) *schema.Table) *Explosion {
	for i, b := range batches {
		if b.Child == nil || !b.Child.Set {
			continue
		}
		whole := b.Table.Clone()
		for j, c := range table(i).Columns {
			if b.Limits.Find(&whole, c.Name, j) < 0 {
				whole.Columns = append(whole.Columns, c)
			}
		}
		if b.sets.rows == nil {
			b.sets.rows = &Batch{}
		}
		b.emptyExploded(whole)
	}
	return &Explosion{batches: batches}
}

func (b *Batch) emptyExploded(table schema.Table) {
	e := b.sets.rows
	e.Reset()
	e.Table, e.Limits, e.Time, e.Version, e.Child, e.relations.used = table, b.Limits, b.Time, -1, b.Child, true
}

// Explode makes the rows that are values of those of a batch, as they are written. They are
// whole: a column that an element omits is NULL. Behind them are those that sweep. of is the batch
// of the rows: the parent-th, or what a [Resolver] makes of it.
func (x *Explosion) Explode(parent int, of *Batch, rows []*Row) error {
	batches := x.batches
	x.folders, x.explode = make([]*Folder, len(batches)), nil
	columns := map[int]int{} // of the rows, by the table whose rows they have
	for i, b := range batches {
		if b.Child == nil || !b.Child.Set || b.Child.Parent != parent && x.folders[b.Child.Parent] == nil {
			continue
		}
		x.begin(i)
		if b.Child.Parent == parent {
			columns[i] = of.Limits.Find(&of.Table, b.relations.nested.SetColumn(i), 0)
			if x.explode == nil {
				x.explode = b.relations.nested.Exploder(func(table int, c *Change) string { return Folders(x.folders).sameKey(table, c) })
			}
		}
	}
	if x.explode == nil {
		return nil
	}
	above := make([][]byte, len(of.Table.Key))
	for _, r := range rows {
		for part, k := range of.Table.Key {
			above[part] = of.Value(r, k)
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
			x.sweep(i, above)
			if set == nil {
				continue
			}
			if err := x.explode(i, above, set, func(c *TableChange) error { return x.add(c, r.Replaces) }); err != nil {
				return fmt.Errorf("table %q: the rows of a set cannot be read back: %w", batches[i].Table.Name, err)
			}
		}
	}
	return nil
}

// begin starts with the rows of a table.
func (x *Explosion) begin(table int) {
	b := x.batches[table]
	e := b.sets.rows
	b.emptyExploded(e.Table)
	o := b.relations.nested.folders[table].opt
	o.UnknownFields, o.Log = IgnoreUnknown, slog.New(slog.DiscardHandler) // that was told when they were judged
	f := NewFolder(b.relations.nested.folders[table].fields.names, e.Table, o)
	f.table.HasConstraints = false // what made the row above is kept
	x.folders[table] = f
}

// add adds a row.
func (x *Explosion) add(c *TableChange, replaces bool) error {
	f, b := x.folders[c.Table], x.batches[c.Table].sets.rows
	c.Op = Replace // of one key the last counts, as a whole
	if err := f.judge(b, &c.Change); err != nil {
		return err
	}
	f.merge(b, &c.Change, f.place(b, &c.Change), &origin{})
	r := &b.rows.all[f.now.row]
	if r.Replaces = replaces; !x.batches[c.Table].relations.nested.ByName(c.Table) {
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

// sweep has the rows go that belong to a row and are not among those of the batch, of a table and
// those below it.
func (x *Explosion) sweep(table int, above [][]byte) {
	for i := table; i < len(x.batches); i++ {
		if i != table && (x.folders[i] == nil || !x.below(i, table)) {
			continue
		}
		b := x.batches[i].sets.rows
		r := Row{Sweeps: true}
		for part, value := range above {
			*b.rows.cells.at(&r.cells, int32(b.Child.Key[part]), len(b.Table.Columns)) = b.arena.put(value)
		}
		b.sets.sweeps = append(b.sets.sweeps, r)
	}
}

// below tells that the rows of a table belong to those of another, at any level.
func (x *Explosion) below(table, above int) bool {
	for b := x.batches[table]; b.Child != nil; b = x.batches[b.Child.Parent] {
		if b.Child.Parent == above {
			return true
		}
	}
	return false
}

// Sweeps returns the rows that sweep; of their values, those of the columns of the key above
// alone are set.
func (b *Batch) Sweeps() []*Row {
	return pointers(b.sets.sweeps)
}
