package lines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync/atomic"

	"github.com/weirsync/weir/internal/source"
)

const readSize = 16 << 10 // bytes read ahead of the framer

// A Reader cuts a byte stream, which may be compressed, into blocks.
type Reader struct {
	Framer
	Raw Raw

	name        string
	compression string
	format      string // of compression, once detected
}

// Init sets the input, its name, and Options with defaults filled in.
func (r *Reader) Init(ctx context.Context, name string, in io.Reader, o *source.Options) {
	r.name, r.compression = name, o.Compression
	r.Raw.ctx, r.Raw.R = ctx, in
	r.MaxLine, r.Pool, r.Whole = o.MaxLine, o.Pool, o.Whole
}

// Begin detects the compression at the start of a stream.
func (r *Reader) Begin() error {
	r.Forget() // the previous connection
	br := bufio.NewReaderSize(&r.Raw, readSize)
	if r.format = r.compression; r.format == source.Auto {
		r.format = Sniff(br)
	}
	src, err := Decompress(br, r.format, MaxWindow)
	if err != nil {
		return fmt.Errorf("decompress %s: %w", r.name, err)
	}
	if r.format == source.None {
		r.Reset(br)
	} else {
		r.Reset(bufio.NewReaderSize(src, readSize))
	}
	return nil
}

// Format returns the compression, once detected.
func (r *Reader) Format() string { return r.format }

// Again continues a plain stream at an offset, to which the caller has moved the input.
func (r *Reader) Again(offset int64) {
	r.Raw.N.Store(offset)
	r.src.Reset(&r.Raw)
}

// Restarted says that the stream whose compression Begin has detected starts over. A plain one is read from the input
// that is set now.
func (r *Reader) Restarted() {
	if r.format == source.None {
		r.Again(0)
	}
	r.Restart, r.Hole = true, true
}

// Forget releases the memory of the stream: a run keeps the streams of all files that it has read.
func (r *Reader) Forget() {
	r.Drop()
	r.src, r.trail = nil, trail{}
}

// Skip reads and discards up to a position.
func (r *Reader) Skip(to Position) error {
	past := bothEnds{head: newHead()}
	n, err := io.CopyN(&past, r.src, to.Offset)
	switch {
	case r.Raw.Err == nil && (err == io.EOF || err == io.ErrUnexpectedEOF):
		return Shrank(r.name, n, to)
	case err != nil:
		r.off = n // where it failed
		return r.Failure(err)
	}
	return r.Resume(to, past.head, past.last.bytes())
}

// Resume checks that the stream matches a position, and starts the framer there. head and last are the bytes at the
// stream's start and before the position, at most HeadMax and LastMax of them.
func (r *Reader) Resume(from Position, head, last []byte) error {
	if from.Offset == 0 {
		return nil
	}
	if err := from.Check(r.name, head, last); err != nil {
		return err
	}
	r.off = from.Offset
	r.trail.passed(head)
	r.afterTail = last[len(last)-1] != '\n'
	return nil
}

// bothEnds discards what is written to it and keeps both ends.
type bothEnds struct {
	head []byte
	last window
}

func (p *bothEnds) Write(b []byte) (int, error) {
	p.head = Extend(p.head, b)
	p.last.add(b)
	return len(b), nil
}

// Each calls send with each block, which send then owns, until io.EOF. Any other error comes from send, or is the
// [Reader.Failure] of reading.
func (r *Reader) Each(send func(*source.Block) error) error {
	for {
		b, err := r.Next()
		if err == io.EOF {
			return err
		} else if err != nil {
			return r.Failure(err)
		}
		if err := send(b); err != nil {
			return err
		}
	}
}

// Failure turns a read error into a message.
func (r *Reader) Failure(err error) error {
	switch {
	case errors.As(err, new(*ForeignError)):
		return fmt.Errorf("%s: %w", r.name, err)
	case r.Raw.Err == nil && r.format != source.None:
		return fmt.Errorf("decompress %s: %s %s after %d decompressed bytes (the complete lines before that were read): %w",
			r.name, r.format, Fault(err, MaxWindow), r.Pos(), err)
	case r.Raw.Err != nil:
		err = r.Raw.Err // a decompressor may have replaced it
	}
	return fmt.Errorf("read %s: %w", r.name, Bare(err))
}

// Bare removes the operation and the name from a system error, because the wrapping message has them.
func Bare(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	if oe := (*net.OpError)(nil); errors.As(err, &oe) {
		return oe.Err
	}
	return err
}

// Raw counts the bytes of a source and keeps its error. A disk error must not look like corrupt data, and a socket
// reports a reset only once.
type Raw struct {
	ctx context.Context
	R   io.Reader
	N   atomic.Int64
	Err error // the first one except io.EOF

	reading atomic.Bool // a read of R is in progress
}

// NewRaw returns a reader of r that ends with ctx.
func NewRaw(ctx context.Context, r io.Reader) *Raw { return &Raw{ctx: ctx, R: r} }

// Hangs reports whether a read of R is in progress. If none is when ctx has ended, none will start.
func (r *Raw) Hangs() bool { return r.reading.Load() }

func (r *Raw) Read(p []byte) (int, error) {
	if r.Err != nil {
		return 0, r.Err
	}
	r.reading.Store(true)
	defer r.reading.Store(false)
	if r.Err = r.ctx.Err(); r.Err != nil {
		return 0, r.Err
	}
	n, err := r.R.Read(p)
	r.N.Add(int64(n))
	if err != nil && err != io.EOF {
		r.Err = err
	}
	return n, err
}
