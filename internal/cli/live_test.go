package cli_test

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testtls"
)

// live is a folder with the program in it, and a replay of the shipped feed.
type live struct {
	t    *testing.T
	dir  string
	feed string
	addr string
	to   string
	more []string // flags of the sync
}

// newLive is a folder with the program, a certificate and a key in it.
func newLive(t *testing.T, to string) *live {
	t.Helper()
	l := &live{t: t, dir: t.TempDir(), to: to}
	self, err := os.Executable()
	l.check(err)
	l.check(os.Symlink(self, filepath.Join(l.dir, "weir")))
	l.check(testtls.Write(l.dir))
	return l
}

func (l *live) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// start starts the program; its stderr goes to NAME.log.
func (l *live) start(name string, args ...string) *exec.Cmd {
	l.t.Helper()
	log, err := os.OpenFile(filepath.Join(l.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	l.check(err)
	defer log.Close()
	c := exec.Command(filepath.Join(l.dir, "weir"), args...)
	c.Dir, c.Stderr = l.dir, log
	c.Env = append(os.Environ(), "FH_USERNAME=somebody", "FH_APIKEY=s3cret")
	l.check(c.Start())
	l.t.Cleanup(func() { l.kill(c) })
	return c
}

func (l *live) kill(c *exec.Cmd) {
	if c.ProcessState == nil {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

func (l *live) log(name string) string {
	b, _ := os.ReadFile(filepath.Join(l.dir, name+".log"))
	return string(b)
}

func (l *live) sync() *exec.Cmd {
	return l.start("sync", append([]string{"sync", "tls://" + l.addr, "--feed", "firehose", "--compression", "gzip", "--tls-ca", "cert.pem", "--table", "flights", "--to", l.to,
		"--batch-period", "100ms", "--idle-timeout", "500ms", "-q"}, l.more...)...)
}

// database opens what --to names, to read.
func (l *live) database() *sql.DB { return l.open("ro") }

// open opens what --to names, in a mode of SQLite.
func (l *live) open(mode string) *sql.DB {
	driver, dsn := "pgx", l.to
	if !strings.Contains(l.to, "://") {
		driver, dsn = "sqlite", "file:"+filepath.Join(l.dir, l.to)+"?mode="+mode+"&_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	l.check(err)
	return db
}

// ask returns the answer to a query, or why there is none.
func (l *live) ask(query string) string {
	db := l.database()
	defer db.Close()
	out, err := ask(db, query)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out)
}

// get returns what a run serves at a path.
func (l *live) get(name, path string) string {
	l.t.Helper()
	answer, err := http.Get(l.site(name) + path)
	l.check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	l.check(err)
	return string(text)
}

// site waits for the address at which a run serves its page and its metrics.
func (l *live) site(name string) (url string) {
	l.t.Helper()
	l.until("the address of the page", func() bool {
		_, log, found := strings.Cut(l.log(name), "metrics at ")
		url, _, _ = strings.Cut(log, "/metrics\n")
		return found
	})
	return url
}

// scrape returns the metrics of a run.
func (l *live) scrape(name string) string { return l.get(name, "/metrics") }

// until waits for something, and for the pipes of what runs meanwhile.
func (l *live) until(what string, ready func() bool) {
	l.t.Helper()
	for end := time.Now().Add(patience); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("%s: not after %v\nsync:\n%s\nreplay:\n%s", what, patience, l.log("sync"), l.log("replay"))
		}
	}
}

// TestLive_NothingIsLost reads a feed over TLS with gzip, at 2,000 times its pace,
// whose connection breaks every second. weir is killed three times, the feed stalls
// and the database is stopped; the table is the fold of the feed's files.
func TestLive_NothingIsLost(t *testing.T) {
	testcheck.Only(t)
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres", "sqlite, spool", "postgres, spool"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			kind, _, spool := strings.Cut(kind, ", ")
			l := newLive(t, "live.db")
			var err error
			l.feed, err = filepath.Abs("../../testdata/flights.jsonl.gz")
			l.check(err)
			if spool {
				l.more = []string{"--spool", "spool", "--capture", "captures"}
			}
			var server *testpg.Server
			if kind == "postgres" {
				server = testpg.Start(t)
				l.to = server.Database(t)
			}
			l.run(server)
		})
	}
}

func (l *live) run(server *testpg.Server) {
	replay := l.start("replay", "replay", l.feed, "--feed", "firehose", "--speed", "2000x", "--drop-after", "1s",
		"--to", "tls-listen://127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	serving := regexp.MustCompile(`serving at (\S+)`)
	l.until("the replay", func() bool { return serving.MatchString(l.log("replay")) })
	l.addr = serving.FindStringSubmatch(l.log("replay"))[1]

	for range 3 {
		c := l.sync()
		time.Sleep(time.Second + rand.N(time.Second))
		l.kill(c)
	}
	c := l.sync()
	time.Sleep(time.Second)
	l.check(replay.Process.Signal(syscall.SIGSTOP))
	l.until("a stall is noticed", func() bool { return strings.Contains(l.log("sync"), "nothing arrived for 500ms") })
	l.check(replay.Process.Signal(syscall.SIGCONT))
	if server != nil {
		time.Sleep(500 * time.Millisecond)
		server.Stop()
		time.Sleep(10 * time.Second)
		if left, _ := filepath.Glob(filepath.Join(l.dir, "spool", "*.jsonl")); len(l.more) > 0 && len(left) == 0 {
			l.t.Error("the spool is empty while the database is unavailable")
		}
		server.Restart(l.t)
	}
	l.until("all is read", func() bool {
		return l.ask("SELECT count(*) FROM weir_checkpoints WHERE mark LIKE '%\"resume\":\"1795204153\"%'") == "1"
	})
	l.check(c.Process.Signal(os.Interrupt))
	if err := c.Wait(); c.ProcessState.ExitCode() != 130 {
		l.t.Errorf("the run ended with %v\n%s", err, l.log("sync"))
	}
	if strings.Contains(l.log("sync")+l.log("replay"), "s3cret") {
		l.t.Error("the password was logged")
	}

	// Files give the same table, and so does what was captured; nothing was rejected.
	verify := func(files, lines string) {
		c := exec.Command(filepath.Join(l.dir, "weir"), "verify", files, "--table", "flights", "--to", l.to)
		c.Dir = l.dir
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("are the fold of "+lines)) {
			l.t.Errorf("%v\n%s", err, out)
		}
	}
	verify(l.feed, "27,907 lines")
	if len(l.more) > 0 {
		verify("captures/*.zst", "")
		if left, _ := filepath.Glob(filepath.Join(l.dir, "spool", "*.jsonl")); len(left) > 0 {
			l.t.Errorf("all is committed, and the spool holds %v", left)
		}
	}
	if n := l.ask("SELECT count(*) FROM weir_rejects"); n != "0" {
		l.t.Errorf("%s lines were rejected", n)
	}
	if server != nil {
		return
	}
	once := exec.Command(filepath.Join(l.dir, "weir"), "sync", l.feed, "--to", "once.db", "--table", "flights", "-q")
	once.Dir = l.dir
	if out, err := once.CombinedOutput(); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
	const rows = "SELECT * FROM flights ORDER BY id"
	got := l.ask(rows)
	l.to = "once.db"
	if want := l.ask(rows); got != want || len(want) < 100_000 {
		l.t.Error(errors.New("the table is not that of the files"))
	}
}
