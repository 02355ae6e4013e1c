package fold

import (
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/schema"
)

// This file has the rule by which a message changes its row. It is one for messages that come, and for those that are
// merged apart from the others, see [Merge].

// rules are what the messages of a table are merged by.
type rules struct {
	table    *schema.Table
	scope    Scope // of the versions; "" if the messages have none
	fillOnly bool
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
	fillOnly, width := b.rules.fillOnly, len(b.rules.table.Columns)
	for i := range m.values {
		c := m.values[i]
		switch have := b.rows.cells.at(&r.cells, c.col, width); {
		case !fillOnly:
			*have = m.put(&b.arena, *have, c.field)
		case *have != 0:
		case first || b.rules.table.Columns[c.col].Default == "":
			*have = m.put(&b.arena, *have, c.field)
		default: // a later message finds the column's default
			*have = b.late(m.fields[c.field].Value)
		}
	}
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
