package sqlite

import (
	"slices"

	"github.com/weirsync/weir/internal/fold"
)

// nested relates a table's rows to their children and parents.
type nested struct {
	descendants []*childTable // descendants at any level, parents first
	members     *childTable   // the table itself as a child, if its rows are values in rows of its parent
}

// A childTable is a table whose rows belong to rows of a writer's table.
type childTable struct {
	w   *writer
	key []int // its batch's columns with the parent's key as in messages
	sel *stmt // selects their keys as in messages, and then as in the database
	// top is the writer whose rows have these as values; w itself if they are separate changes.
	top *writer
}

// nest finds each table's descendants, and decides how each is written.
func (p *pieces) nest() error {
	explodes := make([]bool, len(p.writers))
	for i, w := range p.used() {
		var err error
		if w.references, err = p.c.prepareReferences(w.layout, func(table int) *layout { return p.writers[table].layout }); err != nil {
			return err
		}
		if child := w.layout.b.Child; child != nil {
			if err := p.nestTable(i); err != nil {
				return err
			}
			explodes[fold.Top(p.batches, i)] = explodes[fold.Top(p.batches, i)] || child.Set
		}
	}
	for i, w := range p.used() {
		w.decide(p.tables[i], explodes[i])
	}
	return nil
}

// nestTable prepares to find a table's rows by their parents.
func (p *pieces) nestTable(table int) error {
	w, top := p.writers[table], p.writers[fold.Top(p.batches, table)]
	l, child := w.layout, w.layout.b.Child
	for of := child; of != nil; of = p.batches[of.Parent].Child {
		ancestor := p.writers[of.Parent]
		n := len(ancestor.layout.b.Table.Key)
		sel, err := p.c.prepare("SELECT " + l.messageKeySQL() + ", " + l.keySQL() + " FROM " + quote(l.table.Name) + l.whereOf(l.finder(), n))
		if err != nil {
			return err
		}
		descendant := &childTable{w: w, key: child.Key[:n], sel: sel, top: top}
		ancestor.nested.descendants = append(ancestor.nested.descendants, descendant)
		if child.Set && ancestor == top {
			w.nested.members = descendant
		}
	}
	return nil
}

// explode creates the rows that are values in the written rows of a table, and makes them the rows to write in the
// child tables.
func (p *pieces) explode(table int, rows [][]*fold.Row) error {
	w := p.writers[table]
	if w == nil || !w.explodes {
		return nil
	}
	if err := p.explosion.Explode(table, w.layout.b, w.piece.written); err != nil {
		return err
	}
	for i := table + 1; i < len(rows); i++ {
		if descendant := p.writers[i]; descendant != nil && descendant.nested.members != nil && fold.Top(p.batches, i) == table {
			rows[i] = descendant.layout.b.Sorted()
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
			return p.refusal(err, table, false)
		}
	}
	return nil
}

// deleteAll deletes and counts rows, by their keys as in the database.
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

// missing returns the keys of a set's rows that are not in the batch.
func (w *writer) missing(r *fold.Row) (gone []key, err error) {
	t := &w.layout.b.Table
	all, err := w.nested.members.keysOf(r, w.layout.b, w.nested.members.key)
	for _, k := range all {
		if !w.layout.b.Has(k.named.folded(t)) {
			gone = append(gone, k.stored)
		}
	}
	return gone, err
}

// deleteDescendants deletes the descendants of a row, except those that the piece writes or sweeps itself.
func (w *writer) deleteDescendants(r *fold.Row) error {
	for _, descendant := range slices.Backward(w.nested.descendants) {
		if descendant.top == w && !r.Deleted {
			continue
		}
		top := &descendant.top.layout.b.Table
		w.c.bound.release()
		all, err := descendant.keysOf(r, w.layout.b, w.layout.b.Table.Key)
		if err != nil {
			return err
		}
		var gone []key
		for _, k := range all {
			if descendant.top == w || !descendant.top.piece.has(k.named[:len(top.Key)].folded(top)) {
				gone = append(gone, k.stored)
			}
		}
		if err := descendant.w.deleteAll(gone); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether the piece has a row with a key, as in the fold.
func (p *piece) has(key []byte) bool {
	if p.keys == nil {
		p.keys = make(map[string]bool, len(p.rows))
		for _, r := range p.rows {
			p.keys[string(r.Key)] = true
		}
	}
	return p.keys[string(key)]
}

// A rowKey is a row's key as in messages, and as in the database.
type rowKey struct{ named, stored key }

// keysOf returns the keys of the rows that belong to a parent. columns of the row r have the parent's key.
func (t *childTable) keysOf(r *fold.Row, b *fold.Batch, columns []int) ([]rowKey, error) {
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
