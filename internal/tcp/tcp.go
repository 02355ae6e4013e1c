// Package tcp makes connections that notice when their other end is gone without a
// word: a machine that lost its power, a network that drops all packets.
package tcp

import (
	"errors"
	"net"
	"sync"
	"time"
)

// keepAlive ends a connection on which nothing is under way after half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Dialer returns one that waits for timeout at most.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive}
}

// ListenConfig returns that of listeners.
func ListenConfig() *net.ListenConfig { return &net.ListenConfig{KeepAliveConfig: keepAlive} }

// silence is how long the other end may leave unanswered what it was sent again and again.
// Guard checks it every checkEvery.
const (
	silence    = 30 * time.Second
	checkEvery = 5 * time.Second
)

// ErrGone is why a connection was lost that Guard ended.
var ErrGone = errors.New("the other end answers no more")

// Guard ends the calls that wait for a connection when its other end has answered
// nothing for half a minute, which keepalives do not see while data is under way; by
// itself Linux takes a quarter of an hour (924.6 s by the documentation of
// net.ipv4.tcp_retries2). It watches until stop is called, which
// reports whether it has ended them.
//
// This is not TCP_USER_TIMEOUT, which since Linux 5.11 also breaks a connection to a peer
// that answers, and has no room for more: a server that waits for a lock.
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
