package cli_test

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

// The commands of the README do what they are for, as they are printed, with local hosts in place of
// those of the page.
func TestDocs_Readme(t *testing.T) {
	t.Setenv("WEIR_TLS_CA", "cert.pem") // of the local host
	const lines = `{"id":1,"seq":5}` + "\n" + `{"id":2,"seq":6}` + "\n" + `{"id":1,"a":"x"}` + "\n"
	readme := newLive(t, "flights.db")
	pair, _ := readme.certificate()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	readme.check(err)
	secure, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	readme.check(err)
	for _, feed := range []net.Listener{plain, secure} {
		feedAll(t, feed, lines)
	}
	c := testkafka.Start(t, kfake.SeedTopics(1, "flights"))
	c.Produce("flights", 0, strings.Split(strings.TrimSpace(lines), "\n")...)
	url := testpg.New(t)
	air := &live{t: t, to: url}
	air.exec("CREATE SCHEMA feeds")
	_, port, _ := net.SplitHostPort(plain.Addr().String())
	hosts := strings.NewReplacer("nc feed.example 4000", "nc 127.0.0.1 "+port, "tls://feed.example:4000", "tls://"+secure.Addr().String(),
		"kafka://broker.example", "kafka://"+c.Addr(), "postgres://weir@db.example/air", "'"+url+"'")
	_, page, _ := strings.Cut(read(t, "../../README.md"), "\nFrom there:\n")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(page)
	ran := 0
	for line := range strings.Lines(block[1]) {
		command := strings.TrimSpace(line)
		if command == "" || strings.HasPrefix(command, "go install") {
			continue
		}
		ran++
		l := readme
		if strings.Contains(command, " sync ") {
			l = newLive(t, "flights.db")
			for _, name := range []string{"cert.pem", "feed.jsonl", "captures/1.jsonl"} {
				l.check(os.MkdirAll(filepath.Dir(filepath.Join(l.dir, name)), 0o700))
				l.write(name, lines)
			}
			l.write("cert.pem", read(t, filepath.Join(readme.dir, "cert.pem")))
			l.write("flights.jsonl.gz", read(t, "../../testdata/flights.jsonl.gz"))
		}
		query, want := "SELECT id, seq, a FROM flights ORDER BY id", "1|5|x 2|6|NULL "
		switch {
		case strings.Contains(command, "feeds.flights"):
			l.to, query, want = url, "SELECT count(*) FROM feeds.flights", "1200 "
		case strings.Contains(command, "flights.jsonl.gz"):
			query, want, readme = "SELECT count(*) FROM flights", "1200 ", l
		case strings.Contains(command, "kafka:"):
			l.to = url
		case strings.Contains(command, "--follow"):
			query = "SELECT id, seq, a FROM feed ORDER BY id"
		case l == readme:
			if code, out, log := shell(l.dir, command); code != 0 || !strings.Contains(out, "flights") {
				t.Errorf("%s\nexit %d\n%s%s", command, code, out, log)
			}
			continue
		}
		l.fills(hosts.Replace(command), query, want)
	}
	if ran < 9 {
		t.Errorf("did not exercise: %d commands", ran)
	}
}

// feedAll sends a feed to each connection, until the test ends.
func feedAll(t *testing.T, l net.Listener, feed string) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(feed))
			_ = c.Close()
		}
	}()
}
