package tcp

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
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
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

// A dialer makes a connection, and reconnects. It is read by one goroutine;
// Close and drop may come from any.
type dialer struct {
	name string
	opts *source.Options
	idle time.Duration // see Options
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

func newDialer(name string, o *source.Options, idle time.Duration) *dialer {
	return &dialer{name: name, opts: o, idle: idle, dial: tcp.Dialer(dialTimeout).DialContext}
}

// connect makes a connection and sends what it begins with.
func (d *dialer) connect(ctx context.Context) (err error) {
	network, addr, _ := strings.Cut(d.name, "://")
	wire, err := d.dial(ctx, "tcp", addr)
	conn, fatal := wire, d.conns == 0 && isUnknownHost(err)
	if err == nil && network == tlsScheme {
		conn, err = shakeHands(ctx, wire, addr, d.opts.TLS)
		fatal = err != nil && (tcp.IsRefusal(err) || !isNetwork(err))
	}
	if err != nil {
		err = fmt.Errorf("connect to %s: %w%s", d.name, lines.Bare(err), hint(err))
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
		if _, rerr := conn.Read(make([]byte, 1)); tcp.IsRefusal(rerr) {
			return &fatalError{fmt.Errorf("write to %s: %w%s", d.name, lines.Bare(rerr), hint(rerr))}
		}
		return fmt.Errorf("write to %s: %w", d.name, lines.Bare(err))
	}
	return nil
}

// Read implements io.Reader. It fails when the feed is silent for longer than Options.Idle.
func (d *dialer) Read(p []byte) (int, error) {
	n, err := readIdle(d.conn, p, d.idle)
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
		err = silence(idle)
	}
	return n, err
}

func silence(idle time.Duration) error { return fmt.Errorf("nothing arrived for %s", idle) }

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

// A fatalError is one that reconnecting does not solve, unless somebody is just replacing a certificate or a login's file.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// isFatal reports whether reconnecting is of no use.
func isFatal(err error) bool {
	var fatal *fatalError
	return errors.As(err, &fatal) || errors.Is(err, lines.ErrUTF16)
}

func isUnknownHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// produceDialed hands out blocks of one connection after the other.
func (s *Stream) produceDialed() error {
	lost := time.Now() // later by the time in which there was a connection
	waits, attempt := backoff.Backoff{Min: minRedial, Max: maxRedial}, 0
	worked := false // a connection has delivered data
	for {
		err := s.dialer.connect(s.Ctx)
		if err == nil {
			made, brought := time.Now(), int64(0)
			s.opts.Observer.SetConnections(s.Name, 1)
			unguard := tcp.Guard(s.dialer.wire)
			if err = s.restart(); err == nil {
				err = source.Guard(s.deliver)
				brought = s.reader.Pos()
			}
			if unguard() {
				err = fmt.Errorf("read %s: %w", s.Name, tcp.ErrGone)
			} else if brought == 0 && tcp.IsRefusal(s.reader.Raw.Err) {
				err = &fatalError{fmt.Errorf("%w%s", err, hint(s.reader.Raw.Err))}
			}
			_ = s.dialer.conn.Close()
			s.opts.Observer.SetConnections(s.Name, 0)
			lost = lost.Add(time.Since(made))
			if brought > 0 {
				s.askWhereToResume()
				lost = time.Now()
				worked = true
			}
			if brought >= useful {
				waits.Reset()
				attempt = 0
			}
		}
		limit, end, what := s.opts.RetryFor, err == io.EOF, ""
		if end {
			what = s.reader.Torn()
			err = fmt.Errorf("%s: the feed ended%s", s.Name, what)
		}
		mayBeReplaced := worked && errors.As(err, new(*fatalError)) && time.Since(lost) < backoff.Replacement
		switch {
		case s.Ctx.Err() != nil:
			return s.Ctx.Err()
		case end && limit == 0:
			if what != "" {
				s.opts.Log.Warn(err.Error())
			}
			return io.EOF
		case limit == 0 || isFatal(err) && !mayBeReplaced:
			return err
		}
		wait, ok := waits.Next(limit - time.Since(lost))
		if !ok {
			return fmt.Errorf("%w (tried for %s; --retry-for says how long)", err, limit)
		}
		attempt++
		s.opts.Log.Warn(fmt.Sprintf("%v; reconnecting in %s", err, wait.Round(10*time.Millisecond)), "attempt", attempt)
		s.opts.Observer.Reconnect()
		if err := backoff.Sleep(s.Ctx, wait); err != nil {
			return err
		}
	}
}

// askWhereToResume waits until what was read so far is committed, or with a spool on disk, and notes the value after which
// the next connection asks the feed to resume.
func (s *Stream) askWhereToResume() {
	if !s.opts.Resumes || s.Ctx.Err() != nil {
		return
	}
	safe := make(chan string, 1)
	reached := func(at source.Point) { safe <- at.Resume }
	if s.Send(source.Event{Kind: source.Barrier, Reached: reached}) != nil {
		return
	}
	select {
	case s.dialer.resume = <-safe:
	case <-s.Ctx.Done():
	}
}

// restart begins to read what a new connection sends.
func (s *Stream) restart() error {
	s.reader.Raw.Err = nil
	s.reader.Clean = isClean(s.dialer.conn)
	if err := s.reader.Begin(); err != nil {
		return s.reader.Failure(err)
	}
	s.reader.Restart = s.begun
	s.begun = true
	return nil
}

// deliver hands out what a connection brings, until it ends.
func (s *Stream) deliver() error {
	return s.reader.Each(func(b *source.Block) error {
		b.Conn = s.dialer.conns
		return s.Send(source.Event{Block: b})
	})
}
