// Package tcp reads connections: those that weir makes, and those of senders.
package tcp

import (
	"context"
	"net"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
)

// New returns the source of a connection or a listener, by its name.
func New(name string, o source.Options) source.Source {
	return source.Series([]string{name}, func(ctx context.Context, name string, from source.Point) (source.Stream, source.Begun, error) {
		s, err := open(ctx, name, o, from.Resume)
		if err != nil {
			return nil, source.Begun{}, err
		}
		return s, source.Begun{Waits: true, Addr: s.Addr(), Size: func() int64 { return 0 }, RawOffset: s.reader.Raw.N.Load, Reconnect: s.reconnect}, nil
	})
}

// A Stream reads a connection, and reconnects; or all senders of a listener.
type Stream struct {
	*lines.Stream
	opts   source.Options
	reader lines.Reader // of the connection
	begun  bool         // a connection was read

	dialer   *dialer   // nil unless weir makes the connection
	listener *listener // nil unless others connect
}

// Open opens a connection or a listener. A connection is made by the first Next.
func Open(ctx context.Context, name string, o source.Options) (*Stream, error) {
	return open(ctx, name, o, "")
}

func open(ctx context.Context, name string, o source.Options, resume string) (s *Stream, err error) {
	if o, err = o.WithDefaults(); err != nil {
		return nil, err
	}
	o.Log = o.Log.With("source", name)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if source.TraitsOf(name).Dialed {
		s = newStream(name, o, nil)
		s.dialer.resume = resume
		return s, nil
	}
	l, err := listen(ctx, name, &o)
	if err != nil {
		return nil, err
	}
	return newStream(name, o, l), nil
}

// newStream returns a stream of a listener, or of the connections that it makes.
func newStream(name string, o source.Options, l *listener) *Stream {
	s := &Stream{opts: o, listener: l}
	if l != nil {
		s.Stream = lines.NewStream(name, s.produceSent, s.interrupt)
		return s
	}
	s.Stream = lines.NewStream(name, s.produceDialed, s.interrupt)
	s.dialer = newDialer(name, &s.opts)
	s.reader.Init(s.Ctx, name, s.dialer, &s.opts)
	s.reader.Live = true
	return s
}

// Addr is where senders are waited for; nil for a connection that weir makes.
func (s *Stream) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// reconnect drops the connection that brought a block, by its Conn, for a reason that the warning
// gives. It does nothing when that connection has ended.
func (s *Stream) reconnect(conn int, why error) {
	if s.dialer != nil {
		s.dialer.drop(conn, why)
	}
}

// interrupt ends all connections, and with them their reads.
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
