// Package tcp makes connections that notice if their other end disappears silently: a machine that lost power, or a
// network that drops all packets.
package tcp

import (
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

// silence is how long the other end may leave retransmitted data unanswered. Guard checks it every checkEvery.
const (
	silence    = 30 * time.Second
	checkEvery = 5 * time.Second
)

// ErrGone is the error of a connection that Guard ended.
var ErrGone = errors.New("the other end does not answer")

// Guard ends the calls that wait for a connection if its other end has not answered for half a minute. Keepalives do
// not detect that while data is in transit, and Linux alone takes a quarter of an hour (924.6 s according to the
// documentation of net.ipv4.tcp_retries2). Guard watches until stop is called, which reports whether it ended the
// calls.
//
// It does not use TCP_USER_TIMEOUT, which since Linux 5.11 also breaks a connection to a peer that answers but has no
// room for more data, such as a server that waits for a lock.
func Guard(c net.Conn) (stop func() (ended bool)) {
	var mu sync.Mutex
	var timer *time.Timer
	ended := false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(checkEvery, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case timer == nil:
		case gone(c):
			ended = c.SetDeadline(time.Unix(1, 0)) == nil
		default:
			timer.Reset(checkEvery)
		}
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
		return ended
	}
}
