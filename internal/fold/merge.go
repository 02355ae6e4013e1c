package fold

import (
	"slices"

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
	key     []cell
	values  []cell // without those of the key
}

// A cell is a value for a column of a row.
type cell struct {
	col int32
	at  ref // where the arena has the value for the batch's log; 0: nowhere
	raw []byte
}

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
		c := &m.values[i]
		switch have := b.rows.cells.at(&r.cells, c.col, width); {
		case !fillOnly:
			b.set(have, c)
		case *have != 0:
		case first || b.rules.table.Columns[c.col].Default == "":
			b.set(have, c)
		default: // a later message finds the column's default
			*have = b.late(c.raw)
		}
	}
}

// setKey puts the key of a message into its row.
func (b *Batch) setKey(r *Row, m *message) {
	for i := range m.key {
		c := &m.key[i]
		b.set(b.rows.cells.at(&r.cells, c.col, len(b.rules.table.Columns)), c)
	}
}

// set gives a cell a value. A value of the log is shared, and never overwritten: all of a table's messages are in it.
func (b *Batch) set(have *ref, c *cell) {
	if c.at != 0 {
		*have = c.at
		return
	}
	*have = b.arena.set(*have, c.raw)
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
