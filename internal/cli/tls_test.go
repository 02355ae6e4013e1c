package cli_test

import (
	"crypto/tls"
	"testing"

	"github.com/weirsync/weir/internal/testweir"
)

// A feed that wants to see a certificate is shown the user's; without one the run ends
// with the feed's words.
func TestLive_ClientCertificate(t *testing.T) {
	l := testweir.New(t, "t.db")
	pair, authorities := l.Certificate()
	feed, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert})
	l.Check(err)
	defer feed.Close()
	go func() {
		for {
			conn, err := feed.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(`{"id":1}` + "\n"))
			_ = conn.Close()
		}
	}()
	sync := []string{"sync", "tls://" + feed.Addr().String(), "--table", "t", "--to", l.To, "--tls-ca", "cert.pem"}
	l.Start(sync...).Exit(1, "certificate required; --tls-cert and --tls-key show one")
	l.Start(append(sync, "--retry-for", "0s", "--tls-cert", "cert.pem", "--tls-key", "key.pem")...).Exit(0)
	l.Has("1", "SELECT id FROM t")
}

// With --tls-ca a sender has to show a certificate of one of its authorities.
func TestListen_ClientCertificate(t *testing.T) {
	l := testweir.New(t, "t.db")
	pair, authorities := l.Certificate()
	sync := l.Start("sync", "tls-listen://127.0.0.1:0", "--table", "t", "--to", l.To, "--batch-period", "10ms",
		"--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-ca", "cert.pem")
	addr := sync.Serves()
	send := func(c *tls.Config, line string) {
		c.RootCAs = authorities
		conn, err := tls.Dial("tcp", addr, c)
		if err == nil {
			_, err = conn.Write([]byte(line))
			_ = conn.Close()
		}
		if err != nil {
			t.Log(err)
		}
	}
	send(&tls.Config{}, `{"id":1}`+"\n")
	sync.Says("didn't provide a certificate")
	other := testweir.New(t, "")
	stranger, _ := other.Certificate()
	send(&tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }}, `{"id":2}`+"\n")
	sync.Says("failed to verify certificate")
	send(&tls.Config{Certificates: []tls.Certificate{pair}}, `{"id":3}`+"\n")
	l.Becomes("3", "SELECT id FROM t")
	sync.Interrupt()
	l.Has("3", "SELECT id FROM t")
}
