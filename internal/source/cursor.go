package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc64"
)

const (
	headMax = 4 << 10  // bytes at a stream's start that tell it from others
	lastMax = 64 << 10 // bytes before a position that tell that they are still the same
)

// A Cursor says where the next unread line of a source starts, and by what the source is known to
// be still the same one: JSON of the source's own. "" is the start, and all that there is of a
// source that cannot go back. It fits into other JSON as it is.
type Cursor string

// MarshalJSON implements json.Marshaler.
func (c Cursor) MarshalJSON() ([]byte, error) { return []byte(c), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Cursor) UnmarshalJSON(text []byte) error {
	*c = Cursor(text)
	return nil
}

// position is what a Cursor holds.
type position struct {
	Offset int64 // bytes of the decompressed stream before it

	HeadLen int    // first bytes of the decompressed stream that HeadSum covers, 0 to 4096
	HeadSum uint64 // CRC-64 (ECMA)
	LastLen int    // bytes that LastSum covers, which end at Offset: the last line with its newline, at most its last 64 KiB
	LastSum uint64 // CRC-64 (ECMA)

	FileSize int64 // raw bytes of the file if its end was reached and everything consumed, else 0
	FileTime int64 // its modification time then, ns since 1970
}

// read returns what a cursor of a source holds.
func (c Cursor) read(name string) (p position, err error) {
	if c == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(c), &p); err != nil {
		return p, fmt.Errorf("the checkpoint of %s: %w", name, err)
	}
	if p.Offset < 0 {
		return p, &ChangedError{name, fmt.Sprintf("has a checkpoint that cannot be (byte %d)", p.Offset)}
	}
	return p, nil
}

// ChangedError tells of a source that no longer matches the position that it
// should be resumed from.
type ChangedError struct {
	Name string
	What string // says what differs
}

func (e *ChangedError) Error() string {
	return e.Name + " " + e.What + "; to read it from the start: --from-start"
}

func shrank(name string, size int64, p position) error {
	return &ChangedError{name, fmt.Sprintf("shrank below the checkpoint: %d bytes now, %d were read before", size, p.Offset)}
}

// check compares the first and last bytes before p with those of the last run.
func (p position) check(name string, head, last []byte) error {
	if p.HeadLen < 0 || p.HeadLen > len(head) || sum(head[:p.HeadLen]) != p.HeadSum {
		return &ChangedError{name, fmt.Sprintf("is not the file that was read before: its first %d bytes differ", p.HeadLen)}
	}
	if p.LastLen < 0 || p.LastLen > len(last) || sum(last[len(last)-p.LastLen:]) != p.LastSum {
		return &ChangedError{name, fmt.Sprintf("is not the file that was read before: the %d bytes before offset %d differ", p.LastLen, p.Offset)}
	}
	return nil
}

// CursorAfter returns the cursor after the lines of b.Data[:end]; end is just past a newline or
// len(b.Data), which in an Oversize block stands for the whole line. Call it before Release.
func (b *Block) CursorAfter(end int) Cursor {
	if b.At != nil {
		return b.At(end)
	}
	if b.head == nil {
		return ""
	}
	p := position{Offset: b.Offset + int64(end)}
	if b.Oversize > 0 {
		p.Offset = b.Offset + b.Oversize
		p.LastLen, p.LastSum = b.lastLen, b.lastSum
	} else if end > 0 {
		start := bytes.LastIndexByte(b.Data[:end-1], '\n') + 1
		last := b.Data[max(start, end-lastMax):end]
		p.LastLen, p.LastSum = len(last), sum(last)
	}
	p.HeadLen = int(min(int64(len(b.head)), p.Offset))
	p.HeadSum = sum(b.head[:p.HeadLen])
	if end == len(b.Data) {
		p.FileSize, p.FileTime = b.fileSize, b.fileTime
	}
	text, _ := json.Marshal(p) // numbers
	return Cursor(text)
}

var ecma = crc64.MakeTable(crc64.ECMA)

func sum(p []byte) uint64 { return crc64.Checksum(p, ecma) }

// newHead returns memory for a stream's first bytes; see extend.
func newHead() []byte { return make([]byte, 0, headMax) }

// extend appends to head what it lacks of a stream's first headMax bytes. Blocks share the array
// that newHead has made; where there is none, nothing is kept.
func extend(head, p []byte) []byte {
	return append(head, p[:min(len(p), cap(head)-len(head))]...)
}

// A window keeps the last lastMax bytes that were added.
type window struct {
	buf []byte
}

func (w *window) reset() { w.buf = w.buf[:0] }

func (w *window) add(p []byte) {
	if w.buf == nil {
		w.buf = make([]byte, 0, 2*lastMax)
	}
	p = p[max(0, len(p)-lastMax):]
	if len(w.buf)+len(p) > cap(w.buf) {
		w.buf = w.buf[:copy(w.buf, w.bytes())]
	}
	w.buf = append(w.buf, p...)
}

func (w *window) bytes() []byte { return w.buf[max(0, len(w.buf)-lastMax):] }
