// Package tcp reads connections that weir makes, and connections from senders.
package tcp

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
	"github.com/weirsync/weir/internal/tcp"
)

// Options are the settings specific to connections.
type Options struct {
	Idle time.Duration // a connection that is silent for this long is lost; 0: never
}

// Prefixes of the specs of connections that weir makes, and of listeners.
const (
	tcpScheme       = "tcp"
	tlsScheme       = "tls"
	listenScheme    = "tcp-listen"
	tlsListenScheme = "tls-listen"
)

// Dialed returns connections that weir makes, as a kind of source.
func Dialed(o Options) source.Kind {
	return kind("tcp:// and tls://host:port", []string{tcpScheme, tlsScheme}, source.Dialed, o)
}

// Listening returns listeners, to which senders connect, as a kind of source.
func Listening(o Options) source.Kind {
	return kind("tcp-listen:// and tls-listen://host:port", []string{listenScheme, tlsListenScheme}, source.Listener, o)
}

func kind(usage string, schemes []string, of source.Type, o Options) source.Kind {
	return source.Kind{
		Usage:   usage,
		Schemes: schemes,
		Type:    func(string) source.Type { return of },
		Parse:   source.One(check),
		Open: func(_ context.Context, names []string, common source.Options) (source.Source, error) {
			return New(names[0], common, o), nil
		},
	}
}

// check reports what is wrong with a spec. A listener needs no host.
func check(spec string) error {
	scheme, addr, _ := strings.Cut(spec, "://")
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" && isDialed(spec) || port == "" {
		return fmt.Errorf("%s: not of the form %s://host:port", spec, scheme)
	}
	return nil
}

// isDialed reports whether a spec is a connection that weir makes.
func isDialed(spec string) bool {
	scheme, _, _ := strings.Cut(spec, "://")
	return scheme == tcpScheme || scheme == tlsScheme
}

// New returns the source for a connection or a listener, by its name.
func New(name string, o source.Options, c Options) source.Source {
	return source.Series([]string{name}, func(ctx context.Context, name string, from source.Point) (source.Stream, error) {
		s, err := Open(ctx, name, o, c, from.Resume)
		if err != nil {
			return nil, err
		}
		return s, nil
	})
}

// A Stream reads a connection, and reconnects; or reads all senders of a listener.
type Stream struct {
	*lines.Stream
	opts   source.Options
	idle   time.Duration // see Options
	reader lines.Reader  // of the connection
	begun  bool          // a connection was read

	dialer   *dialer   // nil unless weir makes the connection
	listener *listener // nil unless senders connect
}

// Open opens a connection or a listener. The first Next connects, and asks the feed to resume after a value.
func Open(ctx context.Context, name string, o source.Options, c Options, resume string) (s *Stream, err error) {
	if o, err = o.WithDefaults(); err != nil {
		return nil, err
	}
	o.Log = o.Log.With("source", name)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if isDialed(name) {
		s = newStream(name, o, c, nil)
		s.dialer.resume = resume
		return s, nil
	}
	l, err := listen(ctx, name, &o)
	if err != nil {
		return nil, err
	}
	return newStream(name, o, c, l), nil
}

// newStream returns a stream of a listener; if l is nil, of the connections that it makes.
func newStream(name string, o source.Options, c Options, l *listener) *Stream {
	s := &Stream{opts: o, idle: c.Idle, listener: l}
	if l != nil {
		s.Stream = lines.NewStream(name, s.produceSent, s.interrupt)
		return s
	}
	s.Stream = lines.NewStream(name, s.produceDialed, s.interrupt)
	s.dialer = &dialer{name: name, opts: &s.opts, idle: s.idle, dial: tcp.Dialer(dialTimeout).DialContext}
	s.reader.Init(s.Ctx, name, s.dialer, &s.opts)
	s.reader.Live = true
	return s
}

// Lane implements [source.Stream].
func (s *Stream) Lane() source.Lane {
	l := source.Lane{Waits: true, Raw: func() (offset, size int64) { return s.reader.Raw.N.Load(), 0 }}
	if s.dialer != nil {
		l.Drop = s.dialer.drop
	} else {
		l.Addr = s.listener.Addr()
	}
	return l
}

// interrupt closes all connections, which ends their reads.
func (s *Stream) interrupt() bool {
	if s.dialer != nil {
		_ = s.dialer.Close()
	} else {
		_ = s.listener.Close()
	}
	return true
}

// Close ends all connections. It must not run together with Next.
func (s *Stream) Close() error {
	s.End()
	if s.dialer == nil {
		return nil
	}
	s.reader.Forget()
	return s.dialer.Close()
}
