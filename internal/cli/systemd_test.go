package cli_test

import (
	"database/sql"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testpg"
)

// manager is a service manager that weir is started by.
type manager struct {
	*live
	socket *net.UnixConn
	said   []string
}

// newManager returns one whose watchdog waits for as long as it says.
func newManager(t *testing.T, to, microseconds string) *manager {
	t.Helper()
	m := &manager{live: newLive(t, to)}
	path := filepath.Join(m.dir, "n")
	var err error
	m.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	m.check(err)
	t.Cleanup(func() { m.socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", microseconds)
	return m
}

// hears waits for a state that matches.
func (m *manager) hears(what string) {
	m.t.Helper()
	m.check(m.socket.SetReadDeadline(time.Now().Add(patience)))
	for re, buf := regexp.MustCompile(what), make([]byte, 1<<12); ; {
		n, err := m.socket.Read(buf)
		if err != nil {
			m.t.Fatalf("no state is %s: %v\n%s\n%s", what, err, strings.Join(m.said, "\n"), m.log("sync"))
		}
		state := string(buf[:n])
		if m.said = append(m.said, state); re.MatchString(state) {
			return
		}
	}
}

// A service starts when its settings are good, is alive while it waits for a feed, says what it waits
// for, and that it stops.
func TestService_Notifies(t *testing.T) {
	m := newManager(t, "t.db", "200000")
	c := m.start("sync", "sync", "tcp://127.0.0.1:1", "--table", "t", "--to", m.to)
	m.hears("^READY=1$")
	m.hears("^STATUS=not connected to tcp://127.0.0.1:1\nWATCHDOG=1$")
	m.check(c.Process.Signal(os.Interrupt))
	m.hears("^STOPPING=1$")
	if _ = c.Wait(); c.ProcessState.ExitCode() != 130 {
		t.Errorf("exit %d\n%s", c.ProcessState.ExitCode(), m.log("sync"))
	}
}

// Wrong settings end a service before it has started.
func TestService_WrongSettings(t *testing.T) {
	m := newManager(t, testpg.New(t)+"&dbname=missing", "200000")
	c := m.start("sync", "sync", "tcp://127.0.0.1:1", "--table", "t", "--to", m.to)
	if _ = c.Wait(); c.ProcessState.ExitCode() != 1 {
		t.Errorf("exit %d\n%s", c.ProcessState.ExitCode(), m.log("sync"))
	}
	m.check(m.socket.SetReadDeadline(time.Now().Add(time.Millisecond)))
	for buf := make([]byte, 1<<12); ; {
		n, err := m.socket.Read(buf)
		if err != nil {
			break
		}
		if string(buf[:n]) == "READY=1" {
			t.Error("it said that it was ready")
		}
	}
}

// A database that is unavailable is waited for; a flush that hangs is not hidden.
func TestService_Watchdog(t *testing.T) {
	m := newManager(t, "postgres://weir@127.0.0.1:1/x?sslmode=disable", "500000")
	m.start("away", "sync", "tcp-listen://127.0.0.1:0", "--table", "t", "--to", m.to)
	m.hears("^READY=1$")
	for range 5 {
		m.hears("^STATUS=waiting for the database \\(connection\\), for \\d+s\nWATCHDOG=1$")
	}

	url := testpg.New(t)
	db, err := sql.Open("pgx", url)
	m.check(err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE t(id bigint PRIMARY KEY)")
	m.check(err)
	lock, err := db.Begin()
	m.check(err)
	defer lock.Rollback()
	_, err = lock.Exec("LOCK TABLE t IN SHARE MODE") // as CREATE INDEX takes
	m.check(err)
	m = newManager(t, url, "500000")
	m.write("feed.jsonl", `{"id":1}`+"\n")
	m.start("sync", "sync", "feed.jsonl", "--follow", "--table", "t", "--to", m.to)
	m.hears("^STATUS=a flush has not moved for \\d+s$")
	m.check(lock.Rollback())
	m.hears("^STATUS=1 line, last commit [0-9:]+\nWATCHDOG=1$")
}

// The unit is one that systemd takes, and has no more rights than it needs.
func TestContrib_Unit(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	l := newLive(t, "")
	for _, name := range []string{"weir@.service", "weir-failed@.service"} {
		unit := strings.ReplaceAll(read(t, "../../contrib/"+name), "/usr/bin/weir", filepath.Join(l.dir, "weir"))
		l.write(name, unit)
	}
	c := exec.Command(analyze, "verify", "--man=no", filepath.Join(l.dir, "weir@air.service"), filepath.Join(l.dir, "weir-failed@air.service"))
	out, err := c.CombinedOutput()
	lines := strings.SplitAfter(string(out), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "'RestartMode'") }) // before 254
	if out := strings.Join(lines, ""); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	c = exec.Command(analyze, "security", "--offline=true", "--threshold=20", filepath.Join(l.dir, "weir@.service")) // of 100
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
