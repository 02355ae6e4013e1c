package lines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/source"
)

// MaxWindow bounds the memory of a zstd stream in bytes, but a sender's: what `zstd --ultra`
// may ask for without --long.
const MaxWindow = 128 << 20

const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
	skipMagic = "\x2a\x4d\x18" // of a skippable zstd frame, after one byte of 50 to 5f
)

var compressionMagics = func() []string {
	magics := []string{gzipMagic, zstdMagic}
	for c := byte(0x50); c <= 0x5f; c++ {
		magics = append(magics, string(c)+skipMagic)
	}
	return magics
}()

var errTrailing = errors.New("data after the last gzip member that is not gzip")

// Sniff detects the compression of a stream by its first bytes.
func Sniff(br *bufio.Reader) string {
	switch magic := Prefix(br, compressionMagics...); magic {
	case "":
		return source.None
	case gzipMagic:
		return source.Gzip
	default:
		return source.Zstd
	}
}

// Prefix returns the one of magics that the stream begins with, else "". It
// waits for no more bytes than it takes to tell. A stream that ends within a
// magic counts as one that begins with it, unless its bytes may be text.
func Prefix(br *bufio.Reader, magics ...string) string {
	for n := 1; ; n++ {
		p, err := br.Peek(n)
		if len(p) == 0 {
			return ""
		}
		ended := err != nil && slices.ContainsFunc(p, func(c byte) bool { return c < ' ' || c > '~' })
		open := false
		for _, m := range magics {
			if strings.HasPrefix(m, string(p)) {
				if len(m) == len(p) || ended {
					return m
				}
				open = true
			}
		}
		if err != nil || !open {
			return ""
		}
	}
}

// Decompress returns a reader of what format's stream in br holds. window bounds that of zstd,
// in bytes.
func Decompress(br *bufio.Reader, format string, window uint64) (io.Reader, error) {
	switch format {
	case source.Gzip:
		return &latch{r: &gzipReader{br: br}}, nil
	case source.Zstd:
		// With a concurrency of one it has no goroutines, so nothing is to be closed.
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
		return &latch{r: z}, err
	case source.Zlib:
		z, err := zlib.NewReader(br)
		return &latch{r: z}, err
	case source.Deflate:
		return &latch{r: flate.NewReader(br)}, nil
	default:
		return br, nil
	}
}

// latch repeats a reader's error, which bufio forgets after a Peek.
type latch struct {
	r   io.Reader
	err error
}

func (l *latch) Read(p []byte) (n int, err error) {
	if l.err == nil {
		n, l.err = l.r.Read(p)
	}
	return n, l.err
}

// gzipReader reads members up to the end. It does what gzip(1) does and the
// library does not: it passes over zero bytes after a member, tells garbage
// there from a bad member, and takes an end within a header for an error.
type gzipReader struct {
	br     *bufio.Reader
	member gzip.Reader
	inside bool // the member is not read to its end
	later  bool // a member was read before
}

func (g *gzipReader) Read(p []byte) (int, error) {
	for {
		if !g.inside {
			if err := g.next(); err != nil {
				return 0, err
			}
		}
		n, err := g.member.Read(p)
		if err != io.EOF {
			return n, err
		}
		g.inside = false
		if n > 0 {
			return n, nil
		}
	}
}

// next opens the next member; io.EOF if there is none.
func (g *gzipReader) next() error {
	for g.later {
		c, err := g.br.ReadByte()
		if err != nil {
			return err
		}
		if c != 0 {
			_ = g.br.UnreadByte() // the byte was read just now
			break
		}
	}
	if _, err := g.br.Peek(1); err != nil {
		return err
	}
	if magic, _ := g.br.Peek(len(gzipMagic)); g.later && !strings.HasPrefix(gzipMagic, string(magic)) {
		return errTrailing
	}
	err := g.member.Reset(g.br)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	g.member.Multistream(false)
	g.inside, g.later = true, true
	return err
}

// Fault says in two words what is wrong with a compressed stream, whose window was bounded.
func Fault(err error, window int) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "truncated"
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		return "bad checksum"
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Sprintf("corrupt, or needs a window of more than %d MiB", window>>20)
	case errors.Is(err, errTrailing):
		return "trailing garbage"
	default:
		return "corrupt"
	}
}
