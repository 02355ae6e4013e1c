package cli_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/pgserver"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// A stage is where the commands of a page are run.
type stage struct {
	page  string
	set   func(s *scene) // what the commands need
	apart bool           // each command has a scene of its own
	signs []sign
}

// A sign shows that a command did what its page says. Without one a command has to end with the code of its
// page.
type sign struct {
	command string // a part of the command; that of the first sign that fits is its
	exit    int
	live    string // it runs until it is interrupted, at the end of the scene, and then ends with this code
	ends    bool   // or before the next command
	logs    string // a regular expression
	prints  string // a regular expression
	query   string // to the database that it writes
	want    string // the answer, a blank behind each row
	db      string // the database, where the command does not name it
}

// play runs the commands of a stage, and demands that each of its signs is that of a command.
func (g stage) play(t *testing.T, blocks []block) {
	used := make([]bool, len(g.signs))
	find := func(c command) sign {
		i := slices.IndexFunc(g.signs, func(s sign) bool { return strings.Contains(c.text, s.command) })
		if i < 0 {
			return sign{exit: c.exit}
		}
		used[i] = true
		return g.signs[i]
	}
	var whole *scene
	for _, b := range blocks {
		out := ""
		for _, c := range b.commands {
			how := find(c)
			if g.apart {
				t.Run(c.text, func(t *testing.T) {
					t.Parallel()
					s := g.scene(t, []block{{commands: []command{c}}})
					s.run(c.text, how)
					s.end()
				})
				continue
			}
			if whole == nil {
				whole = g.scene(t, blocks)
			}
			out += whole.run(c.text, how)
		}
		if b.prints != "" && !regexp.MustCompile("^"+wildcards(b.prints)+"$").MatchString(out) {
			t.Errorf("%v\nprints\n%s\nand not\n%s", b.commands, out, b.prints)
		}
	}
	if whole != nil {
		whole.end()
	}
	for i, s := range g.signs {
		if !used[i] {
			t.Errorf("no command has the sign %+v", s)
		}
	}
}

// wildcards is the regular expression of a text in which … stands for anything.
func wildcards(text string) string {
	parts := strings.Split(text, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return strings.Join(parts, ".*")
}

// A scene is a folder in which commands of a page are run.
type scene struct {
	*testweir.Folder
	printed string   // the commands
	hosts   []string // of the page, each followed by what stands in its place
	env     []string
	url     string // of the Postgres database
	exports string // the commands that set variables
	running []*process
}

// A process is a command that was started.
type process struct {
	*testweir.Run
	text, out string // the command, and the file of its stdout
	live      string
}

// temporary makes a folder for what commands leave while they run. A private Postgres server has its sockets there: their
// paths are 107 bytes long at most, and where this is root the server is another user's.
func (s *scene) temporary() string {
	dir, err := os.MkdirTemp("", "weir-")
	s.Check(err)
	s.Check(os.Chmod(dir, 0o711))
	s.Cleanup(func() { s.Check(os.RemoveAll(dir)) })
	return dir
}

func (g stage) scene(t *testing.T, blocks []block) *scene {
	t.Helper()
	s := &scene{Folder: testweir.New(t, "")}
	s.env = []string{"TERM=xterm", "TMPDIR=" + s.temporary(), "WEIR_BATCH_PERIOD=50ms", "FH_USERNAME=somebody", "FH_APIKEY=s3cret"}
	for _, b := range blocks {
		for _, c := range b.commands {
			s.printed += c.text + "\n"
		}
	}
	s.Link("sqlite3")
	s.file("flights.jsonl.gz", shortFeed(t))
	if strings.Contains(s.printed, "postgres:") || strings.Contains(s.printed, "db.example") {
		s.postgres()
	}
	if g.set != nil {
		g.set(s)
	}
	return s
}

// shortFeed is the beginning of testdata/flights.jsonl.gz.
func shortFeed(t *testing.T) string {
	t.Helper()
	f, err := os.Open("../../testdata/flights.jsonl.gz")
	testcheck.NoError(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f)
	testcheck.NoError(t, err)
	var b strings.Builder
	lines := bufio.NewScanner(r)
	for range 50 {
		lines.Scan()
		b.WriteString(lines.Text() + "\n")
	}
	testcheck.NoError(t, lines.Err())
	return b.String()
}

// wholeFeed has flights.jsonl.gz be that of testdata.
func (s *scene) wholeFeed() {
	s.Helper()
	feed, err := filepath.Abs("../../testdata/flights.jsonl.gz")
	s.Check(err)
	s.Check(os.Remove(s.Path("flights.jsonl.gz")))
	s.Check(os.Symlink(feed, s.Path("flights.jsonl.gz")))
}

// postgres puts a database in the place of those of the pages.
func (s *scene) postgres() {
	s.Helper()
	s.url = testpg.New(s)
	c, err := pgconn.ParseConfig(s.url)
	s.Check(err)
	s.env = append(s.env, "PGHOST="+c.Host, fmt.Sprint("PGPORT=", c.Port), "PGDATABASE="+c.Database, "PGUSER="+c.User, "PGPASSWORD="+c.Password)
	s.hosts = append(s.hosts, "postgres://weir@db.example/air", "'"+s.url+"'", "postgres://weir@db/air", "'"+s.url+"'",
		"host=db.example dbname=air user=weir", fmt.Sprintf("host=%s dbname=%s user=%s", c.Host, c.Database, c.User),
		"PGHOST=db.example PGDATABASE=air", fmt.Sprintf("PGHOST=%s PGDATABASE=%s", c.Host, c.Database))
	s.With(s.url).Exec("CREATE SCHEMA feeds")
}

// file writes one that commands read, compressed as its name says.
func (s *scene) file(name, text string) {
	s.Helper()
	path := s.Path(name)
	s.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	_ = os.Remove(path) // it may be a link
	switch filepath.Ext(name) {
	case ".gz":
		var b strings.Builder
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(text))
		s.Check(err)
		s.Check(w.Close())
		text = b.String()
	case ".zst":
		w, err := zstd.NewWriter(nil)
		s.Check(err)
		text = string(w.EncodeAll([]byte(text), nil))
	}
	s.Write(name, text)
}

// ports puts free ports in the place of those of a page.
func (s *scene) ports(ports ...string) {
	s.Helper()
	for _, p := range ports {
		free, err := pgserver.FreePort()
		s.Check(err)
		s.hosts = append(s.hosts, p, fmt.Sprint(free))
	}
}

// feeds puts a host that sends a feed to each connection in the place of one of the page.
func (s *scene) feeds(host, feed string) {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.Check(err)
	scheme, _, _ := strings.Cut(host, "://")
	if scheme == "tls" {
		pair, _ := s.Certificate()
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}})
		s.trust()
	}
	feedAll(s, l, feed)
	addr := l.Addr().String()
	if scheme == host { // of nc
		addr = strings.Replace(addr, ":", " ", 1)
	} else {
		addr = scheme + "://" + addr
	}
	s.hosts = append(s.hosts, host, addr)
}

// trust has weir take the certificate of local hosts.
func (s *scene) trust() { s.env = append(s.env, "WEIR_TLS_CA=cert.pem") }

// weir runs the program to its end.
func (s *scene) weir(args ...string) {
	s.Helper()
	if c := s.Start(args...); c.Wait() != 3 {
		c.Exit(0)
	}
}

// feedAll sends a feed to each connection, until the test ends.
func feedAll(t testing.TB, l net.Listener, feed string) {
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

var (
	quoted = regexp.MustCompile(`'[^']*'`)
	inPipe = regexp.MustCompile(`(?:^|\| )([a-z0-9_]+)(?: |$)`)
)

// run runs a command until it has ended, or for one that does not end by itself, until its sign is seen. It
// returns what the command printed.
func (s *scene) run(text string, how sign) string {
	s.Helper()
	if strings.HasPrefix(text, "export ") {
		s.exports += s.local(text) + "\n"
		return ""
	}
	for _, m := range inPipe.FindAllStringSubmatch(quoted.ReplaceAllString(text, ""), -1) {
		if m[1] != "weir" && m[1] != "sqlite3" {
			tool(s, m[1])
		}
	}
	p := s.begin(text)
	if how.live == "" {
		if code := p.code(); code != how.exit {
			s.Fatalf("%s\nexit %d, want %d\n%s%s", p.text, code, how.exit, read(s, p.out), p.Log())
		}
	}
	if missing := s.missing(text, p, how); missing != "" {
		s.Fatalf("%s\nhas no sign of what its page says: %s\n%s%s", p.text, missing, read(s, p.out), p.Log())
	}
	if p.live = how.live; p.live != "" {
		s.running = append(s.running, p)
	}
	if how.ends {
		s.end()
	}
	return s.remote(read(s, p.out))
}

// remote is what a command printed, with the names of the page.
func (s *scene) remote(text string) string {
	names := slices.Clone(s.hosts)
	slices.Reverse(names)
	return strings.NewReplacer(names...).Replace(text)
}

// local is a command with local hosts.
func (s *scene) local(text string) string { return strings.NewReplacer(s.hosts...).Replace(text) }

func (s *scene) begin(text string) *process {
	s.Helper()
	bash := s.With("")
	bash.Program = "bash"
	p := &process{Run: bash.Command("-o", "pipefail", "-c", s.exports+s.local(text)), text: s.local(text)}
	p.Env = append(append(p.Env, "PATH="+s.Dir+":"+os.Getenv("PATH")), s.env...)
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.out = strings.TrimSuffix(p.LogFile, "log") + "out"
	out, err := os.Create(p.out)
	s.Check(err)
	log, err := os.Create(p.LogFile)
	s.Check(err)
	s.Cleanup(func() { out.Close(); log.Close() })
	// Through pipes, which are read to their ends: a process may still have locks when the shell that had it killed has ended.
	p.Stdout, p.Stderr = struct{ io.Writer }{out}, struct{ io.Writer }{log}
	p.Start()
	s.Cleanup(func() { _ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) })
	return p
}

// code waits for a command to end, and returns what it ended with, for the shell.
func (p *process) code() int {
	p.Wait()
	if status := p.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.ProcessState.ExitCode()
}

// missing waits for a command's sign, and returns what has not come.
func (s *scene) missing(text string, p *process, how sign) (what string) {
	l := s.With(how.db)
	switch m := regexp.MustCompile(`--to (?:sqlite:)?([^ ']+)`).FindStringSubmatch(text); {
	case s.url != "" && regexp.MustCompile(`postgres:|host=db`).MatchString(text):
		l.To = s.url
	case how.db == "" && m != nil:
		l.To = m[1]
	}
	for end := time.Now().Add(testweir.Patience); ; time.Sleep(10 * time.Millisecond) {
		switch {
		case !regexp.MustCompile(how.logs).MatchString(p.Log()):
			what = "it does not log " + how.logs
		case !regexp.MustCompile(how.prints).MatchString(read(s, p.out)):
			what = "it does not print " + how.prints
		case how.query != "" && l.Ask(how.query) != how.want:
			what = fmt.Sprintf("%s is %s, want %s", how.query, l.Ask(how.query), how.want)
		default:
			return ""
		}
		if p.Ended() && len(s.running) == 0 { // nothing else brings it
			return what
		}
		if time.Now().After(end) {
			return what
		}
	}
}

// end interrupts what runs, the last that was started first. In a pipe, what weir reads may end before it, and
// so may weir.
func (s *scene) end() {
	s.Helper()
	for _, p := range slices.Backward(s.running) {
		_ = syscall.Kill(-p.Process.Pid, syscall.SIGINT)
		if code := p.code(); fmt.Sprint(code) != p.live && (code != 0 || !strings.Contains(p.text, " | ")) {
			s.Errorf("%s\nwas interrupted, and ended with %d, want %s\n%s", p.text, code, p.live, p.Log())
		}
	}
	s.running = nil
}
