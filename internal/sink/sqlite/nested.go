package sqlite

import (
	"slices"
	"strings"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
)

// This file is about tables whose rows belong to rows of others.

// A lowerTable is one whose rows belong to those of a writer, at any level.
type lowerTable struct {
	w   *writer
	key []int // the columns of its batch that have the key of the row above, as messages have it
	sel *stmt // their keys, as messages have them, and then as the database has them
	// top is the writer whose rows have these as values: w where they are changes of their own.
	top *writer
}

// nest finds the tables below each, and prepares to write them.
func (p *pieces) nest() error {
	for _, w := range p.writers {
		if w == nil {
			continue
		}
		if w.owner != nil {
			w.knowOwner(p.writers[w.b.Child.Parent])
		}
		if err := w.prepareRefs(func(table int) *writer { return p.writers[table] }); err != nil {
			return err
		}
	}
	for i, w := range p.writers {
		if w == nil || w.b.Child == nil {
			continue
		}
		if above := p.writers[w.b.Child.Parent].versions; above != nil && w.versions != nil {
			w.follows = true
			w.versions.resolver.Below(above.resolver)
		}
		for of := w.b.Child; of != nil; of = p.batches[of.Parent].Child {
			above := p.writers[of.Parent]
			n := len(above.b.Table.Key)
			below := lowerTable{w: w, key: w.b.Child.Key[:n], top: p.writers[fold.Top(p.batches, i)]}
			var err error
			if below.sel, err = p.c.prepare("SELECT " + w.keyParts() + ", " + w.storedNames() + " FROM " + quote(w.table.Name) + w.whereAbove(n)); err != nil {
				return err
			}
			above.below = append(above.below, below)
		}
		if !w.b.Child.Set {
			continue
		}
		top := p.writers[fold.Top(p.batches, i)]
		top.above, w.swept = true, w.b.Child.Key[:len(top.b.Table.Key)]
		var err error
		if w.members, err = p.c.prepare("SELECT " + w.storedNames() + " FROM " + quote(w.table.Name) + w.whereAbove(len(w.swept))); err != nil {
			return err
		}
	}
	return nil
}

// explode makes the rows that are values of those of a table that were written, and has them be
// the ones that are to be written of the tables below.
func (p *pieces) explode(table int, rows [][]*fold.Row) error {
	w := p.writers[table]
	if w == nil || !w.above {
		return nil
	}
	if err := p.explosion.Explode(table, w.b, w.written); err != nil {
		return err
	}
	for i := table + 1; i < len(rows); i++ {
		if below := p.writers[i]; below != nil && below.swept != nil && fold.Top(p.batches, i) == table {
			rows[i] = below.b.Sorted()
		}
	}
	return nil
}

// sweep deletes the rows of sets that are no longer in them.
func (p *pieces) sweep(table int) error {
	w := p.writers[table]
	if w == nil || w.swept == nil {
		return nil
	}
	p.c.release()
	for _, r := range w.b.Sweeps() {
		gone, err := w.missing(r)
		if err != nil {
			return err
		}
		if err := w.deleteAll(gone); err != nil {
			return p.refused(err, table)
		}
	}
	return nil
}

// deleteAll deletes and counts the rows of keys as the database has them.
func (w *writer) deleteAll(keys []key) error {
	for _, key := range keys {
		for i := range key {
			if err := w.del.bindValue(i+1, &key[i]); err != nil {
				return err
			}
		}
		if err := w.del.run(); err != nil {
			return err
		}
		w.res.Deleted += int64(min(1, w.c.changes()))
	}
	return nil
}

func (p *pieces) refused(err error, table int) error {
	if isRefusal(err) {
		return p.refusal(err, table, -1, false)
	}
	return err
}

// missing returns the keys of the rows that belong to a row and are not among those of the batch.
func (w *writer) missing(r *fold.Row) (gone []key, err error) {
	defer w.members.reset()
	for i, k := range w.swept {
		v := w.converted(w.b.Value(r, k), k)
		if err := w.members.bindValue(i+1, &v); err != nil {
			return nil, err
		}
	}
	for {
		more, err := w.members.step()
		if err != nil || !more {
			return gone, err
		}
		found := make(key, len(w.key))
		for i := range found {
			found[i] = w.members.value(i)
		}
		if !w.has(found) {
			gone = append(gone, found)
		}
	}
}

// clear deletes the rows that belong to the row at hand, but those that the piece at hand writes or sweeps itself.
func (w *writer) clear(r *fold.Row) error {
	for i := len(w.below) - 1; i >= 0; i-- {
		below := &w.below[i]
		if below.w.follows || below.top == w && !r.Deleted {
			continue
		}
		top, n := &below.top.b.Table, len(below.w.b.Table.Key)
		var gone []key
		err := w.eachBelow(below, r, func(k key) {
			if below.top == w || !below.top.writes(k[:len(top.Key)].folded(top)) {
				gone = append(gone, k[n:])
			}
		})
		if err == nil {
			err = below.w.deleteAll(gone)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writes reports whether the piece at hand has a row of a key, as the fold has it.
func (w *writer) writes(key []byte) bool {
	if w.inPiece == nil {
		w.inPiece = make(map[string]bool, len(w.piece))
		for _, r := range w.piece {
			w.inPiece[string(r.Key)] = true
		}
	}
	return w.inPiece[string(key)]
}

// bindKey gives a statement for the rows below the key of a row.
func (w *writer) bindKey(s *stmt, below *lowerTable, r *fold.Row) error {
	for part, k := range below.key {
		v := below.w.converted(w.b.Value(r, w.b.Table.Key[part]), k)
		if err := s.bindValue(part+1, &v); err != nil {
			return err
		}
	}
	return nil
}

// storedNames is SQL for the key of a row as the database has it.
func (w *writer) storedNames() string {
	names := make([]string, len(w.key))
	for part, k := range w.key {
		names[part] = w.names[k]
	}
	return strings.Join(names, ", ")
}

// keyParts is SQL for the key of a row as messages have it.
func (w *writer) keyParts() string {
	var hidden []string
	if w.owner != nil {
		hidden = w.finder().Parts(w.owner.To, quote(w.table.Name)+"."+w.names[w.owner.Column])
	}
	parts := make([]string, len(w.b.Table.Key))
	for i, k := range w.b.Table.Key {
		if parts[i] = w.names[k]; w.b.Table.Columns[k].Hidden {
			parts[i] = hidden[slices.Index(w.owner.From, k)]
		}
	}
	return strings.Join(parts, ", ")
}

// taken are the rows that the database has of a table and that deletes of rows above, which are among
// those given, are deletes of too.
func (p *pieces) taken(table int, rows [][]*fold.Row) ([]*fold.Row, error) {
	w := p.writers[table]
	if w == nil || !w.follows {
		return nil, nil
	}
	var taking *fold.Taking
	for of := w.b.Child; of != nil; of = p.batches[of.Parent].Child {
		above := p.writers[of.Parent]
		for _, r := range rows[of.Parent] {
			v := above.b.Takes(r)
			if v == nil {
				continue
			}
			if taking == nil {
				taking = w.versions.resolver.Taking(rows[table])
			}
			below := &above.below[slices.IndexFunc(above.below, func(b lowerTable) bool { return b.w == w })]
			err := above.eachBelow(below, r, func(k key) {
				values := make([][]byte, len(w.b.Table.Key))
				for i := range values {
					if v := &k[i]; v.kind != lib.SQLITE_NULL {
						values[i] = v.json()
					}
				}
				taking.Add(values, v)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	if taking == nil {
		return nil, nil
	}
	return taking.Rows(), nil
}

// eachBelow calls each with the keys of the rows of a table that belong to a row, as messages have them and then
// as the database has them.
func (w *writer) eachBelow(below *lowerTable, r *fold.Row, each func(k key)) error {
	w.c.release()
	defer below.sel.reset()
	if err := w.bindKey(below.sel, below, r); err != nil {
		return err
	}
	for {
		more, err := below.sel.step()
		if err != nil || !more {
			return err
		}
		k := make(key, len(below.w.b.Table.Key)+len(below.w.key))
		for i := range k {
			k[i] = below.sel.value(i)
		}
		each(k)
	}
}
