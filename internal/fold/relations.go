package fold

import (
	"bytes"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// This file is about child rows that are changes of their own, and are deleted with their parents.

// relations link a batch's rows to rows of other tables.
type relations struct {
	links   []link  // by row: the parents of child rows that are changes of their own
	firsts  []int32 // by row of the parent table: its first child, from 1
	nested  *nested // of a child table
	used    bool    // see [Batch.Used]
	deletes bool    // a message deletes a row of a table that others refer to
}

// A link says which parent a row has.
type link struct {
	parent int32 // number of the parent row in its batch
	next   int32 // number of the parent's next child, from 1; 0 means none
}

// perLinked is the memory of a linked row: its link, and the first child of its parent.
const perLinked = 8 + 4

func (s *relations) bytes() int { return perLinked * cap(s.links) }

func (s *relations) reset() { *s = relations{links: s.links[:0], firsts: s.firsts[:0]} }

// link makes the newest row a child of a row of the parent table.
func (s *relations) link(parent int32) {
	for len(s.firsts) <= int(parent) {
		s.firsts = append(s.firsts, 0)
	}
	s.links = append(s.links, link{parent, s.firsts[parent]})
	s.firsts[parent] = int32(len(s.links))
}

// eachChild calls each with the numbers of the children of a row of the parent table.
func (s *relations) eachChild(parent int32, each func(row int32)) {
	if int(parent) >= len(s.firsts) {
		return
	}
	for n := s.firsts[parent]; n > 0; n = s.links[n-1].next {
		each(n - 1)
	}
}

// A family is the rows of parent and child batches, made by all messages or by some of them.
type family struct {
	batches []*Batch
	apart   []map[int32]*Row // by table and number of the row in its batch; nil: the rows of all messages
}

// row returns a row by its number, nil if no message makes it.
func (f family) row(table int, n int32) *Row {
	if f.apart == nil {
		return &f.batches[table].rows.all[n]
	}
	return f.apart[table][n]
}

// parent returns the parent of a row.
func (f family) parent(table int, n int32) *Row {
	b := f.batches[table]
	return f.row(b.rules.parent, b.relations.links[n].parent)
}

// deleteChildren deletes the children of a deleted row, at all levels. With versions, this counts as a delete of each
// of them.
func (f family) deleteChildren(table int, row int32, version []byte) {
	for _, i := range f.batches[table].rules.children {
		b := f.batches[i]
		b.relations.eachChild(row, func(n int32) {
			switch r := f.row(i, n); {
			case r == nil:
				return
			case b.rules.scope != "":
				b.deleteVersion(r, version)
			case r.Deleted: // its children were deleted with it
				return
			default:
				r.delete(b.rules.table)
			}
			f.deleteChildren(i, n, version)
		})
	}
}

// inheritDeletes applies the deletes of the parent row to a row that was just created.
func (f family) inheritDeletes(table int, n int32) {
	b := f.batches[table]
	if len(b.relations.links) == 0 || b.rules.scope == "" {
		return
	}
	if v := f.batches[b.rules.parent].NewestDelete(f.parent(table, n)); v != nil {
		b.deleteVersion(f.row(table, n), v)
	}
}

// replaceChildren sets Replaces in the children of rows that replace what the database has. With versions, the deletes
// have done that.
func (f family) replaceChildren(table int) {
	b := f.batches[table]
	if b.Versioned() {
		return
	}
	for n := range b.relations.links {
		r, parent := f.row(table, int32(n)), f.parent(table, int32(n))
		if r != nil && parent != nil && parent.Replaces {
			r.Replaces = true
		}
	}
}

// SetParent sets the resolver of the parent batch, which resolves its rows first.
func (v *Resolver) SetParent(parent *Resolver) { v.parent = parent }

// parentTomb returns the version of the newest delete of a row's parents; nil means none.
func (v *Resolver) parentTomb(r *Row) []byte {
	if v.parent == nil || len(v.parent.tombs) == 0 {
		return nil
	}
	return v.parent.tombs[string(AppendKey(nil, &v.parent.b.Table, v.b.parentKey(r)))]
}

// keepTomb records a row's newest delete for its children.
func (v *Resolver) keepTomb(r *Row, tomb []byte) {
	switch {
	case v.tombs == nil:
	case tomb == nil:
		delete(v.tombs, string(r.Key))
	default:
		v.tombs[string(r.Key)] = bytes.Clone(tomb)
	}
}

// parentKey returns the values of the parent row's key.
func (b *Batch) parentKey(r *Row) [][]byte {
	values := make([][]byte, len(b.Child.Key))
	for part, k := range b.Child.Key {
		values[part] = b.Value(r, k)
	}
	return values
}

// A Cascade collects child rows in the database whose parents are deleted by messages of the flush, for a batch with
// versions. Each such delete counts as a message for the child row.
type Cascade struct {
	v        *Resolver
	resolved map[string]bool
	rows     map[string]*Row
}

// Cascade returns an empty Cascade. rows are the batch's rows that are resolved anyway.
func (v *Resolver) Cascade(rows []*Row) *Cascade {
	t := &Cascade{v: v, resolved: make(map[string]bool, len(rows)), rows: map[string]*Row{}}
	for _, r := range rows {
		t.resolved[string(r.Key)] = true
	}
	return t
}

// Add applies a delete with a version to the row with these key values, which are raw JSON, and returns the row. It
// returns nil for a row that is resolved anyway.
func (t *Cascade) Add(key [][]byte, version []byte) *Row {
	b := &t.v.b
	if slices.ContainsFunc(key, func(part []byte) bool { return part == nil }) {
		return nil // no message has NULL in a key
	}
	text := AppendKey(nil, &b.Table, key)
	if t.resolved[string(text)] {
		return nil // folding the messages applied it
	}
	r := t.rows[string(text)]
	if r == nil {
		r = &Row{Key: text, cells: make([]ref, len(b.Table.Columns))}
		for part, k := range b.Table.Key {
			r.cells[k] = b.arena.put(key[part])
		}
		t.rows[string(text)] = r
	}
	b.deleteVersion(r, version)
	return r
}

// ChildKeyPrefix returns the common prefix of the keys of a row's children. parents is the parent's batch.
func (b *Batch) ChildKeyPrefix(parents *Batch, r *Row) (prefix []byte) {
	for _, part := range partsOf(&b.Table) {
		k := b.Table.Key[part]
		of := slices.Index(b.Child.Key[:len(parents.Table.Key)], k)
		if of < 0 {
			break
		}
		value := parents.Value(r, parents.Table.Key[of])
		prefix = appendPart(prefix, &b.Table.Columns[k], value, feed.KindOf(value), true)
	}
	return prefix
}

// Rows returns the collected rows in key order, to be resolved.
func (t *Cascade) Rows() []*Row {
	rows := slices.Collect(maps.Values(t.rows))
	t.v.b.sort(rows)
	return rows
}
