// Package tcp makes connections that notice if their other end disappears silently: a machine that lost power, or a
// network that drops all packets.
package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// keepAlive ends an idle connection to a dead peer after half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Dialer returns a dialer with a timeout.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive}
}

// ListenConfig returns the configuration of listeners.
func ListenConfig() *net.ListenConfig { return &net.ListenConfig{KeepAliveConfig: keepAlive} }

// times are how long the other end may leave retransmitted data unanswered, and how often Guard checks that.
type times struct{ silence, check time.Duration }

var (
	usual = times{30 * time.Second, 5 * time.Second}
	short = times{3 * time.Second, time.Second}
)

// shortKeepAlive ends an idle connection to a dead peer after short.silence.
var shortKeepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 2}

// ErrGone is the error of a connection that Guard ended.
var ErrGone = errors.New("the other end does not answer")

// Guard ends the calls that wait for a connection if its other end has not answered for half a minute. Keepalives do
// not detect that while data is in transit, and Linux alone takes a quarter of an hour (924.6 s according to the
// documentation of net.ipv4.tcp_retries2). Guard watches until stop is called, which reports whether it ended the
// calls. Once ctx has ended, it waits seconds instead, because the program is stopping.
//
// It does not use TCP_USER_TIMEOUT, which since Linux 5.11 also breaks a connection to a peer that answers but has no
// room for more data, such as a server that waits for a lock.
func Guard(ctx context.Context, c net.Conn) (stop func() (ended bool)) {
	var mu sync.Mutex
	var timer *time.Timer
	ended, now := false, usual
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(now.check, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case timer == nil:
		case gone(c, now.silence):
			ended = c.SetDeadline(time.Unix(1, 0)) == nil
		default:
			timer.Reset(now.check)
		}
	})
	unwatch := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if timer == nil {
			return
		}
		now = short
		if t := tcpConn(c); t != nil {
			_ = t.SetKeepAliveConfig(shortKeepAlive)
		}
		timer.Reset(now.check)
	})
	return func() bool {
		unwatch()
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
		return ended
	}
}

// tcpConn returns the TCP connection below c, or nil.
func tcpConn(c net.Conn) *net.TCPConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	t, _ := c.(*net.TCPConn)
	return t
}
