package job_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
	"github.com/weirsync/weir/internal/testcheck"
)

// outage is a time when a database does not answer.
type outage struct {
	back   chan struct{} // closed when it answers again
	broken chan struct{} // closed when it breaks
}

var errBroken = errors.New("the database broke")

func newOutage() *outage { return &outage{make(chan struct{}), make(chan struct{})} }

func (o *outage) faults() sinktest.Faults {
	return sinktest.Flushes(func(sinktest.Call) (f sinktest.Fault) {
		select {
		case <-o.back:
		case <-o.broken:
			f.Err = errBroken
		}
		return f
	})
}

// spooled is a run that takes senders, with a spool.
type spooled struct {
	t    *testing.T
	p    *progress.Progress
	db   *outage
	addr chan string
	said chan string
	stop context.CancelFunc
	end  chan error
}

// start starts a run, whose database is unavailable, in a folder.
func startSpooled(t *testing.T, dir string, max int64) *spooled {
	t.Helper()
	dest := filepath.Join(dir, "t.db")
	s := &spooled{t: t, p: progress.New("t"), db: newOutage(),
		addr: make(chan string, 1), said: make(chan string, 10000), end: make(chan error, 1)}
	say := func(text string) {
		t.Log(text)
		if _, addr, ok := strings.Cut(text, "senders connect to "); ok {
			s.addr <- addr
		}
		s.said <- text
	}
	c := configOf(t, "tcp-listen://127.0.0.1:0", "fail")
	c.Feed, c.Source.MaxLine, c.Log = job.Feed{}, 1<<20, logtest.To(say)
	c.Spool = spool.Folders{Dir: filepath.Join(dir, "spool"), Max: max, Capture: filepath.Join(dir, "captures")}
	db, claims := openSink(t, dest, sink.Off), openClaims(t, dest)
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	go func() {
		err := job.Run(ctx, c, sinktest.Faulty(db, s.db.faults()), claims, s.p)
		s.end <- errors.Join(err, claims.Close(), db.Close())
	}()
	return s
}

// finish stops the run, and returns how it ended.
func (s *spooled) finish() error {
	s.stop()
	return <-s.end
}

// waitFor waits until the run says something.
func (s *spooled) waitFor(what string) {
	s.t.Helper()
	for {
		select {
		case text := <-s.said:
			if strings.Contains(text, what) {
				return
			}
		case <-time.After(2 * time.Minute):
			s.t.Fatalf("the run never said %q", what)
		}
	}
}

func (s *spooled) until(what string, ready func() bool) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ready(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("never: %s", what)
		}
	}
}

// feedOf returns that many lines, two for each id.
func feedOf(lines int) []byte {
	var b []byte
	for n := range lines {
		b = fmt.Appendf(b, `{"id":%d,"n":%d,"text":"%0200d"}`+"\n", n%(lines/2), n, n)
	}
	return b
}

func send(addr string, feed []byte) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	_, err = conn.Write(feed)
	return errors.Join(err, conn.Close())
}

func sizeOf(t *testing.T, pattern string) (size int64) {
	t.Helper()
	files, _ := filepath.Glob(pattern)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			size += info.Size()
		}
	}
	return size
}

// captured returns the lines of the captures that a pattern names.
func captured(t *testing.T, pattern string) (all []byte) {
	t.Helper()
	specs, err := source.Expand([]string{pattern}, false)
	testcheck.NoError(t, err)
	for _, spec := range specs {
		f, err := os.Open(spec)
		testcheck.NoError(t, err)
		defer f.Close()
		z, err := zstd.NewReader(f)
		testcheck.NoError(t, err)
		defer z.Close()
		text, err := io.ReadAll(z)
		testcheck.NoError(t, err)
		all = append(all, text...)
	}
	return all
}

// complete waits until all of feedOf's lines are committed, ends the run and checks what
// is in its folder.
func (s *spooled) complete(dir string, lines int) {
	s.t.Helper()
	s.until("all is committed", func() bool { return s.p.Snapshot().Lines == int64(lines) && s.p.Snapshot().Spool == 0 })
	if err := s.finish(); err != nil {
		s.t.Fatal(err)
	}
	got := query(s.t, filepath.Join(dir, "t.db"), "SELECT count(*) || ' ' || min(n) || ' ' || sum(n - id) FROM t")
	if want := fmt.Sprintf("%d %d %d", lines/2, lines/2, lines/2*(lines/2)); got != want {
		s.t.Errorf("the table has %s, want %s", got, want)
	}
	if left := sizeOf(s.t, filepath.Join(dir, "spool", "*.jsonl")); left > 0 {
		s.t.Errorf("%d bytes are left in the spool", left)
	}
	if got := captured(s.t, filepath.Join(dir, "captures", "*")); !bytes.Equal(got, feedOf(lines)) {
		s.t.Errorf("the captures, in the order of their names, are %d bytes, and not the feed", len(got))
	}
}

func TestSpool_FullOneStopsReading(t *testing.T) {
	const lines, most = 100_000, 1 << 20
	dir := t.TempDir()
	s := startSpooled(t, dir, most)
	sent := make(chan error, 1)
	addr := <-s.addr
	go func() { sent <- send(addr, feedOf(lines)) }()
	stalled := func(why ...progress.Cause) func() bool {
		return func() bool {
			did := s.p.Snapshot()
			stalls := did.Stalls()
			return len(stalls) == len(why) && (len(why) == 0 || stalls[0].Cause == why[0])
		}
	}
	s.until("it says that the spool is full", stalled(progress.SpoolFull))
	time.Sleep(100 * time.Millisecond)
	select {
	case <-sent:
		t.Error("a full spool went on reading")
	default:
	}
	if size := sizeOf(t, filepath.Join(dir, "spool", "*.jsonl")); size > most || size < most/2 {
		t.Errorf("the full spool has %d bytes", size)
	}
	if s.p.Snapshot().Spool < most/2 {
		t.Errorf("the gauge says %d", s.p.Snapshot().Spool)
	}
	close(s.db.back)
	s.until("it says that there is room", stalled())
	testcheck.NoError(t, <-sent)
	s.complete(dir, lines)
}

func TestSpool_TheNextRunDrainsItFirst(t *testing.T) {
	const lines = 5000
	dir, feed := t.TempDir(), feedOf(lines)
	for range 2 { // the second run breaks too, before it has committed anything
		s := startSpooled(t, dir, 1<<30)
		if addr := <-s.addr; s.p.Snapshot().Lines == 0 && sizeOf(t, filepath.Join(dir, "spool", "*.jsonl")) == 0 {
			testcheck.NoError(t, send(addr, feed))
		}
		s.until("all is on disk", func() bool { return sizeOf(t, filepath.Join(dir, "spool", "*.jsonl")) == int64(len(feed)) })
		close(s.db.broken)
		if err := s.finish(); err != nil && !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	s := startSpooled(t, dir, 1<<30)
	close(s.db.back)
	s.complete(dir, lines)
}

// TestSpool_DatabaseRestored: what the spool had removed as committed is lost where the database
// forgets it, for senders do not send it again; and that is said.
func TestSpool_DatabaseRestored(t *testing.T) {
	const lines = 2000
	dir, feed := t.TempDir(), feedOf(lines)
	s := startSpooled(t, dir, 1<<30)
	close(s.db.back)
	testcheck.NoError(t, send(<-s.addr, feed))
	s.until("all is committed", func() bool { return s.p.Snapshot().Lines == lines && s.p.Snapshot().Spool == 0 })
	testcheck.NoError(t, s.finish())
	s = startSpooled(t, dir, 1<<30)
	testcheck.NoError(t, send(<-s.addr, feed))
	s.until("all is on disk", func() bool { return sizeOf(t, filepath.Join(dir, "spool", "*.jsonl")) == int64(len(feed)) })
	close(s.db.broken)
	if err := s.finish(); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	for _, f := range []string{"t.db", "t.db-wal", "t.db-shm"} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	s = startSpooled(t, dir, 1<<30)
	close(s.db.back)
	s.waitFor("the database was restored to before the first line in")
	s.until("all is committed", func() bool { return s.p.Snapshot().Lines == lines && s.p.Snapshot().Spool == 0 })
	testcheck.NoError(t, s.finish())
}

// TestCapture_FullDiskIsWaitedFor: the table is still written; what is to be captured stays in the
// spool until there is room.
func TestCapture_FullDiskIsWaitedFor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a small file system takes root to mount")
	}
	const lines = 20_000
	dir := t.TempDir()
	captures := filepath.Join(dir, "captures")
	testcheck.NoError(t, os.Mkdir(captures, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", captures).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: no tmpfs can be mounted here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", captures).Run() })
	other := filepath.Join(captures, "other")
	if err := os.WriteFile(other, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("did not exercise: %v", err)
	}
	s := startSpooled(t, dir, 1<<20)
	close(s.db.back)
	sent := make(chan error, 1)
	addr := <-s.addr
	go func() { sent <- send(addr, feedOf(lines)) }()
	s.waitFor("the capture's disk is full")
	testcheck.NoError(t, os.Remove(other))
	testcheck.NoError(t, <-sent)
	s.complete(dir, lines)
}
