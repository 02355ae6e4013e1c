package fold

import "iter"

// A Single is one message of a batch, apart from the others.
type Single struct {
	b *Batch
	m *logged
}

// Place is where the message's line stands in its source.
func (s Single) Place() Place { return s.m.Place }

// Key is that of the message's row.
func (s Single) Key() []byte { return s.b.rows[s.m.row].Key }

// Text is the message's line, or its first 64 KiB.
func (s Single) Text() []byte { return s.b.arena.get(s.m.text) }

// Singles yields the messages that made the batch's rows, in the order of the feed. It is
// only for a batch whose table has constraints.
func (b *Batch) Singles() iter.Seq[Single] {
	return func(yield func(Single) bool) {
		for i := range b.log {
			if !yield(Single{b, &b.log[i]}) {
				return
			}
		}
	}
}

// Merge returns the rows that some of the batch's messages make, in the order of their
// keys. They are good until the next call.
func (b *Batch) Merge(of []Single) []*Row {
	if b.Versioned() {
		b.versions = b.versions[:len(b.rows)] // those of the last call end
	}
	width := len(b.Table.Columns)
	rows, at := make([]*Row, 0, len(of)), make(map[int32]*Row, len(of))
	for _, s := range of {
		r, known := at[s.m.row]
		if !known {
			r = &Row{Key: s.Key(), cells: make([]ref, width)}
			rows, at[s.m.row] = append(rows, r), r
		}
		if b.Versioned() {
			b.mergeLoggedVersion(r, s.m)
		} else {
			b.mergeLogged(r, s.m, !known)
		}
	}
	b.sort(rows)
	return rows
}

// mergeLogged is [Folder.merge] of a message that was kept. made is set for the first of
// the row.
func (b *Batch) mergeLogged(r *Row, m *logged, made bool) {
	r.Deleted = m.op == Delete
	if m.op != Upsert {
		clear(r.cells)
		r.Replaces = true
	}
	first := made || m.op == Replace
	for _, c := range m.cells {
		have, column := &r.cells[c.col], &b.Table.Columns[c.col]
		switch {
		case !b.FillOnly || column.Key:
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
		if b.Table.Columns[c.col].Key {
			r.cells[c.col] = c.val
		}
	}
	if b.outdated(b.Scope, vs, b.arena.get(m.version)) {
		return
	}
	if m.op != Upsert {
		b.remove(b.Scope, r, m.version, b.Table.Columns)
	}
	if m.op != Delete {
		newest := b.revive(vs, m.version)
		for _, c := range m.cells {
			if !b.Table.Columns[c.col].Key && b.wins(vs, c.col, m.version, newest, width) {
				r.cells[c.col] = c.val
			}
		}
	}
	vs.mark(r)
}
