package sqlite

import (
	"strings"

	"github.com/weirsync/weir/internal/fold"
)

// This file is about tables whose rows belong to rows of others.

// A lowerTable is one whose rows belong to those of a writer, at any level.
type lowerTable struct {
	w   *writer
	key []int // the columns of its batch that have the key of the row above, as messages have it
	del *stmt
}

// nest finds the tables below each, and prepares to write them.
func (p *pieces) nest() error {
	for _, w := range p.writers {
		if w == nil {
			continue
		}
		if err := w.prepareRefs(func(table int) *writer { return p.writers[table] }); err != nil {
			return err
		}
	}
	for i, w := range p.writers {
		if w == nil || w.b.Child == nil {
			continue
		}
		for of := w.b.Child; of != nil; of = p.batches[of.Parent].Child {
			above := p.writers[of.Parent]
			n := len(above.b.Table.Key)
			del, err := p.c.prepare("DELETE FROM " + quote(w.table.Name) + w.whereAbove(n))
			if err != nil {
				return err
			}
			above.below = append(above.below, lowerTable{w, w.b.Child.Key[:n], del})
		}
		if !w.b.Child.Set {
			continue
		}
		names := make([]string, len(w.key))
		for part, k := range w.key {
			names[part] = w.names[k]
		}
		top := p.writers[fold.Top(p.batches, i)]
		top.above, w.swept = true, w.b.Child.Key[:len(top.b.Table.Key)]
		var err error
		if w.members, err = p.c.prepare("SELECT " + strings.Join(names, ", ") + " FROM " + quote(w.table.Name) + w.whereAbove(len(w.swept))); err != nil {
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
	if err := fold.Explode(p.batches, table, w.b, w.written); err != nil {
		return err
	}
	for i := table + 1; i < len(rows); i++ {
		if below := p.writers[i]; below != nil && below.swept != nil && fold.Top(p.batches, i) == table {
			below.b = p.batches[i].Exploded()
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
		for _, key := range gone {
			for i := range key {
				if err := w.del.bindValue(i+1, &key[i]); err != nil {
					return err
				}
			}
			if err := w.del.run(); err != nil {
				return p.refused(err, table)
			}
			w.res.Deleted += int64(min(1, w.c.changes()))
		}
	}
	return nil
}

func (p *pieces) refused(err error, table int) error {
	if isRefusal(err) {
		return p.refusal(err, table, -1)
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

// clear deletes all rows that belong to the row at hand.
func (w *writer) clear(r *fold.Row) error {
	for i := len(w.below) - 1; i >= 0; i-- {
		below := &w.below[i]
		for part, k := range below.key {
			v := below.w.converted(w.b.Value(r, w.b.Table.Key[part]), k)
			if err := below.del.bindValue(part+1, &v); err != nil {
				return err
			}
		}
		if err := below.del.run(); err != nil {
			return err
		}
		below.w.res.Deleted += int64(w.c.changes())
	}
	return nil
}
