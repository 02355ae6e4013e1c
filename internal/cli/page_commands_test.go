package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/test/pgserver"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testkafka"
	"github.com/weirsync/weir/internal/test/testweir"
)

// gates is the feed gates.jsonl of each page, with two flights. $GATES has the resulting rows of flights, from query
// $ROWS.
const gates = `{"id":"BA1","alt":35000,"pitr":"1795183537"}
{"id":"BA2","alt":100,"pitr":"1795183538"}
{"id":"BA1","gate":"7","pitr":"1795183539"}
`

// A player is the state of a page's script.
type player struct {
	left    []command // not run yet
	hosts   []string  // in the page, each followed by its replacement
	exports string    // commands that set variables
	out     string    // output of a block's commands
	apart   bool
	live    []live
}

// live is a command that runs in the background.
type live struct {
	*testweir.Run
	code string // exit code when interrupted
}

// Scripts of pages have the feeds gates.jsonl and flights.jsonl.gz, an empty database $PG if the page names Postgres,
// and the commands
//
//	runs [TEXT [CODE]]      run the page's next commands, up to one with TEXT, or all; that one exits with CODE, others with 0
//	beside NAME CODE TEXT   run them up to one with TEXT, which runs in the background; its output goes to NAME.log
//	interrupt               interrupt background commands, the newest first, and check the CODEs
//	apart                   before each command of the page, stop background commands and remove the databases
//	instead OLD NEW…        replace a part of the page's commands
//	ports PORT…             replace these ports by free ones, $PORT_… too
//	real                    let the command kafka start Apache Kafka instead of its stand-in
//	web FILE                serve FILE over HTTP at $WEB, and as events at $WEB/events
//	mqtt FILE               send FILE to each subscriber to MQTT, at 127.0.0.1 $PORT
func init() {
	commands["runs"], commands["beside"], commands["web"], commands["mqtt"] = runs, beside, web, mqtt
	commands["interrupt"] = func(s *script, _ *testscript.TestScript, _ []string) { s.stop() }
	commands["real"] = func(s *script, _ *testscript.TestScript, _ []string) { s.startKafka = testkafka.Broker }
	commands["apart"] = func(s *script, _ *testscript.TestScript, _ []string) { s.apart = true }
	commands["instead"] = func(s *script, _ *testscript.TestScript, args []string) { s.hosts = append(s.hosts, args...) }
	commands["ports"] = func(s *script, ts *testscript.TestScript, args []string) {
		for _, p := range args {
			free, err := pgserver.FreePort()
			ts.Check(err)
			s.hosts = append(s.hosts, p, fmt.Sprint(free))
			ts.Setenv("PORT_"+p, fmt.Sprint(free))
		}
	}
}

// setPage prepares the script of a page.
func (s *script) setPage(e *testscript.Env, feed string, commands []command) {
	s.left = commands
	// The working folder of background commands. A private Postgres server has its sockets there: their paths have at
	// most 107 bytes, and as root, the server runs as another user.
	dir, err := os.MkdirTemp("", "weir-")
	s.Check(err)
	s.Check(os.Chmod(dir, 0o711))
	s.Cleanup(func() { s.Check(os.RemoveAll(dir)) })
	for name, value := range map[string]string{"TERM": "xterm", "TMPDIR": dir, "WEIR_BATCH_PERIOD": "50ms", "FH_USERNAME": "somebody", "FH_APIKEY": "s3cret",
		"ROWS": "SELECT id, alt, gate FROM flights WHERE id LIKE 'BA_' ORDER BY id", "GATES": "BA1|35000|7 BA2|100|NULL"} {
		e.Setenv(name, value)
	}
	s.Write("flights.jsonl.gz", feed)
	s.Write("gates.jsonl", gates)
	s.database = func(testing.TB) string { return "t.db" }
	s.startKafka = func(t testing.TB, partitions int32, topics ...string) *testkafka.Cluster {
		return testkafka.Start(t, kfake.SeedTopics(partitions, topics...))
	}
	if slices.ContainsFunc(commands, func(c command) bool { return strings.Contains(c.text, "postgres:") }) {
		c := s.setPostgres(e)
		s.hosts = append(s.hosts, "postgres://weir@db.example/air", "'"+s.To+"'", "postgres://weir@db/air", "'"+s.To+"'",
			"host=db.example dbname=air user=weir", fmt.Sprintf("host=%s dbname=%s user=%s", c.Host, c.Database, c.User),
			"PGHOST=db.example PGDATABASE=air", fmt.Sprintf("PGHOST=%s PGDATABASE=%s", c.Host, c.Database))
		s.Exec("CREATE SCHEMA feeds")
	}
	e.Defer(func() {
		if s.stop(); len(s.left) > 0 && !s.Failed() {
			s.Errorf("the script does not run %s", s.left[0].text)
		}
	})
}

var (
	quoted = regexp.MustCompile(`'[^']*'`)
	inPipe = regexp.MustCompile(`(?:^|\| )([a-z0-9_]+)(?: |$)`)
)

// next returns the page's next command, with local hosts. It removes files that would be in its way.
func (s *script) next() command {
	c := s.left[0]
	s.left = s.left[1:]
	for _, m := range inPipe.FindAllStringSubmatch(quoted.ReplaceAllString(c.text, ""), -1) {
		if m[1] != "weir" && m[1] != "sqlite3" && m[1] != "export" {
			testcheck.Tool(s, m[1])
		}
	}
	c.text = strings.NewReplacer(s.hosts...).Replace(c.text)
	if s.apart {
		s.stop()
		old, _ := filepath.Glob(s.Path("*.db*"))
		for _, file := range old {
			s.Check(os.Remove(file))
		}
		if s.To != "" {
			s.Exec("DROP SCHEMA public CASCADE", "DROP SCHEMA feeds CASCADE", "CREATE SCHEMA public", "CREATE SCHEMA feeds")
		}
	}
	return c
}

// run runs the page's next command to its end. The command stdout checks its output.
func (s *script) run(ts *testscript.TestScript, code int) {
	c := s.next()
	if strings.HasPrefix(c.text, "export ") {
		s.exports += c.text + "\n"
		return
	}
	if got := exitCode(ts, ts.Exec("bash", "-o", "pipefail", "-c", s.exports+c.text)); got != max(code, c.exit) {
		ts.Fatalf("%s\nexit code %d, want %d", c.text, got, max(code, c.exit))
	}
	if c.begins {
		s.out = ""
	}
	names := slices.Clone(s.hosts)
	slices.Reverse(names)
	s.out += strings.NewReplacer(names...).Replace(ts.ReadFile("stdout"))
	if c.prints != "" && !regexp.MustCompile("^"+wildcards(c.prints)+"$").MatchString(s.out) {
		ts.Fatalf("%s\nprints\n%s\nand not\n%s", c.text, s.out, c.prints)
	}
}

// upTo runs the page's commands up to the one with a text, exclusively.
func (s *script) upTo(ts *testscript.TestScript, text string) {
	for len(s.left) > 0 && !strings.Contains(s.left[0].text, text) {
		s.run(ts, 0)
	}
	if len(s.left) == 0 {
		ts.Fatalf("the page has no more command with %q", text)
	}
}

func runs(s *script, ts *testscript.TestScript, args []string) {
	if len(args) == 0 {
		for len(s.left) > 0 {
			s.run(ts, 0)
		}
		return
	}
	s.upTo(ts, args[0])
	code := 0
	if len(args) > 1 {
		code = number(ts, args[1])
	}
	s.run(ts, code)
}

func beside(s *script, ts *testscript.TestScript, args []string) {
	s.upTo(ts, args[2])
	c, bash := s.next(), s.With(s.To)
	bash.Program = "bash"
	run := bash.Command("-o", "pipefail", "-c", s.exports+c.text)
	run.LogFile, run.Env = s.Path(args[0]+".log"), append(run.Env, environment(ts)...)
	log, err := os.Create(run.LogFile)
	ts.Check(err)
	s.Cleanup(func() { log.Close() })
	// Pipes are read until all processes have ended. A process may hold locks after the shell that killed it has ended.
	run.Stdout, run.Stderr = struct{ io.Writer }{log}, struct{ io.Writer }{log}
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.runs[args[0]] = run.Start()
	s.Cleanup(func() { _ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL) })
	s.live = append(s.live, live{run, args[1]})
}

// stop ends background commands. In a pipe, weir's input may end first, and weir with it.
func (s *script) stop() {
	for _, l := range slices.Backward(s.live) {
		_ = syscall.Kill(-l.Process.Pid, syscall.SIGINT)
		l.Wait()
		if code := shellCode(l.ProcessState); fmt.Sprint(code) != l.code && (code != 0 || !strings.Contains(l.Args[4], " | ")) {
			s.Errorf("%s\nwas interrupted, and ended with %d, want %s\n%s", l.Args[4], code, l.code, l.Log())
		}
	}
	s.live = nil
}

// wildcards returns a regular expression for a text in which … matches anything.
func wildcards(text string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(text), "…", ".*")
}

func web(s *script, ts *testscript.TestScript, args []string) {
	feed := ts.ReadFile(args[0])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/events" {
			fmt.Fprint(w, feed)
			return
		}
		for line := range strings.Lines(feed) {
			fmt.Fprintf(w, "event: change\ndata: %s\n", line)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the stream does not end
	}))
	s.Cleanup(server.Close)
	ts.Setenv("WEB", server.URL)
}

func mqtt(s *script, ts *testscript.TestScript, args []string) {
	const topic = "flights/BA"
	feed := ts.ReadFile(args[0])
	l := s.listen(ts)
	accept(s, l, func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			var head [2]byte
			if _, err := io.ReadFull(r, head[:]); err != nil {
				return
			}
			body := make([]byte, head[1]) // lengths are short here
			_, _ = io.ReadFull(r, body)
			switch head[0] >> 4 {
			case 1: // CONNECT
				_, _ = c.Write([]byte{0x20, 2, 0, 0})
			case 8: // SUBSCRIBE
				_, _ = c.Write([]byte{0x90, 3, body[0], body[1], 0})
				for line := range strings.Lines(feed) {
					line = strings.TrimSpace(line)
					_, _ = fmt.Fprintf(c, "%c%c\x00%c%s%s", 0x30, 2+len(topic)+len(line), len(topic), topic, line)
				}
			}
		}
	})
}
