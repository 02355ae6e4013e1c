// Package lines decompresses streams, cuts them into blocks of whole lines, and keeps positions in
// them.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/weirsync/weir/internal/source"
)

const (
	excerpt    = 64 << 10 // bytes kept of a line that is too long
	emptyReads = 100      // before a reader that gives nothing is given up, as in bufio
)

// ErrUTF16 is the error of a stream that is not UTF-8.
var ErrUTF16 = errors.New("is UTF-16; weir reads UTF-8: iconv -f UTF-16 -t UTF-8")

const (
	bom     = "\xef\xbb\xbf"
	utf16le = "\xff\xfe"
	utf16be = "\xfe\xff"
)

// A Framer cuts a decompressed stream into blocks.
type Framer struct {
	Pool    *source.Pool
	MaxLine int
	Room    func(bytes int) error // is asked before a line takes this many; nil: always
	Live    bool                  // whole lines go out after each read
	Tail    bool                  // a last line without newline counts
	Rewinds bool                  // the stream can be read again from a cursor
	Whole   func([]byte) bool     // where Tail is not set: whether such a line counts, if the stream
	Clean   func() bool           // ended cleanly; nil: it did
	Hole    bool                  // NUL bytes at the beginning are passed over
	Restart bool                  // of the next block

	src *bufio.Reader

	off       int64  // of the block that is being filled
	head      []byte // first bytes of the stream
	begun     bool
	afterTail bool // the line before off had no newline when it was read

	blk   *source.Block // being filled
	n     int           // bytes in it
	cut   int           // end of the last whole line in it
	limit int           // n's, at most maxLine+1: so every whole line in it is short enough
	err   error         // why there is nothing more to read
	left  int64         // bytes of a last line that does not count
	last  window        // of a line that is too long
	end   *end          // of the last block; nil where the stream has no cursors
}

// Reset makes f begin a new stream.
func (f *Framer) Reset(src *bufio.Reader) {
	*f = Framer{
		src: src, Pool: f.Pool, MaxLine: f.MaxLine, Room: f.Room, Live: f.Live, Tail: f.Tail, Rewinds: f.Rewinds, Whole: f.Whole, Clean: f.Clean,
	}
	if f.Rewinds {
		f.head = newHead()
	}
}

// Next returns the next block. An error, also io.EOF, comes after all lines
// before it, and again in each call after that.
func (f *Framer) Next() (*source.Block, error) {
	if !f.begun {
		f.begun = true
		f.begin()
	}
	if f.blk == nil && f.err == nil {
		f.refill(nil)
	}
	for f.err == nil && (f.cut == 0 || !f.Live && f.n < f.limit) {
		switch {
		case f.n < f.limit:
			f.read()
		case f.limit > f.MaxLine:
			return f.oversize()
		default:
			limit := min(2*f.limit, f.MaxLine+1)
			if f.err = f.widen(limit); f.err == nil {
				f.limit = limit
			}
		}
	}
	if f.n == f.cut {
		f.lookAhead()
	}
	switch {
	case f.err == io.EOF && f.Tail && f.n > f.cut:
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
func (f *Framer) complete() bool {
	line := f.blk.Buf[:f.n]
	if len(bytes.TrimSpace(line)) == 0 {
		return false
	}
	if f.err != io.EOF || f.n > f.MaxLine || f.Whole == nil || !f.Whole(line) || !f.isClean() {
		f.left = int64(f.n)
		return false
	}
	if f.n == len(f.blk.Buf) {
		f.blk.Buf = append(f.blk.Buf, 0)
	}
	f.blk.Buf[f.n] = '\n'
	f.n++
	return true
}

func (f *Framer) isClean() bool { return f.Clean == nil || f.Clean() }

// Torn describes the end of a stream that was cut off; "" for one that was not.
func (f *Framer) Torn() string {
	s := ""
	if f.left > 0 {
		s = fmt.Sprintf(" within a line: %d bytes are left out", f.left)
	}
	if !f.isClean() {
		s += " (it may have been cut off: TLS did not say that it closes)"
	}
	return s
}

// Ended reports whether the stream ended well and everything was handed out.
func (f *Framer) Ended() bool { return f.err == io.EOF && f.n == 0 }

// EndsFile notes that the file ends with the last block, and how it is then.
func (f *Framer) EndsFile(size, modified int64) {
	if f.end != nil {
		f.end.fileSize, f.end.fileTime = size, modified
	}
}

// Left is the number of bytes of a last line that does not count.
func (f *Framer) Left() int64 { return f.left }

// Pos is the number of bytes that were read of the stream.
func (f *Framer) Pos() int64 { return f.off + int64(f.n) }

// begin passes over a byte order mark, or over the newline that a last line
// got after it had been consumed.
func (f *Framer) begin() {
	skip := 0
	if f.Hole {
		f.passHole()
	}
	switch {
	case f.off == 0:
		switch Prefix(f.src, bom, utf16le, utf16be) {
		case bom:
			skip = len(bom)
		case utf16le, utf16be:
			f.err = ErrUTF16
		}
	case f.afterTail && Prefix(f.src, "\n") != "":
		skip = 1
	}
	p, _ := f.src.Peek(skip)
	f.head = Extend(f.head, p)
	f.off += int64(len(p))
	_, _ = f.src.Discard(len(p)) // p was peeked
}

// passHole passes over the NUL bytes at the beginning of a file that was truncated while its
// writer, which does not append, kept its offset.
func (f *Framer) passHole() {
	for {
		p, err := f.src.Peek(max(1, f.src.Buffered()))
		n := len(p) - len(bytes.TrimLeft(p, "\x00"))
		f.head = Extend(f.head, p[:n])
		f.off += int64(n)
		_, _ = f.src.Discard(n) // p was peeked
		if n == 0 || n < len(p) || err != nil {
			return
		}
	}
}

// read reads once, and again only if nothing came.
func (f *Framer) read() {
	for range emptyReads {
		n, err := f.src.Read(f.blk.Buf[f.n:f.limit])
		p := f.blk.Buf[f.n : f.n+n]
		if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
			f.cut = f.n + i + 1
		}
		f.head = Extend(f.head, p)
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
func (f *Framer) lookAhead() {
	if f.err == nil && !f.Live {
		_, f.err = f.src.Peek(1)
	}
}

// widen makes room in the block for a line of size bytes.
func (f *Framer) widen(size int) error {
	if f.Room != nil {
		if err := f.Room(size); err != nil {
			return err
		}
	}
	if size > len(f.blk.Buf) {
		buf := make([]byte, size)
		copy(buf, f.blk.Buf[:f.n])
		f.blk.Buf = buf
	}
	return nil
}

// refill starts a block with what is left of the one before.
func (f *Framer) refill(rest []byte) {
	f.blk = f.Pool.Block()
	if len(rest) > len(f.blk.Buf) {
		f.blk.Buf = make([]byte, len(rest))
	}
	f.n, f.cut = copy(f.blk.Buf, rest), 0
	f.limit = max(min(f.Pool.Size(), len(f.blk.Buf), f.MaxLine+1), f.n)
}

// Drop gives back the block that is being filled.
func (f *Framer) Drop() {
	if f.blk != nil {
		f.blk.Release()
		f.blk = nil
	}
}

// emit hands out the first end bytes.
func (f *Framer) emit(end int) *source.Block {
	b, n := f.blk, f.n
	b.Data, b.Offset = b.Buf[:end], f.off
	f.end = nil
	if f.head != nil {
		f.end = newEnd(b, f.head)
	}
	b.Restart, f.Restart = f.Restart, false
	f.off += int64(end)
	f.blk, f.n, f.cut = nil, 0, 0
	if end < n {
		f.refill(b.Buf[end:n])
	}
	return b
}

// oversize hands out the beginning of a line that is too long and reads past
// the rest of it.
func (f *Framer) oversize() (*source.Block, error) {
	b, size := f.blk, int64(f.n)
	f.last.reset()
	f.addLast(b.Buf[:f.n])
	if f.n = min(f.n, excerpt); len(b.Buf) > max(f.Pool.Size(), excerpt) {
		b.Buf = bytes.Clone(b.Buf[:f.n]) // the rest need not wait in memory until the block is folded
	}
	for whole := false; !whole && f.err == nil; {
		p, err := f.src.ReadSlice('\n')
		size += int64(len(p))
		keep := p[:min(len(p), excerpt-f.n)]
		if n := f.n + len(keep); n > len(b.Buf) {
			if err := f.widen(excerpt); err != nil {
				return nil, f.cutOff(size, err)
			}
		}
		f.n += copy(b.Buf[f.n:], keep)
		f.addLast(p)
		f.head = Extend(f.head, p)
		if whole = err == nil; whole {
			f.lookAhead()
		} else if err != bufio.ErrBufferFull {
			f.err = err
			b.Tail = err == io.EOF && f.Tail
			if !b.Tail {
				return nil, f.cutOff(size, err)
			}
		}
	}
	f.emit(f.n)
	f.off = b.Offset + size
	b.Oversize = size
	if e := f.end; e != nil {
		e.oversize, e.lastLen, e.lastSum = size, len(f.last.bytes()), sum(f.last.bytes())
	}
	return b, nil
}

// addLast adds a part of a line that is too long to the bytes that a cursor after it knows.
func (f *Framer) addLast(p []byte) {
	if f.head != nil {
		f.last.add(p)
	}
}

// cutOff notes that a line that is too long does not count, because it has no end.
func (f *Framer) cutOff(size int64, err error) error {
	f.off, f.n, f.left, f.err = f.off+size, 0, size, err
	return err
}
