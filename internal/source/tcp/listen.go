package tcp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
	"github.com/weirsync/weir/internal/tcp"
)

const (
	// connected at a time; an idle one costs 12 KiB
	maxSenders  = 1000
	senderRead  = 4 << 10  // bytes read ahead of a sender's framer
	senderBlock = 16 << 10 // bytes of a sender's block, unless one line is longer

	// Senders together must not fill the memory: only manyMedium at a time may be in a line over senderBlock, and
	// manyLong in one over longLine. Others wait.
	manyMedium = 16
	longLine   = 1 << 20 // bytes
	manyLong   = 4
	// A sender within such a line makes others wait, so it has to send longLineRate bytes a second on average, and may
	// pause for longLinePause.
	longLineRate  = 16 << 10
	longLinePause = time.Minute

	// senderWindow limits a sender's zstd window. RFC 8878 recommends this size, and `zstd -19` needs it. 1/bufferShare
	// of Options.Buffer is for windows, but at least minWindows fit.
	senderWindow = 8 << 20 // bytes
	minWindows   = 4
	bufferShare  = 4

	// How long a sender has for the TLS handshake, and then for its first line.
	handshakeTimeout = 10 * time.Second
	firstLineTimeout = time.Minute
)

// A listener accepts senders.
type listener struct {
	net.Listener
	load    func() (*tls.Config, error) // reads the TLS files; nil: no TLS
	permits []permit
	windows chan struct{} // a token for each sender with a zstd window
	pool    *source.Pool  // of small blocks, because an idle sender keeps one
	changed func(n int)   // called with the number of conns; mu is locked

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func listen(ctx context.Context, name string, o *source.Options) (*listener, error) {
	scheme, addr, _ := strings.Cut(name, "://")
	in, err := tcp.ListenConfig().Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", name, lines.Bare(err))
	}
	l := newListener(in, name, o)
	if scheme == tlsListenScheme {
		l.load = o.TLS
		var config *tls.Config
		if config, err = l.load(); err == nil && len(config.Certificates) == 0 {
			err = fmt.Errorf("%s needs --tls-cert and --tls-key", name)
		}
		if err != nil {
			return nil, errors.Join(err, in.Close())
		}
	}
	return l, nil
}

func newListener(in net.Listener, name string, o *source.Options) *listener {
	return &listener{
		Listener: in,
		permits:  []permit{{senderBlock, make(chan struct{}, manyMedium)}, {longLine, make(chan struct{}, manyLong)}},
		windows:  make(chan struct{}, max(minWindows, o.Buffer/bufferShare/senderWindow)),
		pool:     source.NewPoolOf(senderBlock, senderBlock),
		changed:  func(n int) { o.Observer.SetConnections(name, n) },
		conns:    map[net.Conn]bool{},
	}
}

// add registers a connection. It fails after Close, and if there are too many.
func (l *listener) add(c net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return net.ErrClosed
	case len(l.conns) == maxSenders:
		return fmt.Errorf("there are %d senders already", maxSenders)
	}
	l.conns[c] = true
	l.changed(len(l.conns))
	return nil
}

func (l *listener) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.changed(len(l.conns))
	_ = c.Close()
}

// Close closes all connections.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for c := range l.conns {
		_ = c.Close()
	}
	return l.Listener.Close()
}

// produceSent produces the blocks of all senders, until it is closed.
func (s *Stream) produceSent() error {
	var senders sync.WaitGroup
	defer senders.Wait()
	for {
		c, err := s.listener.Accept()
		if s.Ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return s.Ctx.Err()
		}
		if err != nil {
			// Usually out of descriptors: wait, because senders may leave.
			s.opts.Log.Warn(fmt.Sprintf("%s: %v", s.Name, lines.Bare(err)))
			if err := backoff.Sleep(s.Ctx, minRedial); err != nil {
				return err
			}
			continue
		}
		if err := s.listener.add(c); err != nil {
			s.opts.Observer.SenderFailed()
			s.opts.Log.Warn(fmt.Sprintf("%s: %s is turned away: %v", s.Name, c.RemoteAddr(), err))
			_ = c.Close()
			continue
		}
		senders.Go(func() {
			err := s.sender(c)
			s.listener.remove(c)
			if err != io.EOF && s.Ctx.Err() == nil {
				s.opts.Observer.SenderFailed()
				s.opts.Log.Warn(fmt.Sprintf("%s: the sender %s: %v", s.Name, c.RemoteAddr(), lines.Bare(err)))
			}
		})
	}
}

// foreignProtocols are the first bytes of protocols that are no feed, and their names.
var foreignProtocols = func() map[string]string {
	m := map[string]string{"\x16\x03": "it speaks TLS: use tls-listen://"}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PRI"} {
		m[method+" "] = "it speaks HTTP, not JSON lines"
	}
	return m
}()

// A permit is for lines over a length. A sender in such a line holds a token.
type permit struct {
	over   int // bytes
	tokens chan struct{}
}

// senderConn is a sender's connection. Its reads have a deadline.
type senderConn struct {
	net.Conn
	idle    time.Duration // as in Options
	spoke   bool          // the first line has arrived; until then its deadline applies
	permits []permit      // the listener's
	held    int           // how many this sender holds
	pause   time.Duration // left for a sender with a permit
}

func (c *senderConn) Read(p []byte) (int, error) {
	if c.held > 0 {
		return c.readLong(p)
	}
	if c.spoke {
		return readIdle(c.Conn, p, c.idle)
	}
	n, err := c.Conn.Read(p)
	if isTimeout(err) {
		err = fmt.Errorf("no line arrived within %s", firstLineTimeout)
	}
	return n, err
}

// readLong reads within a line that needs a permit.
func (c *senderConn) readLong(p []byte) (int, error) {
	wait := c.pause
	if c.spoke && c.idle > 0 {
		wait = min(wait, c.idle)
	}
	begin := time.Now()
	_ = c.SetReadDeadline(begin.Add(wait))
	n, err := c.Conn.Read(p)
	c.pause = min(longLinePause, c.pause-time.Since(begin)+time.Duration(n)*time.Second/longLineRate)
	switch {
	case !isTimeout(err):
	case wait == c.idle:
		err = silence(c.idle)
	default:
		err = fmt.Errorf("a line over %d KiB arrived too slowly: it may pause for %s, and otherwise has to send at least %d KiB/s", senderBlock>>10, longLinePause, longLineRate>>10)
	}
	return n, err
}

// room waits for the permits that a line of a length needs.
func (c *senderConn) room(ctx context.Context, length int) error {
	for c.held < len(c.permits) && length > c.permits[c.held].over {
		select {
		case c.permits[c.held].tokens <- struct{}{}:
			c.held++
			c.pause = longLinePause
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c *senderConn) giveBack() {
	if c.held > 0 {
		_ = c.SetReadDeadline(time.Time{})
	}
	for ; c.held > 0; c.held-- {
		<-c.permits[c.held-1].tokens
	}
}

// secured starts TLS on a sender's connection, if the listener requires it.
func (s *Stream) secured(c net.Conn) (net.Conn, error) {
	if s.listener.load == nil {
		return c, nil
	}
	config, err := s.listener.load() // again for each sender, because the files may be replaced
	if err != nil {
		return nil, err
	}
	over := tls.Server(&watchedConn{Conn: c}, config)
	ctx, cancel := context.WithTimeout(s.Ctx, handshakeTimeout)
	defer cancel()
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", lines.Bare(err))
	}
	return over, nil
}

func (s *Stream) sender(c net.Conn) error {
	_ = c.SetReadDeadline(time.Now().Add(firstLineTimeout))
	over, err := s.secured(c)
	if err != nil {
		return err
	}
	defer func() { _ = over.Close() }()
	in := &senderConn{Conn: over, idle: s.idle, permits: s.listener.permits}
	defer in.giveBack()
	bytes := lines.NewRaw(s.Ctx, in)
	br := bufio.NewReaderSize(bytes, senderRead)
	format := s.opts.Compression
	if format == source.Auto || format == source.None {
		if begins := lines.Prefix(br, slices.Collect(maps.Keys(foreignProtocols))...); begins != "" {
			return errors.New(foreignProtocols[begins])
		}
	}
	if format == source.Auto {
		format = lines.Sniff(br)
	}
	if format == source.Zstd {
		release, err := s.listener.window(s.Ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	fail := func(err error) error {
		if format == source.None || bytes.Err != nil || err == io.EOF || errors.As(err, new(*lines.ForeignError)) {
			return err
		}
		return fmt.Errorf("%s: %s: %w", format, lines.Fault(err, senderWindow), err)
	}
	src, err := lines.Decompress(br, format, senderWindow)
	if err != nil {
		return fail(err)
	}
	if format != source.None {
		br = bufio.NewReaderSize(src, senderRead)
	}
	f := lines.Framer{Framing: lines.Framing{MaxLine: s.opts.MaxLine, Live: true, Pool: s.listener.pool, Whole: s.opts.Whole, Clean: isClean(in.Conn),
		Room: func(length int) error { return in.room(s.Ctx, length) }}}
	defer f.Drop()
	f.Reset(br)
	if _, err := br.Peek(1); err != nil { // allocate a block only when there is something to put into it
		return fail(err)
	}
	for {
		b, err := f.Next()
		if err == io.EOF && f.Left() > 0 {
			return fmt.Errorf("it ended%s", f.Torn())
		} else if err != nil {
			return fail(err)
		}
		if !in.spoke {
			in.spoke = true
			_ = c.SetReadDeadline(time.Time{})
		}
		if err := s.Send(source.Event{Block: b}); err != nil {
			return err
		}
		in.giveBack()
	}
}

// window waits until there is room for a zstd window, but no longer than for a first line.
func (l *listener) window(ctx context.Context) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, firstLineTimeout)
	defer cancel()
	select {
	case l.windows <- struct{}{}:
		return func() { <-l.windows }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%d senders send zstd already: use a larger --buffer, or gzip", cap(l.windows))
	}
}
