package postgres

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
)

func TestIsHopeless(t *testing.T) {
	var (
		unknown = fmt.Errorf("hostname resolving error: %w", errors.Join(&net.DNSError{Err: "no such host", IsNotFound: true}))
		down    = fmt.Errorf("dial error: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
		noTLS   = fmt.Errorf("tls error: %w", errors.New("server refused TLS connection"))
		foreign = fmt.Errorf("write failed: %w", &tls.CertificateVerificationError{Err: errors.New("signed by nobody")})
	)
	f := func(c *client, err error, want bool) {
		t.Helper()
		if got := c.isHopeless(err); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	first, later := &client{}, &client{version: minVersion}
	f(first, nil, false)
	f(first, unknown, true)
	f(later, unknown, false)
	f(first, fmt.Errorf("lookup: %w", &net.DNSError{Err: "i/o timeout", IsTimeout: true}), false)
	f(first, down, false)
	f(later, noTLS, true)
	f(later, foreign, true)
	f(later, errors.Join(noTLS, foreign), true)
	f(later, errors.Join(noTLS, down), false) // sslmode=prefer, of a server that restarts
}

func TestMergeMisses(t *testing.T) {
	for version, want := range map[int64]bool{150000: true, 150004: true, 150005: false, 150018: false, 160000: true, 160001: false, 180000: false} {
		if got := (&client{version: version}).mergeMisses(); got != want {
			t.Errorf("%d: %v", version, got)
		}
	}
}
