package fold

import (
	"bytes"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// This file is about rows that are changes of their own and belong to rows of another table: they go
// with these.

// A link is where such a row stands in its batch.
type link struct {
	above int32 // the number of the row that it belongs to, in the batch of that
	next  int32 // the number of the next row that belongs to the same one, from 1; 0 is none
}

// perLinked is what a row takes that is linked: its link, and the first row below one above.
const perLinked = 8 + 4

// link notes whose row the one at hand is, which the change before it in the message was about.
func (f Folders) link(s *Set, table int) {
	b, above := s.Batches[table], f[f[table].nested.parent].row
	if len(b.links) == len(b.rows) {
		return
	}
	for len(b.firsts) <= int(above) {
		b.firsts = append(b.firsts, 0)
	}
	b.links = append(b.links, link{above, b.firsts[above]})
	b.firsts[above] = int32(len(b.links))
}

// eachBelow calls each with the numbers of the rows that belong to a row of the table above.
func (b *Batch) eachBelow(above int32, each func(row int32)) {
	if int(above) >= len(b.firsts) {
		return
	}
	for n := b.firsts[above]; n > 0; n = b.links[n-1].next {
		each(n - 1)
	}
}

// take has a delete take the rows that belong to a row of a table, at all levels. With versions it
// counts as one of each of them.
func (f Folders) take(s *Set, table int, row int32, version []byte) {
	for _, i := range f[table].nested.updated {
		b, of := s.Batches[i], f[i]
		b.eachBelow(row, func(n int32) {
			switch r := &b.rows[n]; {
			case of.opt.Version != "":
				b.end(of.opt.Scope, r, version, of.table.Columns)
			case r.Deleted: // what belongs to it has gone before
				return
			default:
				r.take(of.table.Key)
			}
			f.take(s, i, n, version)
		})
	}
}

// inherit has a row that the change at hand makes have the deletes of the row that it belongs to.
func (f *Folder) inherit(b *Batch, r *Row) {
	if f.nested == nil || !f.nested.updates {
		return
	}
	if v := f.nested.folders[f.nested.parent].takes; v != nil {
		b.end(f.opt.Scope, r, v, f.table.Columns)
	}
}

// take removes a row with the one that it belongs to.
func (r *Row) take(key []int) {
	for i := range r.cells {
		if !slices.Contains(key, i) {
			r.cells[i] = 0
		}
	}
	r.Deleted, r.Replaces = true, true
}

// replaceBelow has the rows of a table replace what the database has where the rows do that they
// belong to. row and above give the rows of the batch, and those of the table above, by number; nil
// for none.
func (b *Batch) replaceBelow(row, above func(n int32) *Row) {
	for n := range b.links {
		r, a := row(int32(n)), above(b.links[n].above)
		if r != nil && a != nil && a.Replaces {
			r.Replaces = true
		}
	}
}

// at returns a row of the batch by its number.
func (b *Batch) at(n int32) *Row { return &b.rows[n] }

// Below has the rows of the resolver belong to those of another one, which resolves them first.
func (v *Resolver) Below(above *Resolver) { v.above = above }

// tombAbove returns the version of the newest delete of the rows that a row belongs to; nil is none.
func (v *Resolver) tombAbove(r *Row) []byte {
	if v.above == nil || len(v.above.tombs) == 0 {
		return nil
	}
	return v.above.tombs[string(AppendKey(nil, &v.above.b.Table, v.b.keyAbove(r)))]
}

// keepTomb has the rows below a row know its newest delete.
func (v *Resolver) keepTomb(r *Row, tomb []byte) {
	switch {
	case v.tombs == nil:
	case tomb == nil:
		delete(v.tombs, string(r.Key))
	default:
		v.tombs[string(r.Key)] = bytes.Clone(tomb)
	}
}

// keyAbove returns the values of the key of the row that a row belongs to.
func (b *Batch) keyAbove(r *Row) [][]byte {
	values := make([][]byte, len(b.Child.Key))
	for part, k := range b.Child.Key {
		values[part] = b.Value(r, k)
	}
	return values
}

// A Taking is of rows that a database has of the table of a batch with versions, and that belong to
// rows that some messages of the flush delete. Each such delete counts as one of them.
type Taking struct {
	v     *Resolver
	given map[string]bool
	rows  map[string]*Row
}

// Taking begins with none. rows are those of the batch that are resolved beside them.
func (v *Resolver) Taking(rows []*Row) *Taking {
	t := &Taking{v: v, given: make(map[string]bool, len(rows)), rows: map[string]*Row{}}
	for _, r := range rows {
		t.given[string(r.Key)] = true
	}
	return t
}

// Add has a delete of a version take a row, whose key has these values, as JSON, and returns it; nil for
// one that is resolved anyway.
func (t *Taking) Add(key [][]byte, version []byte) *Row {
	b := &t.v.b
	if slices.ContainsFunc(key, func(part []byte) bool { return part == nil }) {
		return nil // a NULL: no message has that
	}
	text := AppendKey(nil, &b.Table, key)
	if t.given[string(text)] {
		return nil // it was told when the messages were folded
	}
	r := t.rows[string(text)]
	if r == nil {
		r = &Row{Key: text, cells: make([]ref, len(b.Table.Columns))}
		for part, k := range b.Table.Key {
			r.cells[k] = b.arena.put(key[part])
		}
		t.rows[string(text)] = r
	}
	b.end(b.Scope, r, version, b.Table.Columns)
	return r
}

// KeysBelow returns what the keys of the rows that belong to a row of a batch above begin with.
func (b *Batch) KeysBelow(above *Batch, r *Row) (prefix []byte) {
	for _, part := range partsOf(&b.Table) {
		k := b.Table.Key[part]
		of := slices.Index(b.Child.Key[:len(above.Table.Key)], k)
		if of < 0 {
			break
		}
		value := above.Value(r, above.Table.Key[of])
		prefix = appendPart(prefix, &b.Table.Columns[k], value, feed.KindOf(value), true)
	}
	return prefix
}

// Rows are the rows, to be resolved.
func (t *Taking) Rows() []*Row {
	rows := slices.Collect(maps.Values(t.rows))
	t.v.b.sort(rows)
	return rows
}
