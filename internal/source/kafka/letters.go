package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/source"
)

const (
	// lettersAtOnce limits how much is fetched, and how much is sent, at a time. A larger record is handled alone.
	lettersAtOnce = 512 << 10 // bytes
	// maxLetter is the largest record that is sent whole, if the topic accepts it.
	maxLetter = 64 << 20 // bytes
	// decodeTries is how often a batch is fetched before it counts as unreadable.
	decodeTries = 2
	// letterWait is how long the brokers may take to accept a record before it is retried.
	letterWait = 30 * time.Second
)

// letters sends rejected records to the topic of dead letters.
type letters struct {
	cfg     *config
	brokers *brokers
	catalog *catalog
	all     atomic.Bool // all lanes were read to their ends, and the group will not assign any of them again
}

// checkLetters returns an error if rejected records cannot be sent to a topic. It removes that topic from found.
func checkLetters(name string, found kadm.TopicDetails) error {
	switch t, ok := found[name]; {
	case name == "":
	case !ok || errors.Is(t.Err, kerr.UnknownTopicOrPartition):
		return fatalError{fmt.Errorf("--rejects topic:%s: the topic does not exist: create it, weir does not", name)}
	case t.Err != nil:
		return fmt.Errorf("--rejects topic:%s: %w", name, t.Err)
	}
	delete(found, name)
	return nil
}

// owned returns the lanes whose letters the run may send: begun, and not known to be owned by another member.
func (s *letters) owned() (names []string) {
	for _, l := range s.catalog.lanes {
		if l.owned.Load() || s.all.Load() {
			names = append(names, l.name)
		}
	}
	return names
}

// A sender sends dead letters.
type sender struct {
	brokers      *brokers
	lanes        []*lane
	producer     *kgo.Client
	decompressor kgo.Decompressor // for the batches with the original records
}

func (s *letters) newSender() (source.Sender, error) {
	cl, err := kgo.NewClient(append(s.brokers.options(), kgo.DefaultProduceTopic(s.cfg.kafka.DeadLetters),
		kgo.ProducerBatchMaxBytes(maxLetter), kgo.RecordDeliveryTimeout(letterWait), kgo.AllowIdempotentProduceCancellation())...)
	return &sender{s.brokers, s.catalog.lanes, cl, kgo.DefaultDecompressor()}, err
}

// Close ends the sender's connections. A letter in flight fails, but the brokers may have it.
func (s *sender) Close() { s.producer.Close() }

// Send implements [source.Sender]. A letter counts as sent if all in-sync replicas have it.
func (s *sender) Send(ctx context.Context, letters []source.Letter) (sent []int64, err error) {
	of := map[string][]source.Letter{}
	for _, l := range letters {
		of[l.Lane] = append(of[l.Lane], l)
	}
	for _, l := range s.lanes {
		all := of[l.name]
		slices.SortFunc(all, func(a, b source.Letter) int { return cmp.Compare(a.Offset, b.Offset) })
		for len(all) > 0 && ctx.Err() == nil {
			some, failed := s.originals(ctx, l, all)
			if failed != nil {
				err = cmp.Or(err, failed)
				break
			}
			done, failed := s.produce(ctx, l, all, some)
			sent, err = append(sent, done...), cmp.Or(err, failed)
			all = all[len(some):]
		}
	}
	return sent, err
}

// originals fetches the original records of the first letters. It is nil for a letter whose record no longer exists.
func (s *sender) originals(ctx context.Context, l *lane, letters []source.Letter) (some []*kgo.Record, err error) {
	for try := 0; len(some) == 0 && try < decodeTries; try++ {
		batches, err := s.brokers.fetch(ctx, l, letters[0].Offset, lettersAtOnce)
		if errors.Is(err, errGone) {
			break
		} else if err != nil {
			return nil, err
		}
		some = s.recordsOf(l, letters, batches)
	}
	if len(some) == 0 {
		some = []*kgo.Record{nil}
	}
	return some, nil
}

// recordsOf extracts the records of the first letters from batches. It stops at a batch that cannot be read, and if the
// decompressed data grows large.
func (s *sender) recordsOf(l *lane, letters []source.Letter, batches *kmsg.FetchResponseTopicPartition) (some []*kgo.Record) {
	rest, size := *batches, 0
	for end := letters[0].Offset; len(some) < len(letters) && size < lettersAtOnce; {
		p, next := s.decode(l.partition, end, &rest)
		if next <= end || p.Err != nil && len(some) > 0 {
			break
		}
		end = next
		for _, r := range p.Records {
			size += len(r.Key) + len(r.Value)
		}
		for len(some) < len(letters) && letters[len(some)].Offset < end {
			i, found := slices.BinarySearchFunc(p.Records, letters[len(some)].Offset, func(r *kgo.Record, offset int64) int { return cmp.Compare(r.Offset, offset) })
			if found {
				some = append(some, p.Records[i])
			} else {
				some = append(some, nil)
			}
		}
		h, ok := readHeader(rest.RecordBatches)
		if !ok || h.size >= len(rest.RecordBatches) {
			break
		}
		rest.RecordBatches = rest.RecordBatches[h.size:]
	}
	return some
}

// decode extracts the records from an offset on from the first of the batches. end is the offset after them.
func (s *sender) decode(of partition, offset int64, batches *kmsg.FetchResponseTopicPartition) (p kgo.FetchPartition, end int64) {
	first := *batches
	if h, ok := readHeader(first.RecordBatches); ok {
		first.RecordBatches = first.RecordBatches[:min(len(first.RecordBatches), h.size)]
	}
	o := kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: of.topic, Partition: of.number, KeepControlRecords: true, IsolationLevel: kgo.ReadUncommitted()}
	return kgo.ProcessFetchPartition(o, &first, s.decompressor, nil)
}

// produce sends the first letters. originals are their records.
func (s *sender) produce(ctx context.Context, l *lane, letters []source.Letter, originals []*kgo.Record) (sent []int64, err error) {
	for i := 0; i < len(originals); {
		var records []*kgo.Record
		begin, size := i, 0
		for ; i < len(originals) && (i == begin || size < lettersAtOnce); i++ {
			r := recordOf(&letters[i], l, originals[i])
			records = append(records, r)
			size += len(r.Key) + len(r.Value)
		}
		for _, result := range s.producer.ProduceSync(ctx, records...) {
			j, failed := begin+slices.Index(records, result.Record), result.Err
			of := &letters[j]
			if isTooLarge(failed) || errors.Is(failed, kerr.InvalidRecord) { // alone, it may be accepted
				failed = s.producer.ProduceSync(ctx, recordOf(of, l, originals[j])).FirstErr()
			}
			if isTooLarge(failed) { // send it without what does not fit
				failed = s.producer.ProduceSync(ctx, keptOf(of, l, "the topic of dead letters takes no record as large")).FirstErr()
			}
			if failed == nil {
				sent = append(sent, of.ID)
			}
			err = cmp.Or(err, failed)
		}
	}
	return sent, err
}

func isTooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// Headers that a letter has after its record's own headers.
const (
	headerReason     = "weir.reason"
	headerTopic      = "weir.topic"
	headerPartition  = "weir.partition"
	headerOffset     = "weir.offset"
	headerTimestamp  = "weir.timestamp" // milliseconds since 1970
	headerIncomplete = "weir.incomplete"
)

// recordOf returns the record to send for a letter: the original one, if it still exists, with weir's headers.
func recordOf(of *source.Letter, l *lane, original *kgo.Record) *kgo.Record {
	if original == nil {
		return keptOf(of, l, "the topic no longer has the record, or it cannot be read")
	}
	r := &kgo.Record{Key: original.Key, Value: original.Value, Headers: append(slices.Clone(original.Headers), headersOf(of, l)...)}
	r.Headers = append(r.Headers, headerOf(headerTimestamp, strconv.FormatInt(original.Timestamp.UnixMilli(), 10)))
	return r
}

// keptOf returns a record built from what the database keeps of a letter.
func keptOf(of *source.Letter, l *lane, why string) *kgo.Record {
	value := of.Text
	if value == nil {
		value = []byte{} // not a tombstone
	}
	return &kgo.Record{Value: value, Headers: append(headersOf(of, l), headerOf(headerIncomplete, why+": this is what weir_rejects had of it"))}
}

func headersOf(of *source.Letter, l *lane) []kgo.RecordHeader {
	return []kgo.RecordHeader{headerOf(headerReason, of.Reason), headerOf(headerTopic, l.topic), headerOf(headerPartition, strconv.Itoa(int(l.number))),
		headerOf(headerOffset, strconv.FormatInt(of.Offset, 10))}
}

func headerOf(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}
