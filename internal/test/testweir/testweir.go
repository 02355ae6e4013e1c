// Package testweir runs weir like users do: as a program, in a separate folder.
//
//	f := testweir.New(t, "t.db")
//	f.Write("feed.jsonl", `{"id":1}`+"\n")
//	run := f.Start("sync", "feed.jsonl", "--follow", "--to", f.To)
//	f.Becomes("1", "SELECT count(*) FROM feed")
//	run.Interrupt()
//
// The program is the test binary itself: the TestMain of the package calls [Main].
package testweir

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirsync/weir/internal/cli"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testtls"
)

// Main runs the tests of a package, or one of its programs: weir, or one in more.
func Main(m testscript.TestingM, more map[string]func()) {
	if signal.Ignored(os.Interrupt) { // a shell ignores it for tests in the background, and weir would inherit that
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	programs := map[string]func(){"weir": func() { os.Exit(cli.Main()) }}
	maps.Copy(programs, more)
	testscript.Main(m, programs)
}

// A Folder is where a test runs weir: file names are relative to it.
type Folder struct {
	testing.TB
	Dir     string
	Program string   // path of weir
	To      string   // the database: a file, or a connection string
	Env     []string // environment of its runs, added to the test's
}

// With returns the folder with another database.
func (f *Folder) With(to string) *Folder {
	other := *f
	other.To = to
	return &other
}

// runs counts the runs of the test binary, for the names of their log files.
var runs atomic.Int64

// New creates a folder with the program, and a self-signed certificate for localhost: cert.pem and key.pem.
func New(t testing.TB, to string) *Folder {
	t.Helper()
	f := &Folder{TB: t, Dir: t.TempDir(), To: to}
	f.Program = f.Path("weir")
	f.Link("weir")
	f.Check(testtls.Write(f.Dir))
	return f
}

// Link adds the test binary to the folder under the name of one of its programs.
func (f *Folder) Link(program string) {
	f.Helper()
	self, err := os.Executable()
	f.Check(err)
	f.Check(os.Symlink(self, f.Path(program)))
}

// Check fails the test at once if there is an error.
func (f *Folder) Check(err error) { f.Helper(); testcheck.NoError(f, err) }

// Path returns the path of a file.
func (f *Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// Write writes a file, compressed if its name ends in .gz or .zst.
func (f *Folder) Write(name, text string) {
	f.Helper()
	file, err := os.OpenFile(f.Path(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	f.Check(err)
	w := io.WriteCloser(file)
	switch filepath.Ext(name) {
	case ".gz":
		w = gzip.NewWriter(file)
	case ".zst":
		w, err = zstd.NewWriter(file)
		f.Check(err)
	}
	_, err = io.WriteString(w, text)
	if w != file {
		err = errors.Join(err, w.Close())
	}
	f.Check(errors.Join(err, file.Close()))
}

// Certificate returns the folder's certificate, and the authorities that accept it.
func (f *Folder) Certificate() (tls.Certificate, *x509.CertPool) {
	f.Helper()
	pair, err := tls.LoadX509KeyPair(f.Path("cert.pem"), f.Path("key.pem"))
	f.Check(err)
	authorities := x509.NewCertPool()
	authorities.AddCert(pair.Leaf)
	return pair, authorities
}

// Until waits until ready returns true.
func (f *Folder) Until(what string, ready func() bool) {
	f.Helper()
	testcheck.Until(f, func() string {
		if ready() {
			return ""
		}
		return what
	})
}

// A Run is a command line of weir. Its fields can be changed until it is started.
type Run struct {
	*exec.Cmd
	LogFile string // its stderr is appended to this file

	folder *Folder
	out    bytes.Buffer
	ended  chan struct{}
}

// nameless clears the variables that name a consumer group member, because the tests may run with them set.
var nameless = []string{"KUBERNETES_SERVICE_HOST=", "STATE_DIRECTORY="}

// Command returns a run without starting it.
func (f *Folder) Command(args ...string) *Run {
	r := &Run{Cmd: exec.Command(f.Program, args...), LogFile: f.Path(fmt.Sprintf("run%d.log", runs.Add(1))), folder: f, ended: make(chan struct{})}
	r.Dir, r.Stdout, r.Env = f.Dir, &r.out, append(os.Environ(), nameless...)
	r.Env = append(r.Env, f.Env...)
	return r
}

// Start starts a run.
func (f *Folder) Start(args ...string) *Run { f.Helper(); return f.Command(args...).Start() }

// Under runs the command with another program, such as strace with its arguments.
func (r *Run) Under(program string, args ...string) *Run {
	c := exec.Command(program, args...)
	c.Args = append(append(c.Args, r.Path), r.Args[1:]...)
	r.Path, r.Args, r.Err = c.Path, c.Args, c.Err
	return r
}

// Start starts the run, which is killed when the test ends.
func (r *Run) Start() *Run {
	r.folder.Helper()
	if r.Stderr == nil {
		log, err := os.OpenFile(r.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		r.folder.Check(err)
		defer log.Close()
		r.Stderr = log
	}
	r.folder.Check(r.Cmd.Start())
	go func() {
		defer close(r.ended)
		_ = r.Cmd.Wait()
	}()
	r.folder.Cleanup(r.Kill)
	return r
}

// Log returns what the run has written to stderr so far.
func (r *Run) Log() string {
	text, _ := os.ReadFile(r.LogFile)
	return string(text)
}

// Out returns the run's stdout after it has ended.
func (r *Run) Out() string { r.Wait(); return r.out.String() }

// Ended reports whether the run has ended.
func (r *Run) Ended() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// Wait waits until the run has ended, and returns its exit code: -1 after a signal.
func (r *Run) Wait() int {
	r.folder.Helper()
	select {
	case <-r.ended:
	case <-time.After(2 * testcheck.Patience):
		r.Kill()
		r.folder.Fatalf("%v: has not ended after %v\n%s", r.Args, 2*testcheck.Patience, r.Log())
	}
	return r.ProcessState.ExitCode()
}

// Exit waits until the run has ended, and returns its log. It fails the test unless the exit code and texts in the
// log are as given.
func (r *Run) Exit(code int, said ...string) (log string) {
	r.folder.Helper()
	got, log := r.Wait(), r.Log()
	if got != code {
		r.folder.Errorf("%v: exit %d, want %d\n%s%s", r.Args, got, code, &r.out, log)
	}
	for _, text := range said {
		if !strings.Contains(log, text) {
			r.folder.Errorf("%v does not say %q:\n%s", r.Args, text, log)
		}
	}
	return log
}

// Says waits until the log matches, and returns the first group of the match, or the whole match.
func (r *Run) Says(match string) (group string) {
	r.folder.Helper()
	re := regexp.MustCompile(match)
	testcheck.Until(r.folder, func() string {
		log := r.Log()
		m := re.FindStringSubmatch(log)
		if m == nil {
			return fmt.Sprintf("%v does not say %s:\n%s", r.Args, match, log)
		}
		group = m[min(1, len(m)-1)]
		return ""
	})
	return group
}

// Serves waits until the run listens for a feed or replays one, and returns its address.
func (r *Run) Serves() (addr string) {
	r.folder.Helper()
	return r.Says(`(?:serving at|senders connect to) (\S+)`)
}

// Signal sends the run a signal, if it has not ended.
func (r *Run) Signal(sig os.Signal) {
	r.folder.Helper()
	if err := r.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		r.folder.Check(err)
	}
}

// Pause suspends the run with SIGSTOP until Continue; Interrupt and Kill end it.
func (r *Run) Pause() { r.folder.Helper(); r.Signal(syscall.SIGSTOP) }

// Continue resumes a paused run.
func (r *Run) Continue() { r.folder.Helper(); r.Signal(syscall.SIGCONT) }

// Interrupt interrupts the run, and expects the exit code of an interrupted run.
func (r *Run) Interrupt() { r.folder.Helper(); r.Signal(os.Interrupt); r.Exit(130) }

// Kill ends the run at once, if it has not ended.
func (r *Run) Kill() {
	_ = r.Process.Kill()
	<-r.ended
}

// Site waits until the run serves metrics, and returns the URL of its status page.
func (r *Run) Site() string {
	r.folder.Helper()
	return r.Says(`metrics at (http://\S+)/metrics\n`)
}

// Get returns what the run serves at a path.
func (r *Run) Get(path string) string { r.folder.Helper(); _, text := r.Fetch(path); return text }

// Fetch also returns the status.
func (r *Run) Fetch(path string) (status int, body string) {
	r.folder.Helper()
	answer, err := http.Get(r.Site() + path)
	r.folder.Check(err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	r.folder.Check(err)
	return answer.StatusCode, string(text)
}

// Peak waits until the run has ended, and returns its maximum memory in bytes; 0 if Linux does not report it. The
// system's figure for a child that has ended includes its parent's memory at the fork.
func (r *Run) Peak() (bytes int64) {
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Process.Pid))
		if _, text, ok := strings.Cut(string(status), "VmHWM:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			bytes = max(bytes, kilobytes<<10)
		}
		select {
		case <-r.ended:
			return bytes
		case <-time.After(5 * time.Millisecond):
		}
	}
}
