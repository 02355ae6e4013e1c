package fold

import (
	"encoding/binary"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
)

// This file defines how a message changes its row. It serves messages as they arrive, and the ones that [Merge]
// merges separately.

// rules say how messages of a table are merged.
type rules struct {
	table  *schema.Table
	scope  Scope // of versions; "" if messages have none
	merges bool  // some columns have a merge function that computes a value
	// The next two are for child rows that are changes of their own.
	parent   int   // the parent table; -1 for none
	children []int // the child tables
}

// A message is what one message says about one row.
type message struct {
	op      Op
	version []byte // nil if it has none
	fields  []feed.Field
	kept    []ref   // by field: its value in the arena, if the batch keeps its messages; else nil
	keys    []int32 // by part of the key: its field
	values  []cell  // in the other columns
}

// A cell is a value for a column of a row.
type cell struct{ col, field int32 }

// merge merges a message into its row. made reports whether the message created the row.
func (b *Batch) merge(r *Row, m *message, made bool) {
	if b.rules.scope != "" {
		b.mergeVersioned(r, m)
		return
	}
	first := made || r.Deleted || m.op == Replace
	r.Deleted = m.op == Delete
	if m.op.ends() {
		clear(r.cells)
		r.Replaces = true
	}
	if first || m.op == Delete { // the message that creates the row decides how its key is spelled
		b.setKey(r, m)
	}
	merges, width := b.rules.merges, len(b.rules.table.Columns)
	for i := range m.values {
		c := m.values[i]
		have := b.rows.cells.at(&r.cells, c.col, width)
		if merges {
			*have = b.mergeValue(r, *have, m, c, first)
		} else {
			*have = m.put(&b.arena, *have, c.field)
		}
	}
}

// mergeValue merges a message's value into a cell by the column's merge function, and returns the address of the
// result. first reports whether the message created or replaced the row.
func (b *Batch) mergeValue(r *Row, have ref, m *message, c cell, first bool) ref {
	column, value := &b.rules.table.Columns[c.col], m.fields[c.field].Value
	switch {
	case column.Merge == merge.First && have != 0:
		return have
	case column.Merge == merge.First && !first && column.Default != "": // the row already has the column's default
		return b.putIfNull(value)
	case !column.Merge.Computes(), value[0] == 'n', column.Merge == merge.Patch && value[0] != '{':
		return m.put(&b.arena, have, c.field)
	case column.Merge == merge.Patch:
		return b.patch(r, have, value, m.kept != nil)
	}
	was, isRelative := b.mergeBase(r, have)
	text := b.text[:0]
	if isRelative {
		text, b.marks = append(text, relativeMark), true
	}
	text, _ = column.AppendMerged(text, feed.TextOf(was), value)
	if text == nil {
		return have
	}
	b.text = text
	return b.replace(have, text, m.kept != nil)
}

// replace returns the address of a computed value that overwrites a cell. isKept reports whether the batch keeps its
// messages: the value at have may then belong to the log.
func (b *Batch) replace(have ref, text []byte, isKept bool) ref {
	if isKept {
		return b.arena.put(text)
	}
	return b.arena.set(have, text)
}

// mergeBase returns the value in a cell that the next one is merged into, nil for none, and whether the result is
// relative.
func (b *Batch) mergeBase(r *Row, have ref) (value []byte, isRelative bool) {
	if have == 0 {
		return nil, !r.Replaces
	}
	v := b.arena.get(have)
	if v[0] == patchesMark {
		v = v[patchesHead:binary.LittleEndian.Uint32(v[1:])]
	}
	switch v[0] {
	case relativeMark:
		return v[1:], true
	case initialMark, 'n': // a neutral default
		return nil, false
	default:
		return v, false
	}
}

// patchesMark is the first byte of a value in the arena to which patches are still added. After it, in 4 bytes, is the
// index at which the value ends, then the value: a patch sequence after a relativeMark, or one that is applied to
// nothing. The rest is free. When it is used up, the patches are combined, so each costs only its own length.
const patchesMark, patchesHead = '~', 5

// maxFree limits the bytes that are kept free for further patches of a value.
const maxFree = 1 << 30

// patch merges a patch into a cell and returns the address of the result.
func (b *Batch) patch(r *Row, have ref, patch []byte, isKept bool) ref {
	was, isRelative := b.mergeBase(r, have)
	if cap(was)-len(was) >= len(patch) { // there is room behind the value
		end := b.arena.get(have)[1:patchesHead]
		n := len(merge.Extend(was, patch)) - len(was)
		binary.LittleEndian.PutUint32(end, binary.LittleEndian.Uint32(end)+uint32(n))
		return have
	}
	text := append(b.text[:0], patchesMark, 0, 0, 0, 0)
	if isRelative {
		text, b.marks = append(text, relativeMark), true
	}
	if len(was) == 0 || was[0] != '{' { // the first patch
		patches := merge.Extend(nil, patch)
		if !isRelative {
			patches = merge.AppendPatched(nil, nil, patches)
		}
		b.text = append(text, patches...)
		return b.replace(have, b.text[patchesHead:], isKept)
	}
	text = appendCombined(text, merge.Extend(was, patch), isRelative)
	n := len(text)
	binary.LittleEndian.PutUint32(text[1:], uint32(n))
	size := n + min(2*n, maxFree)
	if v := b.arena.get(have); v[0] == patchesMark && len(v) >= n+n/2 {
		size = len(v)
	}
	b.text, b.patched = slices.Grow(text, size-n), true
	return b.arena.set(have, b.text[:size])
}

// combine replaces the value in a cell to which patches were added with the one that they make.
func (b *Batch) combine(r *Row) {
	for col, have := range r.cells {
		if have == 0 || b.arena.get(have)[0] != patchesMark {
			continue
		}
		text := b.text[:0]
		was, isRelative := b.mergeBase(r, have)
		if isRelative {
			text = append(text, relativeMark)
		}
		b.text = appendCombined(text, was, isRelative)
		r.cells[col] = b.arena.set(have, b.text)
	}
}

// appendCombined appends the value that a patch sequence makes of the database's value, or of none.
func appendCombined(dst, patches []byte, isRelative bool) []byte {
	if isRelative {
		return merge.AppendCombined(dst, patches)
	}
	return merge.AppendPatched(dst, nil, patches)
}

// setKey sets the key of a row to the message's.
func (b *Batch) setKey(r *Row, m *message) {
	for part, field := range m.keys {
		have := b.rows.cells.at(&r.cells, int32(b.rules.table.Key[part]), len(b.rules.table.Columns))
		*have = m.put(&b.arena, *have, field)
	}
}

// put returns the address of a field's value that overwrites a cell, in the same memory if it fits. A value in the
// log is shared with it and never overwritten: the log has all messages of a table or none.
func (m *message) put(a *arena, have ref, field int32) ref {
	if m.kept != nil {
		return m.kept[field]
	}
	return a.set(have, m.fields[field].Value)
}

// delete marks a row as deleted. It keeps its key.
func (r *Row) delete(t *schema.Table) {
	for i := range r.cells {
		if !slices.Contains(t.Key, i) {
			r.cells[i] = 0
		}
	}
	r.Deleted, r.Replaces = true, true
}
