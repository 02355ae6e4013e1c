// Package testkafka starts clusters of Kafka's stand-in in the test's own process.
package testkafka

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A Cluster is one broker, which can be stopped and started again with what it holds.
type Cluster struct {
	t    testing.TB
	opts []kfake.Opt
	port int
	*kfake.Cluster
}

// Start starts a cluster.
func Start(t testing.TB, opts ...kfake.Opt) *Cluster {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	c := &Cluster{t: t, port: port, opts: append(opts, kfake.Ports(port), kfake.ClusterID("CLUSTER"), kfake.DataDir(t.TempDir()))}
	c.Up()
	t.Cleanup(func() { c.Down() })
	return c
}

// Up starts the broker again.
func (c *Cluster) Up() {
	c.t.Helper()
	var err error
	if c.Cluster, err = kfake.NewCluster(c.opts...); err != nil {
		c.t.Fatal(err)
	}
}

// Down stops the broker.
func (c *Cluster) Down() { c.Close() }

// Addr is that of the broker.
func (c *Cluster) Addr() string { return "127.0.0.1:" + strconv.Itoa(c.port) }

// Client returns a client, which ends with the test.
func (c *Cluster) Client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// Produce appends records to a partition: each the text of a value, or "KEY|VALUE", or "KEY|" for
// one without a value.
func (c *Cluster) Produce(topic string, partition int32, texts ...string) {
	c.t.Helper()
	records := make([]*kgo.Record, len(texts))
	for i, text := range texts {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte(text)}
		if key, value, ok := strings.Cut(text, "|"); ok {
			if records[i].Key, records[i].Value = []byte(key), []byte(value); value == "" {
				records[i].Value = nil
			}
		}
	}
	c.Send(c.Client(), records...)
}

// Send has a client append records.
func (c *Cluster) Send(cl *kgo.Client, records ...*kgo.Record) {
	c.t.Helper()
	if err := cl.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}
