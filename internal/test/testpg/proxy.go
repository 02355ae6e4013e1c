//go:build unix

package testpg

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	neturl "net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/weirsync/weir/internal/test/latency"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A Proxy is between a client and a server. It understands Postgres' protocol, counts and delays messages, and cuts
// connections between any two of them.
type Proxy struct {
	target, url string
	listener    net.Listener
	wg          sync.WaitGroup

	mu     sync.Mutex
	delay  time.Duration
	refuse bool
	half   bool // a cut leaves the server's side open
	fatal  bool // a cut tells the client that the server ends the session
	cut    func(m Message) bool
	until  func(m Message) bool
	held   chan struct{} // closed when the server's messages may pass; nil: they may always pass
	cuts   int
	count  Count
	conns  map[net.Conn]bool // true: to the server
}

// A Message is a message of Postgres' protocol.
type Message struct {
	FromClient bool
	Type       byte // 0 for the client's first message
	Number     int  // number in its direction, from 0, since the last Cut
}

// Count is the traffic through a proxy.
type Count struct {
	Client, Server int // number of messages
	Answers        int // complete answers of the server to queries
	Bytes          int64
}

// NewProxy returns a proxy to the server of a connection string.
func NewProxy(t testing.TB, url string) *Proxy {
	t.Helper()
	u, err := neturl.Parse(url)
	testcheck.NoError(t, err)
	p := &Proxy{target: u.Host, conns: map[net.Conn]bool{}}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u.Host = p.listener.Addr().String()
	p.url = u.String()
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(p.close)
	return p
}

// URL returns the connection string of the proxy.
func (p *Proxy) URL() string { return p.url }

// Delay delays all messages in each direction.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Refuse makes the proxy close new connections at once, or accept them again.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refuse = on }) }

// Half makes a cut close only the client's side: the server does not notice.
func (p *Proxy) Half(on bool) { p.set(func() { p.half = on }) }

// Fatal makes a cut send the message of a server that shuts down first.
func (p *Proxy) Fatal(on bool) { p.set(func() { p.fatal = on }) }

// Cut closes the connection instead of passing on the first message for which cut is true; nil stops that. It happens
// once.
func (p *Proxy) Cut(cut func(m Message) bool) {
	p.set(func() { p.cut, p.count = cut, Count{} })
}

// Hold holds back the server's messages until the client has sent one for which until is true.
func (p *Proxy) Hold(until func(m Message) bool) {
	p.set(func() { p.until, p.held = until, make(chan struct{}) })
}

// Break closes all connections now.
func (p *Proxy) Break() {
	p.set(func() {
		for c, server := range p.conns {
			if !server || !p.half {
				c.Close()
			}
		}
		p.cuts++
	})
}

// Cuts returns the number of connections that were cut.
func (p *Proxy) Cuts() (n int) {
	p.set(func() { n = p.cuts })
	return n
}

// Count returns the traffic since the last Cut.
func (p *Proxy) Count() (c Count) {
	p.set(func() { c = p.count })
	return c
}

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Proxy) close() {
	p.listener.Close()
	p.set(func() {
		for c := range p.conns {
			c.Close()
		}
		p.conns = nil
		p.release()
	})
	p.wg.Wait()
}

// release lets the server's messages pass again. The caller must hold the lock.
func (p *Proxy) release() {
	if p.until != nil {
		close(p.held)
		p.until = nil
	}
}

// keep records a connection, which ends with the proxy. It returns false if the proxy has ended.
func (p *Proxy) keep(c net.Conn, server bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		c.Close()
		return false
	}
	p.conns[c] = server
	return true
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		refuse := false
		p.set(func() { refuse = p.refuse })
		if refuse {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		if !p.keep(client, false) || !p.keep(server, true) {
			client.Close()
			server.Close()
			return
		}
		p.wg.Add(2)
		go p.pass(client, server, true)
		go p.pass(server, client, false)
	}
}

// pass passes on messages in one direction until the connection ends.
func (p *Proxy) pass(from, to net.Conn, fromClient bool) {
	defer p.wg.Done()
	line := latency.NewLine(to)
	defer line.Close()
	r := bufio.NewReaderSize(from, 64<<10)
	for first := fromClient; ; first = false {
		m, err := readMessage(r, first)
		if err != nil {
			break
		}
		kind := m[0]
		if first {
			kind = 0
		}
		cut, delay := p.record(fromClient, kind, len(m))
		if cut {
			half, fatal := p.manner()
			client, server := to, from
			if fromClient {
				client, server = from, to
			} else if fatal {
				line.Flush()
				m, _ := shutDown.Encode(nil)
				_, _ = client.Write(m)
			}
			client.Close()
			if !half {
				line.Flush() // earlier messages arrive first
				server.Close()
			}
			return
		}
		if !fromClient {
			var held chan struct{}
			p.set(func() { held = p.held })
			if held != nil {
				<-held
			}
		}
		line.Send(m, delay)
	}
	line.Flush()
	if half, _ := p.manner(); !half || !fromClient {
		to.Close()
	}
}

// manner returns how connections are cut.
func (p *Proxy) manner() (half, fatal bool) {
	p.set(func() { half, fatal = p.half, p.fatal })
	return half, fatal
}

// record counts a message and returns what to do with it.
func (p *Proxy) record(fromClient bool, kind byte, size int) (cut bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := Message{FromClient: fromClient, Type: kind, Number: p.count.Server}
	if fromClient {
		m.Number = p.count.Client
		p.count.Client++
		if p.until != nil && p.until(m) {
			p.release()
		}
	} else {
		p.count.Server++
		if kind == 'Z' { // ReadyForQuery
			p.count.Answers++
		}
	}
	p.count.Bytes += int64(size)
	if p.cut != nil && p.cut(m) {
		p.cut = nil
		p.cuts++
		return true, 0
	}
	return false, p.delay
}

var shutDown = pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"}

// readMessage reads a message. The client's first message has no type.
func readMessage(r *bufio.Reader, first bool) ([]byte, error) {
	head := 5
	if first {
		head = 4
	}
	m := make([]byte, head)
	if _, err := io.ReadFull(r, m); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(m[head-4:])) - 4
	m = append(m, make([]byte, size)...)
	_, err := io.ReadFull(r, m[head:])
	return m, err
}
