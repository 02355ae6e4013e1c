package cli_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testpg"
)

// stalls waits until a run is stalled, and expects the same words of all that say so. In log, page, JSON and
// /readyz the time differs by what it took to ask.
func (l *live) stalls(name, cause, text string) {
	l.t.Helper()
	l.waitFor(name, "warning: "+text+", for ")
	if got := l.get(name, "/readyz"); !regexp.MustCompile("^" + regexp.QuoteMeta(text) + `, for \d+m?\d*s\n$`).MatchString(got) {
		l.t.Errorf("/readyz says %q", got)
	}
	if page := html.UnescapeString(l.get(name, "/")); !strings.Contains(page, `<p class="state waits">`+text+", for ") {
		l.t.Errorf("the page does not say %q", text)
	}
	var status struct {
		Stalled []struct {
			Reason, Text string
			Since        time.Time
		}
	}
	l.check(json.Unmarshal([]byte(l.get(name, "/api/status")), &status))
	if s := status.Stalled; len(s) != 1 || s[0].Reason != cause || s[0].Text != text || s[0].Since.IsZero() {
		l.t.Errorf("/api/status says %+v", s)
	}
	metrics := l.get(name, "/metrics")
	if n := len(regexp.MustCompile(`(?m)^weir_stalled_seconds\{.*\} .*[1-9]`).FindAllString(metrics, -1)); n != 1 || !regexp.MustCompile(`(?m)^weir_stalled_seconds\{reason="`+cause+`",weir_job="t"\} .*[1-9]`).MatchString(metrics) {
		l.t.Errorf("%d causes have a metric, want %s alone", n, cause)
	}
}

// continues waits until a run is no longer stalled.
func (l *live) continues(name, text string) {
	l.t.Helper()
	l.waitFor(name, "no longer: "+text)
	if got := l.get(name, "/readyz"); got != "ok\n" {
		l.t.Errorf("/readyz says %q", got)
	}
}

// waitFor waits until the log of a program has a text.
func (l *live) waitFor(name, text string) {
	l.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(l.log(name), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("the log does not say %q:\n%s", text, l.log(name))
		}
	}
}

// A lock of another session holds a flush: all that can be looked at says so.
func TestStalled_FlushWaitsForALock(t *testing.T) {
	l := newLive(t, testpg.New(t))
	db, err := sql.Open("pgx", l.to)
	l.check(err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE t(id bigint PRIMARY KEY)")
	l.check(err)
	lock, err := db.Begin()
	l.check(err)
	defer lock.Rollback()
	_, err = lock.Exec("LOCK TABLE t IN SHARE MODE")
	l.check(err)
	l.check(os.WriteFile(filepath.Join(l.dir, "feed.jsonl"), []byte(`{"id":1}`+"\n"), 0o600))
	l.start("sync", "sync", "feed.jsonl", "--follow", "--table", "t", "--to", l.to, "--metrics-addr", "127.0.0.1:0")
	const text = "waiting for a flush to end (another session's lock, or a slow database)"
	l.stalls("sync", "flush", text)
	if m := l.get("sync", "/metrics"); !regexp.MustCompile(`(?m)^weir_flush_running_seconds\{weir_job="t"\} [1-9]`).MatchString(m) {
		t.Error("the age of the flush is no metric")
	}
	l.check(lock.Rollback())
	l.continues("sync", text)
}

// The disk of a capture is full, without a spool: reading pauses, and the capture's disk is named.
func TestStalled_CaptureDiskIsFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a small file system takes root to mount")
	}
	l := newLive(t, "t.db")
	disk := filepath.Join(l.dir, "captures")
	l.check(os.Mkdir(disk, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: no tmpfs can be mounted here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	l.start("sync", "sync", "tcp-listen://127.0.0.1:0", "--table", "t", "--to", l.to, "--capture", disk, "--metrics-addr", "127.0.0.1:0")
	l.waitFor("sync", "senders connect to ")
	other := filepath.Join(disk, "other")
	if err := os.WriteFile(other, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("did not exercise: the disk is not full")
	}
	conn, err := net.Dial("tcp", regexp.MustCompile(`senders connect to (\S+)`).FindStringSubmatch(l.log("sync"))[1])
	l.check(err)
	defer conn.Close()
	const lines = 1000
	for n := range lines {
		_, err := fmt.Fprintf(conn, `{"id":%d,"text":%q}`+"\n", n, strings.Repeat("x", 100))
		l.check(err)
	}
	const text = "the capture's disk is full: reading pauses until it has room"
	l.stalls("sync", "capture_disk_full", text)
	l.check(os.Remove(other))
	l.continues("sync", text)
	for end := time.Now().Add(patience); l.ask("SELECT count(*) FROM t") != fmt.Sprint(lines); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the table has %s rows", l.ask("SELECT count(*) FROM t"))
		}
	}
}
