// Package lines decompresses streams, cuts them into blocks of whole lines, and keeps positions in
// them.
package lines

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
)

const (
	excerpt    = 64 << 10 // bytes kept of an oversized line
	emptyReads = 100      // before a reader that returns nothing is given up, as in bufio
)

// Framing says how to cut a stream into blocks.
type Framing struct {
	Pool    *source.Pool
	MaxLine int
	Room    func(bytes int) error // called before a line takes this many bytes; nil: always room
	Live    bool                  // return whole lines after each read
	Tail    bool                  // a last line without a newline counts
	Rewinds bool                  // the stream can be reread from a cursor
	Whole   func([]byte) bool     // without Tail: whether a last line without a newline counts, if Clean
	Clean   func() bool           // whether the stream ended cleanly; nil: it did
}

// A Framer cuts a decompressed stream into blocks.
type Framer struct {
	Framing
	Hole    bool // skip NUL bytes at the beginning
	Restart bool // set in the next block

	src       *bufio.Reader
	begun     bool
	off       int64 // of the block being filled
	afterTail bool  // the line before off had no newline when it was read
	filled    filled
	trail     trail
	left      int64 // bytes of a last line that does not count
	err       error // why reading ended
}

// Reset starts a new stream.
func (f *Framer) Reset(src *bufio.Reader) {
	*f = Framer{Framing: f.Framing, src: src}
	if f.Rewinds {
		f.trail.head = newHead()
	}
}

// Next returns the next block. An error, including io.EOF, comes after all lines before it, and again on each later
// call.
func (f *Framer) Next() (*source.Block, error) {
	first := !f.begun && f.off == 0 && !f.Restart
	if !f.begun {
		f.begun = true
		f.begin()
	}
	if f.filled.blk == nil && f.err == nil {
		f.refill(nil)
	}
	if first {
		f.recognize()
	}
	now := &f.filled
	for f.err == nil && (now.cut == 0 || !f.Live && now.n < now.limit) {
		switch {
		case now.n < now.limit:
			f.read()
		case first && now.limit > f.MaxLine && bytes.HasPrefix(bytes.TrimLeft(now.bytes(), feed.Marks+" \t\r"), []byte("[")):
			now.n, f.err = 0, array
		case now.limit > f.MaxLine:
			return f.oversize()
		default:
			limit := min(2*now.limit, f.MaxLine+1)
			if f.err = f.widen(limit); f.err == nil {
				now.limit = limit
			}
		}
	}
	if now.n == now.cut {
		f.lookAhead()
	}
	switch {
	case f.err == io.EOF && f.Tail && now.n > now.cut:
		b := f.emit(now.n)
		b.Tail = true
		return b, nil
	case now.cut > 0:
		return f.emit(now.cut), nil
	case now.n > 0 && f.complete():
		return f.emit(now.n), nil
	}
	return nil, f.err
}

// complete adds a newline to the last line of a connection, if the line counts.
func (f *Framer) complete() bool {
	line := f.filled.bytes()
	if len(bytes.TrimSpace(line)) == 0 {
		return false
	}
	if f.err != io.EOF || len(line) > f.MaxLine || f.Whole == nil || !f.Whole(line) || !f.isClean() {
		f.left = int64(len(line))
		return false
	}
	f.filled.grow(len(line) + 1)
	f.filled.add(copy(f.filled.blk.Buf[len(line):], "\n"))
	return true
}

func (f *Framer) isClean() bool { return f.Clean == nil || f.Clean() }

// Torn describes how a stream was cut off; "" if it was not.
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

// Ended reports whether the stream ended cleanly and everything was returned.
func (f *Framer) Ended() bool { return f.err == io.EOF && f.filled.n == 0 }

// EndsFile records that the file ends with the last block, and its size and time then.
func (f *Framer) EndsFile(size, modified int64) {
	if e := f.trail.end; e != nil {
		e.fileSize, e.fileTime = size, modified
	}
}

// Left returns the number of bytes of a last line that does not count.
func (f *Framer) Left() int64 { return f.left }

// Pos returns the number of bytes read from the stream.
func (f *Framer) Pos() int64 { return f.off + int64(f.filled.n) }

// begin skips the newline added to a last line after it was consumed.
func (f *Framer) begin() {
	if f.Hole {
		f.skipHole()
	}
	if f.afterTail && Prefix(f.src, "\n") != "" {
		p, _ := f.src.Peek(1)
		f.trail.passed(p)
		f.off++
		_, _ = f.src.Discard(1) // already peeked
	}
}

// skipHole skips the NUL bytes at the beginning of a file that was truncated under a writer that kept its offset.
func (f *Framer) skipHole() {
	for {
		p, err := f.src.Peek(max(1, f.src.Buffered()))
		n := len(p) - len(bytes.TrimLeft(p, "\x00"))
		f.trail.passed(p[:n])
		f.off += int64(n)
		_, _ = f.src.Discard(n) // already peeked
		if n == 0 || n < len(p) || err != nil {
			return
		}
	}
}

// read reads once, and again only if it got nothing.
func (f *Framer) read() {
	for range emptyReads {
		n, err := f.src.Read(f.filled.room())
		f.trail.passed(f.filled.add(n))
		f.err = err
		if n > 0 || err != nil {
			return
		}
	}
	f.err = io.ErrNoProgress
}

// lookAhead finds out whether the stream ends here, if that takes no waiting: the last block has to know.
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
	f.filled.grow(size)
	return nil
}

// refill starts a block with the rest of the previous one.
func (f *Framer) refill(rest []byte) {
	f.filled = filled{blk: f.Pool.Block()}
	f.filled.grow(len(rest))
	buf := f.filled.blk.Buf
	f.filled.n = copy(buf, rest)
	f.filled.limit = max(min(f.Pool.Size(), len(buf), f.MaxLine+1), len(rest))
}

// Drop releases the block being filled.
func (f *Framer) Drop() {
	if f.filled.blk != nil {
		f.filled.blk.Release()
		f.filled.blk = nil
	}
}

// emit returns the first end bytes as a block.
func (f *Framer) emit(end int) *source.Block {
	b, n := f.filled.blk, f.filled.n
	b.Data, b.Offset = b.Buf[:end], f.off
	f.trail.mark(b)
	b.Restart, f.Restart = f.Restart, false
	f.off += int64(end)
	f.filled = filled{}
	if end < n {
		f.refill(b.Buf[end:n])
	}
	return b
}

// oversize returns the beginning of an oversized line, and skips the rest.
func (f *Framer) oversize() (*source.Block, error) {
	now, b := &f.filled, f.filled.blk
	size := int64(now.n)
	f.trail.last.reset()
	f.trail.addLast(now.bytes())
	if now.n = min(now.n, excerpt); len(b.Buf) > max(f.Pool.Size(), excerpt) {
		b.Buf = bytes.Clone(now.bytes()) // frees the rest before the block is folded
	}
	for whole := false; !whole && f.err == nil; {
		p, err := f.src.ReadSlice('\n')
		size += int64(len(p))
		keep := p[:min(len(p), excerpt-now.n)]
		if n := now.n + len(keep); n > len(b.Buf) {
			if err := f.widen(excerpt); err != nil {
				return nil, f.cutOff(size, err)
			}
		}
		now.n += copy(b.Buf[now.n:], keep)
		f.trail.addLast(p)
		f.trail.passed(p)
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
	f.emit(now.n)
	f.off = b.Offset + size
	b.Oversize, b.Next = size, f.off
	if e, last := f.trail.end, f.trail.last.bytes(); e != nil {
		e.oversize, e.lastLen, e.lastSum = size, len(last), sum(last)
	}
	return b, nil
}

// cutOff records that an oversized line does not count because it has no end.
func (f *Framer) cutOff(size int64, err error) error {
	f.off, f.filled.n, f.left, f.err = f.off+size, 0, size, err
	return err
}

// filled is the block being filled.
type filled struct {
	blk   *source.Block // nil: none
	n     int           // bytes in the block
	cut   int           // end of its last whole line
	limit int           // limits n to MaxLine+1, so every whole line in the block is short enough
}

func (b *filled) bytes() []byte { return b.blk.Buf[:b.n] }

// room returns the memory for the next bytes.
func (b *filled) room() []byte { return b.blk.Buf[b.n:b.limit] }

// add counts n bytes that were added to the block, and returns them.
func (b *filled) add(n int) []byte {
	p := b.blk.Buf[b.n : b.n+n]
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		b.cut = b.n + i + 1
	}
	b.n += n
	return p
}

// grow makes room in the block for size bytes.
func (b *filled) grow(size int) {
	if size > len(b.blk.Buf) {
		buf := make([]byte, size)
		copy(buf, b.bytes())
		b.blk.Buf = buf
	}
}
