package source_test

import (
	"bytes"
	"compress/zlib"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// serveAll does something with each connection, by its number.
func serveAll(t *testing.T, do func(n int, conn net.Conn)) (spec string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			do(n, conn)
			conn.Close()
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return "tcp://" + l.Addr().String()
}

// TestRetryFor_QuietConnection: the time in which there was a connection does not count,
// even if it brought nothing.
func TestRetryFor_QuietConnection(t *testing.T) {
	spec := serveAll(t, func(n int, conn net.Conn) {
		if n == 0 {
			time.Sleep(5500 * time.Millisecond)
		} else {
			_, _ = io.WriteString(conn, "a\n")
		}
	})
	s := open(t, spec, source.Options{RetryFor: 5 * time.Second}, source.Position{})
	if b, err := s.Next(deadline(t)); err != nil || string(b.Data) != "a\n" {
		t.Errorf("%v", err)
	}
}

// TestRetryFor_NothingBehindACompressedStream: connections that end before a compressed
// stream has begun bring nothing, whatever the first one brought.
func TestRetryFor_NothingBehindACompressedStream(t *testing.T) {
	var data bytes.Buffer
	w := zlib.NewWriter(&data)
	_, _ = io.WriteString(w, strings.Repeat("a line\n", 1000))
	w.Close()
	spec := serveAll(t, func(n int, conn net.Conn) {
		if n == 0 {
			_, _ = conn.Write(data.Bytes())
		}
	})
	s := open(t, spec, source.Options{RetryFor: 2 * time.Second, Compression: source.Zlib}, source.Position{})
	got, err := drain(s)
	if len(got) != 1000 {
		t.Errorf("%d lines", len(got))
	}
	wantError(t, err, "--retry-for")
}
