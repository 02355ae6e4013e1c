package cli_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

// intoBoth runs a test for each kind of database.
func intoBoth(t *testing.T, test func(t *testing.T, to string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "t.db") })
	t.Run("postgres", func(t *testing.T) { test(t, testpg.New(t)) })
}

// topics runs the program on topics, until it ends.
func (l *live) topics(c *testkafka.Cluster, topics string, more ...string) (code int, log string) {
	l.t.Helper()
	name := fmt.Sprintf("run%d", runs.Add(1))
	cmd := l.begin(name, c, topics, more...)
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), l.log(name)
}

var runs atomic.Int64 // of topics

// begin starts the program on topics.
func (l *live) begin(name string, c *testkafka.Cluster, topics string, more ...string) *exec.Cmd {
	l.t.Helper()
	return l.start(name, append([]string{"sync", "kafka://" + c.Addr() + "/" + topics, "--to", l.to, "--table", "t"}, more...)...)
}

// rows is the answer to a query in one line.
func (l *live) rows(query string) string { return strings.ReplaceAll(l.ask(query), "\n", " ") }

// rejects are the offsets of a job's rejected records, and why.
func (l *live) rejects(job string) (all string) {
	for line := range strings.SplitSeq(l.ask(`SELECT "offset" || ' ' || reason FROM weir_rejects WHERE job = '`+job+`' ORDER BY "offset"`), "\n") {
		line, _, _ = strings.Cut(line, ":")
		all += line + " "
	}
	return all
}

// A topic of several partitions is read to its end, by one run after the other.
func TestKafka_UntilEnd(t *testing.T) { testkafka.Each(t, kafkaUntilEnd) }

func kafkaUntilEnd(t *testing.T, start testkafka.Starter) {
	intoBoth(t, func(t *testing.T, to string) {
		c := start(t, 2, "flights")
		l := newLive(t, to)
		c.Produce("flights", 0, `{"id":1,"a":1}`, "{\"id\":1,\n\"b\":2}")
		c.Produce("flights", 1, `{"id":2,"a":3}`)
		if code, log := l.topics(c, "flights", "--partitions", "0-1", "--until-end"); code != 0 {
			t.Fatalf("exit %d\n%s", code, log)
		}
		rows := "SELECT id || ':' || COALESCE(a, 0) || ':' || COALESCE(b, 0) FROM t ORDER BY 1"
		if got := l.rows(rows); got != "1:1:2 2:3:0" {
			t.Errorf("the table is %s", got)
		}
		c.Produce("flights", 1, `{"id":1,"a":5}`)
		code, log := l.topics(c, "flights", "--partitions", "0,1", "--until-end")
		if got := l.rows(rows); code != 0 || got != "1:5:2 2:3:0" || !strings.Contains(log, "t: 1 line ") {
			t.Errorf("exit %d, the table is %s\n%s", code, got, log)
		}
		if got := l.rows(`SELECT source || ' ' || "offset" FROM weir_checkpoints ORDER BY 1`); got != fmt.Sprintf("kafka://%s/flights/0 2 kafka://%[1]s/flights/1 2", c.ID()) {
			t.Errorf("the checkpoints are %s", got)
		}
	})
}

// What comes between two runs is read by the second, also where the first one had nothing to read.
func TestKafka_Start(t *testing.T) { testkafka.Each(t, kafkaStart) }

func kafkaStart(t *testing.T, start testkafka.Starter) {
	c := start(t, 1, "t")
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 4 {
		c.Send(c.Client(), &kgo.Record{Topic: "t", Timestamp: day.AddDate(0, 0, i), Value: fmt.Appendf(nil, `{"id":%d}`, i)})
	}
	l := map[string]*live{"latest": newLive(t, "t.db"), "2026-11-03T00:00:00Z": newLive(t, "t.db"), "earliest": newLive(t, "t.db"), "2099-01-01T00:00:00Z": newLive(t, "t.db")}
	for start, l := range l {
		if code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--start", start); code != 0 {
			t.Fatalf("exit %d\n%s", code, log)
		}
	}
	c.Produce("t", 0, `{"id":4}`)
	for start, want := range map[string]string{"latest": "4", "2026-11-03T00:00:00Z": "2 3 4", "earliest": "0 1 2 3 4", "2099-01-01T00:00:00Z": "4"} {
		code, log := l[start].topics(c, "t", "--partitions", "0", "--until-end", "--start", start)
		if got := l[start].rows("SELECT id FROM t ORDER BY 1"); code != 0 || got != want {
			t.Errorf("--start %s: exit %d, the table has %s, want %s\n%s", start, code, got, want, log)
		}
	}
	again := l["latest"]
	if code, log := again.topics(c, "t", "--partitions", "0", "--until-end", "--from-start"); code != 0 || again.rows("SELECT count(*) FROM t") != "5" {
		t.Errorf("--from-start: exit %d, %s rows\n%s", code, again.rows("SELECT count(*) FROM t"), log)
	}
}

// Records that only commit or abort a transaction are passed, and those of an aborted one are not
// read; the end is that of what is committed.
func TestKafka_Transactions(t *testing.T) { testkafka.Each(t, kafkaTransactions) }

func kafkaTransactions(t *testing.T, start testkafka.Starter) {
	c := start(t, 1, "t")
	producer := c.Client(kgo.TransactionalID("x"))
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		c.Send(producer, &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, `{"id":%d}`, i)})
		if err := producer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	l := newLive(t, "t.db")
	l.settled(c, 8)
	code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--metrics-file", "m.prom")
	if got := l.rows("SELECT id FROM t ORDER BY 1"); code != 0 || got != "0 2" {
		t.Errorf("exit %d, the table has %s\n%s", code, got, log)
	}
	if got := l.rows(`SELECT line || ' ' || "offset" FROM weir_checkpoints`); got != "2 8" {
		t.Errorf("the checkpoint is %s", got)
	}
	metrics, _ := os.ReadFile(filepath.Join(l.dir, "m.prom"))
	if want := `weir_kafka_lag_records{partition="0",topic="t",weir_job="t"} 0`; !strings.Contains(string(metrics), want) {
		t.Errorf("the metrics lack %s\n%s", want, metrics)
	}
	l = newLive(t, "t.db")
	code, log = l.topics(c, "t", "--partitions", "0", "--until-end", "--isolation", "uncommitted")
	if got := l.rows("SELECT id FROM t ORDER BY 1"); code != 0 || got != "0 1 2 3" {
		t.Errorf("uncommitted: exit %d, the table has %s\n%s", code, got, log)
	}
}

// A record without a value removes the row of its key: by default in a compacted topic.
func TestKafka_Tombstones(t *testing.T) { testkafka.Each(t, kafkaTombstones) }

func kafkaTombstones(t *testing.T, start testkafka.Starter) {
	c := start(t, 1, "plain")
	c.CreateTopics(1, map[string]string{"cleanup.policy": "compact"}, "compacted")
	for _, topic := range []string{"plain", "compacted"} {
		c.Produce(topic, 0, `1|{"id":"1"}`, `x|{"id":"x"}`, `"q"|{"id":"q"}`, `k|{"id":"k"}`, `o|{"id":"o"}`, `c|{"id":"c"}`, `w|{"id":"w"}`)
		c.Produce(topic, 0, `1|`, `x|`, `"q"|`, `{"id":"o","part":3}|`, `{"schema":{"type":"string"},"payload":"c"}|`, "\x00\x00\x00\x00\x07{\"id\":\"w\"}|")
	}
	f := func(topic string, code int, rows, said string, more ...string) {
		t.Helper()
		l := newLive(t, "t.db")
		got, log := l.topics(c, topic, append([]string{"--partitions", "0", "--until-end"}, more...)...)
		if table := l.rows("SELECT id FROM t ORDER BY 1"); got != code || table != rows || !strings.Contains(log, said) {
			t.Errorf("%s %q: exit %d, the table has %q, want %d and %q\n%s", topic, more, got, table, code, rows, log)
		}
	}
	all := "1 c k o q w x"
	f("compacted", 0, "k", "")
	f("compacted", 0, all, "", "--tombstones-by-key", "off")
	f("plain", 3, all, "6 of 13 lines were rejected")
	f("plain", 0, "k", "", "--tombstones-by-key", "id")
	f("compacted", 0, "k", "", "--record-fields", "offset=@at", "--version-field", "@at")
}

// What is known of a record beside its value can be put into the message, where a field of the
// message of that name counts more.
func TestKafka_RecordFields(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(2, "t"))
	at := time.UnixMilli(1_790_000_000_123)
	c.Send(c.Client(),
		&kgo.Record{Topic: "t", Partition: 1, Timestamp: at, Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("old")}, {Key: "h", Value: []byte(`n"ew`)}}, Value: []byte(` { "id":1}`)},
		&kgo.Record{Topic: "t", Partition: 1, Timestamp: at, Value: []byte(`{"id":2,"o":"own"}`)},
		&kgo.Record{Topic: "t", Partition: 1, Timestamp: at, Key: []byte(`3`), Value: []byte(` { } `)},
		&kgo.Record{Topic: "t", Partition: 1, Timestamp: at, Value: []byte(`{"id":4]`)})
	l := newLive(t, "t.db")
	code, log := l.topics(c, "t", "--partitions", "0-1", "--until-end", "--record-fields", "offset=o,partition=p,timestamp=@timestamp,key=k,topic=t,header.h=h")
	if code != 3 {
		t.Errorf("exit %d\n%s", code, log)
	}
	rows := `SELECT id || '|' || o || '|' || p || '|' || "@timestamp" || '|' || COALESCE(k, '-') || '|' || t || '|' || COALESCE(h, '-') FROM t ORDER BY 1`
	if got, want := l.rows(rows), `1|0|1|1790000000123|k|t|n"ew 2|own|1|1790000000123|-|t|-`; got != want {
		t.Errorf("the table is\n%s, want\n%s", got, want)
	}
	if got := l.rejects("t"); got != "2 key 3 not_json " {
		t.Errorf("the rejects are %s", got)
	}
	code, log = l.topics(c, "t", "--partitions", "0-1", "--until-end")
	if code != 2 || !strings.Contains(log, "--record-fields was") {
		t.Errorf("without them: exit %d\n%s", code, log)
	}
}

// Records are judged one by one, whatever bytes they have.
func TestKafka_BadRecords(t *testing.T) { testkafka.Each(t, kafkaBadRecords) }

func kafkaBadRecords(t *testing.T, start testkafka.Starter) {
	intoBoth(t, func(t *testing.T, to string) {
		c := start(t, 1, "t")
		wire := "\x00\x00\x00\x00\x07"
		records := []struct{ value, reason string }{{`{"id":1}`, ""}, {"{\"id\":2,\n\n\"s\":\"x\"}\n", ""}, {"", "truncated"}, {" ", "truncated"}, {"{\"id\":3,\"s\":\"a\nb\"}", "not_json"},
			{wire + `{"id":4}`, ""}, {wire + "\x02\x0612", "not_json"}, {`{"id":5,"s":"` + strings.Repeat("x", 2000) + `"}`, "too_long"}, {`{"id":6}{"id":7}`, "trailing_data"}, {"\n", "truncated"}, {`{"id":8}`, ""}}
		var batch []*kgo.Record
		want := ""
		for i, r := range records {
			batch = append(batch, &kgo.Record{Topic: "t", Value: []byte(r.value)})
			if r.reason != "" {
				want += fmt.Sprintf("%d %s ", i, r.reason)
			}
		}
		c.Send(c.Client(), batch...)
		for _, more := range [][]string{nil, {"--max-rate", "40/s"}, {"--batch-rows", "1"}} {
			l := newLive(t, to)
			code, log := l.topics(c, "t", append([]string{"--partitions", "0", "--until-end", "--max-line", "1kB", "--job", "t" + strings.Join(more, "")}, more...)...)
			if got := l.rows("SELECT id FROM t ORDER BY 1"); code != 3 || got != "1 2 4 8" {
				t.Errorf("%q: exit %d, the table has %s\n%s", more, code, got, log)
			}
			if got := l.rejects("t" + strings.Join(more, "")); got != want {
				t.Errorf("%q: rejected\n%s, want\n%s", more, got, want)
			}
		}
		l := newLive(t, to)
		if code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--rejects", "fail", "--job", "fail"); code != 1 || !strings.Contains(log, "kafka://"+c.ID()+"/t/0 offset 2: ") {
			t.Errorf("exit %d\n%s", code, log)
		}
	})
}

// What a topic has lost, and another topic of the same name, end the run.
func TestKafka_LostRecords(t *testing.T) { testkafka.Each(t, kafkaLostRecords) }

func kafkaLostRecords(t *testing.T, start testkafka.Starter) {
	c := start(t, 1, "t")
	admin := kadm.NewClient(c.Client())
	l := newLive(t, "t.db")
	run := func(code int, said string, more ...string) {
		t.Helper()
		got, log := l.topics(c, "t", append([]string{"--partitions", "0", "--until-end"}, more...)...)
		if got != code || !strings.Contains(log, said) {
			t.Errorf("exit %d, want %d with %q\n%s", got, code, said, log)
		}
	}
	c.Produce("t", 0, `{"id":1}`)
	run(0, "")
	c.Produce("t", 0, `{"id":2}`, `{"id":3}`, `{"id":4}`)
	cut := kadm.Offsets{}
	cut.AddOffset("t", 0, 3, -1)
	if _, err := admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	run(1, "2 records after the checkpoint are lost: it is at offset 1, and the topic begins at 3")
	run(0, "", "--from-start")
	if got := l.rows("SELECT id FROM t ORDER BY 1"); got != "1 4" {
		t.Errorf("the table has %s", got)
	}
	c.DeleteTopics("t")
	run(1, "UNKNOWN_TOPIC")
	c.CreateTopics(1, nil, "t")
	c.Produce("t", 0, `{"id":5}`, `{"id":6}`, `{"id":7}`, `{"id":8}`, `{"id":9}`)
	run(1, "deleted and recreated; to read it from the start: --from-start")
	run(0, "", "--from-start")
}

// A login and TLS as the broker wants them; else an error at once.
func TestKafka_Login(t *testing.T) {
	l := newLive(t, "t.db")
	pair, authorities := l.certificate()
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "u", "p"), kfake.Superuser("SCRAM-SHA-256", "u", "p"), kfake.Superuser("SCRAM-SHA-512", "u", "p"))
	c.Send(c.Client(kgo.DialTLSConfig(&tls.Config{RootCAs: authorities}), kgo.SASL(plain.Auth{User: "u", Pass: "p"}.AsMechanism())),
		&kgo.Record{Topic: "t", Value: []byte(`{"id":1}`)})
	l.check(os.WriteFile(filepath.Join(l.dir, "password"), []byte("p\n"), 0o600))
	f := func(code int, said, scheme string, env []string, more ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(l.dir, "weir"), append([]string{"sync", scheme + "://" + c.Addr() + "/t", "--partitions", "0", "--until-end", "--from-start", "--to", "t.db", "--retry-for", "3s"}, more...)...)
		var out bytes.Buffer
		cmd.Dir, cmd.Stderr, cmd.Env = l.dir, &out, append(os.Environ(), env...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), said) {
			t.Errorf("%s %q: exit %d, want %d with %q\n%s", scheme, more, got, code, said, out.String())
		}
		if strings.Contains(out.String(), "s3cret") {
			t.Errorf("the password is shown\n%s", out.String())
		}
	}
	user := []string{"KAFKA_USERNAME=u", "KAFKA_PASSWORD=p"}
	for _, m := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		f(0, "", "kafka+tls", user, "--tls-ca", "cert.pem", "--sasl", m)
		f(1, "the broker ended the connection at the login", "kafka+tls", []string{"KAFKA_USERNAME=u", "KAFKA_PASSWORD=s3cret"}, "--tls-ca", "cert.pem", "--sasl", m)
	}
	f(0, "", "kafka+tls", []string{"KAFKA_USERNAME=u", "KAFKA_PASSWORD_FILE=password"}, "--tls-ca", "cert.pem", "--sasl", "plain")
	f(2, "KAFKA_USERNAME is not set", "kafka+tls", nil, "--sasl", "plain")
	f(2, "must be plain, scram-sha-256, scram-sha-512 or oauthbearer", "kafka+tls", user, "--sasl", "gssapi")
	f(1, "certificate signed by unknown authority", "kafka+tls", user, "--sasl", "plain")
	f(1, "TLS", "kafka", user, "--sasl", "plain")
	f(1, "SASL", "kafka+tls", nil, "--tls-ca", "cert.pem")
}

// What the command line cannot mean.
func TestKafka_Usage(t *testing.T) {
	l := newLive(t, "t.db")
	f := func(said string, args ...string) {
		t.Helper()
		c := l.start(said, append([]string{"sync", "--to", "t.db"}, args...)...)
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != 2 || !strings.Contains(l.log(said), said) {
			t.Errorf("%q: exit %d, want 2 with %q\n%s", args, code, said, l.log(said))
		}
	}
	f("read by a consumer group, which needs a server: SQLite has one writer", "kafka://b:1/t")
	f("--from-start and --rebuild are not for a group", "kafka://b/t", "--from-start")
	f("--dry-run joins no group", "kafka://b/t", "--dry-run", "--until-end")
	f("--partitions reads without a group", "kafka://b/t", "--partitions", "0", "--group", "g")
	f("--group-instance is for kafka:", "-", "--group-instance", "a", "--table", "t")
	f("is no broker", "kafka://:/t", "--partitions", "0", "--table", "t")
	f("not of the form kafka:", "kafka://b", "--partitions", "0", "--table", "t")
	f("is no name of a topic", "kafka://b/a b", "--partitions", "0", "--table", "t")
	f("missing closing )", "kafka://b/~(", "--partitions", "0", "--table", "t")
	f("suggests no name for the table", "kafka://b/s,t", "--partitions", "0")
	f("is neither a number nor a range", "kafka://b/t", "--partitions", "3-1")
	f("must be earliest, latest, committed or a time", "kafka://b/t", "--partitions", "0", "--start", "monday")
	f("must be PART=FIELD", "kafka://b/t", "--partitions", "0", "--record-fields", "size=s")
	f("name only one source", "kafka://b/t", "kafka://b/u", "--partitions", "0", "--table", "t")
	f("--until-end is for kafka:", "-", "--until-end", "--table", "t")
	f("--dry-run needs --until-end", "kafka://b/t", "--partitions", "0", "--dry-run")
	f("--spool is for a connection", "kafka://b/t", "--partitions", "0", "--spool", "s")
	f("--sasl reads KAFKA_USERNAME", "kafka://u:p@b/t", "--partitions", "0")
	f("never removes a row", "kafka://b/t", "--partitions", "0", "--fill-only", "--tombstones-by-key", "id")
	f("names no table of the stream", "kafka://b/t", "--partitions", "0", "--envelope", "debezium", "--only", "source.table=t", "--tombstones-by-key", "id")
}

// Topics and partitions that do not exist, and brokers that cannot be reached, end the run.
func TestKafka_Missing(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(2, "t"))
	l := newLive(t, "t.db")
	f := func(topics, said string, more ...string) {
		t.Helper()
		if code, log := l.topics(c, topics, more...); code != 1 || !strings.Contains(log, said) {
			t.Errorf("%s %q: exit %d, want 1 with %q\n%s", topics, more, code, said, log)
		}
	}
	f("none", "UNKNOWN_TOPIC", "--partitions", "0")
	verify := l.start("verify", "verify", "kafka://"+c.Addr()+"/t", "--to", "t.db", "--table", "t")
	if _ = verify.Wait(); verify.ProcessState.ExitCode() == 0 {
		t.Errorf("a topic is verified\n%s", l.log("verify"))
	}
	f("t", "topic t has no partition 2: it has 2", "--partitions", "1-2")
	f("~^x", "no topic matches ^x", "--partitions", "0")
	c.Down()
	f("t", "connection refused (tried for 1s; --retry-for says how long)", "--partitions", "0", "--retry-for", "1s")
	c.Up()
}

// Two runs of one partition: the second ends with 4; two runs of two partitions share a job.
func TestKafka_TwoRuns(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(2, "t"))
	l := newLive(t, testpg.New(t))
	one := l.begin("one", c, "t", "--partitions", "0", "--metrics-addr", "127.0.0.1:0", "--batch-period", "50ms")
	l.until("the first", func() bool { return strings.Contains(l.log("one"), "reading from offset 0") })
	if code, log := l.topics(c, "t", "--partitions", "0-1"); code != 4 || !strings.Contains(log, "another run holds kafka://CLUSTER/t/0") {
		t.Errorf("exit %d\n%s", code, log)
	}
	two := l.begin("two", c, "t", "--partitions", "1", "--batch-period", "50ms")
	c.Produce("t", 0, `{"id":1,"a":1}`)
	c.Produce("t", 1, `{"id":2,"a":2}`)
	l.until("the rows", func() bool { return l.rows("SELECT count(*) FROM t") == "2" })
	l.until("the lag", func() bool {
		return strings.Contains(l.scrape("one"), `weir_kafka_lag_records{partition="0",topic="t",weir_job="t"} 0`)
	})
	if text := l.scrape("one"); !strings.Contains(text, `weir_connected{source="kafka://CLUSTER/t/0",weir_job="t"} 1`) || !strings.Contains(text, `weir_kafka_partitions{weir_job="t"} 1`) {
		t.Errorf("the metrics are\n%s", text)
	}
	for _, run := range []*exec.Cmd{one, two} {
		_ = run.Process.Signal(os.Interrupt)
		if _ = run.Wait(); run.ProcessState.ExitCode() != 130 {
			t.Errorf("exit %d", run.ProcessState.ExitCode())
		}
	}
	var out bytes.Buffer
	status := exec.Command(filepath.Join(l.dir, "weir"), "status", "--to", l.to)
	status.Stdout = &out
	l.check(status.Run())
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, "OFFSET") || !strings.Contains(text, "t kafka://CLUSTER/t/1 1 1 ") {
		t.Errorf("the status is\n%s", out.String())
	}
}

// While no broker can be reached the run waits, and says so; for as long as --retry-for says.
func TestKafka_BrokerAway(t *testing.T) { testkafka.Each(t, kafkaBrokerAway) }

func kafkaBrokerAway(t *testing.T, start testkafka.Starter) {
	c := start(t, 1, "t")
	if c.Slow() {
		t.Skip("NOT RUN: restarts of Apache Kafka take seconds: make kafka")
	}
	c.Produce("t", 0, `{"id":1}`)
	patient, other := newLive(t, "t.db"), newLive(t, "t.db")
	patient.begin("run", c, "t", "--partitions", "0", "--metrics-addr", "127.0.0.1:0", "--batch-period", "10ms")
	impatient := other.begin("run", c, "t", "--partitions", "0", "--batch-period", "10ms", "--retry-for", "1s")
	for _, l := range []*live{patient, other} {
		l.until("the first row", func() bool { return l.rows("SELECT count(*) FROM t") == "1" })
	}
	c.Down()
	connected := `weir_connected{source="kafka://` + c.ID() + `/t/0",weir_job="t"} `
	patient.until("the warning", func() bool {
		return strings.Contains(patient.log("run"), "no broker can be reached") && strings.Contains(patient.scrape("run"), connected+"0")
	})
	if _ = impatient.Wait(); impatient.ProcessState.ExitCode() != 1 || !strings.Contains(other.log("run"), "tried for 1s; --retry-for says how long") {
		t.Errorf("exit %d\n%s", impatient.ProcessState.ExitCode(), other.log("run"))
	}
	c.Up()
	c.Produce("t", 0, `{"id":2}`)
	patient.until("the second row", func() bool { return patient.rows("SELECT count(*) FROM t") == "2" })
	if text := patient.scrape("run"); !strings.Contains(text, connected+"1") || !strings.Contains(text, `weir_reconnects_total{weir_job="t"} 1`) {
		t.Errorf("the metrics are\n%s", text)
	}
}

// The program is killed and the broker restarted, again and again: each record is applied once, and
// the table is the fold of the topic.
func TestKafka_ExactlyOnce(t *testing.T) {
	t.Parallel()
	testkafka.Each(t, kafkaExactlyOnce)
}

func kafkaExactlyOnce(t *testing.T, start testkafka.Starter) {
	testcheck.Only(t)
	intoBoth(t, func(t *testing.T, to string) {
		const partitions = 3
		c := start(t, partitions, "t")
		rounds, restarts := 4, 4
		if c.Slow() {
			rounds, restarts = 2, 1
		}
		l := newLive(t, to)
		seed := time.Now().UnixNano()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(uint64(seed), 0))
		want := map[string]string{}
		var sent [partitions]int
		produce := func(n int) {
			for p := range partitions {
				var texts []string
				for range n {
					id, field, value := rnd.IntN(50)*partitions+p, rnd.IntN(3), rnd.IntN(1000)
					texts = append(texts, fmt.Sprintf(`{"id":%d,"f%d":%d}`, id, field, value))
					want[fmt.Sprintf("%d f%d", id, field)] = fmt.Sprint(value)
				}
				sent[p] += n
				c.Produce("t", int32(p), texts...)
			}
		}
		for round := range rounds {
			name := fmt.Sprintf("round%d", round)
			run := l.begin(name, c, "t", "--partitions", "0-2", "--batch-period", "20ms", "--batch-rows", "20")
			for i := range 4 {
				produce(300)
				if round%2 == 1 && i < restarts {
					c.Down()
					c.Up()
				}
			}
			time.Sleep(time.Duration(rnd.Int64N(int64(500 * time.Millisecond))))
			l.kill(run)
			if got := l.rows(`SELECT count(*) FROM weir_checkpoints WHERE line <> "offset"`); got != "0" && !strings.Contains(got, "weir_checkpoints") {
				t.Fatalf("%s partitions have records that were applied twice, or not at all", got)
			}
		}
		if code, log := l.topics(c, "t", "--partitions", "0-2", "--until-end"); code != 0 {
			t.Fatalf("exit %d\n%s", code, log)
		}
		for p := range partitions {
			if got := l.rows(fmt.Sprintf(`SELECT line || ' ' || "offset" FROM weir_checkpoints WHERE source LIKE '%%/t/%d'`, p)); got != fmt.Sprintf("%d %d", sent[p], sent[p]) {
				t.Errorf("partition %d: %s of %d records", p, got, sent[p])
			}
		}
		cells := 0
		for line := range strings.SplitSeq(l.ask("SELECT id || ' f0 ' || COALESCE(f0, -1) FROM t UNION ALL SELECT id || ' f1 ' || COALESCE(f1, -1) FROM t UNION ALL SELECT id || ' f2 ' || COALESCE(f2, -1) FROM t"), "\n") {
			at := strings.LastIndexByte(line, ' ')
			cell, value := line[:at], line[at+1:]
			if value == "-1" {
				continue
			}
			if cells++; want[cell] != value {
				t.Errorf("%s is %s, want %s", cell, value, want[cell])
			}
		}
		if cells != len(want) {
			t.Errorf("%d values, want %d", cells, len(want))
		}
	})
}

// Several topics go into the tables of a config file, by the topic that --record-fields puts into
// their messages; a record without a value removes the row of each table that takes it.
func TestKafka_SeveralTopics(t *testing.T) {
	intoBoth(t, func(t *testing.T, to string) {
		c := testkafka.Start(t, kfake.SeedTopics(1, "f.a", "f.b", "other"))
		c.Produce("f.a", 0, `1|{"id":1,"x":1}`, `2|{"id":2,"x":2}`, `2|`)
		c.Produce("f.b", 0, `1|{"id":1,"y":5}`, `1|{"id":1,"x":6}`)
		c.Produce("other", 0, `{"id":9}`)
		l := newLive(t, to)
		l.check(os.WriteFile(filepath.Join(l.dir, "air.yaml"), []byte("tables:\n  a:\n    key: id\n    when: {topic: f.a}\n  b:\n    key: id\n    when: {topic: f.b}\n"), 0o600))
		for _, topics := range []string{"f.a,f.b", "~^f\\."} {
			run := l.start("run"+topics[:1], "sync", "kafka://"+c.Addr()+"/"+topics, "--partitions", "0", "--until-end", "--config", "air.yaml", "--to", l.to,
				"--record-fields", "topic=topic", "--tombstones-by-key", "id", "--from-start", "--job", "air")
			_ = run.Wait()
			if code := run.ProcessState.ExitCode(); code != 0 {
				t.Fatalf("%s: exit %d\n%s", topics, code, l.log("run"+topics[:1]))
			}
			if got := l.rows("SELECT id || ':' || x FROM a UNION ALL SELECT id || ':' || x || ':' || y FROM b"); got != "1:1 1:6:5" {
				t.Errorf("%s: the tables are %s", topics, got)
			}
		}
	})
}

// A run that reads from the start does so once: after a database was restored to a state that has flushes
// of the run, it continues there, and empties no table again.
func TestKafka_FromStartAndRestored(t *testing.T) {
	for _, flag := range []string{"--from-start", "--rebuild"} {
		c := testkafka.Start(t, kfake.SeedTopics(2, "t"))
		l := newLive(t, "t.db")
		c.Produce("t", 0, `{"id":1}`, `{"id":2}`)
		c.Produce("t", 1, `{"id":11}`)
		run := l.begin("run", c, "t", "--partitions", "0-1", flag, "--batch-period", "10ms")
		l.until("it has read", func() bool { return l.rows("SELECT count(*) FROM t") == "3" })
		l.check(c.DeleteRecords("t", 0, 1))
		l.exec(`UPDATE weir_checkpoints SET seq = seq - 1 WHERE source LIKE '%/t/0'`)
		c.Produce("t", 0, `{"id":3}`)
		l.until("it reads again", func() bool { return l.rows("SELECT count(*) FROM t WHERE id = 3") == "1" })
		if got, log := l.rows("SELECT id FROM t ORDER BY 1"), l.log("run"); got != "1 2 3 11" || !strings.Contains(log, "reading again from the database's checkpoint") ||
			!strings.Contains(log, "/t/0: reading from offset 2") || !strings.Contains(log, "/t/1: reading from offset 1") {
			t.Errorf("%s: the table has %s\n%s", flag, got, log)
		}
		l.kill(run)
	}
}
