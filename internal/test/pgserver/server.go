//go:build unix

// Package pgserver runs private Postgres servers from the installed binaries.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A Server is a private Postgres.
type Server struct {
	Port int
	// Private servers listen only on their socket, which only their user and root can access. There is no password,
	// and whoever connects can run programs as that user.
	Private  bool
	dir      string
	data     string
	bin      string
	settings []string
	cmd      *exec.Cmd
	done     <-chan struct{} // closed when the postmaster has ended
}

// maxSocket is the maximum length of a socket's path on Linux.
const maxSocket = 107

// New creates the folders of a server: dir, which must exist, is for its log and its sockets (whose paths have at
// most maxSocket bytes). data, which must not exist, is for its data. Settings have the form "fsync=off".
func New(dir, data string, settings ...string) (*Server, error) {
	s := &Server{bin: Find(), settings: settings}
	var derr, err error
	s.dir, derr = filepath.Abs(dir) // the server's programs run in another folder
	s.data, err = filepath.Abs(data)
	if err = errors.Join(derr, err); err == nil && len(s.Sockets())+len("/.s.PGSQL.65535") > maxSocket {
		err = fmt.Errorf("%s is too long for a Postgres server's socket: set TMPDIR to a shorter folder, such as /var/tmp", s.dir)
	}
	if err == nil {
		err = errors.Join(os.Mkdir(data, 0o700), os.Mkdir(s.Sockets(), 0o700))
	}
	if unprivileged() != nil { // Postgres refuses to run as root, so another user must own and enter these
		err = errors.Join(err, os.Chmod(dir, 0o755))
	}
	if err == nil {
		err = errors.Join(Own(data), Own(s.Sockets()))
	}
	return s, err
}

// Init creates the data of a new cluster, whose superuser is postgres.
func (s *Server) Init() error {
	out, err := s.Command("initdb", "-D", s.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err == nil {
		return nil
	}
	for _, dir := range []string{s.Sockets(), s.data} {
		if closed := closedTo(unprivileged(), dir); closed != "" {
			return fmt.Errorf("initdb: %w: the server runs as the user %s, who cannot enter %s: set TMPDIR to a folder that all can enter, such as /var/tmp", err, username(), closed)
		}
	}
	return fmt.Errorf("initdb: %w\n%s", err, out)
}

// closedTo returns the outermost folder on the path to dir that a user cannot enter, "" for none. It ignores access
// control lists.
func closedTo(who *syscall.Credential, dir string) (closed string) {
	dir, err := filepath.Abs(dir)
	if who == nil || err != nil {
		return ""
	}
	for ; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			enter := os.FileMode(0o001)
			switch owner := info.Sys().(*syscall.Stat_t); {
			case owner.Uid == who.Uid:
				enter = 0o100
			case owner.Gid == who.Gid:
				enter = 0o010
			}
			if info.Mode()&enter == 0 {
				closed = dir
			}
		}
		if dir == filepath.Dir(dir) {
			return closed
		}
	}
}

// username returns the name of the user that servers run as if this process is root.
func username() string {
	u, err := user.LookupId(fmt.Sprint(unprivileged().Uid))
	if err != nil {
		return fmt.Sprint(unprivileged().Uid)
	}
	return u.Username
}

// Start starts the server on a free port.
func (s *Server) Start() (err error) {
	if s.Port, err = FreePort(); err != nil {
		return err
	}
	return s.Restart()
}

// Find returns the folder of initdb and postgres, "" if there is none: PG_BIN, the folder of postgres in the PATH, or
// the newest of Debian's.
func Find() string {
	folders := []string{os.Getenv("PG_BIN")}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(path))
		}
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	number := func(path string) int { n, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); return n }
	slices.SortFunc(versions, func(a, b string) int { return number(b) - number(a) })
	for _, f := range append(folders, versions...) {
		if f == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(f, "initdb")); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(f, "postgres")); err == nil {
			return f
		}
	}
	return ""
}

// Data returns the folder of the server's data.
func (s *Server) Data() string { return s.data }

// Sockets returns the folder of the server's sockets, which it owns.
func (s *Server) Sockets() string { return filepath.Join(s.dir, "s") }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// PID returns the process ID of the postmaster.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done returns a channel that is closed when the postmaster ends.
func (s *Server) Done() <-chan struct{} { return s.done }

// unprivileged returns the user that the server runs as if this process is root, else nil.
func unprivileged() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// Attributes returns the attributes of a process that runs as the servers' user and dies with its parent.
func Attributes() *syscall.SysProcAttr { return attributes(unprivileged()) }

// Own gives a file or folder to the user that servers run as.
func Own(path string) error {
	owner := unprivileged()
	if owner == nil {
		return nil
	}
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}

// Command returns one of Postgres' programs, to be run like the server.
func (s *Server) Command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.Sockets()
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + s.Sockets(), "TZ=UTC"}
	c.SysProcAttr = Attributes()
	return c
}

// Begin starts a command that has [Attributes], and returns a channel that is closed when it ends.
func Begin(c *exec.Cmd) (ended <-chan struct{}, err error) {
	started, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the command dies with the thread that started it, so keep this one
		defer runtime.UnlockOSThread()
		err := c.Start()
		if started <- err; err == nil {
			_ = c.Wait()
		}
	}()
	return done, <-started
}

// Restart starts the server with its data and port, and waits until it answers.
func (s *Server) Restart() error {
	listen := "127.0.0.1"
	if s.Private {
		listen = ""
	}
	args := []string{"-D", s.data, "-k", s.Sockets(), "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=" + listen, "-c", "logging_collector=off"}
	for _, set := range s.settings {
		args = append(args, "-c", set)
	}
	s.cmd = s.Command("postgres", args...)
	// A pipe would stay open until the last of its children ends.
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.done, err = Begin(s.cmd); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		c, err := pgconn.Connect(ctx, s.URL("postgres"))
		cancel()
		if err == nil {
			return c.Close(context.Background())
		}
		select {
		case <-s.done:
			return fmt.Errorf("the server ended: %w\n%s", err, s.Log())
		default:
		}
		if time.Now().After(end) {
			s.Stop()
			return fmt.Errorf("the server does not answer: %w\n%s", err, s.Log())
		}
	}
}

// Stop ends the server like its administrator would.
func (s *Server) Stop() {
	if s.done == nil { // it was not started
		return
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		_ = s.cmd.Process.Signal(sig)
		select {
		case <-s.done:
			return
		case <-time.After(5 * time.Second):
		}
	}
}

// Log returns what the server has logged.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.logFile())
	return string(text)
}

// URL returns the connection string of one of the server's databases.
func (s *Server) URL(database string) string {
	if s.Private {
		return fmt.Sprintf("postgres://postgres@/%s?host=%s&port=%d&sslmode=disable", database, url.QueryEscape(s.Sockets()), s.Port)
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.Port, database)
}
