package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"strings"
	"testing"
)

// A feed that wants to see a certificate is shown the user's; without one the run ends
// with the feed's words.
func TestLive_ClientCertificate(t *testing.T) {
	l := newLive(t, "t.db")
	pair, err := tls.LoadX509KeyPair(filepath.Join(l.dir, "cert.pem"), filepath.Join(l.dir, "key.pem"))
	l.check(err)
	authorities := x509.NewCertPool()
	authorities.AddCert(pair.Leaf)
	feed, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert})
	l.check(err)
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
	sync := func(name string, more ...string) int {
		c := l.start(name, append([]string{"sync", "tls://" + feed.Addr().String(), "--table", "t", "--to", l.to, "--tls-ca", "cert.pem", "--retry-for", "0s"}, more...)...)
		_ = c.Wait()
		return c.ProcessState.ExitCode()
	}
	if code := sync("without"); code != 1 || !strings.Contains(l.log("without"), "certificate required") {
		t.Errorf("exit %d\n%s", code, l.log("without"))
	}
	if code := sync("with", "--tls-cert", "cert.pem", "--tls-key", "key.pem"); code != 0 || l.ask("SELECT id FROM t") != "1" {
		t.Errorf("exit %d\n%s", code, l.log("with"))
	}
}
