package cli_test

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/weirsync/weir/internal/cli"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testtls"
)

// patience is how long a test waits for what must come; a loaded machine takes a while.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if signal.Ignored(os.Interrupt) { // by a shell that runs the tests in its background; what they start would ignore it too
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	testscript.Main(testkafka.Tests{M: testpg.Tests{M: m}}, map[string]func(){
		"weir":    func() { os.Exit(cli.Main()) },
		"sqlite3": sqlite3,
	})
}

// TestScripts runs the command line as users do: each script in testdata/script
// is a story with the real program in it. Beside testscript's own commands there
// are
//
//	exits N weir …          run the program and demand its exit code
//	sqlite DB SQL           run SQL; rows go to stdout, cells apart by |
//	postgres URL SQL        the same
//	until DB SQL WANT       wait for the SQL's answer to be WANT
//	compress gzip|zstd FILE write FILE.gz or FILE.zst
//	bytes FILE TEXT…        append TEXT, with Go's escapes, to FILE
//	repeat FILE N TEXT      append TEXT N times; %d in it is the number
//	serve FILE              serve FILE once over TCP; its address is $FEED
//	start NAME weir …       run the program beside the script; its stderr goes to NAME.log
//	served NAME VAR         wait for NAME to serve, and put its address into $VAR
//	waitlog NAME REGEXP     wait for NAME to say something
//	send ADDR FILE          connect to ADDR and send FILE
//	certificate             write cert.pem and key.pem, for localhost
//	signal NAME SIGNAL CODE send it a signal and demand its exit code
//	hold FIFO FILE          write FILE into a FIFO, which stays open to the end
//	scrape FILE PATH…       fetch the metrics whose address FILE names, and PATHs; to stdout
//	cut FILE N              keep the first N bytes
//
// and the conditions [root], for what needs a file system of its own, and [check], for what make test
// does not run.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts(t, "../../testdata/script", nil)
}

// TestScripts_Postgres runs those in testdata/script/postgres, each with an empty
// database whose connection string is $PG, and its parts $PGHOST and so on, as
// libpq knows them.
func TestScripts_Postgres(t *testing.T) {
	t.Parallel()
	scripts(t, "../../testdata/script/postgres", func(e *testscript.Env) error {
		url := testpg.New(t)
		c, err := pgconn.ParseConfig(url)
		if err != nil {
			return err
		}
		for name, value := range map[string]string{"PG": url, "PGHOST": c.Host, "PGPORT": fmt.Sprint(c.Port), "PGDATABASE": c.Database, "PGUSER": c.User, "PGPASSWORD": c.Password} {
			e.Setenv(name, value)
		}
		return nil
	})
}

func scripts(t *testing.T, dir string, setup func(*testscript.Env) error) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			repo, err := os.Getwd()
			e.Setenv("REPO", repo+"/../..")
			e.Setenv("HOME", e.WorkDir)
			if setup != nil && err == nil {
				err = setup(e)
			}
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "sqlite": query, "postgres": query, "until": until, "compress": compress, "bytes": appendBytes,
			"repeat": repeat, "serve": serve, "scrape": scrape, "cut": cut, "start": start, "signal": sendSignal, "hold": hold,
			"served": served, "waitlog": waitlog, "send": send, "certificate": certificate,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "check":
				return testcheck.On(), nil
			}
			return false, fmt.Errorf("there is no condition %q", cond)
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if e := (*exec.ExitError)(nil); err != nil {
		var ok bool
		if e, ok = err.(*exec.ExitError); !ok {
			ts.Fatalf("%v", err)
		}
		code = e.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func open(ts *testscript.TestScript, path string) *sql.DB {
	if strings.Contains(path, "://") {
		db, err := sql.Open("pgx", path)
		ts.Check(err)
		return db
	}
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(ts.MkAbs(path))+"?_pragma=busy_timeout(5000)")
	ts.Check(err)
	return db
}

func ask(db *sql.DB, query string) (string, error) {
	rows, err := db.Query(query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for rows.Next() {
		cells, into := make([]any, len(cols)), make([]any, len(cols))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		for i, c := range cells {
			if i > 0 {
				b.WriteByte('|')
			}
			switch c := c.(type) {
			case nil:
				b.WriteString("NULL")
			case []byte:
				fmt.Fprintf(&b, "x'%x'", c)
			case float64:
				b.WriteString(strconv.FormatFloat(c, 'g', -1, 64))
			default:
				fmt.Fprint(&b, c)
			}
		}
		b.WriteByte('\n')
	}
	return b.String(), rows.Err()
}

func query(ts *testscript.TestScript, neg bool, args []string) {
	db := open(ts, args[0])
	defer db.Close()
	out, err := ask(db, args[1])
	if (err != nil) != neg {
		ts.Fatalf("%s: %v", args[1], err)
	}
	_, err = io.WriteString(ts.Stdout(), out)
	ts.Check(err)
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	var last string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err != nil && !strings.Contains(args[0], "://") {
			continue
		}
		db := open(ts, args[0])
		out, err := ask(db, args[1])
		db.Close()
		if last = strings.TrimSpace(out); err == nil && last == args[2] {
			return
		}
	}
	ts.Fatalf("%s is %q, not %q, after %v", args[1], last, args[2], patience)
}

func compress(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	ext := ".gz"
	if args[0] == "zstd" {
		ext = ".zst"
		w, err = zstd.NewWriter(&out)
		ts.Check(err)
	}
	_, err = w.Write(data)
	ts.Check(err)
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[1]+ext), out.Bytes(), 0o644))
}

func appendTo(ts *testscript.TestScript, file string, data []byte) {
	f, err := os.OpenFile(ts.MkAbs(file), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	ts.Check(err)
	_, err = f.Write(data)
	ts.Check(err)
	ts.Check(f.Close())
}

func appendBytes(ts *testscript.TestScript, _ bool, args []string) {
	for _, a := range args[1:] {
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(a, `"`, `\"`) + `"`)
		ts.Check(err)
		appendTo(ts, args[0], []byte(text))
	}
}

func repeat(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	for i := range n {
		b.WriteString(strings.ReplaceAll(args[2], "%d", strconv.Itoa(i)))
	}
	text := strings.ReplaceAll(b.String(), `\n`, "\n")
	appendTo(ts, args[0], []byte(text))
}

func serve(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv("FEED", "tcp://"+l.Addr().String())
	done := make(chan bool)
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write(data)
			c.Close()
		}
	}()
	ts.Defer(func() { l.Close(); <-done })
}

func start(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	log, err := os.Create(ts.MkAbs(args[0] + ".log"))
	ts.Check(err)
	defer log.Close()
	c := exec.Command(path, args[2:]...)
	c.Dir, c.Stderr = ts.MkAbs("."), log
	c.Env = append(os.Environ(), "HOME="+c.Dir, "FH_USERNAME="+ts.Getenv("FH_USERNAME"), "FH_APIKEY="+ts.Getenv("FH_APIKEY"))
	ts.Check(c.Start())
	running.Store(ts.MkAbs(args[0]), c)
	ts.Defer(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
}

// running are the programs that start has started, by script and name.
var running sync.Map

func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	v, _ := running.Load(ts.MkAbs(args[0]))
	c := v.(*exec.Cmd)
	for _, name := range strings.Split(args[1], ",") {
		ts.Check(c.Process.Signal(map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill}[name]))
	}
	_ = c.Wait()
	if code := fmt.Sprint(c.ProcessState.ExitCode()); code != args[2] {
		log, _ := os.ReadFile(ts.MkAbs(args[0] + ".log"))
		ts.Fatalf("%s ended with %s, want %s:\n%s", args[0], code, args[2], log)
	}
}

func served(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[1], await(ts, args[0], `(?:serving at|senders connect to) (\S+)`)[1])
}

func send(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	c, err := net.Dial("tcp", args[0])
	ts.Check(err)
	_, err = c.Write(data)
	ts.Check(err)
	ts.Check(c.Close())
}

func waitlog(ts *testscript.TestScript, _ bool, args []string) { await(ts, args[0], args[1]) }

// await waits until the log of a program that start has started matches.
func await(ts *testscript.TestScript, name, what string) []string {
	re, log := regexp.MustCompile(what), []byte(nil)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var err error
		log, err = os.ReadFile(ts.MkAbs(name + ".log"))
		ts.Check(err)
		if m := re.FindStringSubmatch(string(log)); m != nil {
			return m
		}
	}
	ts.Fatalf("%s does not say %s, but:\n%s", name, what, log)
	return nil
}

func certificate(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(testtls.Write(ts.MkAbs(".")))
}

func hold(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o600))
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	ts.Defer(func() { f.Close() })
	data, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	_, err = f.Write(data)
	ts.Check(err)
}

var metricsURL = regexp.MustCompile(`http://\S+/metrics`)

func scrape(ts *testscript.TestScript, _ bool, args []string) {
	var until *regexp.Regexp
	if name, value, ok := strings.Cut(args[len(args)-1], "="); ok {
		until = regexp.MustCompile(`(?m)^` + name + `(\{.*\})? ` + value + `$`)
		args = args[:len(args)-1]
	}
scraping:
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		log, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil || metricsURL.Find(log) == nil {
			continue
		}
		base := strings.TrimSuffix(string(metricsURL.Find(log)), "/metrics")
		for _, path := range append([]string{"/metrics"}, args[1:]...) {
			res, err := http.Get(base + path)
			ts.Check(err)
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			ts.Check(err)
			if path == "/metrics" && until != nil && !until.Match(body) {
				continue scraping
			}
			fmt.Fprintf(ts.Stdout(), "%s %d\n%s", path, res.StatusCode, body)
		}
		return
	}
	ts.Fatalf("%s names no address of metrics, or they never had %v", args[0], until)
}

func cut(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	path := ts.MkAbs(args[0])
	if n < 0 {
		fi, err := os.Stat(path)
		ts.Check(err)
		n += fi.Size()
	}
	ts.Check(os.Truncate(path, n))
}
