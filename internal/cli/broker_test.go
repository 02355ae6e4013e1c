package cli_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/testkafka"
)

// Batches of each codec are read.
func TestKafka_Codecs(t *testing.T) { testkafka.Each(t, kafkaCodecs) }

func kafkaCodecs(t *testing.T, start testkafka.Starter) {
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	c := start(t, 1, "t")
	const each = 2000
	for i, codec := range codecs {
		var records []*kgo.Record
		for j := range each {
			records = append(records, &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, `{"id":%d,"codec":%d,"text":"%s"}`, i*each+j, i, strings.Repeat("x", j%300))})
		}
		c.Send(c.Client(kgo.ProducerBatchCompression(codec)), records...)
	}
	l := newLive(t, "t.db")
	if code, log := l.topics(c, "t", "--partitions", "0", "--until-end"); code != 0 {
		t.Fatalf("exit %d\n%s", code, log)
	}
	if got, want := l.rows("SELECT codec || ':' || count(*) || ':' || sum(length(text)) FROM t GROUP BY codec ORDER BY codec"), "0:2000:289000 1:2000:289000 2:2000:289000 3:2000:289000 4:2000:289000"; got != want {
		t.Errorf("the table has %s, want %s", got, want)
	}
}

// The end of a compacted topic is an offset, not a number of records.
func TestBroker_Compacted(t *testing.T) {
	c := testkafka.Broker(t, 0)
	c.CreateTopics(1, map[string]string{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0"}, "compacted")
	var texts []string
	for i := range 300 {
		texts = append(texts, fmt.Sprintf(`%d|{"id":%d,"n":%d}`, i%10, i%10, i))
	}
	c.Produce("compacted", 0, texts...)
	c.Produce("compacted", 0, "3|", "4|")
	time.Sleep(200 * time.Millisecond) // the age of a segment, by the clock of the records
	c.Produce("compacted", 0, `9|{"id":9,"n":1000}`)
	l := newLive(t, "t.db")
	l.until("the compaction", func() bool {
		client := c.Client(kgo.ConsumeTopics("compacted"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer client.Close()
		for left := 0; ; {
			for _, r := range client.PollFetches(t.Context()).Records() {
				if left++; r.Offset == 302 {
					return left < 20
				}
			}
		}
	})
	code, log := l.topics(c, "compacted", "--partitions", "0", "--until-end")
	if got, want := l.rows("SELECT id || ':' || n FROM t ORDER BY id"), "0:290 1:291 2:292 5:295 6:296 7:297 8:298 9:1000"; code != 0 || got != want {
		t.Errorf("exit %d, the table has %s, want %s\n%s", code, got, want, log)
	}
	if got := l.rows(`SELECT "offset" FROM weir_checkpoints`); got != "303" {
		t.Errorf("the checkpoint is at %s", got)
	}
}

// A transaction that is open when a run begins is not waited for, and read by the next run.
func TestBroker_OpenTransaction(t *testing.T) {
	c := testkafka.Broker(t, 1, "t")
	producer := c.Client(kgo.TransactionalID("x"))
	c.Produce("t", 0, `{"id":1}`)
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	c.Send(producer, &kgo.Record{Topic: "t", Value: []byte(`{"id":2}`)})
	c.Produce("t", 0, `{"id":3}`)
	l := newLive(t, "t.db")
	run := func(code int, want string) {
		t.Helper()
		got, log := l.topics(c, "t", "--partitions", "0", "--until-end")
		if rows := l.rows("SELECT id FROM t ORDER BY 1"); got != code || rows != want {
			t.Errorf("exit %d, the table has %s, want %s\n%s", got, rows, want, log)
		}
	}
	run(0, "1")
	if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	l.settled(c, 4)
	run(0, "1 2 3")
}

// settled waits until all transactions of the topic t have ended, and its partition is at an offset.
func (l *live) settled(c *testkafka.Cluster, offset int64) {
	l.t.Helper()
	l.until("the end of the transactions", func() bool {
		ends, err := kadm.NewClient(c.Client()).ListCommittedOffsets(l.t.Context(), "t")
		l.check(err)
		end, _ := ends.Lookup("t", 0)
		return end.Offset == offset
	})
}

// Retention that overtakes a reader ends the run with the number of records that are lost.
func TestBroker_Retention(t *testing.T) {
	c := testkafka.Broker(t, 1, "short") // of its own name: a broker that is killed has the settings of a deleted topic again
	l := newLive(t, "t.db")
	c.Produce("short", 0, `{"id":1}`)
	if code, log := l.topics(c, "short", "--partitions", "0", "--until-end"); code != 0 {
		t.Fatalf("exit %d\n%s", code, log)
	}
	c.Produce("short", 0, `{"id":2}`, `{"id":3}`)
	admin := kadm.NewClient(c.Client())
	ms := "100"
	if _, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &ms}}, "short"); err != nil {
		t.Fatal(err)
	}
	l.until("the retention", func() bool {
		starts, err := admin.ListStartOffsets(t.Context(), "short")
		l.check(err)
		first, _ := starts.Lookup("short", 0)
		return first.Offset == 3
	})
	if code, log := l.topics(c, "short", "--partitions", "0", "--until-end"); code != 1 || !strings.Contains(log, "2 records after the checkpoint are lost: it is at offset 1, and the topic begins at 3") {
		t.Errorf("exit %d\n%s", code, log)
	}
	if code, log := l.topics(c, "short", "--partitions", "0", "--until-end", "--from-start"); code != 0 {
		t.Errorf("exit %d\n%s", code, log)
	}
}

// Records that are removed between two fetches of a run end it in the same way.
func TestKafka_LostMeanwhile(t *testing.T) { testkafka.Each(t, kafkaLostMeanwhile) }

func kafkaLostMeanwhile(t *testing.T, start testkafka.Starter) {
	c := start(t, 1, "t")
	l := newLive(t, "t.db")
	c.Produce("t", 0, `{"id":1}`)
	run := l.begin("run", c, "t", "--partitions", "0", "--batch-period", "10ms")
	l.until("the first row", func() bool { return l.rows("SELECT count(*) FROM t") == "1" })
	l.check(run.Process.Signal(syscall.SIGSTOP))
	c.Produce("t", 0, `{"id":2}`) // the answer to the fetch that waits
	c.Produce("t", 0, `{"id":3}`, `{"id":4}`, `{"id":5}`)
	cut := kadm.Offsets{}
	cut.AddOffset("t", 0, 4, -1)
	if _, err := kadm.NewClient(c.Client()).DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	l.check(run.Process.Signal(syscall.SIGCONT))
	_ = run.Wait()
	if code, log := run.ProcessState.ExitCode(), l.log("run"); code != 1 || !strings.Contains(log, "records after the checkpoint are lost") || !strings.Contains(log, "and the topic begins at 4") {
		t.Errorf("exit %d\n%s", code, log)
	}
}

// The logins and certificates of Apache Kafka.
func TestBroker_Login(t *testing.T) {
	c := testkafka.Broker(t, 1, "t")
	c.Produce("t", 0, `{"id":1}`)
	l := newLive(t, "t.db")
	addr, folder := c.TLS()
	f := func(code int, said, addr string, env []string, more ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(l.dir, "weir"), append([]string{"sync", "kafka+tls://" + addr + "/t", "--partitions", "0", "--until-end", "--from-start", "--to", "t.db"}, more...)...)
		var out bytes.Buffer
		cmd.Dir, cmd.Stderr, cmd.Env = l.dir, &out, append(os.Environ(), env...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), said) || strings.Contains(out.String(), "s3cret") {
			t.Errorf("%q: exit %d, want %d with %q\n%s", more, got, code, said, out.String())
		}
	}
	ca := []string{"--tls-ca", filepath.Join(folder, "cert.pem")}
	f(0, "", addr, nil, append(ca, "--tls-cert", filepath.Join(folder, "cert.pem"), "--tls-key", filepath.Join(folder, "key.pem"))...)
	f(1, "bad certificate", addr, nil, ca...)
	f(1, "certificate signed by unknown authority", addr, nil)
	login := func(password string) []string {
		return []string{"KAFKA_USERNAME=" + testkafka.User, "KAFKA_PASSWORD=" + password}
	}
	for _, m := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		f(0, "", c.SASL(), login(testkafka.Password), append(ca, "--sasl", m)...)
		f(1, "SASL_AUTHENTICATION_FAILED", c.SASL(), login("s3cret"), append(ca, "--sasl", m)...)
	}
	token := func(until time.Time) string {
		part := base64.RawURLEncoding.EncodeToString
		return part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"sub":"u","iat":%d,"exp":%d}`, time.Now().Unix()-100, until.Unix())) + "."
	}
	f(0, "", c.SASL(), login(token(time.Now().Add(time.Hour))), append(ca, "--sasl", "oauthbearer")...)
	f(1, `the broker does not take the token: {"status":"invalid_token"}`, c.SASL(), login(token(time.Now().Add(-time.Hour))), append(ca, "--sasl", "oauthbearer")...)
	f(1, "SASL", c.SASL(), nil, ca...)
}
