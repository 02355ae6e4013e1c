//go:build linux

package cli_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testweir"
	"golang.org/x/sys/unix"
)

// A terminal is one that a program runs in. It keeps what the program writes.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File

	mu      sync.Mutex
	written strings.Builder
}

func newTerminal(t *testing.T, columns int) *terminal {
	t.Helper()
	check := func(err error) {
		t.Helper()
		testcheck.NoError(t, err)
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	check(err)
	fd := int(master.Fd())
	check(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	check(err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	check(err)
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
			if err != nil { // nobody has the other end
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
	if err := unix.IoctlSetWinsize(int(term.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		term.t.Fatal(err)
	}
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.written.String()
}

// end is how many bytes were written.
func (term *terminal) end() int { return len(term.text()) }

// wait waits for a status line that matches and that begins behind a number of bytes. Until then, none has
// more columns than there are. It returns where the line ends.
func (term *terminal) wait(from, columns int, match string) int {
	term.t.Helper()
	re := regexp.MustCompile(match)
	const begin = "\r\x1b[K"
	for end := time.Now().Add(testweir.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		text := term.text()
		for at := from; ; {
			i := strings.Index(text[at:], begin)
			if i < 0 {
				break
			}
			at += i + len(begin)
			line, _, whole := strings.Cut(text[at:], begin)
			if !whole { // more of it may come
				break
			}
			if strings.Contains(line, "\n") { // a message
				continue
			}
			if len(line) >= columns {
				term.t.Fatalf("%q in %d columns", line, columns)
			}
			if re.MatchString(line) {
				return at + len(line)
			}
		}
	}
	term.t.Fatalf("no status matches %s:\n%q", match, term.text())
	return 0
}

// TestTerminal_StatusFits: the status has room in the terminal's line, whatever its width is now, and
// says what the run waits for.
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
	term.wait(0, 200, `lines  [\d,]+/s  [\d,]+ rows?  \d+ % folded  flush .*  \d+ %  ETA `)
	for _, columns := range []int{80, 40, 5} {
		term.resize(columns)
		at := term.wait(term.end(), 200, "...") // which may have been on its way
		term.wait(at, columns, "...")
	}
	sync.Kill()
	term.resize(40)
	at := term.end()
	run("sync", "tcp://127.0.0.1:1", "--to", "t.db", "--table", "live")
	term.wait(at, 40, "^0 lines  0/s  waiting for the feed$")
}

// TestTerminal_NoSource: a command without a source does not wait for what somebody types.
func TestTerminal_NoSource(t *testing.T) {
	t.Parallel()
	l := testweir.New(t, "t.db")
	term := newTerminal(t, 80)
	c := l.Command("sync", "--to", "t.db")
	c.Stdin, c.Stderr = term.slave, term.slave
	c.Start().Exit(2)
	const want = "weir: no source is named, and stdin is a terminal: weir sync feed.jsonl --to flights.db\r\nSee 'weir sync --help'.\r\n"
	l.Until("what it says", func() bool { return term.text() == want })
}
