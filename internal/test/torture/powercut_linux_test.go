package torture

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// A disk is an ext4 file system in a file whose power can be cut: data that was not synced, and the journal in
// memory, is lost.
type disk struct {
	*testing.T
	image   string
	path    string // mount point
	mounted bool
}

func newDisk(t *testing.T, megabytes int) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a power cut takes root, who mounts a file system of its own")
	}
	dir, err := os.MkdirTemp("", "weir-disk-") // others may enter it: Postgres does not run as root
	testcheck.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &disk{T: t, image: filepath.Join(dir, "image"), path: filepath.Join(dir, "disk")}
	d.Check(os.Chmod(dir, 0o755))
	d.Check(os.WriteFile(d.image, nil, 0o600))
	d.Check(os.Truncate(d.image, int64(megabytes)<<20))
	d.Check(os.Mkdir(d.path, 0o755))
	d.command("mkfs.ext4", "-q", d.image)
	d.mount()
	t.Cleanup(d.unmount)
	return d
}

func (d *disk) Check(err error) { d.Helper(); testcheck.NoError(d, err) }

func (d *disk) command(name string, args ...string) {
	d.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func (d *disk) mount() {
	d.Helper()
	d.command("mount", "-o", "loop", d.image, d.path)
	d.mounted = true
}

func (d *disk) unmount() {
	d.Helper()
	if !d.mounted {
		return
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Unmount(d.path, 0)
		if err == nil {
			d.mounted = false
			return
		}
		if time.Now().After(end) {
			d.Fatalf("unmounting: %v", err)
		}
	}
}

// cut cuts the power. Afterwards every call of the file system fails until it is mounted again.
func (d *disk) cut() {
	d.Helper()
	const shutdown, noFlush = 0x8004587d, 2 // FS_IOC_SHUTDOWN, with neither data nor journal
	f, err := os.Open(d.path)
	d.Check(err)
	defer f.Close()
	how := uint32(noFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		d.Fatalf("FS_IOC_SHUTDOWN: %v", errno)
	}
	runtime.KeepAlive(&how)
}

// again mounts what is left after the power cut.
func (d *disk) again() {
	d.Helper()
	d.unmount()
	d.mount()
}

// writeback writes everything to the disk, like a system does from time to time.
func (d *disk) writeback() {
	if f, err := os.Open(d.path); err == nil {
		_ = unix.Syncfs(int(f.Fd()))
		f.Close()
	}
}

// acknowledge polls the database for its progress until stop is closed, and keeps the last answer: what another
// program saw committed.
func (tr *trial) acknowledge(stop <-chan struct{}, line *atomic.Int64) {
	db := tr.Open(tr.To, "rwc")
	defer db.Close()
	db.SetMaxOpenConns(1)
	for {
		select {
		case <-stop:
			return
		case <-time.After(2 * time.Millisecond):
		}
		if _, err := os.Stat(tr.To); err != nil && !tr.isPostgres() {
			continue
		}
		var now int64
		if err := db.QueryRow("SELECT line FROM weir_checkpoints").Scan(&now); err == nil {
			line.Store(max(line.Load(), now))
		}
	}
}

// outcome is the result of a power cut.
type outcome struct {
	acked, found int
	err          error // why the database is broken
}

// powerCut runs weir until the power is cut, usually after it has passed a line, and checks what is left.
func (tr *trial) powerCut(d *disk, at int, life time.Duration, restart func()) outcome {
	tr.Helper()
	c := tr.start()
	stop := make(chan struct{})
	var seen atomic.Int64
	var watching sync.WaitGroup
	watching.Go(func() { tr.acknowledge(stop, &seen) })
	if tr.rnd.IntN(4) > 0 {
		for patience := time.Now().Add(5 * time.Second); int(seen.Load()) <= at && time.Now().Before(patience); {
			time.Sleep(time.Millisecond)
		}
	}
	// Not for long: data that the system has written back cannot be lost.
	end := time.Now().Add(time.Duration(tr.rnd.Int64N(int64(life))))
	for time.Now().Before(end) {
		time.Sleep(min(time.Until(end), time.Duration(tr.rnd.IntN(40))*time.Millisecond))
		if tr.rnd.IntN(8) == 0 {
			d.writeback()
		}
	}
	d.cut()
	close(stop)
	watching.Wait()
	c.Kill()
	acked := int(seen.Load())
	restart()
	s, err := tr.look()
	switch {
	case errors.Is(err, errNone):
		return outcome{acked: acked}
	case err != nil:
		return outcome{acked: acked, err: err}
	}
	return outcome{acked: acked, found: s.line}
}

// cuts counts the power cuts of a test and their results.
type cuts struct{ n, halfway, lost, broken int }

// cut cuts the power under runs of a trial until its feed is done, or until there were enough cuts. kept: nothing may
// be lost that another program saw committed. fragile: the database may be broken.
func (c *cuts) cut(tr *trial, d *disk, wanted int, life time.Duration, kept, fragile bool, restart func()) {
	tr.Helper()
	for at := 0; c.n < wanted && at < len(tr.feed); {
		o := tr.powerCut(d, at, life, restart)
		c.n++
		if o.acked > at {
			c.halfway++
		}
		if o.err != nil && fragile {
			c.broken++
			return
		}
		if o.err != nil {
			tr.Fatalf("after a power cut at line %d: %v", o.acked, o.err)
		}
		if now := tr.verify(); now < o.acked && kept {
			tr.Fatalf("line %d was committed; after a power cut the table stands at %d", o.acked, now)
		}
		if tr.source != "tcp" { // its checkpoints count the lines of a connection
			c.lost += max(0, min(1, o.acked-o.found))
			at = o.found
		}
	}
}

// end fails the test unless enough cuts came after commits.
func (c *cuts) end(t *testing.T, halfway int) {
	t.Helper()
	t.Logf("%d power cuts, %d of them after commits; %d took some commits back, %d left the database broken", c.n, c.halfway, c.lost, c.broken)
	if c.halfway < halfway {
		t.Error("did not exercise")
	}
}

// TestPowerCut cuts the power of the database's disk. At full and extra nothing is lost that another program saw
// committed; at normal the last commits may be lost, and the next run reads them again. At off SQLite may be broken.
func TestPowerCut(t *testing.T) {
	n := times(t)
	for _, to := range []string{"off WAL", "normal WAL", "full WAL", "extra WAL", "full DELETE", "extra DELETE", "normal DELETE"} {
		t.Run("sqlite "+to, func(t *testing.T) {
			level, journal, _ := strings.Cut(to, " ")
			sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
				var c cuts
				for c.n < 8*n {
					d := newDisk(t, 32)
					tr := newTrial(t, rnd, "file", filepath.Join(d.path, "t.db"), level, 6000)
					if journal != "WAL" {
						tr.make(journal)
					}
					c.cut(tr, d, 8*n, 150*time.Millisecond, level == "full" || level == "extra", level == "off", d.again)
					d.unmount()
				}
				c.end(t, c.n/4)
			})
		})
	}
}

// TestPowerCut_Postgres does the same with a server's data on the disk.
func TestPowerCut_Postgres(t *testing.T) {
	n := times(t)
	for _, level := range []string{"normal", "full"} {
		t.Run(level, func(t *testing.T) {
			sinktest.Seeds(t, n, func(t *testing.T, rnd *rand.Rand) {
				d := newDisk(t, 256)
				d.Check(os.Chmod(d.path, 0o777))
				server := testpg.StartIn(t, d.path, "fsync=on", "full_page_writes=on", "max_wal_size=64MB", "min_wal_size=32MB")
				t.Cleanup(server.Kill)
				var c cuts
				for c.n < 4 {
					tr := newTrial(t, rnd, "file", server.Database(t), level, 6000)
					d.writeback()
					c.cut(tr, d, 4, 300*time.Millisecond, level == "full", false, func() {
						server.Kill()
						d.again()
						server.Restart(t)
					})
				}
				c.end(t, 1)
			})
		})
	}
}

// TestPowerCut_Spool has the spool and the database on the disk: whatever either loses, the next runs produce the
// correct table.
func TestPowerCut_Spool(t *testing.T) {
	n := times(t)
	sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
		var c cuts
		for rounds := 1; c.n < 8*n; rounds++ {
			d := newDisk(t, 32)
			level := []string{"normal", "full"}[rnd.IntN(2)]
			tr := newTrial(t, rnd, "tcp", filepath.Join(d.path, "t.db"), level, 6000)
			tr.args = append(tr.args, "--spool", filepath.Join(d.path, "spool"), "--spool-max", "1MiB")
			c.cut(tr, d, 4*rounds, 400*time.Millisecond, false, false, d.again)
			tr.completes(tr.start())
			d.unmount()
		}
		c.end(t, c.n/4)
	})
}
