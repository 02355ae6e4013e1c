package cli_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests do to the real program what scripts cannot: kill it at random
// moments, make its system calls fail, and write beside it.

// program is a folder with the program in it, and a feed.
type program struct {
	t    *testing.T
	dir  string
	want map[string]int // last n of each id
	bad  int            // lines that are no message
}

// newProgram writes a feed of lines in which every line's n is its own number.
func newProgram(t *testing.T, lines, ids int) *program {
	if testing.Short() {
		t.Skip("the program is killed and broken without -short: under the race detector SQLite takes 20 times as long")
	}
	p := &program{t: t, dir: t.TempDir(), want: map[string]int{}}
	self, err := os.Executable()
	p.check(err)
	p.check(os.Symlink(self, p.path("weir"))) // testscript.Main goes by the name
	var b bytes.Buffer
	for n := 1; n <= lines; n++ {
		if n%100 == 50 {
			p.bad++
			fmt.Fprintf(&b, "bad %d\n", n)
			continue
		}
		id := fmt.Sprintf("k%d", rand.IntN(ids))
		if ids == lines {
			id = fmt.Sprintf("k%d", n)
		}
		p.want[id] = n
		fmt.Fprintf(&b, `{"id":%q,"n":%d,"text":"%080d"}`+"\n", id, n, n)
	}
	p.check(os.WriteFile(p.path("feed.jsonl"), b.Bytes(), 0o644))
	return p
}

func (p *program) path(name string) string { return filepath.Join(p.dir, name) }

func (p *program) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) command(before []string, args ...string) *exec.Cmd {
	args = append(append(before, p.path("weir"), "sync", "feed.jsonl", "--to", "t.db"), args...)
	c := exec.Command(args[0], args[1:]...)
	c.Dir = p.dir
	return c
}

// run runs the program to its end and returns its exit code and its stderr.
func (p *program) run(before []string, args ...string) (int, string) {
	p.t.Helper()
	c := p.command(before, args...)
	out, err := c.CombinedOutput()
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
		p.t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

func (p *program) open() *sql.DB {
	p.t.Helper()
	db, err := sql.Open("sqlite", "file:"+p.path("t.db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	p.check(err)
	p.t.Cleanup(func() { db.Close() })
	return db
}

func (p *program) ask(query string) string {
	p.t.Helper()
	db := p.open()
	defer db.Close()
	out, err := ask(db, query)
	p.check(err)
	return strings.TrimSpace(out)
}

// isFold checks the table and the rejects against the feed.
func (p *program) isFold() {
	p.t.Helper()
	rows, err := p.open().Query("SELECT id, n, text FROM feed")
	p.check(err)
	defer rows.Close()
	seen := 0
	for ; rows.Next(); seen++ {
		var id, text string
		var n int
		p.check(rows.Scan(&id, &n, &text))
		if p.want[id] != n || text != fmt.Sprintf("%080d", n) {
			p.t.Errorf("row %s has n %d and text %s, the fold %d", id, n, text, p.want[id])
		}
	}
	if seen != len(p.want) {
		p.t.Errorf("%d rows, want %d", seen, len(p.want))
	}
	if got, want := p.ask("SELECT count(*), count(DISTINCT line) FROM weir_rejects"), fmt.Sprintf("%d|%d", p.bad, p.bad); got != want {
		p.t.Errorf("%s lines were rejected (all, distinct), want %s", got, want)
	}
	if got := p.ask("PRAGMA integrity_check"); got != "ok" {
		p.t.Error(got)
	}
}

// consistent checks that the table is that of the checkpoint: no line above it
// was applied, and the last good one was.
func (p *program) consistent() {
	p.t.Helper()
	if p.ask("SELECT count(*) FROM sqlite_schema WHERE name IN ('feed', 'weir_checkpoints')") != "2" {
		return // nothing was committed
	}
	if got := p.ask("SELECT max(n) FROM feed"); got != p.ask("SELECT line - (line % 100 = 50) FROM weir_checkpoints") {
		p.t.Errorf("the table stands at line %s, the checkpoint at %s", got, p.ask("SELECT line FROM weir_checkpoints"))
	}
}

// strace returns the command that makes system calls fail.
func strace(t *testing.T, what ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is not installed, and CI may not do without")
		}
		t.Skip("strace is not installed: no system call can be made to fail")
	}
	return append([]string{"strace", "-f", "-qq", "-o", "/dev/null"}, what...)
}

// TestFault_CommitThatFailedMayHaveHappened makes each fsync of a run fail in
// turn. SQLite reports the COMMIT as failed although its frames may be in the
// log: weir reopens the file, asks, and continues.
func TestFault_CommitThatFailedMayHaveHappened(t *testing.T) {
	retried, survived := 0, 0
	for n := 1; n <= 8; n++ {
		p := newProgram(t, 600, 50)
		code, out := p.run(strace(t, "-e", "trace=fsync,fdatasync", "-e", fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d", n)),
			"--batch-rows", "40", "--metrics-file", "m.prom")
		if code != 3 && code != 1 {
			t.Fatalf("fsync %d failed: exit code %d\n%s", n, code, out)
		}
		m, _ := os.ReadFile(p.path("m.prom"))
		if !bytes.Contains(m, []byte(`weir_retries_total{reason="io",weir_job="feed"} 0`)) {
			retried++ // strace counts the calls of each thread
		}
		if code == 3 {
			survived++
		}
		p.consistent()
		if code, out := p.run(nil, "-q"); code != 0 && code != 3 {
			t.Fatalf("after fsync %d: exit code %d\n%s", n, code, out)
		}
		p.isFold()
	}
	t.Logf("in %d runs of 8 a flush met the fault; %d runs got to their end", retried, survived)
	if retried < 3 || survived < 3 {
		t.Errorf("a flush met the fault in %d runs, %d got to their end", retried, survived)
	}
}

// fifo makes the feed a pipe that stays open, and returns what writes to it.
func (p *program) fifo() *os.File {
	p.t.Helper()
	p.check(os.Remove(p.path("feed.jsonl")))
	p.check(syscall.Mkfifo(p.path("feed.jsonl"), 0o600))
	f, err := os.OpenFile(p.path("feed.jsonl"), os.O_RDWR, 0)
	p.check(err)
	p.t.Cleanup(func() { f.Close() })
	return f
}

func (p *program) until(query, want string) {
	p.t.Helper()
	got := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(p.path("t.db")); err != nil {
			continue
		}
		db := p.open()
		out, _ := ask(db, query)
		db.Close()
		if got = strings.TrimSpace(out); got == want {
			return
		}
	}
	p.t.Fatalf("%s is %q, not %q, after %v", query, got, want, patience)
}

// TestFault_FileReplacedUnderTheRun moves the database away while weir writes to
// it. SQLite would say that all is well, and write into the file that nobody sees.
func TestFault_FileReplacedUnderTheRun(t *testing.T) {
	for _, then := range []string{"removed", "replaced"} {
		p := newProgram(t, 0, 1)
		feed := p.fifo()
		var stderr bytes.Buffer
		c := p.command(nil, "--batch-period", "10ms")
		c.Stderr = &stderr
		p.check(c.Start())
		fmt.Fprintln(feed, `{"id":1}`)
		p.until("SELECT count(*) FROM feed", "1")
		p.check(os.Rename(p.path("t.db"), p.path("moved.db")))
		if then == "replaced" {
			p.check(os.WriteFile(p.path("t.db"), nil, 0o644))
		}
		fmt.Fprintln(feed, `{"id":2}`)
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != 1 || !strings.Contains(stderr.String(), "under the run") {
			t.Errorf("%s: exit code %d\n%s", then, code, stderr.String())
		}
	}
}

// TestFault_OtherWritersGetOn writes beside a backfill that never pauses by
// itself.
func TestFault_OtherWritersGetOn(t *testing.T) {
	p := newProgram(t, 200_000, 200_000)
	c := p.command(nil, "--batch-rows", "300", "-q", "--rejects", "discard")
	p.check(c.Start())
	p.until("SELECT count(*) > 0 FROM feed", "1")
	db := p.open()
	_, err := db.Exec("CREATE TABLE other (n INTEGER)")
	p.check(err)
	done := make(chan bool)
	go func() { _ = c.Wait(); close(done) }()
	others, slowest := 0, time.Duration(0)
	for running := true; running; others++ {
		select {
		case <-done:
			running = false
		default:
		}
		start := time.Now()
		if _, err := db.Exec("INSERT INTO other VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(start))
	}
	t.Logf("%d transactions beside the backfill, the slowest took %v", others, slowest)
	if others < 4 { // one that is starved gets one in, at the end
		t.Errorf("another writer got %d transactions in", others)
	}
	if code := c.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if got, want := p.ask("SELECT count(*), max(n) FROM feed"), fmt.Sprintf("%d|200000", len(p.want)); got != want {
		t.Errorf("the table has %s rows and last line, want %s", got, want)
	}
}

// TestFault_ReadersSeeWholeBatches reads while batches are written.
func TestFault_ReadersSeeWholeBatches(t *testing.T) {
	const batch = 300
	p := newProgram(t, 20_000, 20_000)
	c := p.command(nil, "--batch-rows", fmt.Sprint(batch), "-q")
	p.check(c.Start())
	p.until("SELECT count(*) > 0 FROM feed", "1")
	done := make(chan bool)
	go func() { _ = c.Wait(); close(done) }()
	for reads := 0; ; reads++ {
		select {
		case <-done:
			t.Logf("%d reads", reads)
			p.isFold()
			return
		default:
		}
		if got := p.ask("SELECT (SELECT count(*) FROM feed) % 300, (SELECT line FROM weir_checkpoints) = 20000"); got != "0|0" && !strings.HasSuffix(got, "|1") {
			t.Fatalf("a reader saw %s rows of a batch", got)
		}
	}
}

// TestFault_LockedDatabase waits for a lock that is short, and gives one up that
// is long.
func TestFault_LockedDatabase(t *testing.T) {
	p := newProgram(t, 100, 10)
	p.run(nil, "-q")
	lock, err := p.open().Begin()
	p.check(err)
	code, out := p.run(nil, "--from-start", "--retry-for", "1500ms")
	if code != 1 || !strings.Contains(out, "locked") || !strings.Contains(out, "--retry-for") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	c := p.command(nil, "--from-start", "--retry-for", "1m", "--metrics-file", "m.prom", "-v")
	stderr, err := c.StderrPipe()
	p.check(err)
	p.check(c.Start())
	for log := bufio.NewScanner(stderr); log.Scan(); {
		if strings.Contains(log.Text(), "retrying") {
			_ = lock.Rollback()
		}
	}
	_ = c.Wait()
	m, err := os.ReadFile(p.path("m.prom"))
	p.check(err)
	if code := c.ProcessState.ExitCode(); code != 3 || !bytes.Contains(m, []byte(`weir_retries_total{reason="locked",weir_job="feed"}`)) || bytes.Contains(m, []byte(`weir_retries_total{reason="locked",weir_job="feed"} 0`)) {
		t.Errorf("exit code %d\n%s", code, m)
	}
}

// TestFault_SameFeedAgainWritesNoRows holds the log open and looks at its size.
func TestFault_SameFeedAgainWritesNoRows(t *testing.T) {
	p := newProgram(t, 20_000, 5000)
	p.run(nil, "-q", "--rejects", "discard")
	rows, err := p.open().Query("SELECT n FROM feed") // keeps the log from being removed
	p.check(err)
	defer rows.Close()
	rows.Next()
	code, out := p.run(nil, "--from-start", "--rejects", "discard", "--summary", "json", "-q")
	if code != 3 || !strings.Contains(out, `"inserted":0,"updated":0,"unchanged":`) {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if fi, err := os.Stat(p.path("t.db-wal")); err != nil || fi.Size() > 64<<10 {
		t.Errorf("the log has %d bytes (%v): more than a checkpoint takes", fi.Size(), err)
	}
}

// TestFault_ValuesDoNotDependOnTheBatch syncs values that a column cannot take,
// good ones around them, with any size of batch.
func TestFault_ValuesDoNotDependOnTheBatch(t *testing.T) {
	want := ""
	for _, rows := range []string{"1", "2", "1000"} {
		p := newProgram(t, 0, 1)
		_, err := p.open().Exec("CREATE TABLE feed (id TEXT PRIMARY KEY, i INTEGER, r REAL, b BOOLEAN, d DATE, t TEXT, a)")
		p.check(err)
		var b strings.Builder
		n := 0
		for _, col := range []string{"i", "r", "b", "d", "t", "a"} {
			for _, v := range []string{`1`, `"1"`, `1.0`, `1.5`, `"1.50"`, `"007"`, `" 7"`, `true`, `null`, `9223372036854775807`, `9223372036854775808`, `1e400`, `1e-400`, `-0.0`, `0.1`,
				`0.1234567890123456789`, `"2024-01-01"`, `"abc"`, `{"a":1}`, `"9223372036854775808"`, `"1e5"`, `"0x10"`, `"inf"`} {
				n++
				fmt.Fprintf(&b, "{\"id\":\"row%d\",%q:%s}\n{\"id\":\"one\",%q:%s,\"t\":\"%d\"}\n", n, col, v, col, v, n)
			}
		}
		p.check(os.WriteFile(p.path("feed.jsonl"), []byte(b.String()), 0o644))
		if code, out := p.run(nil, "--batch-rows", rows, "-q"); code != 3 {
			t.Fatalf("exit code %d\n%s", code, out)
		}
		got := p.ask("SELECT * FROM feed ORDER BY id") + p.ask("SELECT line, reason FROM weir_rejects ORDER BY line")
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("--batch-rows %s:\n%s\nwant\n%s", rows, got, want)
		}
		// What was kept is what came.
		for _, bent := range []string{
			"typeof(i) = 'integer' OR i IS NULL", "typeof(r) = 'real' OR r IS NULL", "b IN (0, 1) OR b IS NULL", "typeof(t) = 'text' OR t IS NULL",
			"d IS NOT 7 AND d IS NOT 100000.0 AND typeof(d) <> 'real' OR d IN (1.5, 0.1, 1.0, 0.0)",
		} {
			if n := p.ask("SELECT count(*) FROM feed WHERE NOT (" + bent + ")"); n != "0" {
				t.Errorf("%s rows have another value than came: not %s: %s", n, bent, p.ask("SELECT id, i, r, b, d FROM feed WHERE NOT ("+bent+")"))
			}
		}
	}
}
