// Package testkafka starts clusters of Kafka for tests: of Kafka's stand-in in the test's own
// process, and of Apache Kafka.
package testkafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/pgserver"
	"github.com/weirsync/weir/internal/testcheck"
)

// A Cluster is one broker, which can be stopped and started again with what it holds.
type Cluster struct {
	t              testing.TB
	opts           []kfake.Opt
	port           int
	id             string
	*kfake.Cluster // nil: it is real
	real           *broker
}

// Start starts a cluster of the stand-in.
func Start(t testing.TB, opts ...kfake.Opt) *Cluster {
	t.Helper()
	port, err := pgserver.FreePort()
	testcheck.NoError(t, err)
	c := &Cluster{t: t, port: port, id: "CLUSTER"}
	quick := kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "500"})
	c.opts = append(opts, quick, kfake.Ports(port), kfake.ClusterID(c.id), kfake.DataDir(t.TempDir()))
	c.Up()
	t.Cleanup(func() { c.Down() })
	return c
}

// A Starter returns a cluster that has these topics and no others.
type Starter func(t testing.TB, partitions int32, topics ...string) *Cluster

// Each runs a test with the stand-in and with Apache Kafka, at the same time.
func Each(t *testing.T, test func(t *testing.T, start Starter)) {
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, func(t testing.TB, partitions int32, topics ...string) *Cluster {
			return Start(t, kfake.SeedTopics(partitions, topics...))
		})
	})
	t.Run("broker", func(t *testing.T) {
		t.Parallel()
		test(t, Broker)
	})
}

// Broker returns the cluster of Apache Kafka that the tests of a test binary share one after
// another, with these topics and no others.
func Broker(t testing.TB, partitions int32, topics ...string) *Cluster {
	t.Helper()
	b := shareBroker(t)
	b.used.Lock()
	t.Cleanup(b.used.Unlock)
	c := &Cluster{t: t, port: b.ports[0], id: b.cluster, real: b}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker said:\n%s", b.said())
		}
	})
	if !b.running() {
		c.Up()
	}
	there, err := kadm.NewClient(c.Client()).ListTopics(t.Context())
	testcheck.NoError(t, err)
	// One that was just made may not be listed.
	c.DeleteTopics(slices.Compact(slices.Sorted(slices.Values(append(there.Names(), topics...))))...)
	if len(topics) > 0 {
		c.CreateTopics(partitions, nil, topics...)
	}
	return c
}

// Up starts the broker again; Kafka's stand-in with more options.
func (c *Cluster) Up(more ...kfake.Opt) {
	c.t.Helper()
	c.opts = append(c.opts, more...)
	var err error
	if c.real != nil {
		err = c.real.up()
	} else {
		c.Cluster, err = kfake.NewCluster(c.opts...)
	}
	testcheck.NoError(c.t, err)
}

// Down ends the broker: that of Apache Kafka without a warning.
func (c *Cluster) Down() {
	if c.real != nil {
		c.real.kill()
	} else {
		c.Close()
	}
}

// Slow reports whether a test had better do less with Apache Kafka: it takes seconds to start, and is not what
// the tests are about (make kafka).
func Slow() bool { return os.Getenv("REQUIRE_KAFKA") == "" }

// Real reports whether it is Apache Kafka.
func (c *Cluster) Real() bool { return c.real != nil }

// Addr is that of the broker.
func (c *Cluster) Addr() string { return "127.0.0.1:" + strconv.Itoa(c.port) }

// TLS is the address where Apache Kafka wants a certificate, and the folder with cert.pem, which is
// the one that it has and takes, and its key.pem.
func (c *Cluster) TLS() (addr, folder string) {
	return "127.0.0.1:" + strconv.Itoa(c.real.ports[1]), c.real.dir
}

// SASL is the address where Apache Kafka wants a login over TLS.
func (c *Cluster) SASL() string { return "127.0.0.1:" + strconv.Itoa(c.real.ports[2]) }

// ID is that of the cluster.
func (c *Cluster) ID() string { return c.id }

// Client returns a client, which ends with the test.
func (c *Cluster) Client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	testcheck.NoError(c.t, err)
	c.t.Cleanup(cl.Close)
	return cl
}

// CreateTopics creates topics, with settings such as cleanup.policy.
func (c *Cluster) CreateTopics(partitions int32, settings map[string]string, topics ...string) {
	c.t.Helper()
	policy := "delete" // else a broker may keep the policy of a topic that had the name before
	all := map[string]*string{"cleanup.policy": &policy}
	for k, v := range settings {
		all[k] = &v
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	admin := kadm.NewClient(c.Client())
	answers, err := admin.CreateTopics(ctx, partitions, 1, all, topics...)
	if err == nil {
		err = answers.Error()
	}
	testcheck.NoError(c.t, err)
	c.until(admin, func(listed kadm.TopicDetails) bool {
		for _, a := range answers {
			if listed[a.Topic].ID != a.ID {
				return false
			}
		}
		return leads(listed)
	})
}

// DeleteTopics deletes those topics that exist.
func (c *Cluster) DeleteTopics(topics ...string) {
	c.t.Helper()
	admin := kadm.NewClient(c.Client())
	answers, err := admin.DeleteTopics(c.t.Context(), topics...)
	for _, a := range answers {
		if !errors.Is(a.Err, kerr.UnknownTopicOrPartition) {
			err = errors.Join(err, a.Err)
		}
	}
	testcheck.NoError(c.t, err)
	c.until(admin, func(listed kadm.TopicDetails) bool {
		return !slices.ContainsFunc(topics, listed.Has)
	})
}

// until waits for what the broker says of its topics: it learns from the controller what was done.
func (c *Cluster) until(admin *kadm.Client, what func(kadm.TopicDetails) bool) {
	c.t.Helper()
	testcheck.Until(c.t, func() string {
		listed, err := admin.ListTopics(c.t.Context())
		if err == nil && what(listed) {
			return ""
		}
		return fmt.Sprintf("the topics are %v, %v", listed.Names(), err)
	})
}

// AddPartition adds a partition to a topic.
func (c *Cluster) AddPartition(topic string) {
	c.t.Helper()
	answers, err := kadm.NewClient(c.Client()).CreatePartitions(c.t.Context(), 1, topic)
	testcheck.NoError(c.t, errors.Join(err, answers.Error()))
}

// Record returns a record: the text is its value, or "KEY|VALUE", or "KEY|" for one without a value.
func Record(text string) *kgo.Record {
	key, value, ok := strings.Cut(text, "|")
	switch {
	case !ok:
		return &kgo.Record{Value: []byte(text)}
	case value == "":
		return &kgo.Record{Key: []byte(key)}
	}
	return &kgo.Record{Key: []byte(key), Value: []byte(value)}
}

// Produce appends records to a partition, in one batch.
func (c *Cluster) Produce(topic string, partition int32, texts ...string) {
	c.t.Helper()
	records := make([]*kgo.Record, len(texts))
	for i, text := range texts {
		records[i] = Record(text)
		records[i].Topic, records[i].Partition = topic, partition
	}
	c.Send(c.Client(), records...)
}

// Send has a client append records.
func (c *Cluster) Send(cl *kgo.Client, records ...*kgo.Record) {
	c.t.Helper()
	testcheck.NoError(c.t, cl.ProduceSync(c.t.Context(), records...).FirstErr())
}

// Members are the ids of a group's members, sorted.
func (c *Cluster) Members(group string) (ids []string) {
	if g := c.GroupInfo(group); g != nil {
		for i := range g.Members {
			ids = append(ids, g.Members[i].MemberID)
		}
	}
	return ids
}

// Expel has a classic group take a member for dead, as it does when the member's session has expired.
func (c *Cluster) Expel(group, member string) {
	c.t.Helper()
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.Members = group, []kmsg.LeaveGroupRequestMember{{MemberID: member}}
	answer, err := r.RequestWith(c.t.Context(), c.Client())
	testcheck.NoError(c.t, err)
	testcheck.NoError(c.t, errors.Join(kerr.ErrorForCode(answer.ErrorCode), kerr.ErrorForCode(answer.Members[0].ErrorCode)))
}
