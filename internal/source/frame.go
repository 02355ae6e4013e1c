package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	blockSize  = 256 << 10 // bytes of a block unless one line is longer
	recycleMax = 4 * blockSize
	excerpt    = 64 << 10 // bytes kept of a line that is too long
	readSize   = 64 << 10 // bytes that are read ahead of the framer
	emptyReads = 100      // before a reader that gives nothing is given up, as in bufio
)

var errUTF16 = errors.New("is UTF-16; weir reads UTF-8: iconv -f UTF-16 -t UTF-8")

const (
	bom     = "\xef\xbb\xbf"
	utf16le = "\xff\xfe"
	utf16be = "\xfe\xff"
)

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
	// At, where it is not nil, returns the cursors of the block in place of the stream's own:
	// those of where its lines are kept meanwhile.
	At func(end int) Cursor

	buf                []byte // Data's memory
	pool               *Pool  // whose that is; nil: nobody's
	head               []byte // of the stream, as far as it was read; nil where it has no cursors
	lastLen            int    // of an Oversize line, see position
	lastSum            uint64
	fileSize, fileTime int64 // see position; 0 unless the file ends with Data
}

// Cut takes the lines before end, which is just past a newline, off the beginning of b. What
// it returns lies in b's memory, and is good until b is released.
func (b *Block) Cut(end int) *Block {
	first := &Block{Data: b.Data[:end:end], Offset: b.Offset, Restart: b.Restart, Conn: b.Conn, At: b.At, head: b.head}
	b.Data, b.Offset, b.Restart = b.Data[end:], b.Offset+int64(end), false
	if at := b.At; at != nil {
		b.At = func(n int) Cursor { return at(end + n) }
	}
	return first
}

// A framer cuts a decompressed stream into blocks.
type framer struct {
	src     *bufio.Reader
	pool    *Pool
	maxLine int
	permits []permit          // for long lines, by their length
	held    int               // how many of them, until forgo
	live    bool              // whole lines go out after each read
	tail    bool              // a last line without newline counts
	rewinds bool              // the stream can be read again from a cursor
	whole   func([]byte) bool // where tail is not set: whether such a line counts, if the stream
	clean   func() bool       // ended cleanly; nil: it did
	hole    bool              // NUL bytes at the beginning are passed over

	off       int64  // of the block that is being filled
	head      []byte // first bytes of the stream
	begun     bool
	afterTail bool // the line before off had no newline when it was read
	restart   bool

	blk   *Block // being filled
	n     int    // bytes in it
	cut   int    // end of the last whole line in it
	limit int    // n's, at most maxLine+1: so every whole line in it is short enough
	err   error  // why there is nothing more to read
	left  int64  // bytes of a last line that does not count
	last  window // of a line that is too long
}

// reset makes f begin a new stream.
func (f *framer) reset(src *bufio.Reader) {
	*f = framer{
		src: src, pool: f.pool, maxLine: f.maxLine, permits: f.permits, held: f.held, live: f.live, tail: f.tail, rewinds: f.rewinds, whole: f.whole, clean: f.clean,
	}
	if f.rewinds {
		f.head = newHead()
	}
}

// next returns the next block. An error, also io.EOF, comes after all lines
// before it, and again in each call after that.
func (f *framer) next() (*Block, error) {
	if !f.begun {
		f.begun = true
		f.begin()
	}
	if f.blk == nil && f.err == nil {
		f.refill(nil)
	}
	for f.err == nil && (f.cut == 0 || !f.live && f.n < f.limit) {
		if f.n == f.limit && !f.grow() {
			return f.oversize()
		}
		f.read()
	}
	if f.n == f.cut {
		f.lookAhead()
	}
	switch {
	case f.err == io.EOF && f.tail && f.n > f.cut:
		b := f.emit(f.n)
		b.Tail = true
		return b, nil
	case f.cut > 0:
		return f.emit(f.cut), nil
	case f.n > 0 && f.complete():
		return f.emit(f.n), nil
	}
	return nil, f.err
}

// complete gives the last line of a connection its newline, if it counts.
func (f *framer) complete() bool {
	line := f.blk.buf[:f.n]
	if len(bytes.TrimSpace(line)) == 0 {
		return false
	}
	if f.err != io.EOF || f.n > f.maxLine || f.whole == nil || !f.whole(line) || !f.isClean() {
		f.left = int64(f.n)
		return false
	}
	if f.n == len(f.blk.buf) {
		f.blk.buf = append(f.blk.buf, 0)
	}
	f.blk.buf[f.n] = '\n'
	f.n++
	return true
}

func (f *framer) isClean() bool { return f.clean == nil || f.clean() }

// torn describes the end of a stream that was cut off; "" for one that was not.
func (f *framer) torn() string {
	s := ""
	if f.left > 0 {
		s = fmt.Sprintf(" within a line: %d bytes are left out", f.left)
	}
	if !f.isClean() {
		s += " (it may have been cut off: TLS did not say that it closes)"
	}
	return s
}

// ended reports whether the stream ended well and everything was handed out.
func (f *framer) ended() bool { return f.err == io.EOF && f.n == 0 }

// pos is the number of bytes that were read of the stream.
func (f *framer) pos() int64 { return f.off + int64(f.n) }

// begin passes over a byte order mark, or over the newline that a last line
// got after it had been consumed.
func (f *framer) begin() {
	skip := 0
	if f.hole {
		f.passHole()
	}
	switch {
	case f.off == 0:
		switch prefix(f.src, bom, utf16le, utf16be) {
		case bom:
			skip = len(bom)
		case utf16le, utf16be:
			f.err = errUTF16
		}
	case f.afterTail && prefix(f.src, "\n") != "":
		skip = 1
	}
	p, _ := f.src.Peek(skip)
	f.head = extend(f.head, p)
	f.off += int64(len(p))
	_, _ = f.src.Discard(len(p)) // p was peeked
}

// passHole passes over the NUL bytes at the beginning of a file that was truncated while its
// writer, which does not append, kept its offset.
func (f *framer) passHole() {
	for {
		p, err := f.src.Peek(max(1, f.src.Buffered()))
		n := len(p) - len(bytes.TrimLeft(p, "\x00"))
		f.head = extend(f.head, p[:n])
		f.off += int64(n)
		_, _ = f.src.Discard(n) // p was peeked
		if n == 0 || n < len(p) || err != nil {
			return
		}
	}
}

// read reads once, and again only if nothing came.
func (f *framer) read() {
	for range emptyReads {
		n, err := f.src.Read(f.blk.buf[f.n:f.limit])
		p := f.blk.buf[f.n : f.n+n]
		if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
			f.cut = f.n + i + 1
		}
		f.head = extend(f.head, p)
		f.n += n
		f.err = err
		if n > 0 || err != nil {
			return
		}
	}
	f.err = io.ErrNoProgress
}

// lookAhead finds out whether the stream ends here, where that takes no
// waiting: the last block has to know.
func (f *framer) lookAhead() {
	if f.err == nil && !f.live {
		_, f.err = f.src.Peek(1)
	}
}

// grow makes room for a longer line, unless that would be too long.
func (f *framer) grow() bool {
	limit := min(2*f.limit, f.maxLine+1)
	if limit == f.limit {
		return false
	}
	f.limit = limit
	for f.held < len(f.permits) && limit > f.permits[f.held].over {
		f.permits[f.held].tokens <- struct{}{}
		f.held++
	}
	if limit > len(f.blk.buf) {
		buf := make([]byte, limit)
		copy(buf, f.blk.buf[:f.n])
		f.blk.buf = buf
	}
	return true
}

// forgo lets another sender have a long line.
func (f *framer) forgo() {
	for ; f.held > 0; f.held-- {
		<-f.permits[f.held-1].tokens
	}
}

// refill starts a block with what is left of the one before.
func (f *framer) refill(rest []byte) {
	f.blk = f.pool.block()
	if len(rest) > len(f.blk.buf) {
		f.blk.buf = make([]byte, len(rest))
	}
	f.n, f.cut = copy(f.blk.buf, rest), 0
	f.limit = max(min(f.pool.size, len(f.blk.buf), f.maxLine+1), f.n)
}

// drop gives back the block that is being filled.
func (f *framer) drop() {
	if f.blk != nil {
		f.blk.Release()
		f.blk = nil
	}
}

// emit hands out the first end bytes.
func (f *framer) emit(end int) *Block {
	b, n := f.blk, f.n
	b.Data, b.Offset, b.head = b.buf[:end], f.off, f.head
	b.Restart, f.restart = f.restart, false
	f.off += int64(end)
	f.blk, f.n, f.cut = nil, 0, 0
	if end < n {
		f.refill(b.buf[end:n])
	}
	return b
}

// oversize hands out the beginning of a line that is too long and reads past
// the rest of it.
func (f *framer) oversize() (*Block, error) {
	b := f.blk
	size := int64(f.n)
	data := b.buf[:min(f.n, excerpt)]
	last := &f.last
	last.reset()
	last.add(b.buf[:f.n])
	for whole := false; !whole && f.err == nil; {
		p, err := f.src.ReadSlice('\n')
		size += int64(len(p))
		data = append(data, p[:min(len(p), excerpt-len(data))]...)
		last.add(p)
		f.head = extend(f.head, p)
		if whole = err == nil; whole {
			f.lookAhead()
		} else if err != bufio.ErrBufferFull {
			f.err = err
			b.Tail = err == io.EOF && f.tail
			if !b.Tail {
				f.off, f.n, f.left = f.off+size, 0, size
				return nil, err
			}
		}
	}
	f.n = len(data)
	f.emit(len(data))
	f.off = b.Offset + size
	b.Oversize = size
	b.lastLen, b.lastSum = len(last.bytes()), sum(last.bytes())
	return b, nil
}
