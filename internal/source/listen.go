package source

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/tcp"
)

const (
	listenScheme    = "tcp-listen://"
	tlsListenScheme = "tls-listen://"

	// maxSenders are taken at a time; one that is idle costs 12 KiB.
	maxSenders  = 1000
	senderRead  = 4 << 10  // bytes that are read ahead of a sender's framer
	senderBlock = 16 << 10 // bytes of a sender's block unless one line is longer
	// longLine is what a line may take without asking; only manyLong senders at a
	// time are in a longer one, so that all together cannot fill the memory.
	longLine = 1 << 20 // bytes
	manyLong = 4
)

// Listens reports whether a spec waits for senders to connect.
func Listens(spec string) bool {
	return strings.HasPrefix(spec, listenScheme) || strings.HasPrefix(spec, tlsListenScheme)
}

// A listener takes senders.
type listener struct {
	net.Listener
	long chan struct{} // a token for each sender that is in a long line

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func listen(ctx context.Context, name string, o *Options) (*listener, error) {
	scheme, addr, _ := strings.Cut(name, "://")
	l, err := tcp.ListenConfig().Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", name, bare(err))
	}
	if scheme+"://" == tlsListenScheme {
		if o.TLS == nil || len(o.TLS.Certificates) == 0 {
			return nil, errors.Join(fmt.Errorf("%s needs a certificate to show", name), l.Close())
		}
		l = tls.NewListener(l, o.TLS)
	}
	return &listener{Listener: l, long: make(chan struct{}, manyLong), conns: map[net.Conn]bool{}}, nil
}

// add takes a connection, unless there are too many or it is over.
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
	return nil
}

func (l *listener) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	_ = c.Close()
}

// Close ends all connections.
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

// Addr is where senders are waited for; nil for other sources.
func (s *Stream) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// produceSent hands out blocks of all senders, until it is closed.
func (s *Stream) produceSent() error {
	var senders sync.WaitGroup
	defer senders.Wait()
	for {
		c, err := s.listener.Accept()
		if s.ctx.Err() != nil {
			if err == nil {
				_ = c.Close()
			}
			return s.ctx.Err()
		}
		if err != nil {
			// No descriptors, as a rule: those who are here may leave.
			s.opts.Warn(fmt.Sprintf("%s: %v", s.name, bare(err)))
			select {
			case <-time.After(minRedial):
			case <-s.ctx.Done():
				return s.ctx.Err()
			}
			continue
		}
		if err := s.listener.add(c); err != nil {
			s.opts.Warn(fmt.Sprintf("%s: %s is turned away: %v", s.name, c.RemoteAddr(), err))
			_ = c.Close()
			continue
		}
		senders.Go(func() {
			err := s.sender(c)
			s.listener.remove(c)
			if err != io.EOF && s.ctx.Err() == nil {
				s.opts.Warn(fmt.Sprintf("%s: the sender %s: %v", s.name, c.RemoteAddr(), bare(err)))
			}
		})
	}
}

// sender hands out the blocks of one connection. A last line that has no end does
// not count.
func (s *Stream) sender(c net.Conn) error {
	in := &raw{ctx: s.ctx, r: &dialer{name: s.name, opts: &s.opts, conn: c}}
	br := bufio.NewReaderSize(in, senderRead)
	format := s.opts.Compression
	if format == Auto {
		format = sniff(br)
	}
	src, err := decompress(br, format)
	if err != nil {
		return err
	}
	if format != None {
		br = bufio.NewReaderSize(src, senderRead)
	}
	f := framer{maxLine: s.opts.MaxLine, live: true, free: s.free, size: senderBlock, long: s.listener.long}
	defer f.forgo()
	f.reset(br)
	if _, err := br.Peek(1); err != nil { // a block is made when there is something to put into it
		return err
	}
	for {
		b, err := f.next()
		if err == io.EOF && f.n > 0 {
			return fmt.Errorf("it ended within a line: %d bytes are left out", f.n)
		} else if err != nil {
			return err
		}
		select {
		case s.blocks <- b:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}
