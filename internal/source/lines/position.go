package lines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc64"
	"io"

	"github.com/weirsync/weir/internal/source"
)

// How many bytes of a stream a position covers with checksums.
const (
	HeadMax = 4 << 10  // bytes at a stream's start, to identify it
	LastMax = 64 << 10 // bytes before a position, to detect a change
)

// A Position is the content of a cursor in a stream of lines.
type Position struct {
	Offset int64 // decompressed bytes before it

	HeadLen int    // length of the stream's decompressed start that HeadSum covers, 0 to 4096
	HeadSum uint64 // CRC-64 (ECMA)
	LastLen int    // bytes before Offset that LastSum covers: the last line with its newline, at most its last 64 KiB
	LastSum uint64 // CRC-64 (ECMA)

	FileSize int64 // raw file size if its end was reached and everything consumed, else 0
	FileTime int64 // its modification time then, in ns since 1970
}

// ReadCursor decodes a source's cursor.
func ReadCursor(c source.Cursor, name string) (p Position, err error) {
	if c == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(c), &p); err != nil {
		return p, fmt.Errorf("the checkpoint of %s: %w", name, err)
	}
	if p.Offset < 0 {
		return p, &source.ChangedError{Name: name, What: fmt.Sprintf("has an invalid checkpoint (byte %d)", p.Offset)}
	}
	return p, nil
}

// Shrank returns the error for a source that is shorter than a Position.
func Shrank(name string, size int64, p Position) error {
	return &source.ChangedError{Name: name, What: fmt.Sprintf("shrank below the checkpoint: %d bytes now, %d were read before", size, p.Offset)}
}

// Check compares the first and last bytes before p, at most HeadMax and LastMax of them, with what the last run read.
// It returns a [source.ChangedError] if they differ.
func (p Position) Check(name string, head, last []byte) error {
	if p.HeadLen < 0 || p.HeadLen > len(head) || sum(head[:p.HeadLen]) != p.HeadSum {
		return &source.ChangedError{Name: name, What: fmt.Sprintf("is not the file that was read before: its first %d bytes differ", p.HeadLen)}
	}
	if p.LastLen < 0 || p.LastLen > len(last) || sum(last[len(last)-p.LastLen:]) != p.LastSum {
		return &source.ChangedError{Name: name, What: fmt.Sprintf("is not the file that was read before: the %d bytes before offset %d differ", p.LastLen, p.Offset)}
	}
	return nil
}

// Matches reports whether a decompressed stream, read from its start, has the bytes before p that the last run read.
func (p Position) Matches(content io.Reader) bool {
	past := bothEnds{head: newHead()}
	if _, err := io.CopyN(&past, content, int64(p.HeadLen)); err != nil || sum(past.head) != p.HeadSum {
		return false // most files differ in their first bytes
	}
	_, err := io.CopyN(&past, content, p.Offset-int64(p.HeadLen))
	return err == nil && p.Check("", past.head, past.last.bytes()) == nil
}

// end describes the end of a block in a stream with cursors.
type end struct {
	data               []byte
	offset             int64  // data's offset
	head               []byte // of the stream, as far as it was read
	oversize           int64  // as in the block
	lastLen            int    // of an oversized line, see Position
	lastSum            uint64
	fileSize, fileTime int64 // see Position; 0 unless the file ends with the block
}

// cursorAfter implements [source.Block.CursorAfter].
func (e *end) cursorAfter(at int) source.Cursor {
	p := Position{Offset: e.offset + int64(at)}
	if e.oversize > 0 {
		p.Offset = e.offset + e.oversize
		p.LastLen, p.LastSum = e.lastLen, e.lastSum
	} else if at > 0 {
		start := bytes.LastIndexByte(e.data[:at-1], '\n') + 1
		last := e.data[max(start, at-LastMax):at]
		p.LastLen, p.LastSum = len(last), sum(last)
	}
	p.HeadLen = int(min(int64(len(e.head)), p.Offset))
	p.HeadSum = sum(e.head[:p.HeadLen])
	if at == len(e.data) {
		p.FileSize, p.FileTime = e.fileSize, e.fileTime
	}
	text, _ := json.Marshal(p) // numbers
	return source.Cursor(text)
}

var ecma = crc64.MakeTable(crc64.ECMA)

func sum(p []byte) uint64 { return crc64.Checksum(p, ecma) }

// newHead allocates memory for a stream's first bytes; see Extend.
func newHead() []byte { return make([]byte, 0, HeadMax) }

// Extend appends to head the missing ones of a stream's first HeadMax bytes. Blocks share the array from newHead;
// without one, nothing is kept.
func Extend(head, p []byte) []byte {
	return append(head, p[:min(len(p), cap(head)-len(head))]...)
}

// A trail is what a stream's cursors need besides the offset. The zero value is for a stream without cursors.
type trail struct {
	head []byte // the stream's first bytes
	last window // the end of an oversized line
	end  *end   // of the last block
}

// passed records the stream's next bytes.
func (t *trail) passed(p []byte) { t.head = Extend(t.head, p) }

// addLast records the next bytes of an oversized line.
func (t *trail) addLast(p []byte) {
	if t.head != nil {
		t.last.add(p)
	}
}

// mark sets a block's cursors.
func (t *trail) mark(b *source.Block) {
	t.end = nil
	if t.head != nil {
		t.end = &end{data: b.Data, offset: b.Offset, head: t.head}
		b.At = t.end.cursorAfter
	}
}

// A window keeps the last LastMax bytes added.
type window struct {
	buf []byte
}

func (w *window) reset() { w.buf = w.buf[:0] }

func (w *window) add(p []byte) {
	if w.buf == nil {
		w.buf = make([]byte, 0, 2*LastMax)
	}
	p = p[max(0, len(p)-LastMax):]
	if len(w.buf)+len(p) > cap(w.buf) {
		w.buf = w.buf[:copy(w.buf, w.bytes())]
	}
	w.buf = append(w.buf, p...)
}

func (w *window) bytes() []byte { return w.buf[max(0, len(w.buf)-LastMax):] }
