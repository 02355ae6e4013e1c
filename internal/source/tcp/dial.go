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
	// useful is how many bytes a connection has to deliver to reset the wait: more than the greeting of a feed that
	// sends nothing else.
	useful = 4 << 10
)

// A dialer connects and reconnects. One goroutine reads it; Close and drop may be called from any.
type dialer struct {
	name string
	opts *source.Options
	idle time.Duration // see Options
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// resume is the value after which the next connection asks the feed to resume.
	resume string

	mu     sync.Mutex
	raw    net.Conn // below conn's TLS; nil before the first
	conn   net.Conn
	conns  int // connections made so far
	closed bool
	why    error // why weir dropped the connection
}

// connect makes a connection and sends the first line, if any.
func (d *dialer) connect(ctx context.Context) (err error) {
	network, addr, _ := strings.Cut(d.name, "://")
	raw, err := d.dial(ctx, "tcp", addr)
	lookup, failed := errors.AsType[*net.DNSError](err)
	conn, fatal := raw, failed && lookup.IsNotFound && d.conns == 0
	if err == nil && network == tlsScheme {
		conn, err = handshake(ctx, raw, addr, d.opts.TLS)
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
	d.raw, d.conn, d.why = raw, conn, nil
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
		// The other end may have sent the reason.
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

// readIdle reads, and waits at most idle unless that is 0.
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

// drop ends the connection with a number, if it is open, so its reader reconnects. The warning gives the reason.
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

// A fatalError is an error that reconnecting does not fix, unless a certificate or a login file is just being replaced.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

func (s *Stream) produceDialed() error {
	disconnectedSince := time.Now() // moved forward by the time spent connected
	waits, attempt := backoff.Backoff{Min: minRedial, Max: maxRedial}, 0
	worked := false // a connection has delivered data
	again := false  // there was a connection
	for {
		err := s.dialer.connect(s.Ctx)
		if err == nil {
			connected, received := time.Now(), int64(0)
			if s.opts.Observer.SetConnections(s.Name, 1); again {
				s.opts.Observer.Reconnected()
			}
			again = true
			unguard := tcp.Guard(s.Ctx, s.dialer.raw)
			if err = s.restart(); err == nil {
				err = s.deliver()
				received = s.reader.Pos()
			}
			if unguard() {
				err = fmt.Errorf("read %s: %w", s.Name, tcp.ErrGone)
			} else if received == 0 && tcp.IsRefusal(s.reader.Raw.Err) {
				err = &fatalError{fmt.Errorf("%w%s", err, hint(s.reader.Raw.Err))}
			}
			_ = s.dialer.conn.Close()
			s.opts.Observer.SetConnections(s.Name, 0)
			disconnectedSince = disconnectedSince.Add(time.Since(connected))
			if received > 0 {
				s.askWhereToResume()
				disconnectedSince = time.Now()
				worked = true
			}
			if received >= useful {
				waits.Reset()
				attempt = 0
			}
		}
		limit, end, what := s.opts.RetryFor, err == io.EOF, ""
		if end {
			what = s.reader.Torn()
			err = fmt.Errorf("%s: the feed ended%s", s.Name, what)
		}
		isFatal := errors.As(err, new(*fatalError))
		mayBeReplaced := worked && isFatal && time.Since(disconnectedSince) < backoff.Replacement
		switch {
		case s.Ctx.Err() != nil:
			return s.Ctx.Err()
		case end && limit == 0:
			if what != "" {
				s.opts.Log.Warn(err.Error())
			}
			return io.EOF
		case limit == 0 || isFatal && !mayBeReplaced || errors.As(err, new(*lines.ForeignError)):
			return err
		}
		wait, ok := waits.Next(limit - time.Since(disconnectedSince))
		if !ok {
			return fmt.Errorf("%w (tried for %s; --retry-for says how long)", err, limit)
		}
		attempt++
		s.opts.Log.Warn(fmt.Sprintf("%v; reconnecting in %s", err, wait.Round(10*time.Millisecond)), "attempt", attempt)
		if err := backoff.Sleep(s.Ctx, wait); err != nil {
			return err
		}
	}
}

// askWhereToResume waits until everything read so far is committed (with a spool: on disk), and sets the value after
// which the next connection asks the feed to resume.
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

func (s *Stream) deliver() error {
	return s.reader.Each(func(b *source.Block) error {
		b.Conn = s.dialer.conns
		return s.Send(source.Event{Block: b})
	})
}
