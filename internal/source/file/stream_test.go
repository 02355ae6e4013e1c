package file_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
)

func TestOpen_ErrorsAreClear(t *testing.T) {
	dir := t.TempDir()
	_, err := readAll(dir, source.Options{}, place{})
	wantError(t, err, dir+": is a directory")
	_, err = readAll(filepath.Join(dir, "none"), source.Options{}, place{})
	wantError(t, err, filepath.Join(dir, "none")+": no such file")
	path := tempFile(t, gz(t, []byte("x\n")))
	_, err = readAll(path, source.Options{Follow: true}, place{})
	wantError(t, err, "follow "+path, "compressed (gzip)")
	_, err = readAll(path, source.Options{MaxLine: source.LimitMaxLine + 1}, place{})
	wantError(t, err, "max line")
	if os.Getuid() != 0 {
		os.Chmod(path, 0)
		_, err = readAll(path, source.Options{}, place{})
		wantError(t, err, path, "permission denied")
	}
}

func TestNext_CancelledWhileStdinHangs(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, in := range []io.Reader{r, onlyReader{r}} { // one that takes deadlines, one that does not
		s := open(t, "-", source.Options{Stdin: in}, place{})
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
		// Nothing is lost by it.
		io.WriteString(w, "a\nb")
		b, err := s.Next(deadline(t))
		if err != nil || string(b.Data) != "a\n" || !s.Waits() {
			t.Fatalf("%v, %v", b, err)
		}
		b.Release()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

type onlyReader struct{ io.Reader }

func TestNext_StreamsGiveLinesAtOnce(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := open(t, "-", source.Options{Stdin: r}, place{})
	for _, part := range []struct{ in, out string }{
		{"1\n", "1\n"}, {"a\nb\nc", "a\nb\n"}, {"d\n\n", "cd\n\n"}, {"(\n", "(\n"}, {"\x1f\n", "\x1f\n"},
	} {
		io.WriteString(w, part.in)
		b, err := s.Next(deadline(t))
		if err != nil || string(b.Data) != part.out {
			t.Fatalf("%q: %v, %v", part.in, b, err)
		}
		b.Release()
	}
	w.Close()
	if _, err := s.Next(deadline(t)); err != io.EOF {
		t.Error(err)
	}
}

func TestNext_CompressedStreamsGiveLinesWhenFlushed(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	zw, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	type flusher interface {
		io.WriteCloser
		Flush() error
	}
	for _, c := range []struct {
		flusher
		in *os.File
	}{{zw, r}, {gzip.NewWriter(w), r}} {
		s := open(t, "-", source.Options{Stdin: c.in}, place{})
		for _, want := range []string{"a\n", "b\nc\n"} {
			io.WriteString(c, want)
			c.Flush()
			b, err := s.Next(deadline(t))
			if err != nil || string(b.Data) != want {
				t.Fatalf("%v, %v", b, err)
			}
			b.Release()
		}
		s.Close()
	}
	w.Close()
}

// TestStream_ClosedOneIsSmall: a run keeps the streams of all files that it has read, of which there
// may be very many.
func TestStream_ClosedOneIsSmall(t *testing.T) {
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
		if closed[i], err = file.Open(t.Context(), path, o, ""); err != nil {
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
