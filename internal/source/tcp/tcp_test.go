package tcp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/tcp"
	"github.com/weirsync/weir/internal/test/testcheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		c, err := net.Dial("tcp", s.Lane().Addr.String())
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
