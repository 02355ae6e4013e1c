package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/pgserver"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testkafka"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// Each alert has a severity and links to its section of docs/troubleshooting.md.
func TestContrib_AlertsHaveRunbooks(t *testing.T) {
	rules, docs := read(t, "../../contrib/alerts.yml"), read(t, "../../docs/troubleshooting.md")
	alerts := regexp.MustCompile(`- alert: (\w+)\n(?:\s+(?:expr|for): .*\n)+\s+labels: \{severity: (?:critical|warning)\}\n`).FindAllStringSubmatch(rules, -1)
	if n := strings.Count(rules, "- alert: "); n != len(alerts) || n < 10 {
		t.Errorf("%d of %d alerts have a severity", len(alerts), n)
	}
	for _, m := range alerts {
		if !strings.Contains(rules, "/docs/troubleshooting.md#"+strings.ToLower(m[1])+"\n") {
			t.Errorf("%s has no link", m[1])
		}
		if !strings.Contains(docs, "\n### "+m[1]+"\n") {
			t.Errorf("docs/troubleshooting.md does not say what to do about %s", m[1])
		}
	}
}

// For each cause of a stall, the alert uses the words of /readyz.
func TestContrib_AlertsSayWhatReadyzSays(t *testing.T) {
	rules := read(t, "../../contrib/alerts.yml")
	synctest.Test(t, func(t *testing.T) {
		for _, cause := range status.Causes {
			p := status.New("t")
			switch cause {
			case status.DatabaseUnavailable:
				p.Retry(&sink.Error{Reason: "connection"})
			case status.NoGroup:
				p.Grouped(false, 0)
			case status.SlowFlush:
				p.Flushing(1)
			default:
				p.Pause(cause)
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute)
			s := p.Snapshot()
			text := strings.TrimSuffix(s.NotReady, ", for 1m0s")
			words := fmt.Sprintf(`"%s" }}%s`, cause, strings.TrimSuffix(text, " (connection)"))
			if text == "" || !strings.Contains(rules, words) {
				t.Errorf("the alert does not say %s", words)
			}
		}
	})
}

// A monitor is a Prometheus with contrib's configuration and rules, except for the rules' waiting times.
type monitor struct {
	*testweir.Folder
	url     string
	targets []string
}

// sooner shortens the times in the rules, because a test cannot wait for hours. Expressions are otherwise unchanged.
var sooner = [][2]string{
	{`for: \d+m`, `for: 1s`}, {`> 300 and`, `> 3 and`}, {`> 60 unless`, `> 3 unless`}, {`> 1800 and`, `> 5 and`},
	{`> 90000`, `> 3`}, {`> 100\n`, "> 1\n"}, {`> 1e9`, `> 1e6`},
}

// start starts Prometheus, and waits until it has scraped all targets.
func (m *monitor) start(program string) {
	m.Helper()
	rules := read(m, "../../contrib/alerts.yml")
	for _, change := range sooner {
		what := regexp.MustCompile(change[0])
		if !what.MatchString(rules) {
			m.Errorf("no rule has %s", change[0])
		}
		rules = what.ReplaceAllString(rules, change[1])
	}
	m.Write("alerts.yml", rules)
	config := strings.Replace(read(m, "../../contrib/prometheus.yml"), "scrape_interval: 15s", "scrape_interval: 250ms", 1)
	config = strings.Replace(config, "'127.0.0.1:9461'", "'"+strings.Join(m.targets, "', '")+"'", 1)
	m.Write("prometheus.yml", "global: {evaluation_interval: 250ms}\n"+config)
	port, err := pgserver.FreePort()
	m.Check(err)
	m.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	server := exec.Command(program, "--config.file="+m.Path("prometheus.yml"), "--storage.tsdb.path="+m.Path("data"), "--web.listen-address="+m.url[len("http://"):])
	m.Check(server.Start())
	m.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	m.Until("all are scraped", func() bool {
		var answer struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		m.ask("/api/v1/query?query="+url.QueryEscape("count(up == 1)"), &answer)
		r := answer.Data.Result
		return len(r) == 1 && r[0].Value[1] == fmt.Sprint(len(m.targets))
	})
}

// ask gets an answer from Prometheus, if there is one.
func (m *monitor) ask(path string, answer any) {
	r, err := http.Get(m.url + path)
	if err != nil {
		return // it is starting
	}
	defer func() { _ = r.Body.Close() }()
	_ = json.NewDecoder(r.Body).Decode(answer)
}

// run starts a live run that is scraped.
func (m *monitor) run(args ...string) *testweir.Run {
	m.Helper()
	r := m.Start(append([]string{"sync", "--metrics-addr", "127.0.0.1:0"}, args...)...)
	m.targets = append(m.targets, strings.TrimPrefix(r.Site(), "http://"))
	return r
}

// cron runs weir with a metrics file, which is scraped in node_exporter's format.
func (m *monitor) cron(code int, job, feed, to string) {
	m.Helper()
	file := job + ".prom"
	m.Start("sync", feed, "--to", to, "--table", job, "--metrics-file", file).Exit(code)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, read(m, m.Path(file)))
	}))
	m.Cleanup(s.Close)
	m.targets = append(m.targets, s.Listener.Addr().String())
}

// send sends lines to a listening run.
func (m *monitor) send(to *testweir.Run, lines string) {
	m.Helper()
	c, err := net.Dial("tcp", to.Serves())
	m.Check(err)
	m.Cleanup(func() { _ = c.Close() })
	go func() { _, _ = io.WriteString(c, lines) }() // it may block
}

// Each of contrib's alerts fires for its fault: runs of weir have real faults, and a real Prometheus scrapes them.
func TestContrib_AlertsFireByTheirFaults(t *testing.T) {
	program := testcheck.Tool(t, "prometheus")
	m := &monitor{Folder: testweir.New(t, "t.db")}
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, `{"id":%d,"text":%q}`+"\n", i, strings.Repeat("x", 100))
	}
	m.Write("one.jsonl", `{"id":1}`+"\n")
	m.Write("bad.jsonl", `{"id":1}`+"\nbad\n")
	m.Write("many.jsonl", many.String())

	postgres := testpg.New(t)
	m.With(postgres).Exec("CREATE TABLE locked (id bigint PRIMARY KEY, text text)")
	proxy := testpg.NewProxy(t, postgres)
	broker := testkafka.Start(t, kfake.SeedTopics(4, "t"))
	top := newTopic(broker, 4)
	listen := "tcp-listen://127.0.0.1:0"

	ended := m.run(listen, "--to", m.To, "--table", "ended")
	locked := m.run(listen, "--to", postgres, "--table", "locked", "--spool", "spool", "--spool-max", "1MiB")
	away := m.run(listen, "--to", proxy.URL(), "--table", "away", "--job", "away")
	m.run("tcp://127.0.0.1:1", "--to", m.To, "--table", "alone")
	replay := m.Start("replay", "many.jsonl", "--rate", "100/s", "--to", listen)
	m.run("tcp://"+replay.Serves(), "--to", m.To, "--table", "quiet")
	rejecting := m.run(listen, "--to", m.To, "--table", "rejecting")
	logging := m.run(listen, "--to", "log.db", "--table", "logging")
	var members []*testweir.Run
	for _, name := range []string{"a", "b"} {
		members = append(members, m.run("kafka://"+broker.Addr()+"/t", "--to", postgres, "--table", "grouped", "--group", "grouped", "--group-instance", name))
	}
	top.fill(1)
	for _, member := range members {
		m.Until("it has two partitions", func() bool {
			return strings.Contains(member.Get("/metrics"), `weir_kafka_partitions{weir_job="grouped"} 2`)
		})
	}
	m.cron(0, "once", "one.jsonl", m.To)
	m.cron(1, "failed", "one.jsonl", "no/such/folder.db")
	m.cron(3, "bad", "bad.jsonl", m.To)
	m.start(program)

	ended.Kill()
	lock, err := m.Open(postgres, "").Conn(t.Context())
	m.Check(err)
	defer func() { _ = lock.Close() }()
	for _, sql := range []string{"BEGIN", "LOCK TABLE locked IN SHARE MODE"} {
		_, err := lock.ExecContext(t.Context(), sql)
		m.Check(err)
	}
	m.send(locked, many.String())
	proxy.Refuse(true)
	proxy.Break()
	m.send(away, many.String())
	replay.Pause()
	defer replay.Continue()
	m.send(rejecting, "bad\n")
	m.With("log.db").Exec("CREATE TABLE other (n)")
	reader, err := m.Open("log.db", "ro").Conn(t.Context())
	m.Check(err)
	defer func() { _ = reader.Close() }()
	for _, sql := range []string{"BEGIN", "SELECT count(*) FROM other"} {
		_, err := reader.ExecContext(t.Context(), sql)
		m.Check(err)
	}
	m.send(logging, many.String())
	members[1].Signal(syscall.SIGKILL)

	missing := map[string]string{}
	for _, row := range strings.Fields(`WeirNothingCommitted:locked WeirStalled:locked WeirPartitionsUnread:grouped WeirNotConnected:alone WeirFeedQuiet:quiet
		WeirRejectsLines:rejecting WeirRetries:away WeirSpoolFills:locked WeirLogGrows:logging WeirRunFailed:failed WeirNoSuccess:once WeirRunRejectedLines:bad WeirDown:`) {
		alert, job, _ := strings.Cut(row, ":")
		missing[alert] = job
	}
	if n := strings.Count(read(t, "../../contrib/alerts.yml"), "- alert: "); n != len(missing) {
		t.Errorf("there are faults for %d of %d alerts", len(missing), n)
	}
	testcheck.Until(t, func() string {
		var answer struct {
			Data struct {
				Alerts []struct {
					State               string
					Labels, Annotations map[string]string
				}
			}
		}
		m.ask("/api/v1/alerts", &answer)
		for _, a := range answer.Data.Alerts {
			name := a.Labels["alertname"]
			if job, ok := missing[name]; ok && a.State == "firing" && a.Labels["weir_job"] == job {
				delete(missing, name)
				if name == "WeirStalled" {
					_, why, _ := strings.Cut(a.Annotations["summary"], "is stalled: ")
					if said := locked.Get("/readyz"); !strings.HasPrefix(said, why[:strings.LastIndex(why, ", for ")]) {
						t.Errorf("the alert says %q, and /readyz %q", why, said)
					}
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Sprintf("these did not fire: %v", missing)
		}
		return ""
	})
	lint := exec.Command(testcheck.Tool(t, "promtool"), "check", "metrics")
	lint.Stdin = strings.NewReader(locked.Get("/metrics"))
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
