package tcp_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/tcp"
)

// TestListen_BadSendersHarmNobody has a thousand that say nothing, one that never
// ends a line, one that is too slow to finish one, and one that sends.
func TestListen_BadSendersHarmNobody(t *testing.T) {
	const idle = 990
	warned := make(chan string, idle)
	s, err := tcp.Open(t.Context(), "tcp-listen://127.0.0.1:0", source.Options{MaxLine: 8 << 20, Log: logtest.To(func(w string) { warned <- w })})
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan map[string]int)
	go func() {
		got := map[string]int{}
		for got["good"] < 1000 || got["long"] < 1 {
			b, err := s.Next(t.Context())
			if err != nil {
				t.Errorf("%v", err)
				break
			}
			if b.Oversize > 0 {
				got["long"]++
			}
			got["good"] += bytes.Count(b.Data, []byte("good"))
			b.Release()
		}
		done <- got
	}()
	for range idle {
		dial()
	}
	if _, err := io.WriteString(dial(), `{"id":`); err != nil {
		t.Fatal(err)
	}
	endless, good := dial(), dial()
	sent := make(chan error, 1)
	go func() {
		_, err := endless.Write(bytes.Repeat([]byte("x"), 10<<20))
		sent <- err
	}()
	go func() {
		for i := range 1000 {
			fmt.Fprintf(good, "{\"id\":%d,\"good\":1}\n", i)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(endless, "\n")
	}()
	got := <-done
	if got["good"] != 1000 {
		t.Errorf("%d lines came", got["good"])
	}
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapInuse) - int64(before.HeapInuse); used > 64<<20 {
		t.Errorf("the senders take %d MiB", used>>20)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestListen_LongLinesAreNotKept: a sender that is idle does not hold the memory of a long
// line, its own or another's.
func TestListen_LongLinesAreNotKept(t *testing.T) {
	const senders = 100
	s := open(t, "tcp-listen://127.0.0.1:0")
	long := append(bytes.Repeat([]byte("x"), 900_000), '\n')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range senders {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, line := range [][]byte{long, []byte("{}\n")} {
			sent := make(chan error, 1)
			go func() { _, err := c.Write(line); sent <- err }()
			for left := len(line); left > 0; {
				b, err := s.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				left -= len(b.Data)
				b.Release()
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 16<<20 {
		t.Errorf("%d senders take %d MiB", senders, used>>20)
	}
}
