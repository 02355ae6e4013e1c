package source

import (
	"bytes"
	"fmt"
	"hash/crc64"
)

const (
	headMax = 4 << 10  // bytes at a stream's start that tell it from others
	lastMax = 64 << 10 // bytes before a position that tell that they are still the same
)

// Position is where the next unread line of a source starts, and what tells
// that the source is still the same one. The zero Position is the start.
type Position struct {
	Offset int64 // bytes of the decompressed stream before it
	Line   int64 // lines before it

	HeadLen int    // first bytes of the decompressed stream that HeadSum covers, 0 to 4096
	HeadSum uint64 // CRC-64 (ECMA)
	LastLen int    // bytes that LastSum covers, which end at Offset: the last line with its newline, at most its last 64 KiB
	LastSum uint64 // CRC-64 (ECMA)

	FileSize int64 // raw bytes of the file if its end was reached and everything consumed, else 0
	FileTime int64 // its modification time then, ns since 1970

	// Resume is what a feed that is dialled goes on from, in its own words.
	Resume string `json:",omitempty"`
	// Rejected tells the bad lines that came behind it, which the feed may send again:
	// for each a space and its CRC-64 (ECMA) in 16 hexadecimal digits. Before tells those
	// that came right before its first message.
	Rejected string `json:",omitempty"`
	Before   string `json:",omitempty"`

	// SpoolID names the spool that the lines went through, "" for none, and SpoolAt is
	// the offset in it.
	SpoolID string `json:",omitempty"`
	SpoolAt int64  `json:",omitempty"`
}

// ChangedError tells of a source that no longer matches the position that it
// should be resumed from.
type ChangedError struct {
	Name string
	What string // says what differs
}

func (e *ChangedError) Error() string {
	return e.Name + " " + e.What + "; to read it anew: --from-start"
}

func shrank(name string, size int64, p Position) error {
	return &ChangedError{name, fmt.Sprintf("shrank below the checkpoint: %d bytes now, %d were read before", size, p.Offset)}
}

// check compares the first and last bytes before p with those of the last run.
func (p Position) check(name string, head, last []byte) error {
	if p.HeadLen < 0 || p.HeadLen > len(head) || sum(head[:p.HeadLen]) != p.HeadSum {
		return &ChangedError{name, fmt.Sprintf("is not the file that was read before: its first %d bytes differ", p.HeadLen)}
	}
	if p.LastLen < 0 || p.LastLen > len(last) || sum(last[len(last)-p.LastLen:]) != p.LastSum {
		return &ChangedError{name, fmt.Sprintf("is not the file that was read before: the %d bytes before offset %d differ", p.LastLen, p.Offset)}
	}
	return nil
}

// PositionAfter returns the position after the lines of b.Data[:end], line
// lines into the stream; end is just past a newline or len(b.Data), which in
// an Oversize block stands for the whole line. Call it before Release.
func (b *Block) PositionAfter(end int, line int64) Position {
	p := Position{Offset: b.Offset + int64(end), Line: line}
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
	return p
}

var ecma = crc64.MakeTable(crc64.ECMA)

// Digest is how [Position] tells a line by its bytes.
func Digest(line []byte) string { return fmt.Sprintf(" %016x", sum(line)) }

func sum(p []byte) uint64 { return crc64.Checksum(p, ecma) }

// extend appends to head what it lacks of a stream's first headMax bytes.
// Blocks share the array, so a head is begun with that capacity.
func extend(head, p []byte) []byte {
	return append(head, p[:min(len(p), headMax-len(head))]...)
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
