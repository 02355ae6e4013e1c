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

// A wire is what TLS goes over. It notes that it has ended: crypto/tls takes that for a good
// end of the stream if it comes between two records, and so does not tell a stream that was
// cut there. Where the other end says that it closes, the wire is not read to its end.
type wire struct {
	net.Conn
	ended bool
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.ended = w.ended || err == io.EOF
	return n, err
}

// isClean returns what reports, when reading a connection has come to its end, whether the other
// end said so: that of a stream without TLS always did, else there was a reset.
func isClean(c net.Conn) func() bool {
	t, ok := c.(*tls.Conn)
	return func() bool { return !ok || !t.NetConn().(*wire).ended }
}

// shakeHands begins TLS with a server. It closes c where that fails.
func shakeHands(ctx context.Context, c net.Conn, addr string, load func() (*tls.Config, error)) (net.Conn, error) {
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
	t := tls.Client(&wire{Conn: c}, config)
	if err = t.HandshakeContext(ctx); err == nil {
		return t, nil
	}
	_ = c.Close()
	return nil, err
}

// isNetwork reports whether an error is none of TLS, but of what is under it.
func isNetwork(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op != "local error" || isTimeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled)
}

// hint is what to do about a refusal.
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
