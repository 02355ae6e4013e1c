package cli_test

import (
	"crypto/tls"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// TestLive_NothingIsLost reads a feed over TLS with gzip, at 2,000 times its pace,
// whose connection breaks every second. weir is killed three times, the feed stalls
// and the database is stopped; the table is the fold of the feed's files.
func TestLive_NothingIsLost(t *testing.T) {
	testcheck.Only(t)
	t.Parallel()
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		for name, more := range map[string][]string{"plain": nil, "spool": {"--spool", "spool", "--capture", "captures"}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l, server := testweir.New(t, to(t)), (*testpg.Server)(nil)
				if l.To != "t.db" {
					server = testpg.Start(t)
					l.To = server.Database(t)
				}
				nothingIsLost(l, server, more)
			})
		}
	})
}

func nothingIsLost(l *testweir.Folder, server *testpg.Server, more []string) {
	feed, err := filepath.Abs("../../testdata/flights.jsonl.gz")
	l.Check(err)
	l.Env = []string{"FH_USERNAME=somebody", "FH_APIKEY=s3cret"}
	replay := l.Start("replay", feed, "--feed", "firehose", "--speed", "2000x", "--drop-after", "1s",
		"--to", "tls-listen://127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	sync := append([]string{"sync", "tls://" + replay.Serves(), "--feed", "firehose", "--compression", "gzip", "--tls-ca", "cert.pem", "--table", "flights", "--to", l.To,
		"--batch-period", "100ms", "--idle-timeout", "500ms", "-q"}, more...)
	logs := ""
	lines := func() (n int) { n, _ = strconv.Atoi(l.Ask("SELECT line FROM weir_checkpoints")); return n }
	for range 3 {
		c, before := l.Start(sync...), lines()
		l.Until("some lines are committed", func() bool { return lines() > before+rand.IntN(2000) })
		c.Kill()
		logs += c.Log()
	}
	c, before := l.Start(sync...), lines()
	l.Until("some lines are committed", func() bool { return lines() > before })
	replay.Pause()
	c.Says("nothing arrived for 500ms")
	replay.Continue()
	spooled := func() []string { left, _ := filepath.Glob(l.Path("spool/*.jsonl")); return left }
	if server != nil {
		server.Stop()
		if len(more) > 0 {
			l.Until("the spool grows", func() bool { return len(spooled()) > 0 })
		}
		c.Says("retrying")
		server.Restart(l)
	}
	l.Becomes("1", `SELECT count(*) FROM weir_checkpoints WHERE mark LIKE '%"resume":"1795204153"%'`)
	c.Interrupt()
	if strings.Contains(logs+c.Log()+replay.Log(), "s3cret") {
		l.Error("the password was logged")
	}

	// Files give the same table, and so does what was captured; nothing was rejected.
	verify := func(files, lines string) {
		if out := l.Start("verify", files, "--table", "flights", "--to", l.To).Out(); !strings.Contains(out, "are the fold of "+lines) {
			l.Error(out)
		}
	}
	verify(feed, "27,907 lines")
	if len(more) > 0 {
		verify("captures/*.zst", "")
		if left := spooled(); len(left) > 0 {
			l.Errorf("all is committed, and the spool holds %v", left)
		}
	}
	l.Has("0", "SELECT count(*) FROM weir_rejects")
	if server != nil {
		return
	}
	l.Start("sync", feed, "--to", "once.db", "--table", "flights", "-q").Exit(0)
	const rows = "SELECT * FROM flights ORDER BY id"
	if got, want := l.Ask(rows), l.With("once.db").Ask(rows); got != want || len(want) < 100_000 {
		l.Error("the table is not that of the files")
	}
}

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
