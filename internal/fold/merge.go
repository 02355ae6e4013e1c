package fold

import (
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/schema"
)

// This file has the rule by which a message changes its row. It is one for messages that come, and for those that are
// merged apart from the others, see [Merge].

// rules are what the messages of a table are merged by.
type rules struct {
	table  *schema.Table
	scope  Scope // of the versions; "" if the messages have none
	merges bool  // the values of some columns meet by other functions than the last one
	// The next two are about rows that are changes of their own and belong to rows of another table.
	parent   int   // the table whose rows its own belong to; -1 for none
	children []int // the tables whose rows belong to its own
}

// A message is what one message says about one row.
type message struct {
	op      Op
	version []byte // nil if it has none
	fields  []feed.Field
	kept    []ref   // by field: where the arena has the fields' values, if the batch keeps its messages; else nil
	keys    []int32 // by part of the key: its field
	values  []cell  // in the other columns
}

// A cell is a value for a column of a row.
type cell struct{ col, field int32 }

// merge merges a message into its row; made tells that it is the first of the row.
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
	if first || m.op == Delete { // the key is spelled as by the message that makes the row
		b.setKey(r, m)
	}
	merges, width := b.rules.merges, len(b.rules.table.Columns)
	for i := range m.values {
		c := m.values[i]
		have := b.rows.cells.at(&r.cells, c.col, width)
		if merges {
			*have = b.meet(r, *have, m, c, first)
		} else {
			*have = m.put(&b.arena, *have, c.field)
		}
	}
}

// meet returns where the arena has what a message makes of a cell by the function of its column. first tells that the
// message made the row.
func (b *Batch) meet(r *Row, have ref, m *message, c cell, first bool) ref {
	column, value := &b.rules.table.Columns[c.col], m.fields[c.field].Value
	switch {
	case column.Merge == merge.First && have != 0:
		return have
	case column.Merge == merge.First && !first && column.Default != "": // a later message finds the column's default
		return b.late(value)
	case !column.Merges(), value[0] == 'n', column.Merge == merge.Patch && value[0] != '{':
		return m.put(&b.arena, have, c.field)
	}
	was, isRelative := b.met(r, have)
	text := b.text[:0]
	if isRelative {
		text, b.marks = append(text, relative), true
	}
	if column.Merge == merge.Patch {
		text = appendPatch(text, was, value, isRelative)
	} else if merged, _ := column.AppendMerged(text, textOf(was), value); merged == nil {
		return have
	} else {
		text = merged
	}
	if b.text = text; m.kept != nil { // what have is may be the log's
		return b.arena.put(text)
	}
	return b.arena.set(have, text)
}

// met returns the value that another one meets in a cell, nil for none, and whether what they make is to meet the
// database's.
func (b *Batch) met(r *Row, have ref) (value []byte, isRelative bool) {
	if have == 0 {
		return nil, !r.Replaces
	}
	switch v := b.arena.get(have); v[0] {
	case relative:
		return v[1:], true
	case initial, 'n': // a default that changes nothing
		return nil, false
	default:
		return v, false
	}
}

// textOf is the text of a raw value, nil for none.
func textOf(value []byte) []byte {
	if value == nil {
		return nil
	}
	return feed.Text(nil, value, feed.KindOf(value))
}

// appendPatch appends what a patch makes of a value, or of patches that are to be applied to the database's.
func appendPatch(dst, was, patch []byte, isRelative bool) []byte {
	if isRelative {
		return merge.AppendPatches(dst, was, patch)
	}
	return merge.AppendPatched(dst, was, merge.AppendPatches(nil, nil, patch))
}

// setKey puts the key of a message into its row.
func (b *Batch) setKey(r *Row, m *message) {
	for part, field := range m.keys {
		have := b.rows.cells.at(&r.cells, int32(b.rules.table.Key[part]), len(b.rules.table.Columns))
		*have = m.put(&b.arena, *have, field)
	}
}

// put returns where the arena has the value of a field, for a cell that has another one: in the other one's place if it
// fits. A value of the log is shared with it, and never overwritten: all messages of a table are in it, or none is.
func (m *message) put(a *arena, have ref, field int32) ref {
	if m.kept != nil {
		return m.kept[field]
	}
	return a.set(have, m.fields[field].Value)
}

// delete removes a row. It keeps its key.
func (r *Row) delete(t *schema.Table) {
	for i := range r.cells {
		if !slices.Contains(t.Key, i) {
			r.cells[i] = 0
		}
	}
	r.Deleted, r.Replaces = true, true
}
