package tcp

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weirsync/weir/internal/source"
)

// sendAll sends line after line until the connection ends, and counts those that were taken. A write to a pipe
// returns when all of it was read.
func sendAll(c net.Conn, line string, taken *atomic.Int64) {
	for {
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
		taken.Add(1)
	}
}

// TestStop_WhatConnectionsSentComesYet: each line that was read of a connection when reading is
// stopped comes before the end, because nobody sends it again.
func TestStop_WhatConnectionsSentComesYet(t *testing.T) {
	line := `{"id":"` + strings.Repeat("x", 500) + `"}` + "\n"
	check := func(t *testing.T, s *Stream, taken *atomic.Int64) {
		t.Helper()
		synctest.Wait()
		before := taken.Load()
		s.Stop()
		text, err := linesOf(t, s)
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if got := int64(strings.Count(text, line)); got != before || taken.Load() != before || before == 0 {
			t.Errorf("%d lines came of %d that were read, and %d then", got, before, taken.Load())
		}
	}
	var taken atomic.Int64
	listenIn(t, source.Options{}, nil, func(l *listening) {
		for range 20 {
			c := l.dial()
			go sendAll(c, line, &taken)
		}
		check(l.T, l.stream, &taken)
	})
	for _, resumes := range []bool{false, true} {
		taken.Store(0)
		serve := func(_ int, c net.Conn) { sendAll(c, line, &taken) }
		dialIn(t, "tcp://feed:1", source.Options{RetryFor: 1 << 60, Resumes: resumes}, serve, func(t *testing.T, s *Stream, _ chan string) {
			s.Go()
			check(t, s, &taken)
		})
	}
}
