package sqlite

import (
	"slices"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
)

// nested relates the rows of a table to their children and parents.
type nested struct {
	below   []*lowerTable // whose rows belong to the table's, at any level, parents first
	follows bool          // a delete of a row above deletes its rows, each by its version
	members *lowerTable   // the table itself, if its rows are values of others, below the table of these
}

// A lowerTable is one whose rows belong to rows of a writer's table.
type lowerTable struct {
	w   *writer
	key []int // the columns of its batch that have the key of the row above, as messages have it
	sel *stmt // their keys, as messages have them, and then as the database has them
	// top is the writer whose rows have these as values: w if they are changes of their own.
	top *writer
}

// nest finds the tables below each, and decides how each is written.
func (p *pieces) nest() error {
	explodes := make([]bool, len(p.writers))
	for i, w := range p.used() {
		var err error
		if w.references, err = p.c.prepareReferences(w.layout, func(table int) *layout { return p.writers[table].layout }); err != nil {
			return err
		}
		if child := w.layout.b.Child; child != nil {
			if err := p.nestBelow(i); err != nil {
				return err
			}
			explodes[fold.Top(p.batches, i)] = explodes[fold.Top(p.batches, i)] || child.Set
		}
	}
	for i, w := range p.used() {
		w.decide(explodes[i])
	}
	return nil
}

// nestBelow prepares to find a table's rows by the rows that they belong to.
func (p *pieces) nestBelow(table int) error {
	w, top := p.writers[table], p.writers[fold.Top(p.batches, table)]
	l, child := w.layout, w.layout.b.Child
	if parent := p.writers[child.Parent].versions; parent != nil && w.versions != nil {
		w.nested.follows = true
		w.versions.SetParent(parent)
	}
	for of := child; of != nil; of = p.batches[of.Parent].Child {
		above := p.writers[of.Parent]
		n := len(above.layout.b.Table.Key)
		sel, err := p.c.prepare("SELECT " + l.messageKeySQL() + ", " + l.keySQL() + " FROM " + quote(l.table.Name) + l.whereOf(l.finder(1), n))
		if err != nil {
			return err
		}
		below := &lowerTable{w: w, key: child.Key[:n], sel: sel, top: top}
		above.nested.below = append(above.nested.below, below)
		if child.Set && above == top {
			w.nested.members = below
		}
	}
	return nil
}

// explode makes the rows that are values of those of a table that were written, and has them be the ones that are to be
// written of the tables below.
func (p *pieces) explode(table int, rows [][]*fold.Row) error {
	w := p.writers[table]
	if w == nil || !w.way.explodes {
		return nil
	}
	if err := p.explosion.Explode(table, w.layout.b, w.piece.written); err != nil {
		return err
	}
	for i := table + 1; i < len(rows); i++ {
		if below := p.writers[i]; below != nil && below.nested.members != nil && fold.Top(p.batches, i) == table {
			rows[i] = below.layout.b.Sorted()
		}
	}
	return nil
}

// sweep deletes the rows of sets that are no longer in them.
func (p *pieces) sweep(table int) error {
	w := p.writers[table]
	if w.nested.members == nil {
		return nil
	}
	p.c.bound.release()
	for _, r := range w.layout.b.Sweeps() {
		gone, err := w.missing(r)
		if err != nil {
			return err
		}
		if err := w.deleteAll(gone); err != nil {
			if isRefusal(err) {
				return p.refusal(err, table, -1, false)
			}
			return err
		}
	}
	return nil
}

// deleteAll deletes and counts the rows of keys as the database has them.
func (w *writer) deleteAll(keys []key) error {
	for _, key := range keys {
		if err := w.statements.del.bindValues(key); err != nil {
			return err
		}
		if err := w.statements.del.run(); err != nil {
			return err
		}
		w.res.Deleted += int64(min(1, w.c.changes()))
	}
	return nil
}

// missing returns the keys of the rows of a set that are not among those of the batch.
func (w *writer) missing(r *fold.Row) (gone []key, err error) {
	t := &w.layout.b.Table
	all, err := w.nested.members.of(r, w.layout.b, w.nested.members.key)
	for _, k := range all {
		if !w.layout.b.Has(k.named.folded(t)) {
			gone = append(gone, k.stored)
		}
	}
	return gone, err
}

// deleteBelow deletes the rows that belong to a row, but those that the piece writes or sweeps itself.
func (w *writer) deleteBelow(r *fold.Row) error {
	for _, below := range slices.Backward(w.nested.below) {
		if below.w.nested.follows || below.top == w && !r.Deleted {
			continue
		}
		top := &below.top.layout.b.Table
		all, err := w.keysBelow(below, r)
		if err != nil {
			return err
		}
		var gone []key
		for _, k := range all {
			if below.top == w || !below.top.piece.has(k.named[:len(top.Key)].folded(top)) {
				gone = append(gone, k.stored)
			}
		}
		if err := below.w.deleteAll(gone); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the piece has a row of a key as the fold has it.
func (p *piece) has(key []byte) bool {
	if p.keys == nil {
		p.keys = make(map[string]bool, len(p.rows))
		for _, r := range p.rows {
			p.keys[string(r.Key)] = true
		}
	}
	return p.keys[string(key)]
}

// keysBelow returns the keys of the rows of a table that belong to a row.
func (w *writer) keysBelow(below *lowerTable, r *fold.Row) ([]rowKey, error) {
	w.c.bound.release()
	return below.of(r, w.layout.b, w.layout.b.Table.Key)
}

// A rowKey is the key of a row as messages have it, and as the database has it.
type rowKey struct{ named, stored key }

// of returns the keys of the rows that belong to one above, whose key is in columns of a row of a batch.
func (t *lowerTable) of(r *fold.Row, b *fold.Batch, columns []int) ([]rowKey, error) {
	l := t.w.layout
	args, n := make([]value, len(t.key)), len(l.b.Table.Key)
	for part, k := range t.key {
		args[part] = convert(b.Value(r, columns[part]), l.types[k])
	}
	found, err := t.sel.keys(args, n+len(l.key))
	keys := make([]rowKey, len(found))
	for i, k := range found {
		keys[i] = rowKey{k[:n], k[n:]}
	}
	return keys, err
}

// followers returns the stored rows of a table that go with a parent, at any level, which one of the given rows
// deletes.
func (p *pieces) followers(table int, rows [][]*fold.Row) ([]*fold.Row, error) {
	w := p.writers[table]
	if w == nil || !w.nested.follows {
		return nil, nil
	}
	var taking *fold.Cascade
	for of := w.layout.b.Child; of != nil; of = p.batches[of.Parent].Child {
		above := p.writers[of.Parent]
		for _, r := range rows[of.Parent] {
			v := above.layout.b.NewestDelete(r)
			if v == nil {
				continue
			}
			if taking == nil {
				taking = w.versions.Cascade(rows[table])
			}
			below := above.nested.below[slices.IndexFunc(above.nested.below, func(b *lowerTable) bool { return b.w == w })]
			keys, err := above.keysBelow(below, r)
			if err != nil {
				return nil, err
			}
			for _, k := range keys {
				values := make([][]byte, len(w.layout.b.Table.Key))
				for i := range values {
					if v := &k.named[i]; v.kind != lib.SQLITE_NULL {
						values[i] = v.json()
					}
				}
				taking.Add(values, v)
			}
		}
	}
	if taking == nil {
		return nil, nil
	}
	return taking.Rows(), nil
}
