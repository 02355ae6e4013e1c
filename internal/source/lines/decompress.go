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

// MaxWindow limits the memory of a zstd stream in bytes, except a sender's. `zstd --ultra` needs this much without
// --long.
const MaxWindow = 128 << 20

const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
	skipMagic = "\x2a\x4d\x18" // magic number of a skippable zstd frame, after one byte from 50 to 5f
)

var compressionMagics = func() []string {
	magics := []string{gzipMagic, zstdMagic}
	for c := byte(0x50); c <= 0x5f; c++ {
		magics = append(magics, string(c)+skipMagic)
	}
	return magics
}()

// A trailingError reports bytes after a complete stream that do not start another one.
type trailingError struct{ format string }

func (e *trailingError) Error() string {
	return "the bytes after the last whole stream are not " + e.format
}

// Sniff detects a stream's compression from its first bytes.
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

// Prefix returns the magic that the stream begins with, or "". It reads no more bytes than necessary. A stream that
// ends within a magic counts as beginning with it, unless the bytes may be text.
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

// Decompress returns a reader of the stream in br, in the given format. window limits zstd's window, in bytes.
func Decompress(br *bufio.Reader, format string, window uint64) (io.Reader, error) {
	m := &members{br: br, format: format}
	switch format {
	case source.Gzip:
		m.open = openGzip(br)
	case source.Zstd:
		// With a concurrency of one there are no goroutines, so nothing needs closing.
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
		return &latch{r: z}, err
	case source.Zlib:
		m.open = func() (io.Reader, error) { return zlib.NewReader(br) }
	case source.Deflate:
		m.open = func() (io.Reader, error) { return flate.NewReader(br), nil }
	default:
		return br, nil
	}
	return &latch{r: m}, nil
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

// members reads the members of a gzip file, or one stream of another format, up to the end. Like gzip(1), and unlike the
// library, it distinguishes garbage after a stream from a bad stream, skips zero bytes there, and treats an end within a
// header as an error.
type members struct {
	br     *bufio.Reader
	format string
	open   func() (io.Reader, error) // begins the next stream
	member io.Reader                 // nil between streams
	later  bool                      // a stream was already read
}

func (m *members) Read(p []byte) (int, error) {
	for {
		if m.member == nil {
			if err := m.next(); err != nil {
				return 0, err
			}
		}
		n, err := m.member.Read(p)
		if err != io.EOF {
			return n, err
		}
		m.member = nil
		if n > 0 {
			return n, nil
		}
	}
}

// next opens the next stream; io.EOF if there is none.
func (m *members) next() (err error) {
	for m.later && m.format == source.Gzip {
		c, err := m.br.ReadByte()
		if err != nil {
			return err
		}
		if c != 0 {
			_ = m.br.UnreadByte() // just read
			break
		}
	}
	if _, err := m.br.Peek(1); err != nil {
		return err
	}
	if magic, _ := m.br.Peek(2); m.later && (m.format != source.Gzip || !strings.HasPrefix(gzipMagic, string(magic))) {
		return &trailingError{m.format}
	}
	m.later = true
	if m.member, err = m.open(); err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func openGzip(br *bufio.Reader) func() (io.Reader, error) {
	z := new(gzip.Reader)
	return func() (io.Reader, error) {
		err := z.Reset(br)
		z.Multistream(false)
		return z, err
	}
}

// Fault describes in a few words why a compressed stream failed. window is its window limit.
func Fault(err error, window int) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "truncated"
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		return "bad checksum"
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return fmt.Sprintf("corrupt, or needs a window of more than %d MiB", window>>20)
	case errors.As(err, new(*trailingError)):
		return "trailing garbage"
	default:
		return "corrupt"
	}
}
