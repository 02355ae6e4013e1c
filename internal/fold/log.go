package fold

import (
	"cmp"
	"slices"

	"github.com/weirsync/weir/internal/feed"
)

// A messageLog has the messages of a batch in their order, for a table with constraints.
type messageLog struct {
	all   []logged
	cells int
}

// logged is a message in the log.
type logged struct {
	origin
	row     int32
	op      Op
	text    ref
	version ref
	cells   []loggedCell // the cells of the key first
}

type loggedCell struct {
	col int32
	at  ref
}

const perLogged, perLoggedCell = 88, 8

// origin identifies a change.
type origin struct {
	Place
	message int64 // number of its message among all that are folded into the set
	change  int32 // number of the change in its message
}

func (l *messageLog) bytes() int { return perLogged*len(l.all) + perLoggedCell*l.cells }

func (l *messageLog) reset() { *l = messageLog{all: l.all[:0]} }

// keep adds a message to the log, and sets m.kept to the addresses of its values.
func (b *Batch) keep(m *message, row int32, text []byte, from *origin) {
	kept := logged{origin: *from, row: row, op: m.op, text: b.arena.put(text)}
	if m.version != nil {
		kept.version = b.putVersion(m.version)
	}
	cells := make([]loggedCell, 0, len(m.keys)+len(m.values))
	m.kept = make([]ref, len(m.fields))
	put := func(col int, field int32) {
		m.kept[field] = b.arena.put(m.fields[field].Value)
		cells = append(cells, loggedCell{int32(col), m.kept[field]})
	}
	for part, field := range m.keys {
		put(b.rules.table.Key[part], field)
	}
	for _, c := range m.values {
		put(int(c.col), c.field)
	}
	kept.cells = cells
	b.log.cells += len(cells)
	b.log.all = append(b.log.all, kept)
}

// read restores m from the log.
func (b *Batch) read(m *message, kept *logged) {
	*m = message{op: kept.op, version: b.versionAt(kept.version), fields: m.fields[:0], kept: m.kept[:0], keys: m.keys[:0], values: m.values[:0]}
	for i, c := range kept.cells {
		m.fields, m.kept = append(m.fields, feed.Field{Value: b.arena.get(c.at)}), append(m.kept, c.at)
		if i < len(b.rules.table.Key) {
			m.keys = append(m.keys, int32(i))
		} else {
			m.values = append(m.values, cell{c.col, int32(i)})
		}
	}
	b.versions.last = kept.version // so it is not put into the arena again
}

// A Single is what one message changes in one row, without other messages.
type Single struct {
	Table int // index into the batches
	b     *Batch
	m     *logged
}

// Key returns the row's key.
func (s Single) Key() []byte { return s.b.rows.all[s.m.row].Key }

// Row identifies the row among those of the set: by its table, and its number there.
func (s Single) Row() [2]int { return [2]int{s.Table, int(s.m.row)} }

// Ensures reports whether the message only refers to the row, see [Ensure].
func (s Single) Ensures() bool { return s.m.op == Ensure }

// A Message is one message without the others: what it changes in each of its rows.
type Message []Single

// Compare orders messages as in the feed.
func (m Message) Compare(n Message) int { return cmp.Compare(m[0].m.message, n[0].m.message) }

// Place returns the position of the message's line.
func (m Message) Place() Place { return m[0].m.Place }

// Text returns the message's line or its first 64 KiB.
func (m Message) Text() []byte { return m[0].b.arena.get(m[0].m.text) }

// Messages returns the messages behind the rows of a set's batches, in feed order. All batches with rows must be for
// tables with constraints.
func Messages(batches []*Batch) []Message {
	n := 0
	for _, b := range batches {
		n += len(b.log.all)
	}
	all, messages := make([]Single, 0, n), make([]Message, 0, n)
	next := make([]int, len(batches))
	for len(all) < n {
		first := int64(0) // the smallest number that is left
		for i, b := range batches {
			if next[i] < len(b.log.all) && (first == 0 || b.log.all[next[i]].message < first) {
				first = b.log.all[next[i]].message
			}
		}
		from := len(all)
		for i, b := range batches {
			for ; next[i] < len(b.log.all) && b.log.all[next[i]].message == first; next[i]++ {
				all = append(all, Single{i, b, &b.log.all[next[i]]})
			}
		}
		m := Message(all[from:len(all):len(all)])
		slices.SortFunc(m, func(x, y Single) int { return cmp.Compare(x.m.change, y.m.change) })
		messages = append(messages, m)
	}
	return messages
}

// Merge returns the rows that some of a set's messages make, by table and in key order. They are valid until the next
// call.
func Merge(batches []*Batch, of []Message) [][]*Row {
	merged := family{batches, make([]map[int32]*Row, len(batches))}
	rows := make([][]*Row, len(batches))
	for i, b := range batches {
		if merged.apart[i] = map[int32]*Row{}; b.Versioned() {
			b.versions.all = b.versions.all[:len(b.rows.all)] // the last call's versions are no longer used
		}
	}
	var m message
	for _, all := range of {
		for _, s := range all {
			b, n := s.b, s.m.row
			r, known := merged.apart[s.Table][n]
			if !known {
				r = &Row{Key: s.Key(), cells: make([]ref, len(b.Table.Columns))}
				rows[s.Table], merged.apart[s.Table][n] = append(rows[s.Table], r), r
			}
			b.read(&m, s.m)
			b.merge(r, &m, !known)
			if m.op.ends() {
				merged.deleteChildren(s.Table, n)
			}
		}
	}
	for i, b := range batches {
		merged.replaceChildren(i)
		for _, r := range rows[i] {
			b.combine(r)
		}
		b.sort(rows[i])
	}
	return rows
}
