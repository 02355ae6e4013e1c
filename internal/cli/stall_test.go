package cli_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// stalls waits until a run is stalled, and expects the same words of all that say so. In log, page, JSON and
// /readyz the time differs by what it took to ask.
func stalls(l *testweir.Folder, run *testweir.Run, cause, text string) {
	l.Helper()
	run.Says("warning: " + regexp.QuoteMeta(text) + ", for ")
	if got := run.Get("/readyz"); !regexp.MustCompile("^" + regexp.QuoteMeta(text) + `, for \d+m?\d*s\n$`).MatchString(got) {
		l.Errorf("/readyz says %q", got)
	}
	if page := html.UnescapeString(run.Get("/")); !strings.Contains(page, `<p class="state waits">`+text+", for ") {
		l.Errorf("the page does not say %q", text)
	}
	var status struct {
		Stalled []struct {
			Reason, Text string
			Since        time.Time
		}
	}
	l.Check(json.Unmarshal([]byte(run.Get("/api/status")), &status))
	if s := status.Stalled; len(s) != 1 || s[0].Reason != cause || s[0].Text != text || s[0].Since.IsZero() {
		l.Errorf("/api/status says %+v", s)
	}
	metrics := run.Get("/metrics")
	if n := len(regexp.MustCompile(`(?m)^weir_stalled_seconds\{.*\} .*[1-9]`).FindAllString(metrics, -1)); n != 1 || !regexp.MustCompile(`(?m)^weir_stalled_seconds\{reason="`+cause+`",weir_job="t"\} .*[1-9]`).MatchString(metrics) {
		l.Errorf("%d causes have a metric, want %s alone", n, cause)
	}
}

// continues waits until a run is no longer stalled.
func continues(l *testweir.Folder, run *testweir.Run, text string) {
	l.Helper()
	run.Says("no longer: " + regexp.QuoteMeta(text))
	if got := run.Get("/readyz"); got != "ok\n" {
		l.Errorf("/readyz says %q", got)
	}
}

// A lock of another session holds a flush: all that can be looked at says so.
func TestStalled_FlushWaitsForALock(t *testing.T) {
	l := testweir.New(t, testpg.New(t))
	l.Exec("CREATE TABLE t(id bigint PRIMARY KEY)")
	db := l.Open(l.To, "")
	defer db.Close()
	lock, err := db.Begin()
	l.Check(err)
	defer lock.Rollback()
	_, err = lock.Exec("LOCK TABLE t IN SHARE MODE")
	l.Check(err)
	l.Write("feed.jsonl", `{"id":1}`+"\n")
	run := l.Start("sync", "feed.jsonl", "--follow", "--table", "t", "--to", l.To, "--metrics-addr", "127.0.0.1:0")
	const text = "waiting for a flush to end (another session's lock, or a slow database)"
	stalls(l, run, "flush", text)
	if m := run.Get("/metrics"); !regexp.MustCompile(`(?m)^weir_flush_running_seconds\{weir_job="t"\} [1-9]`).MatchString(m) {
		t.Error("the age of the flush is no metric")
	}
	l.Check(lock.Rollback())
	continues(l, run, text)
}

// The disk of a spool, or of a capture without a spool, is full: reading pauses, and that disk is named.
func TestStalled_DiskIsFull(t *testing.T) {
	for flag, is := range map[string]struct{ cause, text string }{
		"--spool":   {"spool_disk_full", "the spool's disk is full: reading pauses until it has room"},
		"--capture": {"capture_disk_full", "the capture's disk is full: reading pauses until it has room"},
	} {
		t.Run(flag, func(t *testing.T) { diskIsFull(t, flag, is.cause, is.text) })
	}
}

// diskIsFull fills the disk of the folder that a flag names while a sender sends lines, and has room again later.
func diskIsFull(t *testing.T, flag, cause, text string) {
	t.Helper()
	l := testweir.New(t, "t.db")
	disk := l.Path("disk")
	l.Check(os.Mkdir(disk, 0o700))
	smallDisk(t, disk, 4)
	run := l.Start("sync", "tcp-listen://127.0.0.1:0", "--table", "t", "--to", l.To, flag, disk, "--metrics-addr", "127.0.0.1:0")
	addr := run.Serves()
	other := filepath.Join(disk, "other")
	if err := os.WriteFile(other, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("did not exercise: the disk is not full")
	}
	conn, err := net.Dial("tcp", addr)
	l.Check(err)
	defer conn.Close()
	const lines = 1000
	for n := range lines {
		_, err := fmt.Fprintf(conn, `{"id":%d,"text":%q}`+"\n", n, strings.Repeat("x", 100))
		l.Check(err)
	}
	stalls(l, run, cause, text)
	l.Check(os.Remove(other))
	continues(l, run, text)
	l.Becomes(fmt.Sprint(lines), "SELECT count(*) FROM t")
}
