package testkafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// Damage changes the batch of partition 0 of a topic that contains a text; the batch must not be compressed. It
// changes Apache Kafka's file, or the fake's next answers, as many as times (-1: all).
func (c *Cluster) Damage(topic, text string, times int, damage func(batch []byte)) {
	c.t.Helper()
	if c.real != nil {
		c.damageFile(topic, text, damage)
		return
	}
	id, whole := c.batches(topic)
	c.damage(whole, text, damage)
	var answered atomic.Int64
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked := r.(*kmsg.FetchRequest)
		if len(asked.Topics) != 1 || len(asked.Topics[0].Partitions) != 1 || asked.Topics[0].TopicID != id {
			return nil, nil, false
		}
		t, p := &asked.Topics[0], &asked.Topics[0].Partitions[0]
		from, to, end := 0, 0, int64(0)
		for b := range split(whole) {
			if to, end = b.to, b.end; p.FetchOffset < b.end {
				break
			}
			from = b.to
		}
		if p.FetchOffset >= end || times >= 0 && answered.Add(1) > int64(times) {
			return nil, nil, false
		}
		answer := asked.ResponseKind().(*kmsg.FetchResponse)
		at := kmsg.NewFetchResponseTopicPartition()
		at.Partition, at.HighWatermark, at.LastStableOffset, at.RecordBatches = p.Partition, 1<<20, 1<<20, whole[from:min(len(whole), max(to, from+int(p.PartitionMaxBytes)))]
		of := kmsg.NewFetchResponseTopic()
		of.Topic, of.TopicID, of.Partitions = t.Topic, t.TopicID, []kmsg.FetchResponseTopicPartition{at}
		answer.Topics = append(answer.Topics, of)
		return answer, nil, true
	})
}

// damageFile is Damage for a segment of Apache Kafka's log.
func (c *Cluster) damageFile(topic, text string, damage func(batch []byte)) {
	c.t.Helper()
	segments, err := filepath.Glob(c.real.file("data/" + topic + "-0/*.log"))
	if err != nil || len(segments) != 1 {
		c.t.Fatalf("the segments are %q, %v", segments, err)
	}
	f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
	testcheck.NoError(c.t, err)
	whole, err := os.ReadFile(segments[0])
	testcheck.NoError(c.t, err)
	c.damage(whole, text, damage)
	_, err = f.WriteAt(whole, 0)
	testcheck.NoError(c.t, errors.Join(err, f.Close()))
}

// damage changes the batch that contains a text.
func (c *Cluster) damage(whole []byte, text string, damage func(batch []byte)) {
	c.t.Helper()
	for b := range split(whole) {
		if batch := whole[b.from:b.to]; bytes.Contains(batch, []byte(text)) {
			damage(batch)
			return
		}
	}
	c.t.Fatalf("no batch has %q", text)
}

// batches returns all batches of partition 0 of a topic with an ID.
func (c *Cluster) batches(topic string) (id [16]byte, whole []byte) {
	c.t.Helper()
	cl := c.Client()
	found, err := kadm.NewClient(cl).Metadata(c.t.Context(), topic)
	testcheck.NoError(c.t, err)
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	t := kmsg.NewFetchRequestTopic()
	id = found.Topics[topic].ID
	t.Topic, t.TopicID, t.Partitions = topic, id, []kmsg.FetchRequestTopicPartition{p}
	r := kmsg.NewPtrFetchRequest()
	r.MinBytes, r.MaxBytes, r.Topics = 1, 1<<20, []kmsg.FetchRequestTopic{t}
	answer, err := r.RequestWith(c.t.Context(), cl.SeedBrokers()[0])
	testcheck.NoError(c.t, err)
	return id, bytes.Clone(answer.Topics[0].Partitions[0].RecordBatches)
}

// A batch is the bytes of one batch, and the offset after it.
type batch struct {
	from, to int
	end      int64
}

// split splits bytes into batches.
func split(whole []byte) func(func(batch) bool) {
	return func(yield func(batch) bool) {
		for at := 0; at+61 <= len(whole) && whole[at+16] == 2; {
			b := batch{from: at, to: at + 12 + int(binary.BigEndian.Uint32(whole[at+8:]))}
			b.end = int64(binary.BigEndian.Uint64(whole[at:])) + int64(binary.BigEndian.Uint32(whole[at+23:])) + 1
			if at = b.to; !yield(b) {
				return
			}
		}
	}
}
