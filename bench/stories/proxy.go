package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/test/latency"
)

// A proxy passes connections on to a Postgres server, delays both directions by half of what a round trip is to
// take longer, and counts round trips.
type proxy struct {
	listener net.Listener
	control  *pgx.Conn // to the server that connections are passed on to
	oneWay   time.Duration
	// trips counts how often a client sent something after the server had said that it is ready for a query
	// (ReadyForQuery), and so after all answers to what the client had sent before. What is sent without
	// waiting for an answer is one round trip, whatever its size.
	trips atomic.Int64
}

// throughProxy has f use a proxy, and ends it.
func throughProxy(ctx context.Context, control *pgx.Conn, delay time.Duration, f func(p *proxy) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := &proxy{listener: l, control: control, oneWay: delay / 2}
	ctx, cancel := context.WithCancel(ctx)
	var accepting sync.WaitGroup
	accepting.Go(func() { p.accept(ctx) })
	err = f(p)
	cancel()
	err = errors.Join(err, l.Close())
	accepting.Wait()
	return err
}

func (p *proxy) accept(ctx context.Context) {
	var passing sync.WaitGroup
	defer passing.Wait()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		passing.Go(func() { p.pass(ctx, client) })
	}
}

// pass passes a connection on until one of its sides or ctx ends.
func (p *proxy) pass(ctx context.Context, client net.Conn) {
	server, err := p.dial(ctx)
	if err != nil {
		_ = client.Close() // as the client sees
		return
	}
	end := func() { _, _ = client.Close(), server.Close() }
	defer context.AfterFunc(ctx, end)()
	var ready atomic.Bool
	ready.Store(true) // the first message begins a round trip
	var answering sync.WaitGroup
	answering.Go(func() {
		var m messages
		p.copy(client, server, func(b []byte) {
			if m.ready(b) {
				ready.Store(true)
			}
		})
		end()
	})
	p.copy(server, client, func([]byte) {
		if ready.Swap(false) {
			p.trips.Add(1)
		}
	})
	end()
	answering.Wait()
}

// copy writes what it reads, later, and shows it to see.
func (p *proxy) copy(to io.Writer, from io.Reader, see func([]byte)) {
	line := latency.NewLine(to)
	defer line.Close()
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if n > 0 {
			see(b[:n])
			line.Send(b[:n], p.oneWay)
		}
		if err != nil {
			return
		}
	}
}

// sslRequest asks a server for TLS, before the first message.
var sslRequest = []byte{0, 0, 0, 8, 4, 210, 22, 47}

// dial connects to the server as control is connected. Where that is by TLS, so is this; the clients of the
// proxy are on this machine and need none.
func (p *proxy) dial(ctx context.Context) (net.Conn, error) {
	at := p.control.PgConn().Conn().RemoteAddr()
	conn, err := (&net.Dialer{}).DialContext(ctx, at.Network(), at.String())
	if err != nil {
		return nil, err
	}
	secure, ok := p.control.PgConn().Conn().(*tls.Conn)
	if !ok {
		return conn, nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // a server that does not answer
	answer := make([]byte, 1)
	_, err = conn.Write(sslRequest)
	if err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	if err == nil && answer[0] != 'S' {
		err = errors.New("the server takes no TLS")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return tls.Client(conn, p.tls(secure.ConnectionState().ServerName)), nil
}

// tls is the configuration by which control is connected to a server of that name.
func (p *proxy) tls(name string) *tls.Config {
	c := p.control.Config()
	for _, f := range c.Fallbacks {
		if f.TLSConfig != nil && f.TLSConfig.ServerName == name {
			return f.TLSConfig
		}
	}
	return c.TLSConfig
}

// messages finds those of a server in what it sends.
type messages struct {
	head [5]byte // the type of a message, and the size of what is behind the type
	have int     // bytes of head
	rest int     // bytes of the message that are behind its head
}

// ready reports whether ReadyForQuery begins in b, which follows what the last call got.
func (m *messages) ready(b []byte) (ready bool) {
	for len(b) > 0 {
		if m.rest > 0 {
			n := min(m.rest, len(b))
			m.rest -= n
			b = b[n:]
			continue
		}
		n := copy(m.head[m.have:], b)
		m.have += n
		b = b[n:]
		if m.have == len(m.head) {
			ready = ready || m.head[0] == 'Z'
			m.rest = int(binary.BigEndian.Uint32(m.head[1:])) - 4
			m.have = 0
		}
	}
	return ready
}
