package tcp

import (
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// seen notes how many connections there were, one after the other.
type seen struct {
	mu sync.Mutex
	n  []int
}

func (s *seen) add(_ string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n = append(s.n, n)
}

func (s *seen) want(t *testing.T, n ...int) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.n, n) {
		t.Errorf("the numbers of connections were %v, want %v", s.n, n)
	}
}

func TestConnections_OfAFeed(t *testing.T) {
	var s seen
	serve := func(n int, c net.Conn) {
		time.Sleep(time.Second)
		if n == 0 {
			_, _ = c.Write([]byte("{}\n"))
		}
	}
	dialIn(t, "tcp://pipe", source.Options{RetryFor: 4 * time.Second, Connections: s.add}, serve, func(t *testing.T, stream *Stream, _ chan string) {
		if _, err := stream.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		if s.n[0] != 1 {
			t.Errorf("with a line there were %v connections", s.n)
		}
		s.mu.Unlock()
		if _, err := stream.Next(t.Context()); err == nil {
			t.Fatal("did not exercise: the feed came back")
		}
		if s.n = slices.Compact(s.n); len(s.n) < 4 || s.n[1] != 0 || s.n[2] != 1 || s.n[len(s.n)-1] != 0 {
			t.Errorf("the numbers of connections were %v", s.n)
		}
	})
}

func TestConnections_OfAListener(t *testing.T) {
	var s seen
	listenIn(t, source.Options{Connections: s.add}, nil, func(l *listening) {
		one, two := l.dial(), l.dial()
		l.send(one, []byte("{}\n"))
		l.want("{}\n")
		s.want(t, 1, 2)
		_ = two.Close()
		s.want(t, 1, 2, 1)
		_ = one.Close()
		s.want(t, 1, 2, 1, 0)
	})
}
