package source_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/source"
)

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"b.jsonl", "a.jsonl", "[x].gz"} {
		write(t, filepath.Join(dir, name), nil)
	}
	if err := os.Mkdir("sub.jsonl", 0o700); err != nil {
		t.Fatal(err)
	}
	f := func(args []string, want ...string) {
		t.Helper()
		got, err := source.Expand(args, false)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", args, got, err, want)
		}
	}
	f(nil, "-")
	f([]string{"-", "/dev/stdin", "a.jsonl"}, "-", "a.jsonl")
	f([]string{"tcp://localhost:80", "b.jsonl", "*.jsonl", "./a.jsonl", filepath.Join(dir, "b.jsonl")},
		"tcp://localhost:80", "b.jsonl", "a.jsonl")
	f([]string{"[x].gz"}, "[x].gz")

	// What is to be followed may come later, a glob's matches not.
	if got, err := source.Expand([]string{"later/x.jsonl"}, true); err != nil || !slices.Equal(got, []string{"later/x.jsonl"}) {
		t.Errorf("followed: %q, %v", got, err)
	}
	_, err := source.Expand([]string{"later*"}, true)
	wantError(t, err, "no file matches")

	fail := func(arg string, code int, part string) {
		t.Helper()
		_, err := source.Expand([]string{arg}, false)
		wantError(t, err, part)
		var notFound *source.NotFoundError
		if errors.As(err, &notFound) != (code == 2) || notFound != nil && notFound.ExitCode() != code {
			t.Errorf("%s: %v (%T)", arg, err, err)
		}
	}
	fail("none.jsonl", 2, "none.jsonl: no such file")
	fail("*.csv", 2, "*.csv: no file matches")
	fail("sub*", 2, "no file matches")
	fail("sub.jsonl", 1, "is a directory")
	fail("tcp://nowhere", 1, "tcp://host:port")
	fail("http://x/y", 1, "unknown kind of source")
	fail("[", 1, "syntax error in pattern")
}

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

// serve sends data to the first connection, and then ends it with how.
func serve(t *testing.T, data string, how func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(conn, data)
		how(conn.(*net.TCPConn))
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "tcp://" + l.Addr().String()
}

func TestTCP(t *testing.T) {
	end := func(c *net.TCPConn) { c.Close() }
	for name, data := range map[string]string{"plain": "a\nb\n", "torn": "a\nb\nto", "gzip": string(gz(t, []byte("a\nb\nto")))} {
		addr := serve(t, data, end)
		s := open(t, addr, source.Options{}, place{Cursor: `{"Offset":99}`})
		got, err := drain(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkLines(t, got, reference([]byte("a\nb\n"), 100))
		if s.Name() != addr || !s.Waits() || s.Start() != "" || got[1].after.Cursor != "" {
			t.Errorf("name %s, waits %v, start %v", s.Name(), s.Waits(), s.Start())
		}
	}
	got, err := readAll(serve(t, strings.Repeat("x", 1000), end), source.Options{MaxLine: 10}, place{})
	if len(got) != 0 || err != nil {
		t.Errorf("torn and too long: %v, %v", got, err)
	}
}

func TestTCP_ResetIsAnErrorAfterTheWholeLines(t *testing.T) {
	read := make(chan struct{})
	addr := serve(t, "a\nto", func(c *net.TCPConn) {
		<-read // a reset takes with it what was not read
		c.SetLinger(0)
		c.Close()
	})
	s := open(t, addr, source.Options{}, place{})
	b, err := s.Next(deadline(t))
	if err != nil || string(b.Data) != "a\n" {
		t.Fatal(b, err)
	}
	close(read)
	_, err = s.Next(deadline(t))
	wantError(t, err, "read "+addr+": ", "reset")
}

func TestTCP_RefusedAndClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := "tcp://" + l.Addr().String()
	s := open(t, addr, source.Options{}, place{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := source.Open(ctx, addr, source.Options{}, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.Close()
	l.Close()
	_, err = readAll(addr, source.Options{}, place{})
	wantError(t, err, "connect to "+addr, "refused")
}
