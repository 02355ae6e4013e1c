package tcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"

	"github.com/weirsync/weir/internal/tcp"
)

// A watchedConn is the connection under TLS. It records that it has ended. crypto/tls treats an end between two records as a
// clean end, so it does not detect a stream cut there. If the other end sends close_notify, it is not read to its
// end.
type watchedConn struct {
	net.Conn
	ended bool
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.ended = w.ended || err == io.EOF
	return n, err
}

// isClean returns a function that reports, after a connection was read to its end, whether the other end closed it
// cleanly. Without TLS it always did, because otherwise there was a reset.
func isClean(c net.Conn) func() bool {
	t, ok := c.(*tls.Conn)
	return func() bool { return !ok || !t.NetConn().(*watchedConn).ended }
}

// handshake performs the TLS handshake with a server. It closes c if that fails.
func handshake(ctx context.Context, c net.Conn, addr string, load func() (*tls.Config, error)) (net.Conn, error) {
	config, err := load()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	t := tls.Client(&watchedConn{Conn: c}, config)
	if err = t.HandshakeContext(ctx); err == nil {
		return t, nil
	}
	_ = c.Close()
	return nil, err
}

// isNetwork reports whether an error comes from below TLS.
func isNetwork(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op != "local error" || isTimeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled)
}

func hint(err error) string {
	var header tls.RecordHeaderError
	switch {
	case tcp.Alert(err) == tcp.AlertCertRequired:
		return "; --tls-cert and --tls-key show one"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "; --tls-ca trusts an authority of your own"
	case errors.As(err, new(x509.HostnameError)):
		return "; --tls-server-name names the host of the certificate"
	case errors.As(err, &header) && string(header.RecordHeader[:4]) == "HTTP":
		return "; it speaks HTTP"
	case errors.As(err, &header):
		return "; tcp:// is without TLS"
	}
	return ""
}
