package fold

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
		messages = append(messages, all[from:len(all):len(all)])
	}
	return messages
}

// Merge returns the rows that some of the messages of a set make, by table and in the order of
// their keys. They are good until the next call.
func Merge(batches []*Batch, of []Message) [][]*Row {
	rows := make([][]*Row, len(batches))
	for i, b := range batches {
		rows[i] = b.merge(i, of)
	}
	return rows
}

// merge is Merge for one table.
func (b *Batch) merge(table int, of []Message) (rows []*Row) {
	if b.Versioned() {
		b.versions = b.versions[:len(b.rows)] // those of the last call end
	}
	width := len(b.Table.Columns)
	at := map[int32]*Row{}
	for _, m := range of {
		for _, s := range m {
			if s.Table != table {
				continue
			}
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
