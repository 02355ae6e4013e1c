package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// certificate is the one in cert.pem, which is its own authority.
func (l *live) certificate() (tls.Certificate, *x509.CertPool) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(l.dir, "cert.pem"), filepath.Join(l.dir, "key.pem"))
	l.check(err)
	authorities := x509.NewCertPool()
	authorities.AddCert(pair.Leaf)
	return pair, authorities
}

// A feed that wants to see a certificate is shown the user's; without one the run ends
// with the feed's words.
func TestLive_ClientCertificate(t *testing.T) {
	l := newLive(t, "t.db")
	pair, authorities := l.certificate()
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
		c := l.start(name, append([]string{"sync", "tls://" + feed.Addr().String(), "--table", "t", "--to", l.to, "--tls-ca", "cert.pem"}, more...)...)
		_ = c.Wait()
		return c.ProcessState.ExitCode()
	}
	if code := sync("without"); code != 1 || !strings.Contains(l.log("without"), "certificate required; --tls-cert and --tls-key show one") {
		t.Errorf("exit %d\n%s", code, l.log("without"))
	}
	if code := sync("with", "--retry-for", "0s", "--tls-cert", "cert.pem", "--tls-key", "key.pem"); code != 0 || l.ask("SELECT id FROM t") != "1" {
		t.Errorf("exit %d\n%s", code, l.log("with"))
	}
}

// With --tls-ca a sender has to show a certificate of one of its authorities.
func TestListen_ClientCertificate(t *testing.T) {
	l := newLive(t, "t.db")
	pair, authorities := l.certificate()
	sync := l.start("sync", "sync", "tls-listen://127.0.0.1:0", "--table", "t", "--to", l.to, "--batch-period", "10ms",
		"--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-ca", "cert.pem")
	var addr []string
	l.until("the port", func() bool {
		addr = regexp.MustCompile(`senders connect to (\S+)`).FindStringSubmatch(l.log("sync"))
		return addr != nil
	})
	send := func(c *tls.Config, line string) {
		c.RootCAs = authorities
		conn, err := tls.Dial("tcp", addr[1], c)
		if err == nil {
			_, err = conn.Write([]byte(line))
			_ = conn.Close()
		}
		if err != nil {
			t.Log(err)
		}
	}
	send(&tls.Config{}, `{"id":1}`+"\n")
	l.until("the refusal", func() bool { return strings.Contains(l.log("sync"), "didn't provide a certificate") })
	other := newLive(t, "")
	stranger, _ := other.certificate()
	send(&tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }}, `{"id":2}`+"\n")
	l.until("the other refusal", func() bool { return strings.Contains(l.log("sync"), "failed to verify certificate") })
	send(&tls.Config{Certificates: []tls.Certificate{pair}}, `{"id":3}`+"\n")
	l.until("the line", func() bool { return l.ask("SELECT group_concat(id) FROM t") == "3" })
	_ = sync.Process.Signal(os.Interrupt)
	_ = sync.Wait()
	if got := l.ask("SELECT group_concat(id) FROM t"); got != "3" {
		t.Errorf("the table has %s\n%s", got, l.log("sync"))
	}
}
