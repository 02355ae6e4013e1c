package cli_test

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/test/bench"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testkafka"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

const benchPartitions = 4

// benchRecords returns the number of records in a topic.
func benchRecords() int {
	if n, err := strconv.Atoi(os.Getenv("KAFKA_RECORDS")); err == nil {
		return n
	}
	return 20_000
}

// BenchmarkKafka reads a topic of Apache Kafka with the bare client, which ignores the records, and with the program,
// in turns. It also reads the same messages from a file into Postgres. KAFKA_RECORDS is the number of records, WEIR the
// program.
func BenchmarkKafka(b *testing.B) {
	records := benchRecords()
	feeds := map[string]func(io.Writer) error{
		"hot":      func(w io.Writer) error { return bench.Hot(w, records, 5000, 1) },
		"distinct": func(w io.Writer) error { return bench.Distinct(w, records, 1) },
	}
	server := testpg.Start(b)
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, feed := range feeds {
		for codec, c := range codecs {
			b.Run(name+"/"+codec, func(b *testing.B) {
				var messages bytes.Buffer
				testcheck.NoError(b, feed(&messages))
				broker := testkafka.Broker(b, benchPartitions, "t")
				fillTopic(b, broker, "t", messages.Bytes(), kgo.ProducerBatchCompression(c), kgo.ProducerBatchMaxBytes(900_000))
				file := filepath.Join(b.TempDir(), "feed.jsonl")
				testcheck.NoError(b, os.WriteFile(file, messages.Bytes(), 0o600))
				benchWays(b, broker, server, file, records)
			})
		}
	}
}

// benchWays reads the same records from the topic and the file in each way, in turns.
func benchWays(b *testing.B, broker *testkafka.Cluster, server *testpg.Server, file string, records int) {
	topic := []string{"kafka://" + broker.Addr() + "/t", "--partitions", fmt.Sprint("0-", benchPartitions-1), "--until-end"}
	var alone, dry, sqlite, postgres, fromFile usage
	for b.Loop() {
		alone.add(readAlone(b, broker, records))
		dry.add(readByProgram(b, nil, append(topic, "--dry-run", "--to", "t.db")...))
		sqlite.add(readByProgram(b, nil, append(topic, "--to", "t.db")...))
		postgres.add(readByProgram(b, server, append(topic, "--to", server.Database(b))...))
		fromFile.add(readByProgram(b, server, file, "--to", server.Database(b)))
	}
	per := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(records*b.N) }
	b.ReportMetric(float64(records*b.N)/alone.wall.Seconds(), "kgo-rec/s")
	b.ReportMetric(per(alone.cpu), "kgo-cpu-µs/rec")
	for way, u := range map[string]usage{"dry": dry, "sqlite": sqlite, "postgres": postgres} {
		b.ReportMetric(alone.wall.Seconds()/u.wall.Seconds(), way+"/kgo")
		b.ReportMetric(per(u.cpu), way+"-cpu-µs/rec")
		b.ReportMetric(float64(u.peak)/1e6, way+"-peak-MB")
	}
	b.ReportMetric(per(fromFile.cpu), "file-cpu-µs/rec")
	b.ReportMetric(per(postgres.server), "postgres-server-µs/rec")
	b.ReportMetric(per(fromFile.server), "file-server-µs/rec")
	b.ReportMetric(float64(postgres.cpu+postgres.server)/float64(fromFile.cpu+fromFile.server), "postgres/file-cpu")
}

// BenchmarkKafkaMembers reads a topic into Postgres, with 20 ms latency each way, by one group member and by two, in
// turns. It measures from their start to their end.
func BenchmarkKafkaMembers(b *testing.B) {
	records := benchRecords()
	var messages bytes.Buffer
	testcheck.NoError(b, bench.Hot(&messages, records, 5000, 1))
	broker := testkafka.Broker(b, benchPartitions, "t")
	fillTopic(b, broker, "t", messages.Bytes())
	var took [3]time.Duration // by number of members
	for b.Loop() {
		for members := 1; members <= 2; members++ {
			proxy := testpg.NewProxy(b, testpg.New(b))
			proxy.Delay(20 * time.Millisecond)
			group := fmt.Sprint("bench", time.Now().UnixNano())
			begun := time.Now()
			var reading sync.WaitGroup
			for range members {
				reading.Go(func() {
					readByProgram(b, nil, "kafka://"+broker.Addr()+"/t", "--group", group, "--until-end", "--batch-rows", "1000", "--to", proxy.URL())
				})
			}
			reading.Wait()
			took[members] += time.Since(begun)
		}
	}
	b.ReportMetric(float64(records*b.N)/took[1].Seconds(), "one-rec/s")
	b.ReportMetric(took[1].Seconds()/took[2].Seconds(), "two/one")
}

// usage is what reading a topic costs. The CPU time is the reader's alone, so other load does not count.
type usage struct {
	wall, cpu time.Duration
	server    time.Duration // CPU time of the database server
	peak      int64         // peak memory in bytes
}

func (u *usage) add(v usage) {
	u.wall, u.cpu, u.server, u.peak = u.wall+v.wall, u.cpu+v.cpu, u.server+v.server, max(u.peak, v.peak)
}

// fillTopic writes messages that begin with their ids into all partitions of a topic. Each id is in one partition.
func fillTopic(b *testing.B, c *testkafka.Cluster, topic string, messages []byte, opts ...kgo.Opt) {
	client := c.Client(opts...)
	for line := range bytes.Lines(messages) {
		id, _, _ := bytes.Cut(line[len(`{"id":"`):], []byte(`"`))
		client.Produce(b.Context(), &kgo.Record{Topic: topic, Partition: int32(crc32.ChecksumIEEE(id) % benchPartitions), Key: id, Value: line[:len(line)-1]}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	testcheck.NoError(b, client.Flush(b.Context()))
}

// readAlone reads the topic with the bare client, with the program's fetch settings.
func readAlone(b *testing.B, c *testkafka.Cluster, records int) usage {
	begun, before := time.Now(), cpuTime(b)
	from := map[int32]kgo.Offset{}
	for p := range int32(benchPartitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	client := c.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer client.Close()
	for n := 0; n < records; {
		fetches := client.PollRecords(b.Context(), 5000)
		testcheck.NoError(b, fetches.Err())
		n += fetches.NumRecords()
	}
	return usage{wall: time.Since(begun), cpu: cpuTime(b) - before}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	testcheck.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readByProgram reads a source with the program into an empty database: SQLite, or a Postgres server's.
func readByProgram(b *testing.B, server *testpg.Server, args ...string) (u usage) {
	if server != nil {
		before := server.CPU(b)
		defer func() { u.server = server.CPU(b) - before }()
	}
	f := testweir.New(b, "")
	f.Program = cmp.Or(os.Getenv("WEIR"), f.Program)
	begun := time.Now()
	run := f.Start(append([]string{"sync", "--table", "t"}, args...)...)
	u.peak = run.Peak()
	u.wall = time.Since(begun)
	run.Exit(0)
	u.cpu = run.ProcessState.UserTime() + run.ProcessState.SystemTime()
	return u
}

// BenchmarkPeers runs bench/peers, in the folder PEERS, with a private Postgres server and Apache Kafka. RECORDS is the
// number of messages, WEIR the program.
func BenchmarkPeers(b *testing.B) {
	peers := os.Getenv("PEERS")
	if peers == "" {
		b.Skip("it installs other programs: make bench-peers")
	}
	records, err := strconv.Atoi(os.Getenv("RECORDS"))
	testcheck.NoError(b, err)
	var feed bytes.Buffer
	testcheck.NoError(b, bench.Hot(&feed, records, 5000, 1))
	sample, err := os.ReadFile(filepath.Join(peers, "sample.jsonl"))
	testcheck.NoError(b, err)
	file := filepath.Join(b.TempDir(), "feed.jsonl")
	testcheck.NoError(b, os.WriteFile(file, feed.Bytes(), 0o600))
	broker := testkafka.Broker(b, benchPartitions, "feed", "sample")
	fillTopic(b, broker, "feed", feed.Bytes(), kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	fillTopic(b, broker, "sample", sample)
	server := testpg.Start(b, "fsync=on", "autovacuum=on", "shared_buffers=128MB")
	for b.Loop() {
		cmd := exec.Command("python3", peers, file, "--postgres", server.Database(b), "--kafka", broker.Addr(), "--weir", os.Getenv("WEIR"))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		testcheck.NoError(b, cmd.Run())
	}
}
