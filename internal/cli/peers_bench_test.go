package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/bench"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testpg"
)

// BenchmarkPeers runs bench/peers, the folder PEERS, with a private Postgres server and Apache Kafka.
// RECORDS is how many messages the feed has, WEIR the program.
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
