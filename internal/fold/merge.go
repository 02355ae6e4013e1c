package fold

import (
	"bytes"
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
		return b.patch(have, value)
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
	if m.kept != nil { // the value may belong to the log
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
	switch v := b.arena.get(have); v[0] {
	case relativeMark:
		return v[1:], true
	case initialMark, 'n': // a neutral default
		return nil, false
	default:
		return v, false
	}
}

// patchMark is the first byte of a value in the arena that is a patch which was not yet applied. After it, in 4 bytes, is
// the address of the value in the cell before, then the patch. So each costs only its own length.
const patchMark, patchHead = '~', 5

// patch adds a patch to a cell, and returns its address.
func (b *Batch) patch(have ref, patch []byte) ref {
	b.patches += len(patch)
	b.text = append(binary.LittleEndian.AppendUint32(append(b.text[:0], patchMark), uint32(have)), patch...)
	return b.arena.put(b.text)
}

// combine replaces the patches in a row's cells by the values that they make.
func (b *Batch) combine(r *Row) {
	for col, have := range r.cells {
		if have == 0 || b.rules.table.Columns[col].Merge != merge.Patch {
			continue
		}
		var last [][]byte // patches, the newest first
		for have != 0 && b.arena.get(have)[0] == patchMark {
			v := b.arena.get(have)
			last, have = append(last, v[patchHead:]), ref(binary.LittleEndian.Uint32(v[1:]))
		}
		if last == nil {
			continue
		}
		patches, isRelative := b.mergeBase(r, have)
		if patches = bytes.Clone(patches); len(patches) > 0 && patches[0] != '{' {
			patches = nil
		}
		for _, p := range slices.Backward(last) {
			patches = merge.Extend(patches, p)
		}
		if isRelative {
			b.text, b.marks = merge.AppendCombined(append(b.text[:0], relativeMark), patches), true
		} else {
			b.text = merge.AppendPatched(b.text[:0], nil, patches)
		}
		r.cells[col] = b.arena.set(r.cells[col], b.text)
	}
}

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
