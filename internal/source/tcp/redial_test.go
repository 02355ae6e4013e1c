package tcp

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// dialIn calls do with a stream, in a bubble, whose connections are pipes. serve runs the other end of each, which is
// closed when serve returns.
func dialIn(t *testing.T, spec string, o source.Options, serve func(n int, c net.Conn), do func(t *testing.T, s *Stream, warnings chan string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		warnings := make(chan string, 1000)
		o.Log = logtest.To(func(w string) { warnings <- w })
		o, err := o.WithDefaults()
		testcheck.NoError(t, err)
		s := newStream(spec, o, Options{}, nil)
		n := 0
		s.dialer.dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func(n int) {
				serve(n, theirs)
				_ = theirs.Close()
			}(n)
			n++
			return likeTCP{ours}, nil
		}
		do(t, s, warnings)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour) // until all servers have ended
	})
}

// likeTCP is a pipe with a network's errors.
type likeTCP struct{ net.Conn }

func (c likeTCP) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && err != io.EOF {
		err = &net.OpError{Op: "read", Err: err}
	}
	return n, err
}

func (c likeTCP) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		err = &net.OpError{Op: "write", Err: err}
	}
	return n, err
}

// linesOf reads a stream to its end.
func linesOf(t *testing.T, s *Stream) (string, error) {
	var all strings.Builder
	for {
		b, err := s.Next(t.Context())
		if err != nil {
			return all.String(), err
		}
		all.Write(b.Data)
		b.Release()
	}
}

// certificate returns a certificate for the name "pipe", and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testcheck.NoError(t, err)
	// A bubble's time begins in the year 2000.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"pipe"}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testcheck.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	testcheck.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// object stands for a job's check whether a line is whole.
func object(line []byte) bool { return bytes.HasSuffix(line, []byte("}")) }

// TestLastLine: a last line without a newline counts if it is whole and the connection was closed cleanly, which with
// TLS needs a close_notify.
func TestLastLine(t *testing.T) {
	pair, pool := certificate(t)
	server, client := &tls.Config{Certificates: []tls.Certificate{pair}}, &tls.Config{RootCAs: pool, ServerName: "pipe"}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = io.WriteString(z, "{1}\n{2}")
	_ = z.Close()
	for name, c := range map[string]struct {
		sent, want, warning string
		tls, cut            bool
		format              string
	}{
		"whole":                {sent: "{1}\n{2}", want: "{1}\n{2}\n"},
		"alone":                {sent: "{2}", want: "{2}\n"},
		"as long as it may be": {sent: "{1}\n{345678}", want: "{1}\n{345678}\n"},
		"torn":                 {sent: "{1}\n{2", want: "{1}\n", warning: "ended within a line: 2 bytes are left out"},
		"torn and too long":    {sent: "{1}\n" + strings.Repeat("x", 20), want: "{1}\n", warning: "ended within a line: 20 bytes are left out"},
		"blanks":               {sent: "{1}\n \r", want: "{1}\n"},
		"compressed":           {sent: packed.String(), want: "{1}\n{2}\n", format: source.Zlib},
		"TLS":                  {sent: "{1}\n{2}", want: "{1}\n{2}\n", tls: true},
		"TLS that is cut":      {sent: "{1}\n{2}", want: "{1}\n", tls: true, cut: true, warning: "ended within a line: 3 bytes are left out (it may have been cut off: TLS did not say that it closes)"},
	} {
		o := source.Options{MaxLine: 8, Whole: object, Compression: c.format}
		send := func(wire net.Conn, over func(net.Conn, *tls.Config) *tls.Conn, config *tls.Config) {
			to := wire
			if c.tls {
				to = over(wire, config)
			}
			_, _ = io.WriteString(to, c.sent)
			if c.tls && !c.cut {
				go func() { _, _ = io.Copy(io.Discard, wire) }() // so the other end sends close_notify, too
				_ = to.Close()
			}
			_ = wire.Close()
		}
		t.Run("dialled/"+name, func(t *testing.T) {
			o, spec := o, "tcp://pipe:1"
			if c.tls {
				o.TLS, spec = func() (*tls.Config, error) { return &tls.Config{RootCAs: pool}, nil }, "tls://pipe:1"
			}
			dialIn(t, spec, o, func(_ int, wire net.Conn) { send(wire, tls.Server, server) }, func(t *testing.T, s *Stream, warnings chan string) {
				if got, err := linesOf(t, s); got != c.want || err != io.EOF {
					t.Errorf("%q, %v, want %q", got, err, c.want)
				}
				if close(warnings); !strings.HasSuffix(<-warnings, c.warning) || c.warning == "" && len(warnings) > 0 {
					t.Errorf("not warned that it %s", c.warning)
				}
			})
		})
		t.Run("sent/"+name, func(t *testing.T) {
			config := server
			if !c.tls {
				config = nil
			}
			listenIn(t, o, config, func(l *listening) {
				go send(l.dial(), tls.Client, client)
				for want := range strings.Lines(c.want) {
					l.want(want)
				}
				if c.warning == "" {
					l.wantWarnings(0, "")
				} else {
					l.wantWarnings(1, c.warning)
				}
			})
		})
	}
}

// TestDial_CertificateIsReplaced: the feed gets a certificate from another authority, and weir's file of authorities is
// replaced later. Until then weir reconnects, but not forever.
func TestDial_CertificateIsReplaced(t *testing.T) {
	first, firstPool := certificate(t)
	second, secondPool := certificate(t)
	for name, replaces := range map[string]bool{"and the authority": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			var trusted atomic.Pointer[x509.CertPool]
			trusted.Store(firstPool)
			torn := errors.New("the file is torn")
			o := source.Options{RetryFor: math.MaxInt64, TLS: func() (*tls.Config, error) {
				if trusted.Load() == nil {
					return nil, torn
				}
				return &tls.Config{RootCAs: trusted.Load()}, nil
			}}
			serve := func(n int, wire net.Conn) {
				pair := first
				if n > 0 {
					pair = second
				}
				if replaces && n == 2 {
					trusted.Store(nil)
				} else if replaces && n == 4 {
					trusted.Store(secondPool)
				}
				conn := tls.Server(wire, &tls.Config{Certificates: []tls.Certificate{pair}})
				_, _ = fmt.Fprintf(conn, "{%d}\n", n)
				_ = wire.Close()
			}
			dialIn(t, "tls://pipe:1", o, serve, func(t *testing.T, s *Stream, _ chan string) {
				got := func() (string, error) {
					b, err := s.Next(t.Context())
					if err != nil {
						return "", err
					}
					defer b.Release()
					return string(b.Data), nil
				}
				if line, err := got(); line != "{0}\n" || err != nil {
					t.Fatalf("%q, %v", line, err)
				}
				begin := time.Now()
				line, err := got()
				if replaces {
					if line != "{4}\n" && line != "{5}\n" || err != nil {
						t.Errorf("%q, %v", line, err)
					}
				} else if waited := time.Since(begin); err == nil || !strings.Contains(err.Error(), "unknown authority") || waited < backoff.Replacement || waited > 2*backoff.Replacement {
					t.Errorf("%q, %v after %s", line, err, waited)
				}
			})
		})
	}
}

// TestDial_ForeignFormat: a feed of another format ends reading at once, unless an earlier connection has worked.
func TestDial_ForeignFormat(t *testing.T) {
	for earlier, want := range map[string]string{"": "", "{}\n": "{}\n<html>\n"} {
		serve := func(n int, c net.Conn) {
			text := "<html>\n"
			if n == 0 && earlier != "" {
				text = earlier
			}
			_, _ = io.WriteString(c, text)
		}
		dialIn(t, "tcp://pipe:1", source.Options{RetryFor: time.Minute}, serve, func(t *testing.T, s *Stream, warnings chan string) {
			got := ""
			for len(got) < len("{}\n<html>\n") {
				b, err := s.Next(t.Context())
				if err != nil {
					if !strings.Contains(err.Error(), "tcp://pipe:1: this is HTML") || len(warnings) > 0 {
						t.Errorf("%v, %d warnings", err, len(warnings))
					}
					break
				}
				got += string(b.Data)
				b.Release()
			}
			if got != want {
				t.Errorf("read %q, want %q", got, want)
			}
		})
	}
}

// TestDial_EndsAtOnce: if TLS cannot work, or the host is unknown, weir does not reconnect, and gives the reason. It
// retries temporary errors.
func TestDial_EndsAtOnce(t *testing.T) {
	pair, pool := certificate(t)
	stranger, others := certificate(t)
	wants := func(c *tls.Config) func(net.Conn) {
		return func(wire net.Conn) {
			go func() { time.Sleep(time.Minute); _ = wire.Close() }()
			c.Certificates = []tls.Certificate{pair}
			conn := tls.Server(wire, c)
			_, _ = io.ReadFull(conn, make([]byte, 6)) // part of the handshake
			_, _ = io.WriteString(conn, "a\n")
			_ = conn.Close()
		}
	}
	says := func(text string) func(net.Conn) {
		return func(wire net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, wire) }()
			_, _ = io.WriteString(wire, text)
			time.Sleep(time.Second)
		}
	}
	for name, c := range map[string]struct {
		serve func(net.Conn)
		tls   *tls.Config
		want  string // in the error; "": it is retried
	}{
		"a client certificate is wanted":     {wants(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}), &tls.Config{RootCAs: pool}, "certificate required; --tls-cert and --tls-key show one"},
		"the same in TLS 1.2":                {wants(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MaxVersion: tls.VersionTLS12}), &tls.Config{RootCAs: pool}, "handshake failure"},
		"another one is wanted":              {wants(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}), &tls.Config{RootCAs: pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }}, "unknown certificate authority"},
		"too old a version":                  {wants(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}), &tls.Config{RootCAs: pool}, "protocol version not supported"},
		"an unknown authority":               {wants(&tls.Config{}), &tls.Config{RootCAs: others}, "; --tls-ca trusts an authority of your own"},
		"another name":                       {wants(&tls.Config{}), &tls.Config{RootCAs: pool, ServerName: "other"}, "certificate is valid for pipe, not other; --tls-server-name names the host of the certificate"},
		"no TLS":                             {says("{}\n{}\n{}\n"), &tls.Config{}, "does not look like a TLS handshake; tcp:// is without TLS"},
		"HTTP":                               {says("HTTP/1.1 400 Bad Request\r\n\r\n"), &tls.Config{}, "does not look like a TLS handshake; it speaks HTTP"},
		"an internal error of the other end": {says("\x15\x03\x03\x00\x02\x02\x50"), &tls.Config{}, ""},
		"nothing but the end":                {func(net.Conn) {}, &tls.Config{}, ""},
		"silence":                            {says(""), &tls.Config{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := source.Options{TLS: func() (*tls.Config, error) { return c.tls, nil }, RetryFor: math.MaxInt64, Hello: func(string) ([]byte, error) { return []byte("hello\n"), nil }}
			dialIn(t, "tls://pipe:1", o, func(_ int, wire net.Conn) { c.serve(wire) }, func(t *testing.T, s *Stream, warnings chan string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err := s.Next(ctx)
				if c.want == "" {
					if !errors.Is(err, context.DeadlineExceeded) || len(warnings) < 10 {
						t.Errorf("%v, %d warnings", err, len(warnings))
					}
				} else if err == nil || !strings.Contains(err.Error(), c.want) || len(warnings) > 0 {
					t.Errorf("%v, %d warnings, want %q", err, len(warnings), c.want)
				}
			})
		})
	}
	unknown := func(at int) func(*testing.T, *Stream, chan string) {
		return func(t *testing.T, s *Stream, warnings chan string) {
			n, dial := 0, s.dialer.dial
			s.dialer.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if n++; n == at {
					return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "pipe", IsNotFound: true}}
				}
				return dial(ctx, network, addr)
			}
			b, err := s.Next(t.Context())
			if at == 1 {
				if err == nil || err.Error() != "connect to tcp://pipe:1: lookup pipe: no such host" {
					t.Error(err)
				}
				return
			}
			for range 3 {
				if err != nil || string(b.Data) != "a\n" {
					t.Fatal(err)
				}
				b, err = s.Next(t.Context())
			}
			if w := <-warnings; !strings.Contains(w, "the feed ended") {
				t.Error(w)
			}
			if w := <-warnings; !strings.Contains(w, "no such host; reconnecting") {
				t.Error(w)
			}
		}
	}
	for _, at := range []int{1, 2} {
		dialIn(t, "tcp://pipe:1", source.Options{RetryFor: math.MaxInt64}, func(_ int, c net.Conn) { _, _ = io.WriteString(c, "a\n") }, unknown(at))
	}
}

// TestRetryFor_QuietConnection: time while connected does not count, even if nothing arrived.
func TestRetryFor_QuietConnection(t *testing.T) {
	quiet := func(n int, c net.Conn) {
		if n == 0 {
			time.Sleep(time.Hour)
		} else {
			_, _ = io.WriteString(c, "a\n")
		}
	}
	dialIn(t, "tcp://pipe:1", source.Options{RetryFor: 5 * time.Second}, quiet, func(t *testing.T, s *Stream, _ chan string) {
		if b, err := s.Next(t.Context()); err != nil || string(b.Data) != "a\n" {
			t.Errorf("%v", err)
		}
	})
}

// TestRetryFor_NothingBehindACompressedStream: a connection that ends before its compressed stream has begun counts as
// having delivered nothing, whatever the first one delivered.
func TestRetryFor_NothingBehindACompressedStream(t *testing.T) {
	var data bytes.Buffer
	w := zlib.NewWriter(&data)
	_, _ = io.WriteString(w, strings.Repeat("a line\n", 1000))
	_ = w.Close()
	first := func(n int, c net.Conn) {
		if n == 0 {
			_, _ = c.Write(data.Bytes())
		}
	}
	dialIn(t, "tcp://pipe:1", source.Options{RetryFor: time.Minute, Compression: source.Zlib}, first, func(t *testing.T, s *Stream, _ chan string) {
		began := time.Now()
		got, err := linesOf(t, s)
		if len(got) != 7000 || err == nil || !strings.Contains(err.Error(), "--retry-for") {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if took := time.Since(began); took > 61*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// told returns the numbers of connections that were reported, in order.
func told(n chan int) (all []int) {
	synctest.Wait()
	for len(n) > 0 {
		all = append(all, <-n)
	}
	return slices.Compact(all)
}

// An observer records the numbers of connections, and counts senders that failed.
type observer struct {
	source.Unobserved
	connections chan<- int
	failed      *int
}

func (o observer) SetConnections(_ string, n int) {
	if o.connections != nil {
		o.connections <- n
	}
}

func (o observer) SenderFailed() { *o.failed++ }

func TestConnections_OfAFeed(t *testing.T) {
	n := make(chan int, 1000)
	serve := func(n int, c net.Conn) {
		time.Sleep(time.Second)
		if n == 0 {
			_, _ = c.Write([]byte("{}\n"))
		}
	}
	dialIn(t, "tcp://pipe", source.Options{RetryFor: 4 * time.Second, Observer: observer{connections: n}}, serve, func(t *testing.T, stream *Stream, _ chan string) {
		if _, err := stream.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := <-n
		if _, err := stream.Next(t.Context()); err == nil {
			t.Fatal("did not exercise: the feed came back")
		}
		if all := told(n); first != 1 || len(all) < 3 || all[0] != 0 || all[1] != 1 || all[len(all)-1] != 0 {
			t.Errorf("with a line there were %d connections, and then %v", first, all)
		}
	})
}
