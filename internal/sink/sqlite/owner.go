package sqlite

import (
	"bytes"
	"fmt"

	lib "modernc.org/sqlite/lib"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about rows that name those that they belong to by a key that the database generates.

// An ownership finds what the rows of a writer name those that they belong to by.
type ownership struct {
	*schema.Ref
	find *stmt
	last []byte // the key of the row that was found last, as messages have it; nil: none was
	id   value
	// written are the keys of the rows of a set that are written, as the database has them.
	written map[string]bool
	stored  schema.Table
}

// prepareOwner prepares to find the rows that those of the writer belong to.
func (w *writer) prepareOwner() (err error) {
	ref := w.b.Table.Owner()
	if ref == nil {
		return nil
	}
	w.owner = &ownership{Ref: ref, stored: w.b.Table.Stored(), written: map[string]bool{}}
	w.owner.find, err = w.c.prepare(w.finder().Find(ref.To))
	return err
}

// knowOwner has the writer look for rows of another one by keys as that writes them: what it has seen
// of them itself may be of another type.
func (w *writer) knowOwner(above *writer) {
	for part, k := range w.owner.From {
		w.types[k] = above.types[above.b.Table.Key[part]]
	}
}

// finder writes conditions on keys as messages have them, with parameters from number 1 on. Keys are
// equal where the key's index says so; the column may have another collation.
func (w *writer) finder() *sink.Finder {
	return &sink.Finder{Table: quote, Quote: quote, Equal: func(_, column string, value int) string {
		k := w.b.Table.Key[value]
		c := &w.b.Table.Columns[k]
		if !c.Hidden {
			c = &w.table.Columns[w.cols[k]]
		}
		sql := fmt.Sprintf("%s = ?%d", quote(column), value+1)
		if c.Collation != "" {
			sql += " COLLATE " + c.Collation
		}
		return sql
	}}
}

// whereAbove is the condition that a row belongs to one above, whose key has n parts.
func (w *writer) whereAbove(n int) string {
	var above *schema.Lookup
	if w.owner != nil {
		above = w.owner.To
	}
	return " WHERE " + w.finder().Where(w.table.Name, w.b.Table.KeyColumns(), above, n)
}

// own notes what the row at hand names the one by that it belongs to, and reports whether that
// exists.
func (w *writer) own(r *fold.Row) (exists bool, err error) {
	o := w.owner
	if o == nil {
		return true, nil
	}
	var key []byte
	for _, k := range o.From {
		key = append(append(key, w.b.Value(r, k)...), 0)
	}
	if !bytes.Equal(key, o.last) {
		o.last, o.id = nil, value{kind: lib.SQLITE_NULL}
		for i, k := range o.From {
			v := w.converted(w.b.Value(r, k), k)
			if err := o.find.bindValue(i+1, &v); err != nil {
				return false, err
			}
		}
		defer o.find.reset()
		found, err := o.find.step()
		if err != nil {
			return false, err
		}
		if found {
			o.id = o.find.value(0)
		}
		o.last = key
	}
	w.vals[o.Column] = o.id
	return o.id.kind != lib.SQLITE_NULL, nil
}

// owns notes that the row at hand is written.
func (w *writer) owns() {
	if w.owner != nil && w.swept != nil {
		w.owner.written[string(w.storedKey().folded(&w.owner.stored))] = true
	}
}

// storedKey is the key of the row at hand as the database has it.
func (w *writer) storedKey() key {
	k := make(key, len(w.key))
	for i, column := range w.key {
		k[i] = w.vals[column]
	}
	return k
}

// has reports whether the batch has a row of a set by its key as the database has it.
func (w *writer) has(k key) bool {
	if w.owner != nil {
		return w.owner.written[string(k.folded(&w.owner.stored))]
	}
	return w.b.Has(k.folded(&w.b.Table))
}

// forgetOwners has what was found before a piece is written found again.
func (w *writer) forgetOwners() {
	if w.owner != nil {
		w.owner.last = nil
		clear(w.owner.written)
	}
}

// overwrite makes the row at hand one that has nothing of what it was but the key that the database
// generated.
func (w *writer) overwrite() error {
	w.set = w.set[:0]
	for i := range w.vals {
		c := &w.b.Table.Columns[i]
		if !w.writable(i) || c.Key && w.holds(i) {
			continue
		}
		if v := &w.vals[i]; c.Stamp == schema.NoStamp && (v.kind == 0 || v.late) {
			if err := w.initial(i); err != nil {
				return err
			}
		}
		w.set = append(w.set, i)
	}
	for _, i := range w.stamps {
		w.vals[i] = w.now
	}
	if len(w.set) == 0 {
		w.sel.reset()
		return nil
	}
	return w.update()
}
