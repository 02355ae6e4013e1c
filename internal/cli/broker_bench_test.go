package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/bench"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

const benchPartitions = 4

// BenchmarkKafka reads a topic of Apache Kafka by the client alone, which does nothing with the
// records, and by the program, in turns. KAFKA_RECORDS is how many records the topic has, WEIR the
// program.
func BenchmarkKafka(b *testing.B) {
	records, err := strconv.Atoi(os.Getenv("KAFKA_RECORDS"))
	if err != nil {
		records = 20_000
	}
	for codec, c := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		b.Run(codec, func(b *testing.B) {
			broker := testkafka.Broker(b, benchPartitions, "t")
			fillTopic(b, broker, records, kgo.ProducerBatchCompression(c), kgo.ProducerBatchMaxBytes(900_000))
			var alone usage
			ways := map[string]*usage{"dry": {}, "sqlite": {}, "postgres": {}}
			for b.Loop() {
				alone.add(readAlone(b, broker, records))
				for way, args := range map[string][]string{"dry": {"--dry-run", "--to", "t.db"}, "sqlite": {"--to", "t.db"}, "postgres": {"--to", testpg.New(b)}} {
					ways[way].add(readByProgram(b, broker, args...))
				}
			}
			b.ReportMetric(float64(records*b.N)/alone.wall.Seconds(), "kgo-rec/s")
			b.ReportMetric(alone.cpu.Seconds()*1e6/float64(records*b.N), "kgo-cpu-µs/rec")
			for way, u := range ways {
				b.ReportMetric(alone.wall.Seconds()/u.wall.Seconds(), way+"/kgo")
				b.ReportMetric(u.cpu.Seconds()*1e6/float64(records*b.N), way+"-cpu-µs/rec")
				b.ReportMetric(float64(u.peak)/1e6, way+"-peak-MB")
			}
		})
	}
}

// usage is what reading a topic took. The CPU is that of the reader alone, on a loaded machine too.
type usage struct {
	wall, cpu time.Duration
	peak      int64 // bytes of memory
}

func (u *usage) add(v usage) {
	u.wall, u.cpu, u.peak = u.wall+v.wall, u.cpu+v.cpu, max(u.peak, v.peak)
}

// fillTopic writes messages into all partitions of the topic, each id into one.
func fillTopic(b *testing.B, c *testkafka.Cluster, records int, opts ...kgo.Opt) {
	var feed bytes.Buffer
	if err := bench.Hot(&feed, records, 5000, 1); err != nil {
		b.Fatal(err)
	}
	client := c.Client(opts...)
	for line := range bytes.Lines(feed.Bytes()) {
		id := line[len(`{"id":"FLT`):][:9]
		n, _ := strconv.Atoi(string(id))
		client.Produce(b.Context(), &kgo.Record{Topic: "t", Partition: int32(n % benchPartitions), Key: id, Value: line[:len(line)-1]}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// readAlone reads the topic by the client, as the program asks for it.
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
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	return usage{wall: time.Since(begun), cpu: cpuTime(b) - before}
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readByProgram reads the topic by the program into an empty database.
func readByProgram(b *testing.B, c *testkafka.Cluster, args ...string) (u usage) {
	program := os.Getenv("WEIR")
	dir := b.TempDir()
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			b.Fatal(err)
		}
		program = filepath.Join(dir, "weir")
		if err := os.Symlink(self, program); err != nil {
			b.Fatal(err)
		}
	}
	cmd := exec.Command(program, append([]string{"sync", "kafka://" + c.Addr() + "/t", "--partitions", fmt.Sprint("0-", benchPartitions-1), "--until-end", "--table", "t"}, args...)...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &out
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				b.Fatalf("%v\n%s", err, out.String())
			}
			u.wall, u.cpu = time.Since(begun), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
			return u
		case <-time.After(20 * time.Millisecond):
			// Not that of the usage at the end, which begins with that of this process.
			u.peak = max(u.peak, highWater(cmd.Process.Pid))
		}
	}
}

// highWater is the most memory that a process has had, 0 where Linux does not say it.
func highWater(pid int) (bytes int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, text, ok := strings.Cut(string(status), "VmHWM:"); ok {
		kB, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
		return kB << 10
	}
	return 0
}
