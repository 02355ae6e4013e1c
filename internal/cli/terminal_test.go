//go:build linux

package cli_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
	"golang.org/x/sys/unix"
)

// A terminal runs a program and records its output.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File

	mu      sync.Mutex
	written strings.Builder
}

func newTerminal(t *testing.T, columns int) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	testcheck.NoError(t, err)
	fd := int(master.Fd())
	testcheck.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	testcheck.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	testcheck.NoError(t, err)
	term := &terminal{t: t, master: master, slave: slave}
	term.resize(columns)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			term.mu.Lock()
			term.written.Write(buf[:n])
			term.mu.Unlock()
			if err != nil { // the program has closed its end
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = slave.Close()
		<-read
		_ = master.Close()
	})
	return term
}

func (term *terminal) resize(columns int) {
	term.t.Helper()
	testcheck.NoError(term.t, unix.IoctlSetWinsize(int(term.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}))
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.written.String()
}

// wait waits for a status line that matches, in the output after from bytes, and returns its end. It fails if any line
// exceeds the number of columns.
func (term *terminal) wait(from, columns int, match string) (at int) {
	term.t.Helper()
	re := regexp.MustCompile(match)
	const begin = "\r\x1b[K"
	testcheck.Until(term.t, func() string {
		text := term.text()
		lines := strings.Split(text[from:], begin)
		at = from + len(lines[0])
		for _, line := range lines[1:max(1, len(lines)-1)] { // the last one may be incomplete
			if at += len(begin) + len(line); strings.Contains(line, "\n") { // a message
				continue
			}
			if len(line) >= columns {
				term.t.Fatalf("%q in %d columns", line, columns)
			}
			if re.MatchString(line) {
				return ""
			}
		}
		return fmt.Sprintf("no status matches %s:\n%q", match, text)
	})
	return at
}

// TestTerminal_StatusFits: the status fits into the line, even if the terminal is resized, and says what the run waits
// for.
func TestTerminal_StatusFits(t *testing.T) {
	t.Parallel()
	l := testweir.New(t, "t.db")
	feed := strings.Repeat(`{"id":1,"a":2}`+"\n", 200_000)
	l.Write("feed.jsonl", feed)
	term := newTerminal(t, 200)
	run := func(args ...string) *testweir.Run {
		c := l.Command(args...)
		c.Stderr, c.Env = term.slave, append(c.Env, "TERM=xterm", "NO_COLOR=")
		return c.Start()
	}
	sync := run("sync", "feed.jsonl", "--to", "t.db", "--max-rate", "1000/s", "--batch-period", "300ms")
	term.wait(0, 200, `lines  [\d,]+/s  \d+ %  ETA .*  [\d,]+ rows?  \d+ % folded  flush `)
	for _, columns := range []int{80, 40, 5} {
		term.resize(columns)
		at := term.wait(len(term.text()), 200, "...") // it may have been written before
		term.wait(at, columns, "...")
	}
	sync.Kill()
	term.resize(40)
	at := len(term.text())
	run("sync", "tcp://127.0.0.1:1", "--to", "t.db", "--table", "live")
	term.wait(at, 40, `^not connected to tcp://127\.0\.0\.1:1`)
}
