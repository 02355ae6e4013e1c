package tcp

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// pipes is a listener whose senders are at the other end of pipes, so a bubble's clock applies.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return nil }

// A counted connection counts the bytes read from it.
type counted struct {
	net.Conn
	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// listening is a stream of senders in a bubble.
type listening struct {
	*testing.T
	stream   *Stream
	warnings chan string
	read     atomic.Int64 // bytes of all senders
}

func listenIn(t *testing.T, o source.Options, withTLS *tls.Config, do func(l *listening)) {
	synctest.Test(t, func(t *testing.T) {
		l := &listening{T: t, warnings: make(chan string, 2*maxSenders)}
		o.Log = logtest.To(func(w string) { l.warnings <- w })
		o, err := o.WithDefaults()
		testcheck.NoError(t, err)
		in := newListener(&pipes{make(chan net.Conn), make(chan struct{})}, "tcp-listen://pipe", &o)
		if withTLS != nil {
			in.load = func() (*tls.Config, error) { return withTLS, nil }
		}
		l.stream = newStream("tcp-listen://pipe", o, Options{}, in)
		l.stream.Go()
		do(l)
		if err := l.stream.Close(); err != nil {
			t.Error(err)
		}
	})
}

// dial returns a sender's end.
func (l *listening) dial() net.Conn {
	ours, theirs := net.Pipe()
	l.stream.listener.Listener.(*pipes).conns <- counted{ours, &l.read}
	synctest.Wait()
	l.Cleanup(func() { theirs.Close() })
	return theirs
}

// send sends data from a sender, as far as it is read.
func (l *listening) send(c net.Conn, data []byte) {
	go func() { _, _ = c.Write(data) }()
	synctest.Wait()
}

// wantLines reads a block.
func (l *listening) want(lines string) {
	l.Helper()
	b, err := l.stream.Next(l.Context())
	if err != nil || string(b.Data) != lines {
		l.Fatalf("%.80q, %v, want %.80q", b.Data, err, lines)
	}
	b.Release()
	synctest.Wait()
}

// wantWarnings checks the number of warnings, each of which must contain a text. It clears them.
func (l *listening) wantWarnings(n int, text string) {
	l.Helper()
	synctest.Wait()
	if len(l.warnings) != n {
		l.Errorf("%d warnings, want %d with %q", len(l.warnings), n, text)
	}
	for len(l.warnings) > 0 {
		if w := <-l.warnings; !strings.Contains(w, text) {
			l.Errorf("warning %q lacks %q", w, text)
		}
	}
}

// ended reports whether a sender's connection was closed.
func ended(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := io.ReadAll(c)
	return !isTimeout(err)
}

// TestListen_FirstLine: a sender has a minute for its first line, and then the idle timeout.
func TestListen_FirstLine(t *testing.T) {
	for idle, end := range map[time.Duration]time.Duration{0: 0, 5 * time.Minute: 5 * time.Minute} {
		listenIn(t, source.Options{}, nil, func(l *listening) {
			l.stream.idle = idle
			silent, slow, good := l.dial(), l.dial(), l.dial()
			l.send(slow, []byte(`{"id":`))
			time.Sleep(59 * time.Second)
			l.send(good, []byte("{}\n"))
			l.want("{}\n")
			l.wantWarnings(0, "")
			time.Sleep(time.Second)
			l.wantWarnings(2, "no line arrived within 1m0s")
			if !ended(silent) || !ended(slow) || ended(good) {
				t.Error("the wrong ones were ended")
			}
			if end == 0 {
				end = 100 * time.Hour
			}
			time.Sleep(end - 2*time.Second)
			if ended(good) {
				t.Errorf("ended before %v", end)
			}
			time.Sleep(2 * time.Second)
			if idle == 0 {
				l.send(good, []byte("{}\n"))
				l.want("{}\n")
			} else {
				l.wantWarnings(1, "nothing arrived for 5m0s")
			}
		})
	}
}

// TestListen_Handshake: a sender that does not complete the TLS handshake is disconnected after ten seconds.
func TestListen_Handshake(t *testing.T) {
	listenIn(t, source.Options{}, &tls.Config{}, func(l *listening) {
		silent := l.dial()
		time.Sleep(handshakeTimeout - time.Second)
		l.wantWarnings(0, "")
		time.Sleep(time.Second)
		l.wantWarnings(1, "TLS handshake")
		if !ended(silent) {
			t.Error("it is still connected")
		}
	})
}

// TestListen_TooMany: a sender too many is turned away, and there is room again once silent ones are disconnected.
func TestListen_TooMany(t *testing.T) {
	listenIn(t, source.Options{}, nil, func(l *listening) {
		good := l.dial()
		l.send(good, []byte("1\n"))
		l.want("1\n")
		for range maxSenders - 1 {
			l.dial()
		}
		l.wantWarnings(0, "")
		late := l.dial()
		l.wantWarnings(1, "is turned away: there are 1000 senders already")
		if !ended(late) {
			t.Error("it is still connected")
		}
		time.Sleep(firstLineTimeout)
		l.wantWarnings(maxSenders-1, "no line arrived within 1m0s")
		for _, c := range []net.Conn{good, l.dial()} {
			l.send(c, []byte("2\n"))
			l.want("2\n")
		}
	})
}

// TestListen_LongLinesWait: while nothing reads the lines, senders of long ones are read only as far as there is room
// for all of them.
func TestListen_LongLinesWait(t *testing.T) {
	listenIn(t, source.Options{}, nil, func(l *listening) {
		const senders = 100
		line := bytes.Repeat([]byte("x"), 3<<20)
		line[len(line)-1] = '\n'
		for range senders {
			l.send(l.dial(), line)
		}
		most := int64(manyLong*len(line) + manyMedium*longLine + senders*(senderBlock+senderRead))
		if n := l.read.Load(); n < manyLong*int64(len(line)) || n > most {
			t.Errorf("%d bytes were read, want at most %d", n, most)
		}
		for range senders {
			l.want(string(line))
		}
	})
}

// TestListen_StalledLongLinesMakeRoom: senders that stop within long lines, or send slowly, do not keep others from
// sending long lines.
func TestListen_StalledLongLinesMakeRoom(t *testing.T) {
	long := append(bytes.Repeat([]byte("x"), senderBlock+100), '\n')
	listenIn(t, source.Options{}, nil, func(l *listening) {
		for i := range manyMedium {
			c := l.dial()
			l.send(c, []byte("{}\n"))
			l.want("{}\n")
			l.send(c, long[:senderBlock+1])
			if i%2 == 0 {
				go func() {
					for err := error(nil); err == nil; time.Sleep(time.Second) {
						_, err = c.Write([]byte("x"))
					}
				}()
			}
		}
		good := l.dial()
		l.send(good, []byte("{}\n"))
		l.want("{}\n")
		l.send(good, long)
		time.Sleep(longLinePause - time.Second)
		l.wantWarnings(0, "")
		time.Sleep(2 * time.Second)
		l.wantWarnings(manyMedium, "arrived too slowly")
		l.want(string(long))
		time.Sleep(time.Hour) // it is not within a line
		l.send(good, long)
		l.want(string(long))
	})
}

// TestListen_SteadyLongLineIsRead: a sender with a slow connection has as long as its line takes.
func TestListen_SteadyLongLineIsRead(t *testing.T) {
	listenIn(t, source.Options{MaxLine: 4 << 20}, nil, func(l *listening) {
		c := l.dial()
		piece := bytes.Repeat([]byte("x"), longLineRate*30)
		for range 6 {
			l.send(c, piece)
			time.Sleep(30 * time.Second)
		}
		l.send(c, []byte("\n"))
		l.want(strings.Repeat(string(piece), 6) + "\n")
		l.wantWarnings(0, "")
	})
}

// TestListen_TooLongLines: a line over --max-line is cut off at any limit, plain or compressed, and all senders
// continue.
func TestListen_TooLongLines(t *testing.T) {
	for _, limit := range []int{1, 100, senderBlock - 1, senderBlock, senderBlock + 1, 40 << 10, 64 << 10, 100 << 10} {
		for _, size := range []int{limit + 1, senderBlock, 20_000, 64 << 10, 70_000, 300_000} {
			if size <= limit {
				continue
			}
			for _, compress := range []func([]byte) []byte{bytes.Clone, gzipped} {
				listenIn(t, source.Options{MaxLine: limit}, nil, func(l *listening) {
					l.send(l.dial(), compress([]byte(strings.Repeat("x", size)+"\n1\n")))
					b, err := l.stream.Next(l.Context())
					if err != nil || b.Oversize != int64(size)+1 || len(b.Data) != min(size+1, 64<<10) {
						t.Fatalf("limit %d, line of %d: %d bytes of %d, %v", limit, size, len(b.Data), b.Oversize, err)
					}
					b.Release()
					l.want("1\n")
				})
			}
		}
	}
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

// TestListen_ZstdWindows: a sender may need a window of 8 MiB, and only a few senders may have one at a time.
func TestListen_ZstdWindows(t *testing.T) {
	packed := func(window int) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		testcheck.NoError(t, err)
		_, _ = io.WriteString(w, "{}\n")
		_ = w.Flush() // so the size is not in the header
		_, _ = w.Write(bytes.Repeat([]byte("x"), senderBlock/2))
		_ = w.Flush()
		return b.Bytes()
	}
	good := packed(senderWindow)
	listenIn(t, source.Options{Buffer: 6 * senderWindow * bufferShare}, nil, func(l *listening) {
		l.send(l.dial(), packed(2*senderWindow))
		l.wantWarnings(1, "zstd: corrupt, or needs a window of more than 8 MiB")
		// A frame in one segment states only its length.
		l.send(l.dial(), slices.Concat([]byte("\x28\xb5\x2f\xfd\xe0"), []byte{0, 0, 0, 1, 0, 0, 0, 0}, make([]byte, 100)))
		l.wantWarnings(1, "zstd: corrupt, or needs a window of more than 8 MiB")
		var senders []net.Conn
		for range 6 {
			c := l.dial()
			l.send(c, good)
			l.want("{}\n")
			senders = append(senders, c)
		}
		waits := l.dial()
		l.send(waits, good)
		_ = senders[0].Close()
		l.wantWarnings(1, "zstd: truncated: unexpected EOF")
		l.want("{}\n")
		l.send(l.dial(), good)
		time.Sleep(firstLineTimeout)
		l.wantWarnings(1, "6 senders send zstd already")
	})
}

// TestListen_Strangers: a connection with another protocol or format is closed with one warning, and delivers no line.
func TestListen_Strangers(t *testing.T) {
	listenIn(t, source.Options{}, nil, func(l *listening) {
		for begins, warning := range map[string]string{
			"GET / HTTP/1.1\r\nHost: x\r\n\r\n":               "it speaks HTTP",
			"POST / HTTP/1.1\r\nHost: x\r\n\r\n{\"id\":1}\n":  "it speaks HTTP",
			"OPTIONS / HTTP/1.1\r\n\r\n":                      "it speaks HTTP",
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                "it speaks HTTP",
			"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03...": "it speaks TLS: use tls-listen://",
			"id,a\n1,2\n3,4\n5,6\n7,8\n":                      "this is CSV; weir reads one object a line: mlr --icsv --ojsonl cat FILE",
			"{\n\"id\": 1\n}\n":                               "this is JSON over several lines",
			"\xff\xfe{\x00}\x00\n\x00":                        "this is UTF-16",
		} {
			c := l.dial()
			l.send(c, []byte(begins))
			l.wantWarnings(1, warning)
			if !ended(c) {
				t.Errorf("%q is still connected", begins)
			}
		}
		// A prefix of such a protocol alone is a line.
		l.send(l.dial(), []byte("PO\n"))
		l.want("PO\n")
		// Of lines that may be CSV, none is lost if they are not.
		c := l.dial()
		l.send(c, []byte("id,a\n"))
		l.send(c, []byte("1,2\n"))
		l.send(c, []byte("{}\n"))
		l.want("id,a\n1,2\n{}\n")
		c = l.dial()
		l.send(c, []byte("G"))
		l.send(c, []byte("O\n"))
		l.want("GO\n")
	})
}

// sendAll sends a line repeatedly until the connection ends, and counts those that were read. A write to a pipe returns
// when all of it was read.
func sendAll(c net.Conn, line string, taken *atomic.Int64) {
	for {
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
		taken.Add(1)
	}
}

// TestStop_DeliversWhatWasRead: after Stop, every line already read from a connection comes before the end,
// because it would not be resent.
func TestStop_DeliversWhatWasRead(t *testing.T) {
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
