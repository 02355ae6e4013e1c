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

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testtls"
	"github.com/weirsync/weir/internal/testweir"
)

func TestMain(m *testing.M) {
	testweir.Main(testkafka.Tests{M: testpg.Tests{M: m}}, map[string]func(){"sqlite3": sqlite3})
}

// TestScripts runs the command line as users do: each script in testdata/script
// is a story with the real program in it. Beside testscript's own commands there
// are
//
//	exits N weir …          run the program and demand its exit code
//	says N TEXT weir …      and a text in what it writes to stderr
//	prints TEXT COMMAND     run a command of the shell, and demand that it prints TEXT, in which … stands for anything
//	sqlite DB SQL           run SQL; rows go to stdout, cells apart by |
//	postgres URL SQL        the same
//	query DB SQL WANT       demand the rows, which are apart by blanks
//	until DB SQL WANT       wait for them
//	session URL SQL…        run SQL in a connection that stays open
//	compress gzip|zstd FILE write FILE.gz or FILE.zst
//	bytes FILE TEXT…        append TEXT, with Go's escapes, to FILE
//	repeat FILE N TEXT      append TEXT N times; %d in it is the number
//	serve [-tls|-mtls] FILE serve FILE to each connection, by TLS, or to those that show the certificate; its address is $FEED
//	start NAME weir …       run the program beside the script; its stderr goes to NAME.log
//	served NAME VAR         wait for NAME to serve, and put its address into $VAR
//	waitlog NAME REGEXP     wait for NAME to say something
//	send [-tls DIR] ADDR FILE
//	                        connect to ADDR and send FILE, over TLS with the certificate in DIR, -: with none
//	certificate [DIR]       write cert.pem and key.pem, for localhost
//	signal NAME SIGNAL CODE send it a signal and demand its exit code; STOP and CONT have none
//	insist NAME SIGNAL CODE send it a signal again and again until it has ended
//	ended NAME CODE         wait until it has ended, and demand its exit code, a regular expression
//	hold FIFO FILE          write FILE into a FIFO, which stays open to the end
//	scrape NAME PATH…       fetch the metrics of NAME, and PATHs; to stdout
//	metric NAME M REGEXP    wait until the series of a metric of NAME have a sum
//	manager MICROSECONDS    have runs started by a service manager, whose watchdog waits for so long
//	hears [REGEXP]          what it was told since, up to a state that matches; to stdout
//
// and the conditions [root], for what needs a file system of its own, and [check], for what make test
// does not run.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts(t, testscript.Params{Dir: scriptFolder}, nil, nil)
}

// TestScripts_Postgres runs those in testdata/script/postgres, each with an empty
// database whose connection string is $PG, and its parts $PGHOST and so on, as
// libpq knows them.
func TestScripts_Postgres(t *testing.T) {
	t.Parallel()
	scripts(t, testscript.Params{Dir: scriptFolder + "postgres"}, nil, func(s *script, e *testscript.Env) { s.setPostgres(e) })
}

// setPostgres makes a database, which the script knows.
func (s *script) setPostgres(e *testscript.Env) *pgconn.Config {
	s.To = testpg.New(s)
	c, err := pgconn.ParseConfig(s.To)
	s.Check(err)
	for name, value := range map[string]string{"PG": s.To, "PGHOST": c.Host, "PGPORT": fmt.Sprint(c.Port), "PGDATABASE": c.Database, "PGUSER": c.User, "PGPASSWORD": c.Password} {
		e.Setenv(name, value)
	}
	return c
}

// TestScripts_Both runs those in testdata/script/both into each kind of database, which is $TO. Theirs are the condition
// [postgres] and the command
//
//	database VAR            make another database
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

// intoBoth runs a test for each kind of database; to makes one.
func intoBoth(t *testing.T, test func(t *testing.T, to func(testing.TB) string)) {
	t.Run("sqlite", func(t *testing.T) {
		var made atomic.Int64
		test(t, func(testing.TB) string { return fmt.Sprintf("t%d.db", made.Add(1)) })
	})
	t.Run("postgres", func(t *testing.T) { test(t, testpg.New) })
}

// A script is one that runs: its folder, and what it has started.
type script struct {
	*testweir.Folder
	runs    map[string]*testweir.Run // by name
	session *sql.Conn
	manager *net.UnixConn
	// database makes a database; nil where scripts name their own.
	database func(testing.TB) string
	kafka
	player
}

// commands are those of scripts besides testscript's own.
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

// scripts runs those of a folder, or some files. Conditions are besides those of all.
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

// exitCode returns the exit code of a command that has ended, with an error or without one.
func exitCode(ts *testscript.TestScript, err error) int {
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return shellCode(e.ProcessState)
	}
	ts.Check(err)
	return 0
}

// shellCode is what a shell says that a process has ended with.
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

// answer is a command that may be negated: the database refuses the query.
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

// unescaped is a text with Go's escapes, but for quotes, as it is meant.
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

// listen listens on a free port, which is $PORT.
func (s *script) listen(ts *testscript.TestScript) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ts.Setenv("PORT", port)
	return l
}

// accept serves each connection, until the test ends.
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

// environment is what a script may have set for what runs beside it.
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

// whole is a regular expression for all of a text.
func whole(expression string) *regexp.Regexp { return regexp.MustCompile("^(" + expression + ")$") }

func served(s *script, ts *testscript.TestScript, args []string) {
	ts.Setenv(args[1], s.runs[args[0]].Serves())
}

func waitlog(s *script, _ *testscript.TestScript, args []string) { s.runs[args[0]].Says(args[1]) }

func send(s *script, ts *testscript.TestScript, args []string) {
	file, addr := args[len(args)-1], args[len(args)-2]
	c, err := net.Dial("tcp", addr)
	ts.Check(err)
	if args[0] == "-tls" { // the certificate that it shows may be refused at any time
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

// ended names the runs that have ended.
func (s *script) ended() (names string) {
	for _, name := range slices.Sorted(maps.Keys(s.runs)) {
		if s.runs[name].Ended() {
			names += " " + name
		}
	}
	return names
}

// count returns the sum of all series of a metric of a run, if there is one.
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
	until := time.Millisecond // what is there
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
