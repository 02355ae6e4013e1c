package torture

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

const (
	inNetwork = "TEST_IN_A_NETWORK_OF_ITS_OWN"
	notTested = "NOT TESTED"
)

// TestHalfOpen takes the network away from two runs, one that reads from a connection and one that writes to
// Postgres: all packets are dropped silently. Both notice it in about half a minute, and resume when the network is
// back.
func TestHalfOpen(t *testing.T) {
	if !inOwnNetwork(t, "noticed") {
		return
	}
	rnd := rand.New(rand.NewPCG(1, 0))
	start := func(tr *trial) (run *testweir.Run, stdin io.Writer) {
		run = tr.Command(tr.args...)
		stdin, err := run.StdinPipe()
		tr.Check(err)
		return run.Start(), stdin
	}
	end := func(tr *trial, run *testweir.Run) {
		run.Signal(os.Interrupt)
		run.Exit(130)
		tr.verify()
	}
	// One only waits for data, the other has data to send.
	reads := newTrial(t, rnd, "", "", "normal", 60_000)
	reads.dial("1000/s")
	writes := newTrial(t, rnd, "stdin", testpg.Start(t).Database(t), "normal", 3000)
	reader, _ := start(reads)
	writer, feed := start(writes)
	send := func(lines []string) {
		for _, line := range lines {
			fmt.Fprintln(feed, line)
		}
	}
	send(writes.feed[:1000])
	writes.past(999)
	begun := reads.past(1)
	writes.Check(network(false))
	send(writes.feed[1000:2000])
	// Keepalives or the guard may notice it. Or a flush was just committed and fails silently when it cleans up, and
	// the next one cannot connect.
	const noticed = "connection timed out|the other end does not answer|failed to connect"
	reader.Says(noticed)
	writer.Says(noticed)
	writes.Check(network(true))
	reads.past(begun + 2000)
	writes.past(1999)
	end(reads, reader)
	end(writes, writer)
	t.Logf("noticed\n%s%s", reader.Log(), writer.Log())
}

// inOwnNetwork reports whether this process has a network of its own. If not, it runs the test in one that has, whose
// output must contain said.
func inOwnNetwork(t *testing.T, said string) bool {
	times(t)
	if os.Getenv(inNetwork) == "" {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("a network that can be taken away takes root")
		}
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), inNetwork+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		out, err := c.CombinedOutput()
		switch exit := (*exec.ExitError)(nil); {
		case err != nil && !errors.As(err, &exit), strings.Contains(string(out), notTested):
			t.Skipf("%s: root may have no network of its own here: %v\n%s", notTested, err, out)
		case err != nil || !strings.Contains(string(out), said):
			t.Errorf("%v\n%s", err, out)
		default:
			t.Logf("%s", out)
		}
		return false
	}
	if err := network(true); err != nil {
		t.Skip(notTested, err)
	}
	return true
}

// TestHalfOpen_Stopped stops two runs shortly after the network fails silently during a flush: one has sent rows that
// are not acknowledged, the other waits for the server's answer. Both end in seconds, and say what is not committed.
func TestHalfOpen_Stopped(t *testing.T) {
	if !inOwnNetwork(t, "lacks 1 line") {
		return
	}
	to := testpg.Start(t).Database(t)
	start := func(table string) (run *testweir.Run, send func(line string)) {
		l := testweir.New(t, to)
		l.Write("feed.jsonl", `{"id":1}`+"\n")
		run = l.Start("sync", "feed.jsonl", "--follow", "--table", table, "--to", to, "--batch-period", "10ms")
		l.Becomes("1", "SELECT count(*) FROM "+table)
		return run, func(line string) {
			feed, err := os.OpenFile(l.Path("feed.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
			l.Check(err)
			_, err = feed.WriteString(line + "\n")
			l.Check(errors.Join(err, feed.Close()))
		}
	}
	sends, send := start("sends")
	waits, sendBehindLock := start("waits")
	l := testweir.New(t, to)
	lock, err := l.Open(to, "").Begin()
	l.Check(err)
	_, err = lock.Exec("LOCK TABLE waits")
	l.Check(err)
	sendBehindLock(`{"id":2}`)
	l.Becomes("1", "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
	l.Check(network(false))
	send(`{"id":2}`)
	time.Sleep(time.Second) // it is being sent
	began := time.Now()
	for _, run := range []*testweir.Run{sends, waits} {
		run.Signal(syscall.SIGTERM)
	}
	for _, run := range []*testweir.Run{sends, waits} {
		t.Log(run.Exit(143, "the database is unavailable and lacks 1 line that this run has read", "run the same command to resume"))
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("they took %v", took)
	}
	l.Check(network(true))
	l.Check(lock.Rollback())
}

// past waits until more lines are committed, and returns their number.
func (tr *trial) past(line int) (now int) {
	tr.Helper()
	tr.Until(fmt.Sprint(line, " lines"), func() bool {
		s, err := tr.look()
		if err == nil {
			now = s.line
		}
		return now > line
	})
	return now
}

// network turns the only device of this network on or off.
func network(on bool) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err == nil {
		err = unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, lo)
	}
	if err != nil {
		return err
	}
	flags := lo.Uint16() &^ unix.IFF_UP
	if on {
		flags |= unix.IFF_UP
	}
	lo.SetUint16(flags)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}
