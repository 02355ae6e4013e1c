package file_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/lines"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a line as a consumer sees it.
type line struct {
	text     string // with its newline
	off      int64
	oversize int64
	tail     bool
	restart  bool
	after    source.Cursor
}

// position decodes a line's cursor.
func (l *line) position(t testing.TB) lines.Position {
	t.Helper()
	p, err := lines.ReadCursor(l.after, "it")
	testcheck.NoError(t, err)
	return p
}

// linesOf cuts a block into lines as a consumer does.
func linesOf(b *source.Block) (lines []line) {
	for start := 0; start < len(b.Data); {
		_, rest, _ := bytes.Cut(b.Data[start:], []byte("\n"))
		end := len(b.Data) - len(rest)
		if b.Oversize > 0 {
			end = len(b.Data)
		}
		lines = append(lines, line{string(b.Data[start:end]), b.Offset + int64(start), b.Oversize, b.Tail && end == len(b.Data), b.Restart && start == 0, b.CursorAfter(end)})
		start = end
	}
	return lines
}

// drain reads s to its end. The error is nil for io.EOF.
func drain(s *file.Stream) (lines []line, err error) {
	for {
		b, err := s.Next(context.Background())
		if err == io.EOF {
			return lines, nil
		} else if err != nil {
			return lines, err
		}
		lines = append(lines, linesOf(b)...)
		b.Release()
	}
}

func open(t testing.TB, spec string, o source.Options, from source.Cursor) *file.Stream {
	t.Helper()
	return openWith(t, spec, o, file.Options{}, from)
}

func openWith(t testing.TB, spec string, o source.Options, f file.Options, from source.Cursor) *file.Stream {
	t.Helper()
	s, err := file.Open(context.Background(), spec, o, f, from)
	testcheck.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func openStdin(t testing.TB, r io.Reader) *file.Stream {
	t.Helper()
	s, err := file.Open(context.Background(), "-", source.Options{}, file.Options{Stdin: r}, "")
	testcheck.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// wantNext checks the content of a stream's next block.
func wantNext(t *testing.T, s *file.Stream, want string) {
	t.Helper()
	b, err := s.Next(deadline(t))
	if err != nil || string(b.Data) != want {
		t.Fatalf("%v, %v, want %q", b, err, want)
	}
	b.Release()
}

// readAll opens spec and reads it to its end. It returns the errors of both.
func readAll(spec string, o source.Options, from source.Cursor) ([]line, error) {
	return readFrom(spec, nil, o, from)
}

// readFrom is readAll with a reader for stdin.
func readFrom(spec string, stdin io.Reader, o source.Options, from source.Cursor) ([]line, error) {
	s, err := file.Open(context.Background(), spec, o, file.Options{Stdin: stdin}, from)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return drain(s)
}

func readStdin(r io.Reader, o source.Options) ([]line, error) {
	return readFrom("-", r, o, "")
}

func text(lines []line) string {
	var sb strings.Builder
	for _, l := range lines {
		sb.WriteString(l.text)
	}
	return sb.String()
}

func write(t testing.TB, path string, data []byte) string {
	t.Helper()
	testcheck.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func tempFile(t testing.TB, data []byte) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "feed"), data)
}

// forms are the encodings of a file, by name.
var forms = map[string]func(testing.TB, []byte) []byte{"plain": func(_ testing.TB, data []byte) []byte { return data }, "gzip": gz, "zstd": zst}

func gz(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Name = "feed.jsonl" // makes the header longer, for cuts within it
	return packed(t, &buf, w, data)
}

func zst(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
	testcheck.NoError(t, err)
	return packed(t, &buf, w, data)
}

// packed writes data to w and returns what is then in its buffer.
func packed(t testing.TB, buf *bytes.Buffer, w io.WriteCloser, data []byte) []byte {
	t.Helper()
	_, err := w.Write(data)
	testcheck.NoError(t, err)
	testcheck.NoError(t, w.Close())
	return buf.Bytes()
}

// feed returns n lines of different lengths, some of them blank.
func feed(n int) []byte {
	var buf bytes.Buffer
	for i := range n {
		if i%7 == 3 {
			buf.WriteByte('\n')
			continue
		}
		fmt.Fprintf(&buf, "{\"id\":%d,\"pad\":\"%s\"}\n", i, strings.Repeat("x", i*31%97))
	}
	return buf.Bytes()
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

// deadline limits how long a test waits for what happens at once.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
