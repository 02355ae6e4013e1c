// Package fold merges the messages of a feed into batches: one row per key,
// with the last value that any message named for each column.
package fold

import (
	"bytes"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/schema"
)

// A Batch is what one transaction writes. One goroutine owns it at a time.
type Batch struct {
	// Table is the table as the batch's rows need it, with the columns and
	// types that it must have before they are written.
	Table  schema.Table
	Limits schema.Limits // of the database

	Scope   Scope // of the messages' versions: ColumnScope, RowScope; "" if they have none
	Version int   // the column of Table that holds the version, or -1

	// Time is when the batch was full or due, which the table's stamps get.
	Time time.Time

	// Messages counts the messages folded; Rows() of them became rows.
	Messages int64
	// Truncated is the place of the message by which the table loses all rows that it had before the
	// batch; nil: it keeps them.
	Truncated *Place
	// Child says whose rows the batch's belong to; nil: to none.
	Child *Child
	// Linked tells that some of the messages change other rows, too, in this table or another.
	Linked bool

	arena     arena  // of all values, versions and lines
	marks     bool   // some value begins with initial or relative
	text      []byte // of a value that is merged
	rules     *rules
	rows      rowStore
	versions  versionStore
	log       messageLog
	relations relations
	sets      setRows
}

// A Row is what a batch does to the row of one key.
type Row struct {
	// Key holds the key's columns in a form that is equal where the database
	// calls keys equal; without a key it is the number of the row.
	Key []byte
	// Replaces is set where a message deleted the row before: nothing of what
	// the database has comes back.
	Replaces bool
	// Deleted is set where nothing followed the delete.
	Deleted bool
	// Sweeps is set where this is no row, but has the key of a row above alone: of the rows
	// that belong to it, only those among the batch's stay. See [Explosion.Explode].
	Sweeps bool

	named    bool  // a message of the batch names the row in another one, see [Ensure]
	versions int32 // number of the row's versions in the batch, from 1; 0 is none
	hash     uint64
	cells    []ref // by column
}

// A Reject is a line that could not be written, and why.
type Reject struct {
	Place
	Table  int // that rejects it, by its batch; -1 for none
	Reason feed.Reason
	Detail string
	Text   []byte // the line, or its first 64 KiB
}

// Why is the reason with its detail, as it is kept beside the line.
func (r *Reject) Why() string { return string(r.Reason) + ": " + r.Detail }

// NewReject returns the reject of a line that cannot be a message, or not one for a table. It
// has a copy of the text.
func NewReject(at Place, table int, err *feed.Error, text []byte) Reject {
	return Reject{at, table, err.Reason, err.Detail, bytes.Clone(text[:min(len(text), maxRejectText)])}
}

// Bytes returns the memory that the reject takes.
func (r *Reject) Bytes() int { return len(r.Text) + len(r.Detail) + 100 }

// A Place is where a line stands in its source.
type Place struct {
	Lane   int   // the source, as an index into the lanes of the flush
	Line   int64 // from 1
	Offset int64 // bytes before it in the decompressed stream
}

const maxRejectText = 64 << 10 // bytes

// initial is what a value in the arena begins with where Batch.Initial tells of it. No
// JSON value does.
const initial = ' '

// relative is the first byte of a value in the arena that is merged into the database's: see Batch.Relative.
const relative = '+'

// Rows returns the number of rows.
func (b *Batch) Rows() int { return len(b.rows.all) }

// Bytes returns the memory that the batch holds its content in.
func (b *Batch) Bytes() int {
	return b.arena.bytes() + b.rows.bytes() + b.versions.bytes() + b.log.bytes() + b.relations.bytes()
}

// keptArena is how much of its arena a batch keeps whatever it needed of it last, in bytes.
const keptArena = 16 * chunkSize

// Reset empties the batch. It keeps its memory for the next content, unless it needed less than an eighth of it: a
// live run that has caught up gives back what that took. What was read from it is void.
func (b *Batch) Reset() {
	if held := len(b.arena.chunks) * chunkSize; held > keptArena && b.arena.bytes() < held/8 {
		*b = Batch{}
		return
	}
	b.arena.reset()
	b.rows.reset()
	b.versions.reset()
	b.log.reset()
	b.relations.reset()
	b.sets.reset()
	*b = Batch{text: b.text, arena: b.arena, rows: b.rows, versions: b.versions, log: b.log, relations: b.relations, sets: b.sets}
}

// Value returns the raw value that the row sets in a column, or nil where no
// message named it. It is good until the batch is reset.
func (b *Batch) Value(r *Row, col int) []byte {
	if col >= len(r.cells) || r.cells[col] == 0 {
		return nil
	}
	v := b.arena.get(r.cells[col])
	switch {
	case !b.marks || v[0] != initial && v[0] != relative:
		return v
	case len(v) == 1:
		return nil
	}
	return v[1:]
}

// Initial reports whether a column begins with its default, which is what it would have
// if its row had been written message by message: a row that is inserted has the
// default, even if there is a value, which only fills a row that exists; without a value
// a row that exists gets the default too, for a delete took what it had.
func (b *Batch) Initial(r *Row, col int) bool {
	return b.marks && col < len(r.cells) && r.cells[col] != 0 && b.arena.get(r.cells[col])[0] == initial
}

// Relative reports whether the value that the row sets in a column is merged into the database's, by the function of the
// column, instead of overwriting it. If the row is inserted or replaced, or has NULL there, it is merged with nothing. See
// [Batch.AppendMerged].
func (b *Batch) Relative(r *Row, col int) bool {
	if b.Value(r, col) == nil {
		return false
	}
	return b.Table.Columns[col].Merge == merge.First || b.marks && b.arena.get(r.cells[col])[0] == relative
}

// AppendMerged appends the new value of a column that a row sets, as raw JSON. have is the text in the database, nil for
// none. merged is nil if the column is unchanged, and ok is false if the column's function cannot use have.
func (b *Batch) AppendMerged(dst []byte, r *Row, col int, have []byte) (merged []byte, ok bool) {
	if value := b.Value(r, col); !b.Relative(r, col) {
		return append(dst, value...), true
	} else {
		return b.Table.Columns[col].AppendMerged(dst, have, value)
	}
}

// MakeAbsolute merges the relative values of all rows with nothing, as for rows that are inserted. It is for a batch of all
// messages that is compared with its table.
func (b *Batch) MakeAbsolute() {
	for i := range b.rows.all {
		r := &b.rows.all[i]
		for col := range r.cells {
			if c := &b.Table.Columns[col]; c.Merge.Computes() && b.Relative(r, col) {
				text, _ := c.AppendMerged(nil, nil, b.Value(r, col)) // the column takes it
				r.cells[col] = b.arena.put(text)
			}
		}
	}
}

// late returns where a value is that only fills a row that exists; see Initial.
func (b *Batch) late(v []byte) ref {
	b.marks = true
	if len(v) == 0 {
		return onlyInitial
	}
	return b.arena.put(append([]byte{initial}, v...))
}

// Names reports whether some row sets a column.
func (b *Batch) Names(col int) bool {
	if b.Child != nil && b.Child.Set {
		return true // they are whole
	}
	for i := range b.rows.all {
		if b.Value(&b.rows.all[i], col) != nil {
			return true
		}
	}
	return false
}

// Sorted returns the rows in the order of their keys, which is the same for
// every writer: neighbours in the database are written together, and two
// writers that lock rows in one order cannot deadlock. Without a key, rows are in the order of their messages.
func (b *Batch) Sorted() []*Row {
	rows := pointers(b.rows.all)
	if !b.Table.Appends() { // else they are sorted
		b.sort(rows)
	}
	return rows
}

func pointers(all []Row) []*Row {
	rows := make([]*Row, len(all))
	for i := range all {
		rows[i] = &all[i]
	}
	return rows
}
