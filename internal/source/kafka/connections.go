package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/source"
)

// connections know which brokers can be reached. The clients' goroutines tell them.
type connections struct {
	opts *source.Options

	mu         sync.Mutex
	reached    map[int32]bool // by number, those whose last connection was made
	wasReached bool           // a broker was, ever
	since      time.Time      // when the last of them was lost
	err        error          // why
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (c *connections) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := len(c.reached)
	if err == nil {
		c.reached[meta.NodeID], c.wasReached = true, true
		if meta.NodeID >= 0 { // a seed is asked for the others alone
			for id := range c.reached {
				if id < 0 {
					delete(c.reached, id)
				}
			}
		}
	} else {
		delete(c.reached, meta.NodeID)
		c.err = fmt.Errorf("%s: %w", net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), bare(err))
	}
	switch now := len(c.reached); {
	case was > 0 && now == 0:
		c.since = time.Now()
		c.opts.Log.Warn(fmt.Sprintf("no broker can be reached: %v; reconnecting", c.err))
		c.opts.Observer.Reconnect()
	case was == 0 && now > 0 && c.err != nil:
		c.opts.Log.Info("reconnected to Kafka")
		c.err = nil
	}
}

// state reports whether a broker can be reached, and whether one ever was.
func (c *connections) state() (connected, wasReached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reached) > 0, c.wasReached
}

// lost returns the error of a cluster that could not be reached for too long.
func (c *connections) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.reached) > 0 || c.err == nil:
		return nil
	case isFatal(c.err):
		return c.err
	case time.Since(c.since) > c.opts.RetryFor:
		return fmt.Errorf("no broker could be reached: %w (tried for %s; --retry-for says how long)", c.err, c.opts.RetryFor)
	}
	return nil
}
