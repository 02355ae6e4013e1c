package source

// Block is a run of whole lines. It belongs to who got it from Next until
// Release.
type Block struct {
	// Data holds lines that end with '\n'; see Tail and Oversize.
	Data []byte
	// Offset is that of Data[0] in the decompressed stream, in bytes.
	Offset int64
	// Tail reports that the stream ended and the last line has no newline.
	Tail bool
	// Oversize, if not 0, is the length in bytes, newline included, of one
	// line over Options.MaxLine. Data is its first 64 KiB then.
	Oversize int64
	// Restart reports that a followed file was rotated or truncated, or a connection made
	// again: offsets and lines restart at 0 with this block.
	Restart bool
	// Conn is the number of the connection that brought the lines, from 1; 0 for other
	// sources, and for what was read back from a disk.
	Conn int
	// At returns the cursor after the lines of Data[:end]; nil where the lane has none.
	At func(end int) Cursor

	Buf  []byte // Data's memory, which who fills it may replace
	pool *Pool  // whose that is; nil: nobody's
}

// Cut takes the lines before end, which is just past a newline, off the beginning of b. What
// it returns lies in b's memory, and is good until b is released.
func (b *Block) Cut(end int) *Block {
	first := &Block{Data: b.Data[:end:end], Offset: b.Offset, Restart: b.Restart, Conn: b.Conn, At: b.At}
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
