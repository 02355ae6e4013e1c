package source

import (
	"bytes"
	"slices"
	"sort"
	"time"
)

// Block is a run of whole lines. The caller of Next owns it until Release.
type Block struct {
	// Data holds lines that end with '\n'; for exceptions see Tail, Oversize and Records.
	Data []byte
	// Records are the ends of the messages of a lane of records. Messages may contain newlines; one more byte follows
	// each in Data. For a lane of records it is never nil, even if no record is left. Next is the offset after the
	// records, or after an Oversize line.
	Records []Record
	Next    int64
	// Time is the last record's time; zero if unknown.
	Time time.Time
	// Offset is the offset of Data[0] in the decompressed stream, in bytes.
	Offset int64
	// Tail reports that the stream ended and the last line has no newline.
	Tail bool
	// Line is the number of the first line, from 1. 0 continues after the previous block's last line.
	Line int64
	// Oversize, if not 0, is the length in bytes, with its newline, of a single line over Options.MaxLine. Data then
	// holds its first 64 KiB.
	Oversize int64
	// Restart reports that a followed file was rotated or truncated, or a connection was reconnected: offsets and lines
	// restart at 0 with this block.
	Restart bool
	// Conn is the number of the connection that sent the lines, from 1. It is 0 for other sources, and for lines that
	// an earlier run stored on disk.
	Conn int
	// At returns the cursor after the lines of Data[:end]. It is nil if the lane has no cursors.
	At func(end int) Cursor

	Buf  []byte // Data's memory; whoever fills the block may replace it
	pool *Pool  // the pool that owns Buf; nil: none
}

// A Record is a message of a lane whose offsets count messages.
type Record struct {
	Offset int64
	End    int // just past the byte that follows it in Data
	Kind   RecordKind
}

// RecordKind classifies a record.
type RecordKind uint8

// The kinds of records.
const (
	Message   RecordKind = iota
	Tombstone            // has the key of a row to delete
	NoValue              // has no value, and affects no row
	Binary               // is not JSON: an encoding that needs a schema
	TooLong              // only its beginning was kept
)

// Lines returns the number of lines in the block, at most most, and the index after them.
func (b *Block) Lines(most int) (n, end int) {
	if b.Records != nil {
		if n = min(most, len(b.Records)); n == len(b.Records) {
			return n, len(b.Data)
		}
		return n, b.Records[n-1].End
	}
	for ; n < most && end < len(b.Data); n++ {
		if i := bytes.IndexByte(b.Data[end:], '\n'); i >= 0 {
			end += i + 1
		} else {
			end = len(b.Data)
		}
	}
	return n, end
}

// OffsetAfter returns the offset after Data[:end], which ends as in CursorAfter.
func (b *Block) OffsetAfter(end int) int64 {
	switch {
	case b.Records != nil:
		return offsetAfter(b.Records, b.Next, end)
	case b.Oversize > 0 && end > 0:
		return b.Next
	}
	return b.Offset + int64(end)
}

// offsetAfter returns the offset of the record that begins at an index; if there is none, next.
func offsetAfter(records []Record, next int64, begin int) int64 {
	if i := sort.Search(len(records), func(i int) bool { return records[i].End > begin }); i < len(records) {
		return records[i].Offset
	}
	return next
}

// AtOffset sets the cursors of a block of records: cursor makes one from an offset.
func (b *Block) AtOffset(cursor func(offset int64) Cursor) {
	records, next := b.Records, b.Next
	b.At = func(end int) Cursor { return cursor(offsetAfter(records, next, end)) }
}

// Cut removes the lines before end, which is just after a newline, from b and returns them. The result shares b's
// memory and is valid until b is released.
func (b *Block) Cut(end int) *Block {
	first := &Block{Data: b.Data[:end:end], Offset: b.Offset, Restart: b.Restart, Conn: b.Conn, At: b.At, Time: b.Time}
	if b.Records != nil {
		n := sort.Search(len(b.Records), func(i int) bool { return b.Records[i].End > end })
		first.Records, first.Next = b.Records[:n:n], b.Records[n].Offset
		b.Records = slices.Clone(b.Records[n:])
		for i := range b.Records {
			b.Records[i].End -= end
		}
	}
	b.Data, b.Offset, b.Restart = b.Data[end:], b.Offset+int64(end), false
	if at := b.At; at != nil {
		b.At = func(n int) Cursor { return at(end + n) }
	}
	return first
}

// CursorAfter returns the cursor after the lines of b.Data[:end]. end is just after a newline, or len(b.Data), which in
// an Oversize block stands for the whole line. Call it before Release.
func (b *Block) CursorAfter(end int) Cursor {
	if b.At == nil {
		return ""
	}
	return b.At(end)
}

// Release returns b's memory to its pool. Do not use b afterwards.
func (b *Block) Release() {
	if b.pool != nil {
		b.pool.put(b)
	}
}
