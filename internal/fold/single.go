package fold

import (
	"cmp"
	"slices"
)

// A Single is what one message says to one row, apart from the other messages.
type Single struct {
	Table int // index into the batches
	b     *Batch
	m     *logged
}

// Key is that of the row.
func (s Single) Key() []byte { return s.b.rows[s.m.row].Key }

// A Message is one message apart from the others: what it says to each of its rows.
type Message []Single

// Place is where the message's line stands in its source.
func (m Message) Place() Place { return m[0].m.Place }

// Text is the message's line; its first 64 KiB, unless the fold keeps whole lines.
func (m Message) Text() []byte { return m[0].b.arena.get(m[0].m.text) }

// Messages returns the messages that made the rows of a set's batches, in the order of the
// feed. Batches without rows aside, it is only for tables that have constraints.
func Messages(batches []*Batch) []Message {
	n := 0
	for _, b := range batches {
		n += len(b.log)
	}
	all, messages := make([]Single, 0, n), make([]Message, 0, n)
	next := make([]int, len(batches))
	for len(all) < n {
		first := int64(0) // the number of the next message
		for i, b := range batches {
			if next[i] < len(b.log) && (first == 0 || b.log[next[i]].message < first) {
				first = b.log[next[i]].message
			}
		}
		from := len(all)
		for i, b := range batches {
			for ; next[i] < len(b.log) && b.log[next[i]].message == first; next[i]++ {
				all = append(all, Single{i, b, &b.log[next[i]]})
			}
		}
		m := Message(all[from:len(all):len(all)])
		slices.SortFunc(m, func(x, y Single) int { return cmp.Compare(x.m.change, y.m.change) })
		messages = append(messages, m)
	}
	return messages
}

// Merge returns the rows that some of the messages of a set make, by table and in the order of
// their keys. They are good until the next call.
func Merge(batches []*Batch, of []Message) [][]*Row {
	m := merging{batches, make([]map[int32]*Row, len(batches)), make([][]*Row, len(batches))}
	for i, b := range batches {
		if m.at[i] = map[int32]*Row{}; b.Versioned() {
			b.versions = b.versions[:len(b.rows)] // those of the last call end
		}
	}
	for _, message := range of {
		for _, s := range message {
			m.add(s)
		}
	}
	for i, b := range batches {
		if len(b.links) > 0 && !b.Versioned() {
			above := m.at[b.Child.Parent]
			b.replaceBelow(func(n int32) *Row { return m.at[i][n] }, func(n int32) *Row { return above[n] })
		}
		b.sort(m.rows[i])
	}
	return m.rows
}

// merging is one call of Merge.
type merging struct {
	batches []*Batch
	at      []map[int32]*Row // by table, and number of the row in the batch
	rows    [][]*Row
}

// add merges what a message says to a row.
func (m *merging) add(s Single) {
	b, n := s.b, s.m.row
	r, known := m.at[s.Table][n]
	if !known {
		r = &Row{Key: s.Key(), cells: make([]ref, len(b.Table.Columns))}
		m.rows[s.Table], m.at[s.Table][n] = append(m.rows[s.Table], r), r
		m.inherit(b, r, n)
	}
	if b.Versioned() {
		b.mergeLoggedVersion(r, s.m)
	} else {
		b.mergeLogged(r, s.m, !known)
	}
	if s.m.op.ends() {
		m.take(s.Table, n, b.versionAt(s.m.version))
	}
}

// inherit is [Folder.inherit] of a row that is merged.
func (m *merging) inherit(b *Batch, r *Row, n int32) {
	if len(b.links) == 0 || !b.Versioned() {
		return
	}
	if v := m.batches[b.Child.Parent].Takes(m.at[b.Child.Parent][b.links[n].above]); v != nil {
		b.end(b.Scope, r, v, b.Table.Columns)
	}
}

// take is [Folders.take] of the rows that were merged.
func (m *merging) take(table int, row int32, version []byte) {
	for i, b := range m.batches {
		if len(b.links) == 0 || b.Child.Parent != table {
			continue
		}
		b.eachBelow(row, func(n int32) {
			switch r := m.at[i][n]; {
			case r == nil:
				return
			case b.Versioned():
				b.end(b.Scope, r, version, b.Table.Columns)
			case r.Deleted:
				return
			default:
				r.take(b.Table.Key)
			}
			m.take(i, n, version)
		})
	}
}

// mergeLogged is [Folder.merge] of a message that was kept. made is set for the first of
// the row.
func (b *Batch) mergeLogged(r *Row, m *logged, made bool) {
	first := made || r.Deleted || m.op == Replace
	r.Deleted = m.op == Delete
	if m.op.ends() {
		clear(r.cells)
		r.Replaces = true
	}
	for _, c := range m.cells {
		have, column := &r.cells[c.col], &b.Table.Columns[c.col]
		switch {
		case column.Key:
			if first || m.op == Delete {
				*have = c.val
			}
		case !b.FillOnly:
			*have = c.val
		case *have != 0:
		case first || column.Default == "":
			*have = c.val
		default:
			*have = b.late(b.arena.get(c.val))
		}
	}
}

// mergeLoggedVersion is [Folder.mergeVersioned] of a message that was kept.
func (b *Batch) mergeLoggedVersion(r *Row, m *logged) {
	width := len(b.Table.Columns)
	vs := b.versionsOf(r)
	for _, c := range m.cells {
		if b.Table.Columns[c.col].Key && !vs.lives() {
			r.cells[c.col] = c.val
		}
	}
	if m.op == Ensure {
		vs.ensure(r)
		return
	}
	version := b.arena.get(m.version)
	if m.op.ends() {
		b.end(b.Scope, r, version, b.Table.Columns)
	}
	if m.op == Delete || b.outdated(b.Scope, vs, version) {
		return
	}
	newest := b.revive(vs, m.version)
	b.wide(&vs.cells, int32(width-1), width)
	for _, c := range m.cells {
		if !b.Table.Columns[c.col].Key && (newest || !b.older(version, vs.cells[c.col])) {
			r.cells[c.col], vs.cells[c.col] = c.val, m.version
		}
	}
	vs.mark(r)
}
