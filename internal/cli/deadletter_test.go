package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

// letters are all records of a topic.
func (l *live) letters(c *testkafka.Cluster, topic string) (all []*kgo.Record) {
	l.t.Helper()
	ends, err := kadm.NewClient(c.Client()).ListEndOffsets(l.t.Context(), topic)
	l.check(err)
	n := 0
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	cl := c.Client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for len(all) < n && ctx.Err() == nil {
		all = append(all, cl.PollFetches(ctx).Records()...)
	}
	return all
}

// stored is how many rejected lines the database keeps.
func (l *live) stored() string { return l.rows("SELECT count(*) FROM weir_rejects") }

// header is the last of a record's headers of a name.
func header(r *kgo.Record, name string) string {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return "-"
}

// Rejected records come to the topic of dead letters as they were, whatever the table keeps of them.
func TestDeadLetters(t *testing.T) { testkafka.Each(t, deadLetters) }

func deadLetters(t *testing.T, start testkafka.Starter) {
	intoBoth(t, func(t *testing.T, to string) {
		c := start(t, 2, "t", "dead")
		l := newLive(t, to)
		at := time.UnixMilli(1_790_000_000_123)
		headers := []kgo.RecordHeader{{Key: "h", Value: []byte("v\xff")}, {Key: "weir.reason", Value: []byte("an old one")}}
		long := `{"id":5,"s":"` + strings.Repeat("x", 700_000) + `"}`
		values := []string{`{"id":1}`, `bad`, "\x00\x00\x00\x00\x07\x02\x0612", "", `{"id":2,"s":"a"}`, long, `{"id":3,"n":"NaN"}`, `{"id":4}`}
		var records []*kgo.Record
		for i, v := range values {
			records = append(records, &kgo.Record{Topic: "t", Partition: 1, Timestamp: at, Key: fmt.Appendf(nil, "key\xff%d", i), Headers: headers, Value: []byte(v)})
		}
		records = append(records, &kgo.Record{Topic: "t", Partition: 1, Timestamp: at, Key: []byte("none")}, &kgo.Record{Topic: "t", Timestamp: at, Value: []byte("first")})
		c.Send(c.Client(), records...)
		l.exec(`CREATE TABLE t (id BIGINT PRIMARY KEY NOT NULL, s VARCHAR, n VARCHAR CHECK (n <> 'NaN'))`)
		flags := []string{"--partitions", "0-1", "--until-end", "--rejects", "topic:dead", "--max-line", "600kB", "--record-fields", "offset=s"}
		code, log := l.topics(c, "t", flags...)
		if code != 3 || !strings.Contains(log, "7 of 10 lines were rejected") {
			t.Errorf("exit %d\n%s", code, log)
		}
		want := map[string]int{"1 1 not_json": 1, "1 2 not_json": 2, "1 3 truncated": 3, "1 5 too_long": 5, "1 6 database": 6, "1 8 not_object": 8, "0 0 not_json": 9}
		for _, r := range l.letters(c, "dead") {
			reason, _, _ := strings.Cut(header(r, "weir.reason"), ":")
			what := header(r, "weir.partition") + " " + header(r, "weir.offset") + " " + reason
			i, ok := want[what]
			delete(want, what)
			if !ok {
				t.Errorf("a letter is of %s", what)
				continue
			}
			was := records[i]
			if string(r.Key) != string(was.Key) || (r.Key == nil) != (was.Key == nil) || string(r.Value) != string(was.Value) || (r.Value == nil) != (was.Value == nil) {
				t.Errorf("%s: the key is %q, the value %.100q", what, r.Key, r.Value)
			}
			if header(r, "weir.topic") != "t" || header(r, "weir.timestamp") != "1790000000123" || len(was.Headers) > 0 && header(r, "h") != "v\xff" || header(r, "weir.incomplete") != "-" {
				t.Errorf("%s: the headers are %q", what, r.Headers)
			}
		}
		if len(want) > 0 {
			t.Errorf("missing: %v", want)
		}
		if got := l.stored(); got != "0" {
			t.Errorf("%s rejects are left", got)
		}
		if code, log := l.topics(c, "t", flags...); code != 0 || len(l.letters(c, "dead")) != 7 {
			t.Errorf("again: exit %d, %d letters\n%s", code, len(l.letters(c, "dead")), log)
		}
	})
}

// What the brokers do not take stays in weir_rejects, and is sent by the same run or the next one.
func TestDeadLetters_Refused(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	l := newLive(t, "t.db")
	var refuses atomic.Bool
	refuses.Store(true)
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked := r.(*kmsg.ProduceRequest)
		if !refuses.Load() || len(asked.Topics) == 0 {
			return nil, nil, false
		}
		return refuse(asked, kerr.TopicAuthorizationFailed), nil, true
	})
	refuses.Store(false)
	c.Produce("t", 0, `bad`, `{"id":1}`, `worse`)
	refuses.Store(true)
	code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--rejects", "topic:dead")
	if code != 3 || !strings.Contains(log, "TOPIC_AUTHORIZATION_FAILED") || !strings.Contains(log, "not sent to topic dead: 2;") {
		t.Fatalf("exit %d\n%s", code, log)
	}
	if got := l.rejects("t"); got != "0 not_json 2 not_json " {
		t.Fatalf("the rejects are %s", got)
	}
	run := l.begin("run", c, "t", "--partitions", "0", "--batch-period", "10ms", "--rejects", "topic:dead")
	l.until("the warning", func() bool { return strings.Contains(l.log("run"), "sending rejected records to topic dead") })
	refuses.Store(false)
	c.Produce("t", 0, `{"id":2}`) // it is still read
	l.until("the letters", func() bool { return len(l.letters(c, "dead")) == 2 && l.stored() == "0" })
	l.kill(run)
}

// A record that the brokers find invalid keeps no other from the topic.
func TestDeadLetters_Invalid(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	l := newLive(t, "t.db")
	c.Produce("t", 0, `bad`, `invalid`, `worse`)
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked := r.(*kmsg.ProduceRequest)
		if len(asked.Topics) == 0 || !bytes.Contains(asked.Topics[0].Partitions[0].Records, []byte("invalid")) {
			return nil, nil, false
		}
		return refuse(asked, kerr.InvalidRecord), nil, true
	})
	code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--rejects", "topic:dead")
	if code != 3 || !strings.Contains(log, "INVALID_RECORD") || !strings.Contains(log, "not sent to topic dead: 1;") || !strings.Contains(log, "--rejects topic:dead gets them") {
		t.Errorf("exit %d\n%s", code, log)
	}
	if all := l.letters(c, "dead"); len(all) != 2 || string(all[0].Value) != "bad" || string(all[1].Value) != "worse" || l.rejects("t") != "1 not_json " {
		t.Errorf("%d letters, the rejects are %s\n%s", len(all), l.rejects("t"), log)
	}
}

// refuse answers with an error for each partition.
func refuse(asked *kmsg.ProduceRequest, why *kerr.Error) *kmsg.ProduceResponse {
	answer := asked.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range asked.Topics {
		of := kmsg.NewProduceResponseTopic()
		of.Topic, of.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			at := kmsg.NewProduceResponseTopicPartition()
			at.Partition, at.ErrorCode = p.Partition, why.Code
			of.Partitions = append(of.Partitions, at)
		}
		answer.Topics = append(answer.Topics, of)
	}
	return answer
}

// A run with --from-start sends what it has rejected also after it has begun again at its checkpoints.
func TestDeadLetters_FromStartAndRestored(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(2, "t"), kfake.SeedTopics(1, "dead"))
	l := newLive(t, "t.db")
	c.Produce("t", 0, `bad`)
	c.Produce("t", 1, `worse`)
	var refuses atomic.Bool
	refuses.Store(true)
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if asked := r.(*kmsg.ProduceRequest); refuses.Load() && bytes.Contains(asked.Topics[0].Partitions[0].Records, []byte("weir.reason")) {
			return refuse(asked, kerr.TopicAuthorizationFailed), nil, true
		}
		return nil, nil, false
	})
	run := l.begin("run", c, "t", "--partitions", "0-1", "--from-start", "--batch-period", "10ms", "--rejects", "topic:dead")
	l.until("they wait", func() bool { return l.rows("SELECT count(*) FROM weir_rejects") == "2" })
	l.exec(`UPDATE weir_checkpoints SET seq = seq - 1 WHERE source LIKE '%/t/0'`)
	c.Produce("t", 0, `{"id":1}`)
	l.until("it reads again", func() bool { return l.rows("SELECT count(*) FROM t") == "1" })
	refuses.Store(false)
	l.until("the letters", func() bool { return len(l.letters(c, "dead")) == 2 && l.stored() == "0" })
	l.kill(run)
}

// A letter is removed when the brokers have it: a run that is killed before sends it again, and loses
// none.
func TestDeadLetters_Killed(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	l := newLive(t, "t.db")
	run := l.begin("run", c, "t", "--partitions", "0", "--batch-period", "10ms", "--rejects", "topic:dead")
	c.Produce("t", 0, `{"id":1}`)
	l.until("the row", func() bool { return l.rows("SELECT count(*) FROM t") == "1" })
	l.exec(`CREATE TRIGGER stay BEFORE DELETE ON weir_rejects BEGIN SELECT RAISE(ABORT, 'it stays'); END`)
	c.Produce("t", 0, `bad`)
	l.until("the letter", func() bool { return len(l.letters(c, "dead")) == 1 })
	l.kill(run)
	if got := l.rejects("t"); got != "1 not_json " {
		t.Errorf("the rejects are %s", got)
	}
	l.exec(`DROP TRIGGER stay`)
	if code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--rejects", "topic:dead"); code != 0 || len(l.letters(c, "dead")) != 2 || l.stored() != "0" {
		t.Errorf("exit %d, %d letters, %s rejects are left\n%s", code, len(l.letters(c, "dead")), l.stored(), log)
	}
}

// Letters whose records lie in batches of their own are not sent one by one.
func TestDeadLetters_SmallBatches(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	l := newLive(t, "t.db")
	const n = 50
	cl := c.Client()
	for i := range n {
		c.Send(cl, &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, `{"id":%d}`, i)}, &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "bad %d", i)})
	}
	var asked atomic.Int64
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--rejects", "topic:dead")
	all := l.letters(c, "dead")
	if code != 3 || len(all) != n || l.stored() != "0" || asked.Load() > n/2 {
		t.Fatalf("exit %d, %d letters in %d requests, %s are left\n%s", code, len(all), asked.Load(), l.stored(), log)
	}
	for i, r := range all {
		if want := fmt.Sprint("bad ", i); string(r.Value) != want || header(r, "weir.offset") != fmt.Sprint(2*i+1) || header(r, "weir.incomplete") != "-" {
			t.Errorf("%s has %q, %q", want, r.Value, r.Headers)
		}
	}
}

// A run ends that is stopped while brokers have a letter and do not answer.
func TestDeadLetters_Unanswered(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	l := newLive(t, "t.db")
	c.Produce("t", 0, `bad`)
	var asked atomic.Bool
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked.Store(true)
		return nil, errors.New("the connection ends"), true
	})
	run := l.begin("run", c, "t", "--partitions", "0", "--batch-period", "10ms", "--rejects", "topic:dead")
	l.until("a letter is sent", asked.Load)
	l.check(run.Process.Signal(os.Interrupt))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = run.Wait() }()
	select {
	case <-ended:
	case <-time.After(patience):
		_ = run.Process.Kill()
		<-ended
	}
	if got := l.stored(); run.ProcessState.ExitCode() != 130 || got != "1" || !strings.Contains(l.log("run"), "not sent to topic dead: 1;") {
		t.Errorf("exit %d, %s rejects are left\n%s", run.ProcessState.ExitCode(), got, l.log("run"))
	}
}

// exec runs a statement in the database.
func (l *live) exec(statement string) {
	l.t.Helper()
	db := l.open("rwc")
	defer db.Close()
	_, err := db.Exec(statement)
	l.check(err)
}

// rejectsAndLoses begins a run that reads a bad record, and loses its brokers before it is committed.
func (l *live) rejectsAndLoses(c *testkafka.Cluster) *exec.Cmd {
	l.t.Helper()
	run := l.begin("run", c, "t", "--partitions", "0", "--batch-period", "1s", "--rejects", "topic:dead", "--metrics-addr", "127.0.0.1:0")
	l.until("the metrics", func() bool { return strings.Contains(l.log("run"), "metrics at") })
	c.Produce("t", 0, `{"id":1}`, `bad`)
	l.until("it is read", func() bool {
		return strings.Contains(l.scrape("run"), `weir_rejected_lines_total{reason="not_json",table="t",weir_job="t"} 1`)
	})
	c.Down()
	return run
}

// An outage of the brokers keeps no batch from the table, and no letter is lost.
func TestDeadLetters_Outage(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	l := newLive(t, "t.db")
	run := l.rejectsAndLoses(c)
	l.until("the row", func() bool { return l.rows("SELECT count(*) FROM t") == "1" })
	c.Up()
	l.until("the letter", func() bool { return len(l.letters(c, "dead")) == 1 && l.stored() == "0" })
	if r := l.letters(c, "dead")[0]; string(r.Value) != "bad" || header(r, "weir.incomplete") != "-" {
		t.Errorf("it is %q, %q", r.Value, r.Headers)
	}
	l.kill(run)
}

// A run whose brokers stay away ends all the same, and the next one sends what is left.
func TestDeadLetters_Stopped(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	l := newLive(t, "t.db")
	run := l.rejectsAndLoses(c)
	l.check(run.Process.Signal(os.Interrupt))
	_ = run.Wait()
	if code := run.ProcessState.ExitCode(); code != 130 || l.stored() != "1" || !strings.Contains(l.log("run"), "not sent to topic dead: 1;") {
		t.Errorf("exit %d, %s rejects\n%s", code, l.stored(), l.log("run"))
	}
	c.Up()
	if code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--rejects", "topic:dead"); code != 0 || len(l.letters(c, "dead")) != 1 || l.stored() != "0" {
		t.Errorf("exit %d, %s rejects\n%s", code, l.stored(), log)
	}
}

// Where the topic has lost the record, or the topic of dead letters takes none as large, the letter has
// what the table kept, and says so.
func TestDeadLetters_Incomplete(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	c.CreateTopics(1, map[string]string{"max.message.bytes": "100000"}, "small")
	l := newLive(t, "t.db")
	noise := make([]byte, 200_000)
	for i, rnd := 0, rand.New(rand.NewPCG(1, 1)); i < len(noise); i++ {
		noise[i] = byte('a' + rnd.IntN(26))
	}
	c.Produce("t", 0, `k|bad`, `k|`+string(noise), `{"id":1}`)
	if code, log := l.topics(c, "t", "--partitions", "0", "--until-end"); code != 3 {
		t.Fatalf("exit %d\n%s", code, log)
	}
	cut := kadm.Offsets{}
	cut.AddOffset("t", 0, 1, -1)
	_, err := kadm.NewClient(c.Client()).DeleteRecords(t.Context(), cut)
	l.check(err)
	c.Produce("t", 0, `also`)
	if code, log := l.topics(c, "t", "--partitions", "0", "--until-end", "--rejects", "topic:small"); code != 3 {
		t.Errorf("exit %d\n%s", code, log)
	}
	all := l.letters(c, "small")
	if len(all) != 3 || string(all[0].Value) != "bad" || all[0].Key != nil || !strings.Contains(header(all[0], "weir.incomplete"), "no longer has the record") ||
		len(all[1].Value) != 64<<10 || !strings.Contains(header(all[1], "weir.incomplete"), "takes no record as large") || string(all[2].Value) != "also" || header(all[2], "weir.incomplete") != "-" {
		t.Errorf("%d letters", len(all))
		for _, r := range all {
			t.Errorf("%.100q %q", r.Value, r.Headers)
		}
	}
}

// Each member of a group sends what it has rejected.
func TestDeadLetters_Group(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t", "dead")), 2)
	g.member("--rejects", "topic:dead")
	g.member("--rejects", "topic:dead")
	g.until("each reads one", func() bool {
		return g.count("member1", "weir_kafka_partitions") == 1 && g.count("member2", "weir_kafka_partitions") == 1
	})
	for p := range int32(2) {
		g.c.Produce("t", p, fmt.Sprintf(`{"id":%d}`, p), "bad", "worse")
	}
	g.until("they are sent", func() bool { return len(g.letters(g.c, "dead")) == 4 && g.stored() == "0" })
}

// A member that finds all read sends what others have left, though the group assigns no partition to it.
func TestDeadLetters_GroupHasRead(t *testing.T) {
	t.Parallel()
	g := newGrouped(t, testpg.New(t), testkafka.Start(t, kfake.SeedTopics(2, "t", "dead")), 2)
	g.produce(50)
	g.finish()
	if code, log := g.topics(g.c, "t", "--until-end", "--rejects", "topic:dead"); code != 0 || len(g.letters(g.c, "dead")) != g.bad || g.stored() != "0" {
		t.Errorf("exit %d, %d letters of %d, %s rejects are left\n%s", code, len(g.letters(g.c, "dead")), g.bad, g.stored(), log)
	}
}

// A topic of dead letters has to exist, on brokers, and may not be read.
func TestDeadLetters_Usage(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
	l := newLive(t, "t.db")
	f := func(code int, said, topics string, more ...string) {
		t.Helper()
		got, log := l.topics(c, topics, append([]string{"--partitions", "0", "--until-end"}, more...)...)
		if got != code || !strings.Contains(log, said) {
			t.Errorf("%s %q: exit %d, want %d with %q\n%s", topics, more, got, code, said, log)
		}
	}
	f(1, "--rejects topic:dead: the topic does not exist", "t", "--rejects", "topic:dead")
	f(1, "--rejects topic:dead: the topic does not exist", "~^t", "--rejects", "topic:dead")
	c.CreateTopics(1, map[string]string{"cleanup.policy": "compact,delete"}, "compacted")
	f(1, "--rejects topic:compacted: the topic is compacted", "t", "--rejects", "topic:compacted")
	f(2, "--rejects topic:t: the topic is also read", "t", "--rejects", "topic:t")
	f(2, "--rejects topic:dead.t: the topic is also read", "~t$", "--rejects", "topic:dead.t")
	f(2, `"a b" is no name of a topic`, "t", "--rejects", "topic:a b")
	f(2, "needs --rejects table", "t", "--rejects", "topic:dead", "--keep-rejects", "30d")
	for said, args := range map[string][]string{"--rejects topic:NAME is for kafka:// alone": {"-", "--rejects", "topic:dead", "--to", "t.db"},
		"--rejects file:PATH is not for a group": {"kafka://b/t", "--rejects", "file:r.jsonl", "--to", "postgres://h/d"}} {
		cmd := l.start(said[:12], append([]string{"sync", "--table", "t"}, args...)...)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(l.log(said[:12]), said) {
			t.Errorf("%q: exit %d, want 2 with %q\n%s", args, code, said, l.log(said[:12]))
		}
	}
}
