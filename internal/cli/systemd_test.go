package cli_test

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// manager is a service manager that weir is started by.
type manager struct {
	*testweir.Folder
	socket *net.UnixConn
	said   []string
}

// newManager returns one whose watchdog waits for as long as it says.
func newManager(t *testing.T, to, microseconds string) *manager {
	t.Helper()
	m := &manager{Folder: testweir.New(t, to)}
	path := m.Path("n")
	var err error
	m.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	m.Check(err)
	t.Cleanup(func() { m.socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", microseconds)
	return m
}

// hears waits for a state that matches.
func (m *manager) hears(what string) {
	m.Helper()
	m.Check(m.socket.SetReadDeadline(time.Now().Add(testweir.Patience)))
	for re, buf := regexp.MustCompile(what), make([]byte, 1<<12); ; {
		n, err := m.socket.Read(buf)
		if err != nil {
			m.Fatalf("no state is %s: %v\n%s", what, err, strings.Join(m.said, "\n"))
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
	c := m.Start("sync", "tcp://127.0.0.1:1", "--table", "t", "--to", m.To)
	m.hears("^READY=1$")
	m.hears("^STATUS=not connected to tcp://127.0.0.1:1\nWATCHDOG=1$")
	c.Signal(os.Interrupt)
	m.hears("^STOPPING=1$")
	c.Exit(130)
}

// Wrong settings end a service before it has started.
func TestService_WrongSettings(t *testing.T) {
	m := newManager(t, testpg.New(t)+"&dbname=missing", "200000")
	c := m.Start("sync", "tcp://127.0.0.1:1", "--table", "t", "--to", m.To)
	c.Exit(1)
	m.Check(m.socket.SetReadDeadline(time.Now().Add(time.Millisecond)))
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
	m.Start("sync", "tcp-listen://127.0.0.1:0", "--table", "t", "--to", m.To)
	m.hears("^READY=1$")
	for range 5 {
		m.hears("^STATUS=waiting for the database \\(connection\\), for \\d+s\nWATCHDOG=1$")
	}

	url := testpg.New(t)
	m = newManager(t, url, "500000")
	m.Exec("CREATE TABLE t(id bigint PRIMARY KEY)")
	db := m.Open(url, "")
	defer db.Close()
	lock, err := db.Begin()
	m.Check(err)
	defer lock.Rollback()
	_, err = lock.Exec("LOCK TABLE t IN SHARE MODE") // as CREATE INDEX takes
	m.Check(err)
	m.Write("feed.jsonl", `{"id":1}`+"\n")
	m.Start("sync", "feed.jsonl", "--follow", "--table", "t", "--to", m.To)
	m.hears("^STATUS=a flush has not moved for \\d+s$")
	m.Check(lock.Rollback())
	m.hears("^STATUS=1 line, last commit [0-9:]+\nWATCHDOG=1$")
}

// The unit is one that systemd takes, and has no more rights than it needs.
func TestContrib_Unit(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	l := testweir.New(t, "")
	for _, name := range []string{"weir@.service", "weir-failed@.service"} {
		unit := strings.ReplaceAll(read(t, "../../contrib/"+name), "/usr/bin/weir", l.Path("weir"))
		l.Write(name, unit)
	}
	c := exec.Command(analyze, "verify", "--man=no", l.Path("weir@air.service"), l.Path("weir-failed@air.service"))
	out, err := c.CombinedOutput()
	lines := strings.SplitAfter(string(out), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "'RestartMode'") }) // before 254
	if out := strings.Join(lines, ""); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
	c = exec.Command(analyze, "security", "--offline=true", "--threshold=20", l.Path("weir@.service")) // of 100
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
