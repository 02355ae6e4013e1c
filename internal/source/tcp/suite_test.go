package tcp_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/sourcetest"
	"github.com/weirsync/weir/internal/source/tcp"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestSuite: connections that weir makes and senders pass the suite.
func TestSuite(t *testing.T) {
	t.Run("dialed", func(t *testing.T) {
		sourcetest.Test(t, func(t *testing.T, lines ...string) sourcetest.Feed {
			return sourcetest.Feed{Spec: "tcp://" + server(t, strings.Join(lines, "\n")+"\n"), Kind: func() source.Kind { return tcp.Dialed(tcp.Options{}) }}
		})
	})
	t.Run("listening", func(t *testing.T) {
		sourcetest.Test(t, func(t *testing.T, lines ...string) sourcetest.Feed {
			return sourcetest.Feed{Spec: "tcp-listen://" + sender(t, strings.Join(lines, "\n")+"\n"), Kind: func() source.Kind { return tcp.Listening(tcp.Options{}) }}
		})
	})
}

// server sends a text to each connection, and closes it.
func server(t *testing.T, text string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testcheck.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.WriteString(c, text)
				_ = c.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, c) // the first line from weir
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return l.Addr().String()
}

// sender sends a text to every listener that is started at an address, once.
func sender(t *testing.T, text string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testcheck.NoError(t, err)
	addr = l.Addr().String()
	testcheck.NoError(t, l.Close())
	ended := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			if c, err := net.Dial("tcp", addr); err == nil {
				_, _ = io.WriteString(c, text)
				_, _ = io.Copy(io.Discard, c) // until the listener closes
				_ = c.Close()
			}
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { close(ended); sending.Wait() })
	return addr
}
