package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/tcp"
)

const (
	dialTimeout = 10 * time.Second
	// Waits before weir reconnects: the first, and the longest.
	minRedial = 500 * time.Millisecond
	maxRedial = 30 * time.Second
	// useful is how many bytes a connection has to bring for the next wait to be
	// short: more than the greeting of a feed that sends nothing else.
	useful = 4 << 10
)

// isDialed reports whether a spec is a connection that weir makes.
func isDialed(spec string) bool {
	return strings.HasPrefix(spec, tcpScheme) || strings.HasPrefix(spec, tlsScheme)
}

// A dialer makes a connection, and reconnects. It is read by one goroutine;
// Close and drop may come from any.
type dialer struct {
	name string
	opts *Options
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// resume is the value after which the next connection asks the feed to resume.
	resume string

	mu     sync.Mutex
	wire   net.Conn // under conn's TLS; nil before the first
	conn   net.Conn
	conns  int // made so far
	closed bool
	why    error // why the connection was dropped from this side
}

func newDialer(name string, o *Options, resume string) *dialer {
	return &dialer{name: name, opts: o, resume: resume, dial: tcp.Dialer(dialTimeout).DialContext}
}

// connect makes a connection and sends what it begins with.
func (d *dialer) connect(ctx context.Context) (err error) {
	network, addr, _ := strings.Cut(d.name, "://")
	wire, err := d.dial(ctx, "tcp", addr)
	conn, fatal := wire, d.conns == 0 && isUnknownHost(err)
	if err == nil && network == "tls" {
		conn, err = shakeHands(ctx, wire, addr, d.opts.TLS)
		fatal = err != nil && (isRefusal(err) || !isNetwork(err))
	}
	if err != nil {
		err = fmt.Errorf("connect to %s: %w%s", d.name, bare(err), hint(err))
		if fatal {
			err = &fatalError{err}
		}
		return err
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return errors.Join(net.ErrClosed, conn.Close())
	}
	d.wire, d.conn, d.why = wire, conn, nil
	d.conns++
	d.mu.Unlock()
	if d.opts.Hello == nil {
		return nil
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	hello, err := d.opts.Hello(d.resume)
	if err != nil {
		return &fatalError{fmt.Errorf("the first line for %s: %w", d.name, err)}
	}
	_ = conn.SetWriteDeadline(time.Now().Add(dialTimeout))
	if _, err := conn.Write(hello); err != nil {
		// The other end may have sent why it takes nothing.
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, rerr := conn.Read(make([]byte, 1)); isRefusal(rerr) {
			return &fatalError{fmt.Errorf("write to %s: %w%s", d.name, bare(rerr), hint(rerr))}
		}
		return fmt.Errorf("write to %s: %w", d.name, bare(err))
	}
	return nil
}

// Read implements io.Reader. It fails when the feed is silent for longer than Options.Idle.
func (d *dialer) Read(p []byte) (int, error) {
	n, err := readIdle(d.conn, p, d.opts.Idle)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && d.why != nil {
		err = d.why
	}
	return n, err
}

// readIdle reads, and waits no longer than idle, if that is not 0.
func readIdle(c net.Conn, p []byte, idle time.Duration) (int, error) {
	if idle > 0 {
		_ = c.SetReadDeadline(time.Now().Add(idle))
	}
	n, err := c.Read(p)
	if idle > 0 && isTimeout(err) {
		err = fmt.Errorf("nothing arrived for %s", idle)
	}
	return n, err
}

func isTimeout(err error) bool {
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}

// drop ends the connection of a number, so that its reader reconnects.
func (d *dialer) drop(conn int, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == conn && d.conn != nil && d.why == nil {
		d.why = why
		_ = d.conn.Close()
	}
}

// Close ends the connection for good.
func (d *dialer) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.conn == nil {
		return nil
	}
	err := d.conn.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}

// A fatalError stays when weir reconnects.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// isFatal reports whether reconnecting is of no use.
func isFatal(err error) bool {
	var fatal *fatalError
	return errors.As(err, &fatal) || errors.Is(err, errUTF16)
}

func isUnknownHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// Reconnect drops the connection that brought a block, by its Conn, for a reason that the warning
// gives. It does nothing when that connection has ended, and for other sources.
func (s *Stream) Reconnect(conn int, why error) {
	if s.dialer != nil {
		s.dialer.drop(conn, why)
	}
}

// produceDialed hands out blocks of one connection after the other.
func (s *Stream) produceDialed() error {
	lost := time.Now() // later by the time in which there was a connection
	waits, attempt := backoff.Backoff{Min: minRedial, Max: maxRedial}, 0
	for {
		err := s.dialer.connect(s.ctx)
		if err == nil {
			made, brought := time.Now(), int64(0)
			s.opts.Connections(s.name, 1)
			unguard := tcp.Guard(s.dialer.wire)
			if err = s.restart(); err == nil {
				err = s.deliver()
				brought = s.frame.pos()
			}
			if unguard() {
				err = fmt.Errorf("read %s: %w", s.name, tcp.ErrGone)
			} else if brought == 0 && isRefusal(s.raw.err) {
				err = &fatalError{fmt.Errorf("%w%s", err, hint(s.raw.err))}
			}
			_ = s.dialer.conn.Close()
			s.opts.Connections(s.name, 0)
			lost = lost.Add(time.Since(made))
			if brought > 0 {
				s.waitForCommit()
				lost = time.Now()
			}
			if brought >= useful {
				waits.Reset()
				attempt = 0
			}
		}
		limit, end, what := s.opts.RetryFor, err == io.EOF, ""
		if end {
			what = s.frame.torn()
			err = fmt.Errorf("%s: the feed ended%s", s.name, what)
		}
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case end && limit == 0:
			if what != "" {
				s.opts.Log.Warn(err.Error())
			}
			return io.EOF
		case limit == 0 || isFatal(err):
			return err
		}
		wait, ok := waits.Next(limit - time.Since(lost))
		if !ok {
			return fmt.Errorf("%w (tried for %s; --retry-for says how long)", err, limit)
		}
		attempt++
		s.opts.Log.Warn(fmt.Sprintf("%v; reconnecting in %s", err, wait.Round(10*time.Millisecond)), "attempt", attempt)
		s.opts.Reconnects()
		if err := backoff.Sleep(s.ctx, wait); err != nil {
			return err
		}
	}
}

// waitForCommit waits until what was read so far is committed, and need not be asked for again.
func (s *Stream) waitForCommit() {
	if !s.opts.Resumes {
		return
	}
	committed := make(chan string, 1)
	begin := func(_ context.Context, from Point) (Begun, error) {
		committed <- from.Resume
		return Begun{}, nil
	}
	if s.send(Event{Kind: Opened, Begin: begin}) != nil {
		return
	}
	select {
	case s.dialer.resume = <-committed:
	case <-s.ctx.Done():
	}
}

// restart begins to read what a new connection sends.
func (s *Stream) restart() error {
	again := s.frame.src != nil
	s.raw.err = nil
	s.frame.clean = isClean(s.dialer.conn)
	if err := s.begin(); err != nil {
		return s.failure(err)
	}
	s.frame.restart = again
	return nil
}
