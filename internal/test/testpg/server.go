//go:build unix

// Package testpg runs private Postgres servers for tests, from the installed binaries, and a proxy that breaks
// connections to them.
package testpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/test/pgserver"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A Server is a running Postgres. Its data is in a folder that is removed with it.
type Server struct {
	*pgserver.Server
	dir      string
	settings []string
}

var shared struct {
	sync.Once
	server *Server
	err    error
}

// Tests are the tests of a package, for TestMain.
type Tests struct{ *testing.M }

// Run runs the tests, stops the shared server, and returns their exit code.
func (t Tests) Run() int {
	code := t.M.Run()
	if shared.server != nil {
		shared.server.Stop()
		os.RemoveAll(shared.server.dir)
	}
	return code
}

// New returns the connection string of a new database, on the server that all tests of a test binary share, or on the
// one of TEST_POSTGRES_URL. It is dropped when the test ends.
func New(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("TEST_POSTGRES_URL"); url != "" {
		return create(t, url, "")
	}
	shared.Do(func() {
		if err := missing(); err == nil {
			shared.server, shared.err = start("", nil)
		} else {
			shared.err = err
		}
	})
	if shared.err != nil {
		skipWithoutPostgres(t, shared.err)
	}
	return shared.server.Database(t)
}

// Start runs a server for one test. Settings such as "fsync=on" are added to those that make tests fast.
func Start(t testing.TB, settings ...string) *Server { return StartIn(t, "", settings...) }

// StartIn is like Start, with the server's data in an existing folder, "" for a new one.
func StartIn(t testing.TB, folder string, settings ...string) *Server {
	t.Helper()
	if err := missing(); err != nil {
		skipWithoutPostgres(t, err)
	}
	s, err := start(folder, settings)
	testcheck.NoError(t, err)
	t.Cleanup(func() {
		s.Stop()
		os.RemoveAll(s.dir)
	})
	return s
}

// skipWithoutPostgres ends a test because there is no Postgres: it fails in CI, and is skipped elsewhere.
func skipWithoutPostgres(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("REQUIRE_POSTGRES") != "" || !errors.Is(err, errMissing) {
		t.Fatal(err)
	}
	testcheck.Missing(t, err.Error())
}

var errMissing = errors.New("a Postgres server: name its bin folder in PG_BIN, or a server in TEST_POSTGRES_URL (Debian: apt install postgresql)")

func missing() error {
	if pgserver.Find() == "" {
		return errMissing
	}
	return nil
}

// mkdir creates a folder in TEST_POSTGRES_IN. By default that is /tmp, because the path of a socket has at most 107
// bytes.
func mkdir() (string, error) {
	return testcheck.Folder(cmp.Or(os.Getenv("TEST_POSTGRES_IN"), "/tmp"), "weir-pg-")
}

// settings make tests fast.
var settings = []string{"fsync=off", "shared_buffers=32MB", "max_connections=50", "autovacuum=off", "deadlock_timeout=100ms"}

func start(folder string, more []string) (_ *Server, err error) {
	dir, err := mkdir()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, settings: slices.Concat(settings, more)}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if s.Server, err = pgserver.New(dir, filepath.Join(cmp.Or(folder, dir), "data"), s.settings...); err != nil {
		return nil, err
	}
	if err := s.Init(); err != nil {
		return nil, err
	}
	return s, s.Start()
}

// Kill ends all of the server's processes at once, and waits until they have ended.
func (s *Server) Kill() {
	// Stop them first, so none notices that another ends, and cleans up.
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range append([]int{s.PID()}, s.processes("")...) {
			_ = syscall.Kill(pid, sig)
		}
	}
	<-s.Done()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		children := s.processes("")
		if len(children) == 0 {
			return
		}
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Settle makes the server write everything committed so far to its disk.
func (s *Server) Settle(t testing.TB) {
	t.Helper()
	s.ask(t, "SELECT pg_logical_emit_message(true, 'weir', 'settled')")
}

// Freeze stops the server's processes of a kind, such as "walwriter", until they are killed. A server that has just
// started may not have one yet.
func (s *Server) Freeze(t testing.TB, kind string) {
	t.Helper()
	pids := s.processes(kind)
	for end := time.Now().Add(2 * time.Minute); len(pids) == 0; pids = s.processes(kind) {
		if time.Now().After(end) {
			t.Fatalf("the server has no process %q", kind)
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, pid := range pids {
		testcheck.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
}

// processes returns the server's processes whose title contains a word.
func (s *Server) processes(kind string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		title, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if to, err := os.Readlink(filepath.Join(p, "cwd")); err == nil && to == s.Data() && strings.Contains(string(title), kind) {
			pid, _ := strconv.Atoi(filepath.Base(p))
			pids = append(pids, pid)
		}
	}
	return pids
}

// Restart starts the server again with its data and port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	testcheck.NoError(t, s.Server.Restart())
}

// Standby starts a read-only replica of s.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	dir, err := mkdir()
	testcheck.NoError(t, err)
	b := &Server{dir: dir, settings: s.settings}
	t.Cleanup(func() {
		if b.Server != nil {
			b.Stop()
		}
		os.RemoveAll(dir)
	})
	if b.Server, err = pgserver.New(dir, filepath.Join(dir, "data"), s.settings...); err != nil {
		t.Fatal(err)
	}
	if out, err := b.Command("pg_basebackup", "-D", b.Data(), "-d", s.URL("postgres"), "-R", "-c", "fast").CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: pg_basebackup: %v\n%s", err, out)
	}
	testcheck.NoError(t, b.Start())
	return b
}

// CatchUp waits until a standby has everything that s has.
func (s *Server) CatchUp(t testing.TB, primary *Server) {
	t.Helper()
	at := primary.ask(t, "SELECT pg_current_wal_lsn()")
	for end := time.Now().Add(2 * time.Minute); s.ask(t, "SELECT pg_last_wal_replay_lsn() >= '"+at+"'") != "t"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the standby does not catch up")
		}
	}
}

// Promote makes a standby a primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if s.ask(t, "SELECT pg_promote()") != "t" {
		t.Fatal("the standby was not promoted")
	}
}

// ask returns the only cell of a query's answer.
func (s *Server) ask(t testing.TB, sql string) string {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), s.URL("postgres"))
	testcheck.NoError(t, err)
	defer c.Close(context.Background())
	r, err := c.Exec(t.Context(), sql).ReadAll()
	if err != nil || len(r[0].Rows) != 1 {
		t.Fatalf("%s: %v", sql, err)
	}
	return string(r[0].Rows[0][0])
}

// Configure writes a file into the server's data, such as pg_hba.conf, and makes the server reload its configuration.
func (s *Server) Configure(t testing.TB, file string, content []byte) {
	t.Helper()
	path := filepath.Join(s.Data(), file)
	err := os.WriteFile(path, content, 0o600)
	if err = errors.Join(err, pgserver.Own(path), syscall.Kill(s.PID(), syscall.SIGHUP)); err != nil {
		t.Fatal(err)
	}
}

// Folder creates a folder that the server can read and write.
func (s *Server) Folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(s.dir, "f")
	testcheck.NoError(t, err)
	s.Own(t, dir)
	return dir
}

// Own gives a folder to the user that the server runs as.
func (s *Server) Own(t testing.TB, dir string) {
	t.Helper()
	testcheck.NoError(t, errors.Join(os.Chmod(dir, 0o700), pgserver.Own(dir)))
}

// Database creates a database, which is dropped when the test ends, and returns its connection string. Options are
// options of CREATE DATABASE.
func (s *Server) Database(t testing.TB, options ...string) string {
	t.Helper()
	return create(t, s.URL("postgres"), strings.Join(options, " "))
}

// create creates a database on the server at url.
func create(t testing.TB, url, options string) string {
	t.Helper()
	config, err := pgconn.ParseConfig(url)
	testcheck.NoError(t, err)
	name := fmt.Sprintf("weir_%012x", rand.Uint64N(1<<48))
	admin := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		c, err := pgconn.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = c.Exec(ctx, sql).ReadAll()
		return err
	}
	testcheck.NoError(t, admin("CREATE DATABASE "+name+" TEMPLATE template0 STRATEGY file_copy "+options))
	t.Cleanup(func() { _ = admin("DROP DATABASE " + name + " WITH (FORCE)") }) // the server may be down
	u, err := neturl.Parse(url)
	testcheck.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}
