// Package testkafka starts Kafka clusters for tests: an in-process fake (kfake), and Apache Kafka.
package testkafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/test/pgserver"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A Cluster has one broker, which can be stopped and started again with its data.
type Cluster struct {
	t              testing.TB
	opts           []kfake.Opt
	port           int
	id             string
	*kfake.Cluster // nil for Apache Kafka
	real           *broker
}

// Start starts a fake cluster.
func Start(t testing.TB, opts ...kfake.Opt) *Cluster {
	t.Helper()
	port, err := pgserver.FreePort()
	testcheck.NoError(t, err)
	c := &Cluster{t: t, port: port, id: "CLUSTER"}
	quick := kfake.BrokerConfigs(map[string]string{"group.consumer.heartbeat.interval.ms": "500"})
	c.opts = append(opts, quick, kfake.Ports(port), kfake.ListenFn(listen), kfake.ClusterID(c.id), kfake.DataDir(t.TempDir()))
	c.Up()
	t.Cleanup(func() { c.Down() })
	return c
}

// listen listens, and tries again for some seconds while the address is in use: a process that another test is starting
// has a copy of each open socket until it runs its program, also of those that were just closed.
func listen(network, address string) (l net.Listener, err error) {
	for range 100 {
		if l, err = net.Listen(network, address); !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, err
}

// A Starter returns a cluster with exactly these topics.
type Starter func(t testing.TB, partitions int32, topics ...string) *Cluster

// Each runs a test with the fake and with Apache Kafka, in parallel.
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

// Broker returns the Apache Kafka cluster that the tests of a test binary share one after another, with exactly these
// topics.
func Broker(t testing.TB, partitions int32, topics ...string) *Cluster {
	t.Helper()
	b := shareBroker(t)
	b.used.Lock()
	t.Cleanup(b.used.Unlock)
	c := &Cluster{t: t, port: b.ports[0], id: b.cluster, real: b}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker said:\n%s", b.logTail())
		}
	})
	if !b.running() {
		c.Up()
	}
	there, err := kadm.NewClient(c.Client()).ListTopics(t.Context())
	testcheck.NoError(t, err)
	// A new topic may not be listed yet.
	c.DeleteTopics(slices.Compact(slices.Sorted(slices.Values(append(there.Names(), topics...))))...)
	if len(topics) > 0 {
		c.CreateTopics(partitions, nil, topics...)
	}
	return c
}

// Up starts the broker again; the fake with more options.
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

// Down stops the broker: Apache Kafka without a warning.
func (c *Cluster) Down() {
	if c.real != nil {
		c.real.kill()
	} else {
		c.Close()
	}
}

// Slow reports whether a test should do less, because Apache Kafka takes seconds to start and is not what the tests
// are about (make kafka).
func Slow() bool { return os.Getenv("REQUIRE_KAFKA") == "" }

// Real reports whether the cluster is Apache Kafka.
func (c *Cluster) Real() bool { return c.real != nil }

// Addr returns the broker's address.
func (c *Cluster) Addr() string { return "127.0.0.1:" + strconv.Itoa(c.port) }

// TLS returns the address where Apache Kafka requires a client certificate, and the folder with cert.pem and key.pem.
// The same certificate is the broker's and the one it accepts.
func (c *Cluster) TLS() (addr, folder string) {
	return "127.0.0.1:" + strconv.Itoa(c.real.ports[1]), c.real.dir
}

// SASL returns the address where Apache Kafka requires a login over TLS.
func (c *Cluster) SASL() string { return "127.0.0.1:" + strconv.Itoa(c.real.ports[2]) }

// ID returns the cluster's ID.
func (c *Cluster) ID() string { return c.id }

// Client returns a client, which is closed when the test ends.
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
	policy := "delete" // else a broker may keep the policy of an earlier topic with the name
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

// DeleteTopics deletes the topics that exist.
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

// until waits for the broker's view of its topics, which it gets from the controller with a delay.
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

// Record returns a record: the text is its value, or "KEY|VALUE", or "KEY|" for a record without a value.
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

// Send makes a client append records.
func (c *Cluster) Send(cl *kgo.Client, records ...*kgo.Record) {
	c.t.Helper()
	testcheck.NoError(c.t, cl.ProduceSync(c.t.Context(), records...).FirstErr())
}

// Members returns the IDs of a group's members, sorted.
func (c *Cluster) Members(group string) (ids []string) {
	if g := c.GroupInfo(group); g != nil {
		for i := range g.Members {
			ids = append(ids, g.Members[i].MemberID)
		}
	}
	return ids
}

// Expel makes a classic group treat a member as dead, as if the member's session had expired.
func (c *Cluster) Expel(group, member string) {
	c.t.Helper()
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.Members = group, []kmsg.LeaveGroupRequestMember{{MemberID: member}}
	answer, err := r.RequestWith(c.t.Context(), c.Client())
	testcheck.NoError(c.t, err)
	if gone := kerr.ErrorForCode(answer.Members[0].ErrorCode); !errors.Is(gone, kerr.UnknownMemberID) { // it has left meanwhile
		testcheck.NoError(c.t, errors.Join(kerr.ErrorForCode(answer.ErrorCode), gone))
	}
}
