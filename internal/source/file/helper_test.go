package file_test

import (
	"bytes"
	"context"
	"encoding/json"
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
	"github.com/weirsync/weir/internal/testcheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is what a consumer sees of one line.
type line struct {
	text     string // with its newline
	off      int64
	oversize int64
	tail     bool
	restart  bool
	after    place // number of the line taken from the order
}

// place is where a line ends: its number, and what the cursor says that it may, of a source that
// has one.
type place struct {
	source.Cursor
	Line int64
	held
}

type held struct{ Offset, FileSize, FileTime int64 }

func placeAfter(b *source.Block, end int, line int64) place {
	p := place{Cursor: b.CursorAfter(end), Line: line}
	if p.Cursor != "" {
		if err := json.Unmarshal([]byte(p.Cursor), &p.held); err != nil {
			panic(err)
		}
	}
	return p
}

// linesOf cuts a block as a consumer does.
func linesOf(b *source.Block, number int64) []line {
	if b.Oversize > 0 {
		return []line{{text: string(b.Data), off: b.Offset, oversize: b.Oversize, tail: b.Tail, restart: b.Restart,
			after: placeAfter(b, len(b.Data), number+1)}}
	}
	var lines []line
	for start := 0; start < len(b.Data); {
		end := len(b.Data)
		if i := bytes.IndexByte(b.Data[start:], '\n'); i >= 0 {
			end = start + i + 1
		}
		lines = append(lines, line{
			text: string(b.Data[start:end]), off: b.Offset + int64(start),
			tail: b.Tail && end == len(b.Data), restart: b.Restart && start == 0,
			after: placeAfter(b, end, number+int64(len(lines))+1),
		})
		start = end
	}
	return lines
}

// drain reads s to its end. The error is nil for io.EOF.
func drain(s *file.Stream) ([]line, error) { return drainAfter(s, 0) }

// drainAfter is drain of a stream that begins after a number of lines.
func drainAfter(s *file.Stream, number int64) ([]line, error) {
	lines := []line{}
	for {
		b, err := s.Next(context.Background())
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		got := linesOf(b, number)
		number += int64(len(got))
		lines = append(lines, got...)
		b.Release()
	}
}

func open(t testing.TB, spec string, o source.Options, from place) *file.Stream {
	t.Helper()
	s, err := file.Open(context.Background(), spec, o, from.Cursor)
	testcheck.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// readAll opens spec and reads it to its end; errors of both are returned.
func readAll(spec string, o source.Options, from place) ([]line, error) {
	s, err := file.Open(context.Background(), spec, o, from.Cursor)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Start() == "" {
		from.Line = 0
	}
	return drainAfter(s, from.Line)
}

func readStdin(r io.Reader, o source.Options) ([]line, error) {
	o.Stdin = r
	return readAll("-", o, place{})
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

func gz(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Name = "feed.jsonl" // more of a header to be cut
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	testcheck.NoError(t, w.Close())
	return buf.Bytes()
}

func zst(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1))
	testcheck.NoError(t, err)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	testcheck.NoError(t, w.Close())
	return buf.Bytes()
}

// feed is n lines of different lengths, some of them blank.
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

// deadline is how long a test waits for what happens at once.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
