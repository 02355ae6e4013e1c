package source

import (
	"bytes"
	"slices"
	"sort"
	"time"
)

// Block is a run of whole lines. It belongs to who got it from Next until
// Release.
type Block struct {
	// Data holds lines that end with '\n'; see Tail, Oversize and Records.
	Data []byte
	// Records say where the messages of a lane of records end, which may have newlines in them:
	// each is followed by one more byte in Data. It is not nil then, also where no record is left
	// of what was read. Next is the offset after them.
	Records []Record
	Next    int64
	// Time is that of the last record; zero where none is known.
	Time time.Time
	// Offset is that of Data[0] in the decompressed stream, in bytes.
	Offset int64
	// Tail reports that the stream ended and the last line has no newline.
	Tail bool
	// Line is the number of the first line, from 1; 0: that after the last line of the block before.
	Line int64
	// Oversize, if not 0, is the length in bytes, newline included, of one
	// line over Options.MaxLine. Data is its first 64 KiB then.
	Oversize int64
	// Restart reports that a followed file was rotated or truncated, or a connection made
	// again: offsets and lines restart at 0 with this block.
	Restart bool
	// Conn is the number of the connection that brought the lines, from 1; 0 for other
	// sources, and for lines that an earlier run has put on a disk.
	Conn int
	// At returns the cursor after the lines of Data[:end]; nil where the lane has none.
	At func(end int) Cursor

	Buf  []byte // Data's memory, which who fills it may replace
	pool *Pool  // whose that is; nil: nobody's
}

// A Record is a message of a lane whose offsets count messages.
type Record struct {
	Offset int64
	End    int // just past the byte that follows it in Data
	Kind   RecordKind
}

// RecordKind says what a record is.
type RecordKind uint8

// What a record is.
const (
	Message   RecordKind = iota
	Tombstone            // it has the key of a row that is to be removed
	NoValue              // it has no value, and says nothing of a row
	Binary               // it is not JSON: an encoding that needs a schema
	TooLong              // there is only its beginning
)

// Lines returns how many lines the block has, at most most, and the index after these.
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
		return b.Offset + b.Oversize
	}
	return b.Offset + int64(end)
}

// offsetAfter returns the offset of the record that begins at an index, or next.
func offsetAfter(records []Record, next int64, begin int) int64 {
	if i := sort.Search(len(records), func(i int) bool { return records[i].End > begin }); i < len(records) {
		return records[i].Offset
	}
	return next
}

// AtOffset gives a block of records cursors, which offsets make.
func (b *Block) AtOffset(cursor func(offset int64) Cursor) {
	records, next := b.Records, b.Next
	b.At = func(end int) Cursor { return cursor(offsetAfter(records, next, end)) }
}

// Cut takes the lines before end, which is just past a newline, off the beginning of b. What
// it returns lies in b's memory, and is good until b is released.
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

// CursorAfter returns the cursor after the lines of b.Data[:end]; end is just past a newline or
// len(b.Data), which in an Oversize block stands for the whole line. Call it before Release.
func (b *Block) CursorAfter(end int) Cursor {
	if b.At == nil {
		return ""
	}
	return b.At(end)
}

// Release gives b's memory back. Nothing of b may be used after it.
func (b *Block) Release() {
	if b.pool != nil {
		b.pool.put(b)
	}
}
