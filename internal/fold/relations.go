package fold

import (
	"bytes"
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// This file is about rows that are changes of their own and belong to rows of another table: they go
// with these.

// relations are what a batch's rows have to do with the rows of other tables.
type relations struct {
	links   []link  // by row, of a child whose rows are changes of their own
	firsts  []int32 // by row of the table above: the first that belongs to it, from 1
	nested  *nested // of a child
	used    bool    // see Used
	deletes bool    // a message deletes a row of a table whose rows others name
}

// A link is where such a row stands in its batch.
type link struct {
	above int32 // the number of the row that it belongs to, in the batch of that
	next  int32 // the number of the next row that belongs to the same one, from 1; 0 is none
}

// perLinked is what a row takes that is linked: its link, and the first row below one above.
const perLinked = 8 + 4

func (s *relations) bytes() int { return perLinked * cap(s.links) }

func (s *relations) reset() { *s = relations{links: s.links[:0], firsts: s.firsts[:0]} }

// link notes that the newest row belongs to one of the table above.
func (s *relations) link(above int32) {
	for len(s.firsts) <= int(above) {
		s.firsts = append(s.firsts, 0)
	}
	s.links = append(s.links, link{above, s.firsts[above]})
	s.firsts[above] = int32(len(s.links))
}

// eachBelow calls each with the numbers of the rows that belong to a row of the table above.
func (s *relations) eachBelow(above int32, each func(row int32)) {
	if int(above) >= len(s.firsts) {
		return
	}
	for n := s.firsts[above]; n > 0; n = s.links[n-1].next {
		each(n - 1)
	}
}

// A family is the rows of batches, some of which belong to others: those of all messages, or of some of them.
type family struct {
	batches []*Batch
	apart   []map[int32]*Row // by table, and number of the row in its batch; nil: the rows of all messages
}

// row returns a row by its number, nil if no message makes it.
func (f family) row(table int, n int32) *Row {
	if f.apart == nil {
		return &f.batches[table].rows.all[n]
	}
	return f.apart[table][n]
}

// above returns the row that one belongs to.
func (f family) above(table int, n int32) *Row {
	b := f.batches[table]
	return f.row(b.rules.parent, b.relations.links[n].above)
}

// deleteBelow has the delete of a row delete the rows that belong to it, at all levels. With versions it
// counts as one of each of them.
func (f family) deleteBelow(table int, row int32, version []byte) {
	for _, i := range f.batches[table].rules.children {
		b := f.batches[i]
		b.relations.eachBelow(row, func(n int32) {
			switch r := f.row(i, n); {
			case r == nil:
				return
			case b.rules.scope != "":
				b.deleteVersion(r, version)
			case r.Deleted: // what belongs to it has gone before
				return
			default:
				r.delete(b.rules.table)
			}
			f.deleteBelow(i, n, version)
		})
	}
}

// inheritDeletes has a row that was made have the deletes of the row that it belongs to.
func (f family) inheritDeletes(table int, n int32) {
	b := f.batches[table]
	if len(b.relations.links) == 0 || b.rules.scope == "" {
		return
	}
	if v := f.batches[b.rules.parent].Takes(f.above(table, n)); v != nil {
		b.deleteVersion(f.row(table, n), v)
	}
}

// replaceBelow has the rows of a table replace what the database has if the rows do that they
// belong to. With versions the deletes have seen to that.
func (f family) replaceBelow(table int) {
	b := f.batches[table]
	if b.Versioned() {
		return
	}
	for n := range b.relations.links {
		r, above := f.row(table, int32(n)), f.above(table, int32(n))
		if r != nil && above != nil && above.Replaces {
			r.Replaces = true
		}
	}
}

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
	b.deleteVersion(r, version)
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
