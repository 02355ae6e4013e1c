package cli_test

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// An outage is a run that follows a file into a database that can be made unreachable. Its connection string names two
// servers, of which the other is unreachable at first.
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
	o.Until("the first row", func() bool {
		return strings.Contains(o.run.Get("/metrics"), `weir_rows_total{result="inserted",table="t",weir_job="t"} 1`)
	})
	return o
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

// cut makes the database unreachable, and waits until a line was read that cannot be written.
func (o *outage) cut(line string) {
	o.Helper()
	o.proxy.Refuse(true)
	o.proxy.Break()
	o.line(line)
	o.Until("the run is stalled", func() bool { code, _ := o.run.Fetch("/readyz"); return code == 503 })
}

// While the database is unreachable, all that can be looked at says so in the same words, and once: the flush that waits for
// it is no stall of its own. The log says it at once, names the server, and says when it is over: here another server takes
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
	o.run.Says(`weir: connected to postgres://\S+ again after \d`)
	o.Until("the second row", func() bool { return o.Ask("SELECT count(*) FROM t") == "2" })
	if log := o.run.Log(); strings.Count(log, "waiting for the database") != 1 || strings.Contains(log, "no longer") {
		t.Errorf("it said\n%s", log)
	}
}

// A run that is stopped while the database is unreachable ends at once, and says what the database does not have. The same
// command resumes. If the database is back, all is written that was read.
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
	o.Until("the second row", func() bool { return o.Ask("SELECT count(*) FROM t") == "2" })
	o.cut(`{"id":3}`)
	o.proxy.Refuse(false)
	o.run.Signal(syscall.SIGTERM)
	o.run.Exit(143)
	o.Has("3", "SELECT count(*) FROM t")
}
