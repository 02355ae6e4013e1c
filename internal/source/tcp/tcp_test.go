package tcp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"
	"go.uber.org/goleak"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/tcp"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve sends data to the first connection, and then closes it.
func serve(t *testing.T, data string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testcheck.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, data)
		conn.Close()
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "tcp://" + l.Addr().String()
}

// readAll reads a connection, from a cursor of another source.
func readAll(t *testing.T, addr string, o source.Options) (text string, err error) {
	t.Helper()
	s := tcp.New(addr, o, tcp.Options{})
	defer s.Close()
	e, err := s.Next(t.Context())
	if err != nil || e.Kind != source.Opened || e.Lane != addr {
		t.Fatal(e, err)
	}
	lane, err := e.Begin(t.Context(), source.Point{Cursor: `{"Offset":99}`})
	if err != nil || !lane.Begun().Waits || lane.Begun().At != "" {
		t.Fatal(lane, err)
	}
	for {
		e, err := s.Next(t.Context())
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Kind == source.Data:
			if e.Block.Offset != int64(len(text)) || e.Block.CursorAfter(len(e.Block.Data)) != "" {
				t.Errorf("a block at %d, with the cursor %q", e.Block.Offset, e.Block.CursorAfter(len(e.Block.Data)))
			}
			text += string(e.Block.Data)
			e.Block.Release()
		case e.Kind == source.Closing:
			if _, err := s.Next(t.Context()); err != io.EOF {
				t.Error(err)
			}
			return text, e.Err
		}
	}
}

// TestTCP: a connection is a lane, which delivers whole lines and then ends.
func TestTCP(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := io.WriteString(w, "a\nb\nto"); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"a\nb\n", packed.String()} {
		if got, err := readAll(t, serve(t, data), source.Options{}); got != "a\nb\n" || err != nil {
			t.Errorf("%q: %q, %v", data, got, err)
		}
	}
	if _, err := readAll(t, "tcp://127.0.0.1:1", source.Options{}); err == nil || !strings.HasPrefix(err.Error(), "connect to tcp://127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

// TestTCP_Reset: the lines before a reset count; the torn one does not.
func TestTCP_Reset(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testcheck.NoError(t, err)
	defer l.Close()
	conns := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "a\nto")
			conns <- conn
		}
	}()
	addr := "tcp://" + l.Addr().String()
	s := open(t, addr)
	b, err := s.Next(t.Context())
	if err != nil || string(b.Data) != "a\n" {
		t.Fatal(b, err)
	}
	b.Release()
	conn := <-conns
	testcheck.NoError(t, errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close()))
	if _, err := s.Next(t.Context()); !errors.Is(err, syscall.ECONNRESET) || !strings.HasPrefix(err.Error(), "read "+addr+": ") {
		t.Error(err)
	}
}

func TestTCP_Cancelled(t *testing.T) {
	s := open(t, "tcp://127.0.0.1:1")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Next(ctx)
	_, err2 := tcp.Open(ctx, "tcp://127.0.0.1:1", source.Options{}, tcp.Options{}, "")
	if !errors.Is(err, context.Canceled) || !errors.Is(err2, context.Canceled) {
		t.Error(err, err2)
	}
}

func open(t *testing.T, name string) *tcp.Stream {
	t.Helper()
	s, err := tcp.Open(t.Context(), name, source.Options{}, tcp.Options{}, "")
	testcheck.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestListen_LongLinesAreNotKept: an idle sender does not hold the memory of a long line, its own or another's.
func TestListen_LongLinesAreNotKept(t *testing.T) {
	const senders = 100
	s := open(t, "tcp-listen://127.0.0.1:0")
	long := append(bytes.Repeat([]byte("x"), 900_000), '\n')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range senders {
		c, err := net.Dial("tcp", s.Addr().String())
		testcheck.NoError(t, err)
		defer c.Close()
		for _, line := range [][]byte{long, []byte("{}\n")} {
			sent := make(chan error, 1)
			go func() { _, err := c.Write(line); sent <- err }()
			for left := len(line); left > 0; {
				b, err := s.Next(t.Context())
				testcheck.NoError(t, err)
				left -= len(b.Data)
				b.Release()
			}
			testcheck.NoError(t, <-sent)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 16<<20 {
		t.Errorf("%d senders take %d MiB", senders, used>>20)
	}
}
