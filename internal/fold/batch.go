// Package fold merges the messages of a feed into batches: one row per key, with what the rules of its table make of
// each column's values.
package fold

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A Batch is the rows of one table that a transaction writes. One goroutine owns it at a time.
type Batch struct {
	// Table is the table that the rows need: with the columns and types that it must have before they are written.
	Table  schema.Table
	Limits schema.Limits // of the database

	Scope   Scope // of the messages' versions: ColumnScope, RowScope; "" if they have none
	Version int   // the column of Table that holds the version, or -1

	// Time is when the batch was full or due. It is the value of the table's timestamp columns.
	Time time.Time

	// Messages counts the folded messages; they became Rows() rows.
	Messages int64
	// Truncated is the position of the message that truncates the table before the batch's rows are written; nil if
	// there is none.
	Truncated *Place
	// Child describes the parent table; nil if there is none.
	Child *Child

	arena     arena  // of all values, versions and lines
	marks     bool   // some value begins with initialMark or relativeMark
	patches   int    // bytes of patches that are not applied: what they make takes as many
	text      []byte // buffer for a merged value
	warmed    int    // so the compiler keeps the reads of Warm
	rules     *rules
	rows      rowStore
	versions  versionStore
	log       messageLog
	relations relations
	sets      setRows
}

// A Row is what a batch changes in the row of one key.
type Row struct {
	// Key is the row's key in a form that is equal if the database treats the keys as equal. In a table without a key
	// it is the row's number.
	Key []byte
	// Replaces is set if a message deleted the row first: no value of the database's row is kept.
	Replaces bool
	// Deleted is set if the row's last change is a delete.
	Deleted bool
	// Sweeps marks an entry that is not a row, and has only the key of a parent row: the children of that row are
	// deleted unless they are in the batch. See [Explosion.Explode].
	Sweeps bool

	referenced bool  // a message of the batch refers to the row, see [Ensure]
	versions   int32 // index of the row's versions in the batch, from 1; 0 means none
	hash       uint64
	cells      []ref // by column
}

// A Reject is a line that could not be written, with the reason.
type Reject struct {
	Place
	Table  int // index of the batch whose table rejects it; -1 for none
	Reason feed.Reason
	Detail string
	Text   []byte // the line, or its first 64 KiB
}

// Why returns the reason and its detail, as stored with the line.
func (r *Reject) Why() string { return string(r.Reason) + ": " + r.Detail }

// NewReject returns the reject of a line that is not a message, or not one for a table. It copies text.
func NewReject(at Place, table int, err *feed.Error, text []byte) Reject {
	return Reject{at, table, err.Reason, err.Detail, bytes.Clone(text[:min(len(text), MaxRejectText)])}
}

// Bytes returns the memory that the reject uses.
func (r *Reject) Bytes() int { return len(r.Text) + len(r.Detail) + 100 }

// A Place is the position of a line in its source.
type Place struct {
	Lane   int   // index of the source among the lanes of the flush
	Line   int64 // from 1
	Offset int64 // of the line's first byte in the decompressed stream
	// Element is the number of the message in a line that is an array, from 1. 0: the line is the message.
	Element int
}

// ElementText returns the part of a message's place that names its element; "" if the message is a line.
func ElementText(element int) string {
	if element == 0 {
		return ""
	}
	return fmt.Sprintf(", element %d", element)
}

// MaxRejectText is how much of a rejected line is kept.
const MaxRejectText = 64 << 10 // bytes

// initialMark is the first byte of a value in the arena for which [Batch.Initial] is true. No JSON value begins with
// it.
const initialMark = ' '

// relativeMark is the first byte of a value in the arena for which [Batch.Relative] is true.
const relativeMark = '+'

// Rows returns the number of rows.
func (b *Batch) Rows() int { return len(b.rows.all) }

// Hashes returns a hash of each row's key, which is the same in all batches of the process; without a key nothing.
func (b *Batch) Hashes() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range b.rows.all {
			if h := b.rows.all[i].hash; h != 0 && !yield(h) {
				return
			}
		}
	}
}

// Bytes returns the memory that the content uses.
func (b *Batch) Bytes() int {
	return b.arena.bytes() + b.patches + b.rows.bytes() + b.versions.bytes() + b.log.bytes() + b.relations.bytes()
}

// keptArena is how many bytes of its arena a batch always keeps when it is reset.
const keptArena = 16 * chunkSize

// Reset empties the batch; everything that was read from it becomes invalid. The batch keeps its memory for the next
// content, unless it used less than an eighth of it: a live run that has caught up frees the memory that it needed to
// do so.
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

// Value returns the raw value that the row sets in a column, nil if no message sets it. It is valid until the batch
// is reset.
func (b *Batch) Value(r *Row, col int) []byte {
	if col >= len(r.cells) || r.cells[col] == 0 {
		return nil
	}
	v := b.arena.get(r.cells[col])
	switch {
	case !b.marks || v[0] != initialMark && v[0] != relativeMark:
		return v
	case len(v) == 1:
		return nil
	}
	return v[1:]
}

// Initial reports whether the row, written message by message, would have got the column's default first. So an
// inserted row gets the default, and a value only fills NULL in an existing row. If there is no value, a delete in the
// batch has cleared the column, and an existing row gets the default too.
func (b *Batch) Initial(r *Row, col int) bool {
	return b.marks && col < len(r.cells) && r.cells[col] != 0 && b.arena.get(r.cells[col])[0] == initialMark
}

// Relative reports whether the value that the row sets in a column is merged into the database's value by the
// column's merge function, and does not overwrite it. If the row is inserted or replaced, or has NULL there, the
// value is merged with nothing. See [Batch.AppendMerged].
func (b *Batch) Relative(r *Row, col int) bool {
	if b.Value(r, col) == nil {
		return false
	}
	return b.Table.Columns[col].Merge == merge.First || b.marks && b.arena.get(r.cells[col])[0] == relativeMark
}

// AppendMerged appends the new value of a column that a row sets, as raw JSON. have is the text in the database, nil
// for none. merged is nil if the column is unchanged. ok is false if the merge function cannot use have.
func (b *Batch) AppendMerged(dst []byte, r *Row, col int, have []byte) (merged []byte, ok bool) {
	if value := b.Value(r, col); !b.Relative(r, col) {
		return append(dst, value...), true
	} else {
		return b.Table.Columns[col].AppendMerged(dst, have, value)
	}
}

// MakeAbsolute merges the relative values of all rows with nothing, as if the rows were inserted. Use it on a batch
// of all messages to compare it with its table.
func (b *Batch) MakeAbsolute() {
	for i := range b.rows.all {
		r := &b.rows.all[i]
		for col := range r.cells {
			if c := &b.Table.Columns[col]; c.Merge.Computes() && b.Relative(r, col) {
				text, _ := c.AppendMerged(nil, nil, b.Value(r, col)) // no error: the column admitted the value
				r.cells[col] = b.arena.put(text)
			}
		}
	}
}

// putIfNull returns the address of a value that only fills NULL in an existing row; see [Batch.Initial].
func (b *Batch) putIfNull(v []byte) ref {
	b.marks = true
	if len(v) == 0 {
		return defaultOnly
	}
	return b.arena.put(append([]byte{initialMark}, v...))
}

// Names reports whether any row sets a column.
func (b *Batch) Names(col int) bool {
	if b.Child != nil && b.Child.Set {
		return true // rows of a set have all columns
	}
	for i := range b.rows.all {
		if b.Value(&b.rows.all[i], col) != nil {
			return true
		}
	}
	return false
}

// Sorted returns the rows in key order. All writers use this order, so neighbours in the database are written
// together and writers cannot deadlock on row locks. Without a key, rows are in the order of their messages.
func (b *Batch) Sorted() []*Row {
	rows := pointers(b.rows.all)
	if !b.Table.Appends() { // else they are already in order
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
