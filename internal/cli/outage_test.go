package cli_test

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// An outage is a run that follows a file, with a database that the test makes unreachable. The connection string names
// two servers; the second is unreachable at first.
type outage struct {
	*testweir.Folder
	proxy, other *testpg.Proxy
	run          *testweir.Run
}

func newOutage(t *testing.T) *outage {
	to := testpg.New(t)
	o := &outage{Folder: testweir.New(t, to), proxy: testpg.NewProxy(t, to), other: testpg.NewProxy(t, to)}
	o.other.Refuse(true)
	o.Write("feed.jsonl", "")
	o.start()
	o.line(`{"id":1}`)
	has(o.Folder, o.run, 1, 0)
	return o
}

// has waits until a run has read so many lines, and some of them are pending: read and not known to be committed. A
// row is in its table a little before the run knows.
func has(l *testweir.Folder, run *testweir.Run, read, pending int) {
	l.Helper()
	l.Until(fmt.Sprintf("%d lines read, %d pending", read, pending), func() bool {
		m := run.Get("/metrics")
		return regexp.MustCompile(fmt.Sprintf(`(?m)^weir_read_lines_total\{.*\} %d$`, read)).MatchString(m) &&
			regexp.MustCompile(fmt.Sprintf(`(?m)^weir_pending_lines\{.*\} %d$`, pending)).MatchString(m)
	})
}

func (o *outage) start() {
	to, err := url.Parse(o.proxy.URL())
	o.Check(err)
	other, err := url.Parse(o.other.URL())
	o.Check(err)
	to.Host += "," + other.Host
	o.run = o.Start("sync", "feed.jsonl", "--follow", "--table", "t", "--to", to.String(), "--batch-period", "10ms", "--metrics-addr", "127.0.0.1:0")
}

func (o *outage) line(text string) {
	o.Helper()
	feed, err := os.OpenFile(o.Path("feed.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	o.Check(err)
	_, err = feed.WriteString(text + "\n")
	o.Check(err)
	o.Check(feed.Close())
}

// cut makes the database unreachable, appends a line, which is the run's second, and waits until the run is stalled.
func (o *outage) cut(line string) {
	o.Helper()
	o.proxy.Refuse(true)
	o.proxy.Break()
	o.line(line)
	has(o.Folder, o.run, 2, 1)
	o.Until("the run is stalled", func() bool { code, _ := o.run.Fetch("/readyz"); return code == 503 })
}

// During an outage, log, /readyz, page, API and metrics give the same reason, and only one: the waiting flush is not a
// second stall. The log names the server at once, and says when the outage is over, here because another server takes
// over.
func TestOutage_AllSaySo(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.cut(`{"id":2}`)
	o.run.Says(`warning: waiting for the database \(connection\): [^;\n]*127\.0\.0\.1:\d+`)
	time.Sleep(1100 * time.Millisecond)
	for path, match := range map[string]string{
		"/readyz":     `^waiting for the database \(connection\), for \d+s\n$`,
		"/":           `<p class="state waits">Stalled for \d+s: waiting for the database \(connection\)<`,
		"/api/status": `"stalled":\[\{"reason":"database","text":"waiting for the database \(connection\)","since":"[^}]*\}\]`,
		"/metrics":    `(?m)^weir_stalled_seconds\{reason="database",weir_job="t"\} [1-9]`,
	} {
		if body := o.run.Get(path); !regexp.MustCompile(match).MatchString(body) {
			t.Errorf("%s does not say %s:\n%s", path, match, body)
		}
	}
	o.other.Refuse(false)
	o.run.Says(`weir: stall ended: waiting for the database \(connection\), for \d`)
	o.Until("the second row", func() bool { return o.Ask("SELECT count(*) FROM t") == "2" })
	if log := o.run.Log(); strings.Count(log, "waiting for the database") != 2 || strings.Count(log, "stall ended") != 1 {
		t.Errorf("it said\n%s", log)
	}
}

// A run that is stopped while the database is unreachable ends at once, and says what is not committed. The same
// command resumes. If the database is back by then, everything that was read is written.
func TestOutage_Stopped(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.cut(`{"id":2}`)
	began := time.Now()
	o.run.Signal(syscall.SIGTERM)
	o.run.Exit(143, "warning: the database is unavailable and lacks 1 line that this run has read: ", "stopped by a signal at line 1 of ", "run the same command to resume")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	o.Has("1", "SELECT count(*) FROM t")
	o.proxy.Refuse(false)
	o.start()
	has(o.Folder, o.run, 1, 0)
	o.cut(`{"id":3}`)
	o.proxy.Refuse(false)
	o.run.Signal(syscall.SIGTERM)
	o.run.Exit(143)
	o.Has("3", "SELECT count(*) FROM t")
}
