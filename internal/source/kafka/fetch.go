package kafka

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchWait is how long a broker may wait with the answer to a fetch of its own.
const fetchWait = 1000 // milliseconds

// errGone says that a partition begins behind an offset, or ends before it, or is of another topic of the
// same name.
var errGone = errors.New("the topic no longer has it")

// fetch asks the leader of a lane for its batches from an offset on, as they lie there: at
// least one whole batch, and else no more than some bytes. Records of transactions come in any state.
func (s *Source) fetch(ctx context.Context, of *lane, offset int64, most int32) (*kmsg.FetchResponseTopicPartition, error) {
	meta, err := s.admin.Metadata(ctx, of.topic)
	if err != nil {
		return nil, err
	}
	topic := meta.Topics[of.topic]
	at := topic.Partitions[of.number]
	if err := errors.Join(topic.Err, at.Err); err != nil {
		return nil, err
	}
	if of.id != "" && topic.ID.String() != of.id {
		return nil, errGone
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = of.number, offset, most
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = of.topic, topic.ID, []kmsg.FetchRequestTopicPartition{p}
	r := kmsg.NewPtrFetchRequest()
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.Topics = fetchWait, 1, most, []kmsg.FetchRequestTopic{t}
	answer, err := r.RequestWith(ctx, s.client.Broker(int(at.Leader)))
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, err
	}
	if len(answer.Topics) == 0 || len(answer.Topics[0].Partitions) == 0 {
		return nil, kerr.UnknownServerError
	}
	got := &answer.Topics[0].Partitions[0]
	if errors.Is(kerr.ErrorForCode(got.ErrorCode), kerr.OffsetOutOfRange) {
		return nil, errGone
	}
	return got, kerr.ErrorForCode(got.ErrorCode)
}

// decode takes the records from an offset on out of the first of some batches. end is where they end.
func (s *Source) decode(of partition, offset int64, batches *kmsg.FetchResponseTopicPartition) (p kgo.FetchPartition, end int64) {
	first := *batches
	if h, ok := readHeader(first.RecordBatches); ok {
		first.RecordBatches = first.RecordBatches[:min(len(first.RecordBatches), h.size)]
	}
	o := kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: of.topic, Partition: of.number, KeepControlRecords: true, IsolationLevel: kgo.ReadUncommitted()}
	return kgo.ProcessFetchPartition(o, &first, s.decompressor, nil)
}

// A header is what stands before the records of a batch.
type header struct {
	size        int   // bytes of the batch
	first, last int64 // offsets
	records     int32
	epoch       int32
}

// headerSize is that of format 2, which all brokers since 0.11 write.
const headerSize = 61 // bytes

// readHeader reads the header of the first of some batches, unless it is no header.
func readHeader(batches []byte) (h header, ok bool) {
	if len(batches) < headerSize || batches[16] != 2 {
		return h, false
	}
	number := func(at int) int32 { return int32(binary.BigEndian.Uint32(batches[at:])) }
	h.first = int64(binary.BigEndian.Uint64(batches))
	h.size, h.epoch, h.last, h.records = 12+int(number(8)), number(12), h.first+int64(number(23)), number(57)
	return h, h.size >= headerSize && h.first >= 0
}
