package cli_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

// into is a topic whose runs read its first partition into SQLite.
func into(t *testing.T, c *testkafka.Cluster) (f *testweir.Folder, reads func(more ...string) *testweir.Run) {
	f = testweir.New(t, "t.db")
	return f, func(more ...string) *testweir.Run {
		return f.Start(newTopic(c, 1).sync(f.To, "t", append(more, "--partitions", "0", "--until-end")...)...)
	}
}

// Batches of each codec are read.
func TestKafka_Codecs(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, start testkafka.Starter) {
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
		f, reads := into(t, c)
		reads().Exit(0)
		f.Has("0|2000|289000 1|2000|289000 2|2000|289000 3|2000|289000 4|2000|289000", "SELECT codec, count(*), sum(length(text)) FROM t GROUP BY codec ORDER BY codec")
	})
}

// A batch that becomes far larger when it is decompressed than memory allows ends the run.
func TestCorrupt_Bomb(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, start testkafka.Starter) {
		c := start(t, 1, "t")
		f, reads := into(t, c)
		for n, by := range []kgo.CompressionCodec{kgo.ZstdCompression(), kgo.GzipCompression(), kgo.Lz4Compression(), kgo.SnappyCompression()} {
			c.Send(c.Client(kgo.ProducerBatchCompression(by), kgo.ProducerBatchMaxBytes(64<<20)), &kgo.Record{Topic: "t", Value: []byte(`{"id":1,"s":"` + strings.Repeat("x", 8<<20) + `"}`)})
			c.Produce("t", 0, fmt.Sprintf(`{"id":2,"n":%d}`, n))
			behind := fmt.Sprintf("t/0=%d", 2*n+1)
			reads("--buffer", "8MiB", "--max-line", "1MiB", "--accept-settings").Exit(1, "it decompresses to more than 4 MiB (half of --buffer); --start "+behind+" begins behind it")
			reads("--buffer", "8MiB", "--max-line", "1500kB", "--accept-settings").Exit(1, "it decompresses to more than 5 MiB (four times --max-line)")
			reads("--buffer", "8MiB", "--max-line", "1MiB", "--start", behind, "--accept-settings").Exit(0)
			f.Has(fmt.Sprintf("2|%d", n), "SELECT id, n FROM t")
		}
	})
}

// If the header of a batch is damaged that is larger than an answer, no other comes with it to tell where it ends.
func TestCorrupt_HeaderOfALargeBatch(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
	c.Produce("t", 0, `{"id":1}`)
	c.Send(c.Client(kgo.ProducerBatchCompression(kgo.NoCompression())), &kgo.Record{Topic: "t", Value: []byte(`{"id":2,"s":"here` + strings.Repeat("x", 600_000) + `"}`)})
	c.Produce("t", 0, `{"id":3}`)
	c.Damage("t", "here", -1, func(b []byte) { binary.BigEndian.PutUint32(b[23:], 1) })
	f, reads := into(t, c)
	reads("--buffer", "8MiB").Exit(1, "its header is damaged, too")
	f.Has("1|0", "SELECT id, (SELECT count(*) FROM weir_rejects) FROM t")
}

// A broker that is not the leader for a moment is asked again where a damaged batch ends.
func TestCorrupt_LeaderAway(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
	c.Produce("t", 0, `{"id":1,"s":"here"}`)
	c.Produce("t", 0, `{"id":2}`)
	var asked atomic.Int64
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		request := r.(*kmsg.FetchRequest)
		if request.MaxWaitMillis != 1000 || asked.Add(1) > 1 { // those of the consumer may wait for longer
			return nil, nil, false
		}
		at := kmsg.NewFetchResponseTopicPartition()
		at.ErrorCode = kerr.NotLeaderForPartition.Code
		of := kmsg.NewFetchResponseTopic()
		of.Topic, of.TopicID, of.Partitions = request.Topics[0].Topic, request.Topics[0].TopicID, []kmsg.FetchResponseTopicPartition{at}
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		answer.Topics = []kmsg.FetchResponseTopic{of}
		return answer, nil, true
	})
	c.Damage("t", "here", -1, func(b []byte) { b[len(b)-1] ^= 1 })
	_, reads := into(t, c)
	reads().Exit(1, "--start t/0=1 begins behind it")
	if asked.Load() != 2 {
		t.Errorf("where it ends was asked for %d times", asked.Load())
	}
}

// The end of a compacted topic is an offset, not a number of records.
func TestBroker_Compacted(t *testing.T) {
	c := testkafka.Broker(t, 0)
	c.CreateTopics(1, map[string]string{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0"}, "t")
	var texts []string
	for i := range 300 {
		texts = append(texts, fmt.Sprintf(`%d|{"id":%d,"n":%d}`, i%10, i%10, i))
	}
	c.Produce("t", 0, texts...)
	c.Produce("t", 0, "3|", "4|")
	// A segment ends when it is old, by the clock of the records.
	c.Send(c.Client(), &kgo.Record{Topic: "t", Key: []byte("9"), Value: []byte(`{"id":9,"n":1000}`), Timestamp: time.Now().Add(200 * time.Millisecond)})
	f, reads := into(t, c)
	f.Until("the compaction", func() bool {
		client := c.Client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer client.Close()
		for left := 0; ; {
			for _, r := range client.PollFetches(t.Context()).Records() {
				if left++; r.Offset == 302 {
					return left < 20
				}
			}
		}
	})
	reads().Exit(0)
	f.Has("0|290 1|291 2|292 5|295 6|296 7|297 8|298 9|1000", "SELECT id, n FROM t ORDER BY id")
	f.Has("303", `SELECT "offset" FROM weir_checkpoints`)
}

// Rejected records come to the topic of dead letters as they were, whatever the table keeps of them.
func TestDeadLetters(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, start testkafka.Starter) {
		intoBoth(t, func(t *testing.T, to func(testing.TB) string) { deadLetters(t, start(t, 2, "t", "dead"), to(t)) })
	})
}

func deadLetters(t *testing.T, c *testkafka.Cluster, to string) {
	f := testweir.New(t, to)
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
	f.Exec(`CREATE TABLE t (id BIGINT PRIMARY KEY NOT NULL, s VARCHAR, n VARCHAR CHECK (n <> 'NaN'))`)
	sync := newTopic(c, 2).sync(f.To, "t", "--partitions", "0-1", "--until-end", "--rejects", "topic:dead", "--max-line", "600kB", "--record-fields", "offset=s")
	f.Start(sync...).Exit(3, "7 of 10 lines were rejected")
	want := map[string]int{"1 1 not_json": 1, "1 2 not_json": 2, "1 3 truncated": 3, "1 5 too_long": 5, "1 6 database": 6, "1 8 not_object": 8, "0 0 not_json": 9}
	for _, r := range lettersOf(t, c, "dead") {
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
	f.Has("0", "SELECT count(*) FROM weir_rejects")
	f.Start(sync...).Exit(0)
	if n := len(lettersOf(t, c, "dead")); n != 7 {
		t.Errorf("after another run there are %d letters", n)
	}
}

// Letters whose records lie in batches of their own are not sent one by one.
func TestDeadLetters_SmallBatches(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
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
	f, reads := into(t, c)
	reads("--rejects", "topic:dead").Exit(3)
	f.Has("0", "SELECT count(*) FROM weir_rejects")
	all := lettersOf(t, c, "dead")
	if len(all) != n || asked.Load() > n/2 {
		t.Fatalf("%d letters in %d requests", len(all), asked.Load())
	}
	for i, r := range all {
		if want := fmt.Sprint("bad ", i); string(r.Value) != want || header(r, "weir.offset") != fmt.Sprint(2*i+1) || header(r, "weir.incomplete") != "-" {
			t.Errorf("%s has %q, %q", want, r.Value, r.Headers)
		}
	}
}

// If the topic has lost the record, or the topic of dead letters takes none as large, the letter has what the table
// kept, and says so.
func TestDeadLetters_Incomplete(t *testing.T) {
	c := testkafka.Start(t, kfake.SeedTopics(1, "t", "dead"))
	c.CreateTopics(1, map[string]string{"max.message.bytes": "100000"}, "small")
	noise := make([]byte, 200_000)
	for i, rnd := 0, rand.New(rand.NewPCG(1, 1)); i < len(noise); i++ {
		noise[i] = byte('a' + rnd.IntN(26))
	}
	c.Produce("t", 0, `k|bad`, `k|`+string(noise), `{"id":1}`)
	_, reads := into(t, c)
	reads().Exit(3)
	testcheck.NoError(t, c.DeleteRecords("t", 0, 1))
	c.Produce("t", 0, `also`)
	reads("--rejects", "topic:small").Exit(3)
	all := lettersOf(t, c, "small")
	if len(all) != 3 || string(all[0].Value) != "bad" || all[0].Key != nil || !strings.Contains(header(all[0], "weir.incomplete"), "no longer has the record") ||
		len(all[1].Value) != 64<<10 || !strings.Contains(header(all[1], "weir.incomplete"), "takes no record as large") || string(all[2].Value) != "also" || header(all[2], "weir.incomplete") != "-" {
		t.Errorf("%d letters", len(all))
		for _, r := range all {
			t.Errorf("%.100q %q", r.Value, r.Headers)
		}
	}
}

// A leader whose log ends before what was read ends the run.
func TestKafka_TruncatedMeanwhile(t *testing.T) {
	t.Parallel()
	testcheck.Only(t)
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
	c.Produce("t", 0, `{"id":1}`, `{"id":2}`, `{"id":3}`)
	f := testweir.New(t, "t.db")
	run := f.Start(newTopic(c, 1).sync(f.To, "t", "--partitions", "0", "--batch-period", "10ms")...)
	f.Becomes("3", "SELECT count(*) FROM t")
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		request := r.(*kmsg.OffsetForLeaderEpochRequest)
		answer := request.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, of := range request.Topics {
			topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
			topic.Topic = of.Topic
			for _, p := range of.Partitions {
				partition := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				partition.Partition, partition.LeaderEpoch, partition.EndOffset = p.Partition, p.LeaderEpoch, 1
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
	_, _, err := c.AddNode(-1, 0)
	f.Check(err)
	c.ShufflePartitionLeaders()
	run.Exit(1, "lost its records from offset 1 to 2, which were read: --from-start reads it again")
}

// A partition that a topic gets while members read it is read from its first record.
func TestGroup_NewPartition(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
	f := testweir.New(t, testpg.New(t))
	f.Start(newTopic(c, 1).sync(f.To, "t", "--group-protocol", "consumer", "--start", "latest", "--batch-period", "50ms")...).Says("reading from offset")
	c.Produce("t", 0, `{"id":0}`)
	want := "0"
	for p := range int32(12) { // more often than a run may read again for other reasons
		c.AddPartition("t")
		c.Produce("t", p+1, fmt.Sprintf(`{"id":%d}`, p+1))
		want += fmt.Sprint(" ", p+1)
		f.Becomes(want, "SELECT id FROM t ORDER BY 1")
	}
}
