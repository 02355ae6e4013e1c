package file_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// The last block must know the end of the file even if it is full to the last byte.
func TestCursorAfter_EndOfFileIsKnownAtAnySize(t *testing.T) {
	const block = 256 << 10
	for _, size := range []int{1, 100, block - 1, block, block + 1, 2 * block} {
		data := bytes.Repeat([]byte("123456789abcdef\n"), size/16+1)[:size]
		data[size-1] = '\n'
		for name, form := range forms {
			data := form(t, data)
			lines, err := readAll(tempFile(t, data), source.Options{}, "")
			testcheck.NoError(t, err)
			if p := lines[len(lines)-1].position(t); p.FileSize != int64(len(data)) || p.FileTime == 0 {
				t.Errorf("%s of %d bytes: position at the end %+v", name, size, p)
			}
			if len(lines) > 1 && lines[0].position(t).FileSize != 0 {
				t.Errorf("%s of %d bytes: the first line is taken for the end", name, size)
			}
		}
	}
}

func TestNext_ReadErrorComesAfterTheWholeLines(t *testing.T) {
	r := io.MultiReader(strings.NewReader("a\nb\nto"), iotest.ErrReader(os.ErrDeadlineExceeded))
	got, err := readStdin(r, source.Options{})
	wantError(t, err, "read stdin: ", os.ErrDeadlineExceeded.Error())
	if text(got) != "a\nb\n" {
		t.Errorf("%q", text(got))
	}
}

func TestNext_ReaderWithoutProgressIsGivenUp(t *testing.T) {
	_, err := readStdin(stuck{}, source.Options{})
	wantError(t, err, "read stdin", io.ErrNoProgress.Error())
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// endless repeats a pattern forever.
type endless []byte

func (e endless) Read(p []byte) (int, error) {
	for q := p; len(q) > 0; {
		q = q[copy(q, e):]
	}
	return len(p), nil
}

func TestNext_MemoryIsFlat(t *testing.T) {
	const size = 1 << 30
	member := func(compress func(testing.TB, []byte) []byte) io.Reader {
		const parts = 32
		bomb := compress(t, bytes.Repeat([]byte{'x'}, size/parts))
		var all []io.Reader
		for range parts {
			all = append(all, bytes.NewReader(bomb))
		}
		return io.MultiReader(all...)
	}
	long := map[string]io.Reader{"plain": io.LimitReader(endless("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), size), "gzip": member(gz), "zstd": member(zst)}
	for name, r := range long {
		var got []line
		var err error
		bytes := allocated(func() { got, err = readStdin(r, source.Options{MaxLine: 1 << 20}) })
		testcheck.NoError(t, err)
		if len(got) != 1 || got[0].oversize != size || !got[0].tail || len(got[0].text) != 64<<10 {
			t.Errorf("%s: %d lines", name, len(got))
		}
		if bytes > 48<<20 {
			t.Errorf("%s: a line of 1 GiB takes %d MiB", name, bytes>>20)
		}
	}

	s := openStdin(t, io.LimitReader(endless(feed(1000)), 256<<20))
	bytes := allocated(func() {
		for {
			b, err := s.Next(context.Background())
			if err != nil {
				break
			}
			b.Release()
		}
	})
	if bytes > 8<<20 {
		t.Errorf("256 MiB of short lines take %d MiB", bytes>>20)
	}
}

func TestOpen_ErrorsAreClear(t *testing.T) {
	dir := t.TempDir()
	_, err := readAll(dir, source.Options{}, "")
	wantError(t, err, dir+": is a directory")
	_, err = readAll(filepath.Join(dir, "none"), source.Options{}, "")
	wantError(t, err, filepath.Join(dir, "none")+": no such file")
	path := tempFile(t, gz(t, []byte("x\n")))
	_, err = readAll(path, source.Options{Follow: true}, "")
	wantError(t, err, "follow "+path, "compressed (gzip)")
	_, err = readAll(path, source.Options{MaxLine: source.LimitMaxLine + 1}, "")
	wantError(t, err, "max line")
	if os.Getuid() != 0 {
		os.Chmod(path, 0)
		_, err = readAll(path, source.Options{}, "")
		wantError(t, err, path, "permission denied")
	}
}

func TestNext_CancelledWhileStdinHangs(t *testing.T) {
	r, w, err := os.Pipe()
	testcheck.NoError(t, err)
	defer r.Close()
	defer w.Close()
	for _, in := range []io.Reader{r, onlyReader{r}} { // one that supports deadlines, one that does not
		s := openStdin(t, in)
		ctx, cancel := context.WithCancel(context.Background())
		cancelled := make(chan error)
		go func() {
			_, err := s.Next(ctx)
			cancelled <- err
		}()
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		// The cancellation loses nothing.
		io.WriteString(w, "a\nb")
		if wantNext(t, s, "a\n"); !s.Lane().Waits {
			t.Error("a pipe does not wait")
		}
		testcheck.NoError(t, s.Close())
	}
}

type onlyReader struct{ io.Reader }

func TestNext_StreamsGiveLinesAtOnce(t *testing.T) {
	r, w, err := os.Pipe()
	testcheck.NoError(t, err)
	defer r.Close()
	s := openStdin(t, r)
	for _, part := range []struct{ in, out string }{
		{"1\n", "1\n"}, {"a\nb\nc", "a\nb\n"}, {"d\n\n", "cd\n\n"}, {"(\n", "(\n"}, {"\x1f\n", "\x1f\n"},
	} {
		io.WriteString(w, part.in)
		wantNext(t, s, part.out)
	}
	w.Close()
	if _, err := s.Next(deadline(t)); err != io.EOF {
		t.Error(err)
	}
}

func TestNext_CompressedStreamsGiveLinesWhenFlushed(t *testing.T) {
	r, w, err := os.Pipe()
	testcheck.NoError(t, err)
	defer r.Close()
	defer w.Close()
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	testcheck.NoError(t, err)
	for _, c := range []interface {
		io.WriteCloser
		Flush() error
	}{z, gzip.NewWriter(w)} {
		s := openStdin(t, r)
		for _, want := range []string{"a\n", "b\nc\n"} {
			io.WriteString(c, want)
			c.Flush()
			wantNext(t, s, want)
		}
		s.Close()
	}
}

// TestStream_ClosedTakesLittleMemory: a run keeps the streams of all files that it has read, and there may be very
// many.
func TestStream_ClosedTakesLittleMemory(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "feed.jsonl"), feed(10))
	o := source.Options{Pool: source.NewPool()}
	closed := make([]*file.Stream, 1000)
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for i := range closed {
		var err error
		if closed[i], err = file.Open(t.Context(), path, o, file.Options{}, ""); err != nil {
			t.Fatal(err)
		}
		_, err = drain(closed[i])
		if err = errors.Join(err, closed[i].Close()); err != nil {
			t.Fatal(err)
		}
	}
	if each := (memory() - before) / uint64(len(closed)); each > 3<<10 {
		t.Errorf("each takes %d bytes", each)
	}
	runtime.KeepAlive(closed)
}
