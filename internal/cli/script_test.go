package cli_test

import (
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testkafka"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testtls"
	"github.com/weirsync/weir/internal/test/testweir"
)

func TestMain(m *testing.M) {
	testweir.Main(testkafka.Tests{M: testpg.Tests{M: m}}, map[string]func(){"sqlite3": sqlite3})
}

// TestScripts runs the scripts in testdata/script, in which users run the real program. In addition to testscript's own
// commands, there are
//
//	exits N weir …          run the program and check its exit code
//	says N TEXT weir …      the same, and stderr contains TEXT
//	prints TEXT COMMAND     run a shell command, and check that it prints TEXT, in which … matches anything
//	sqlite DB SQL           run SQL; rows go to stdout, their cells separated by |
//	postgres URL SQL        the same
//	query DB SQL WANT       check the rows, which are separated by spaces
//	until DB SQL WANT       wait until the rows are WANT
//	session URL SQL…        run SQL in a connection that stays open
//	compress gzip|zstd FILE write FILE.gz or FILE.zst
//	bytes FILE TEXT…        append TEXT, with Go's escapes, to FILE
//	repeat FILE N TEXT      append TEXT N times; %d is replaced by the number
//	serve [-tls|-mtls] FILE serve FILE to each connection, with TLS, or with client certificates; the address is $FEED
//	start NAME weir …       run the program in the background; its stderr goes to NAME.log
//	served NAME VAR         wait until NAME serves HTTP, and set VAR to its address
//	waitlog NAME REGEXP     wait until the log of NAME matches
//	send [-tls DIR] ADDR FILE
//	                        connect to ADDR and send FILE, over TLS with the certificate in DIR; -: without one
//	certificate [DIR]       write cert.pem and key.pem, for localhost
//	signal NAME SIGNAL CODE send a signal and check the exit code (not for STOP and CONT)
//	insist NAME SIGNAL CODE send a signal repeatedly until NAME has ended
//	ended NAME CODE         wait until NAME has ended; CODE is a regular expression
//	hold FIFO FILE          write FILE into a FIFO, and keep it open
//	scrape NAME PATH…       print the metrics of NAME, and PATHs
//	metric NAME M REGEXP    wait until the sum of the series of metric M of NAME matches
//	manager MICROSECONDS    start later runs from a service manager with this watchdog timeout
//	hears [REGEXP]          print its messages since the last call, up to one that matches
//
// and the conditions [root], for tests that mount a file system, and [check], for tests that make test skips.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts(t, testscript.Params{Dir: scriptFolder}, nil, nil)
}

// TestScripts_Postgres runs the scripts in testdata/script/postgres. Each has an empty database: its connection string
// is $PG, and its parts are $PGHOST and so on, as for libpq.
func TestScripts_Postgres(t *testing.T) {
	t.Parallel()
	scripts(t, testscript.Params{Dir: scriptFolder + "postgres"}, nil, func(s *script, e *testscript.Env) { s.setPostgres(e) })
}

// setPostgres creates a database for a script.
func (s *script) setPostgres(e *testscript.Env) *pgconn.Config {
	s.To = testpg.New(s)
	c, err := pgconn.ParseConfig(s.To)
	s.Check(err)
	for name, value := range map[string]string{"PG": s.To, "PGHOST": c.Host, "PGPORT": fmt.Sprint(c.Port), "PGDATABASE": c.Database, "PGUSER": c.User, "PGPASSWORD": c.Password} {
		e.Setenv(name, value)
	}
	return c
}

// TestScripts_Both runs the scripts in testdata/script/both with each kind of database, $TO. They also have the
// condition [postgres] and the command
//
//	database VAR            create another database
func TestScripts_Both(t *testing.T) {
	t.Parallel()
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		on := map[string]bool{"postgres": strings.HasSuffix(t.Name(), "postgres")}
		scripts(t, testscript.Params{Dir: scriptFolder + "both"}, on, func(s *script, e *testscript.Env) {
			s.database = to
			e.Setenv("TO", to(s))
		})
	})
}

// intoBoth runs a test for each kind of database. to creates a database.
func intoBoth(t *testing.T, test func(t *testing.T, to func(testing.TB) string)) {
	t.Run("sqlite", func(t *testing.T) {
		var made atomic.Int64
		test(t, func(testing.TB) string { return fmt.Sprintf("t%d.db", made.Add(1)) })
	})
	t.Run("postgres", func(t *testing.T) { test(t, testpg.New) })
}

// A script is a running script.
type script struct {
	*testweir.Folder
	runs    map[string]*testweir.Run // by name
	session *sql.Conn
	manager *net.UnixConn
	// database creates a database; nil if scripts name their own.
	database func(testing.TB) string
	kafka
	player
}

// commands are the commands of scripts in addition to testscript's.
var commands = map[string]func(*script, *testscript.TestScript, []string){
	"exits": exits, "says": says, "prints": prints, "query": query, "until": until, "session": session, "compress": compress, "bytes": appendBytes, "repeat": repeat, "serve": serve,
	"scrape": scrape, "metric": metric, "start": start, "signal": sendSignal, "manager": manager, "hears": hears, "ended": ended, "hold": hold, "served": served, "waitlog": waitlog, "send": send,
	"certificate": func(s *script, ts *testscript.TestScript, args []string) {
		ts.Check(testtls.Write(s.Path(strings.Join(args, ""))))
	},
	"database": func(s *script, ts *testscript.TestScript, args []string) { ts.Setenv(args[0], s.database(s)) },
	"insist": func(s *script, _ *testscript.TestScript, args []string) {
		s.Until("the end", func() bool { sendSignal(s, nil, args[:2]); return s.runs[args[0]].Ended() })
		ended(s, nil, []string{args[0], args[2]})
	},
}

const scriptFolder = "../../testdata/script/"

// scripts runs the scripts of a folder, or some files. conditions are added to the common ones.
func scripts(t *testing.T, p testscript.Params, conditions map[string]bool, setup func(*script, *testscript.Env)) {
	type key struct{}
	of := func(ts *testscript.TestScript) *script { return ts.Value(key{}).(*script) }
	p.Setup = func(e *testscript.Env) error {
		s := &script{Folder: &testweir.Folder{TB: e.T().(testing.TB), Dir: e.WorkDir}, runs: map[string]*testweir.Run{}}
		e.Values[key{}] = s
		repo, err := os.Getwd()
		e.Setenv("REPO", repo+"/../..")
		e.Setenv("HOME", e.WorkDir)
		if setup != nil {
			setup(s, e)
		}
		return err
	}
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){}
	for _, name := range []string{"sqlite", "postgres"} {
		p.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) { answer(of(ts), ts, neg, args) }
	}
	p.Condition = func(name string) (bool, error) {
		on, known := conditions[name]
		switch {
		case name == "root":
			return os.Geteuid() == 0, nil
		case name == "check":
			return testcheck.On(), nil
		case !known:
			return false, fmt.Errorf("there is no condition %q", name)
		}
		return on, nil
	}
	for name, command := range commands {
		p.Cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg {
				ts.Fatalf("%s cannot be negated", name)
			}
			if command(of(ts), ts, args); of(ts).Failed() {
				ts.Fatalf("%s has failed", name)
			}
		}
	}
	testscript.Run(t, p)
}

func exits(_ *script, ts *testscript.TestScript, args []string) {
	if code := exitCode(ts, ts.Exec(args[1], args[2:]...)); fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// exitCode returns the exit code of a command that has ended. err is its error, or nil.
func exitCode(ts *testscript.TestScript, err error) int {
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return shellCode(e.ProcessState)
	}
	ts.Check(err)
	return 0
}

// shellCode returns a process's exit code as a shell reports it.
func shellCode(p *os.ProcessState) int {
	if status := p.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.ExitCode()
}

func says(s *script, ts *testscript.TestScript, args []string) {
	exits(s, ts, append([]string{args[0]}, args[2:]...))
	if !strings.Contains(ts.ReadFile("stderr"), args[1]) {
		ts.Fatalf("it does not say %q", args[1])
	}
}

func prints(_ *script, ts *testscript.TestScript, args []string) {
	_ = ts.Exec("bash", "-c", args[1]) // whatever its exit code
	if out := ts.ReadFile("stdout") + ts.ReadFile("stderr"); !regexp.MustCompile(wildcards(args[0])).MatchString(out) {
		ts.Fatalf("it does not print %s", args[0])
	}
}

// answer runs a query. If negated, the query must fail.
func answer(s *script, ts *testscript.TestScript, neg bool, args []string) {
	if !strings.Contains(args[0], "://") {
		args[0] = ts.MkAbs(args[0])
	}
	db := s.Open(args[0], "rwc")
	defer db.Close()
	rows, err := testweir.Rows(db, args[1])
	if (err != nil) != neg {
		ts.Fatalf("%s: %v", args[1], err)
	}
	for _, row := range rows {
		fmt.Fprintln(ts.Stdout(), row)
	}
}

func query(s *script, _ *testscript.TestScript, args []string) { s.With(args[0]).Has(args[2], args[1]) }

func until(s *script, _ *testscript.TestScript, args []string) {
	s.With(args[0]).Becomes(args[2], args[1])
}

func session(s *script, ts *testscript.TestScript, args []string) {
	if s.session == nil {
		db := s.Open(args[0], "rw")
		var err error
		s.session, err = db.Conn(s.Context())
		ts.Check(err)
		s.Cleanup(func() { s.session.Close(); db.Close() })
	}
	for _, sql := range args[1:] {
		_, err := s.session.ExecContext(s.Context(), sql)
		ts.Check(err)
	}
}

func compress(s *script, ts *testscript.TestScript, args []string) {
	ext := map[string]string{"gzip": ".gz", "zstd": ".zst"}[args[0]]
	s.Write(args[1]+ext, ts.ReadFile(args[1]))
}

func appendTo(ts *testscript.TestScript, file, text string) {
	f, err := os.OpenFile(ts.MkAbs(file), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	ts.Check(err)
	_, err = f.WriteString(text)
	ts.Check(errors.Join(err, f.Close()))
}

// unescaped replaces Go's escapes in a text, except quotes.
func unescaped(ts *testscript.TestScript, text string) string {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	ts.Check(err)
	return text
}

func appendBytes(_ *script, ts *testscript.TestScript, args []string) {
	for _, text := range args[1:] {
		appendTo(ts, args[0], unescaped(ts, text))
	}
}

func repeat(_ *script, ts *testscript.TestScript, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(args[2], "%d", strconv.Itoa(i)))
	}
	appendTo(ts, args[0], strings.ReplaceAll(b.String(), `\n`, "\n"))
}

func serve(s *script, ts *testscript.TestScript, args []string) {
	l, scheme := s.listen(ts), "tcp://"
	addr, feed := l.Addr().String(), ts.ReadFile(args[len(args)-1])
	if len(args) > 1 {
		pair, authorities := s.Certificate()
		config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: authorities}
		if args[0] == "-mtls" {
			config.ClientAuth = tls.RequireAndVerifyClientCert
		}
		l, scheme = tls.NewListener(l, config), "tls://"
	}
	ts.Setenv("FEED", scheme+addr)
	accept(s, l, func(c net.Conn) { _, _ = io.WriteString(c, feed) })
}

// listen listens on a free port and sets $PORT.
func (s *script) listen(ts *testscript.TestScript) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ts.Setenv("PORT", port)
	return l
}

// accept serves each connection until the test ends.
func accept(t testing.TB, l net.Listener, serve func(net.Conn)) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
}

func start(s *script, ts *testscript.TestScript, args []string) {
	var err error
	s.Program, err = exec.LookPath(args[1])
	ts.Check(err)
	run := s.Command(args[2:]...)
	run.LogFile = s.Path(args[0] + ".log")
	ts.Check(os.RemoveAll(run.LogFile))
	run.Env = append(run.Env, environment(ts)...)
	s.runs[args[0]] = run.Start()
}

// environment returns variables for commands that run in the background.
func environment(ts *testscript.TestScript) (all []string) {
	for _, name := range []string{"HOME", "TERM", "TMPDIR", "FH_USERNAME", "FH_APIKEY", "KAFKA_USERNAME", "KAFKA_PASSWORD", "KAFKA_PASSWORD_FILE", "WEIR_SPOOL", "WEIR_CAPTURE", "WEIR_BATCH_PERIOD", "WEIR_TLS_CA", "WEIR_TO",
		"PGTZ", "PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE", "NOTIFY_SOCKET", "WATCHDOG_USEC", "HOSTNAME", "KUBERNETES_SERVICE_HOST"} {
		if value := ts.Getenv(name); value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}

func sendSignal(s *script, _ *testscript.TestScript, args []string) {
	for name := range strings.SplitSeq(args[1], ",") {
		s.runs[args[0]].Signal(map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}[name])
	}
	if len(args) > 2 {
		ended(s, nil, []string{args[0], args[2]})
	}
}

func ended(s *script, _ *testscript.TestScript, args []string) {
	run := s.runs[args[0]]
	if code := fmt.Sprint(run.Wait()); !whole(args[1]).MatchString(code) {
		s.Fatalf("%s: exit %s, want %s\n%s", args[0], code, args[1], run.Log())
	}
}

// whole returns a regular expression that must match a whole text.
func whole(expression string) *regexp.Regexp { return regexp.MustCompile("^(" + expression + ")$") }

func served(s *script, ts *testscript.TestScript, args []string) {
	ts.Setenv(args[1], s.runs[args[0]].Serves())
}

func waitlog(s *script, _ *testscript.TestScript, args []string) { s.runs[args[0]].Says(args[1]) }

func send(s *script, ts *testscript.TestScript, args []string) {
	file, addr := args[len(args)-1], args[len(args)-2]
	c, err := net.Dial("tcp", addr)
	ts.Check(err)
	if args[0] == "-tls" { // the certificate may be rejected at any time
		_, authorities := s.Certificate()
		config := &tls.Config{RootCAs: authorities, ServerName: "localhost"}
		if args[1] != "-" {
			pair, err := tls.LoadX509KeyPair(s.Path(args[1]+"/cert.pem"), s.Path(args[1]+"/key.pem"))
			ts.Check(err)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		c = tls.Client(c, config)
	}
	_, err = io.WriteString(c, ts.ReadFile(file))
	err = errors.Join(err, c.Close())
	if ts.Logf("sent: %v", err); args[0] != "-tls" || errors.As(err, new(*tls.CertificateVerificationError)) {
		ts.Check(err)
	}
}

func hold(s *script, ts *testscript.TestScript, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	s.Cleanup(func() { f.Close() })
	_, err = f.WriteString(ts.ReadFile(args[1]))
	ts.Check(err)
}

func scrape(s *script, ts *testscript.TestScript, args []string) {
	for _, path := range append([]string{"/metrics"}, args[1:]...) {
		status, body := s.runs[args[0]].Fetch(path)
		fmt.Fprintf(ts.Stdout(), "%s %d\n%s", path, status, body)
	}
}

func metric(s *script, ts *testscript.TestScript, args []string) {
	ended := s.ended()
	s.Until(fmt.Sprint(args), func() bool {
		if now := s.ended(); now != ended {
			ts.Fatalf("a run has ended meanwhile: %s", now)
		}
		sum, ok := count(s.runs[args[0]], args[1])
		return ok && whole(args[2]).MatchString(fmt.Sprint(sum))
	})
}

// ended returns the names of the runs that have ended.
func (s *script) ended() (names string) {
	for _, name := range slices.Sorted(maps.Keys(s.runs)) {
		if s.runs[name].Ended() {
			names += " " + name
		}
	}
	return names
}

// count returns the sum of all series of a run's metric, if it exists.
func count(run *testweir.Run, metric string) (sum int, ok bool) {
	for line := range strings.SplitSeq(run.Get("/metrics"), "\n") {
		if rest, found := strings.CutPrefix(line, metric+"{"); found {
			n, _ := strconv.Atoi(rest[strings.LastIndexByte(rest, ' ')+1:])
			sum, ok = sum+n, true
		}
	}
	return sum, ok
}

func manager(s *script, ts *testscript.TestScript, args []string) {
	var err error
	s.manager, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.Path("n"), Net: "unixgram"})
	ts.Check(err)
	s.Cleanup(func() { _ = s.manager.Close() })
	ts.Setenv("NOTIFY_SOCKET", s.Path("n"))
	ts.Setenv("WATCHDOG_USEC", args[0])
}

func hears(s *script, ts *testscript.TestScript, args []string) {
	until := time.Millisecond // the current output
	if len(args) > 0 {
		until = testcheck.Patience
	}
	ts.Check(s.manager.SetReadDeadline(time.Now().Add(until)))
	for buf := make([]byte, 1<<12); ; {
		n, err := s.manager.Read(buf)
		if err != nil && len(args) > 0 {
			ts.Fatalf("no state is %s: %v", args[0], err)
		} else if err != nil {
			return
		}
		fmt.Fprintf(ts.Stdout(), "%s\n", buf[:n])
		if len(args) > 0 && whole(args[0]).Match(buf[:n]) {
			return
		}
	}
}
