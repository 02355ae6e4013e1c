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
	// lettersAtOnce is how much is fetched, and how much is sent, at a time, unless one record is larger.
	lettersAtOnce = 512 << 10 // bytes
	// maxLetter is the largest record that is sent whole, if the topic takes it.
	maxLetter = 64 << 20 // bytes
	// decodeTries is how often a batch is fetched before it counts as one that cannot be read.
	decodeTries = 2
	// letterWait is how long the brokers may take to take a record before it is retried.
	letterWait = 30 * time.Second
)

// letters send rejected records to the topic of dead letters.
type letters struct {
	cfg     *config
	brokers *brokers
	catalog *catalog
	all     atomic.Bool // the group has read all lanes to their ends: it may assign none of them again
}

// checkLetters reports why rejected records cannot be sent to a topic, which it takes out of those that were found.
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

// owned are the lanes whose letters the run may send: those that were begun, and that no other member is known to have.
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
	decompressor kgo.Decompressor // of the batches that have the records
}

func (s *letters) newSender() (source.Sender, error) {
	cl, err := kgo.NewClient(append(s.brokers.options(), kgo.DefaultProduceTopic(s.cfg.kafka.DeadLetters),
		kgo.ProducerBatchMaxBytes(maxLetter), kgo.RecordDeliveryTimeout(letterWait), kgo.AllowIdempotentProduceCancellation())...)
	return &sender{s.brokers, s.catalog.lanes, cl, kgo.DefaultDecompressor()}, err
}

// Close ends the sender's connections. A letter that is being sent fails, but the brokers may have it.
func (s *sender) Close() { s.producer.Close() }

// Send implements [source.Sender]: a letter is sent if all replicas in sync have it.
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

// originals fetches the records of some of the first letters: nil for a letter whose record is not to be had any more.
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

// recordsOf takes the records of the first letters out of batches. It ends before a batch that cannot be
// read, and where what it has decompressed is large.
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

// decode takes the records from an offset on out of the first of some batches. end is where they end.
func (s *sender) decode(of partition, offset int64, batches *kmsg.FetchResponseTopicPartition) (p kgo.FetchPartition, end int64) {
	first := *batches
	if h, ok := readHeader(first.RecordBatches); ok {
		first.RecordBatches = first.RecordBatches[:min(len(first.RecordBatches), h.size)]
	}
	o := kgo.ProcessFetchPartitionOpts{Offset: offset, Topic: of.topic, Partition: of.number, KeepControlRecords: true, IsolationLevel: kgo.ReadUncommitted()}
	return kgo.ProcessFetchPartition(o, &first, s.decompressor, nil)
}

// produce sends the first letters, of which originals are the records.
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
			if isTooLarge(failed) || errors.Is(failed, kerr.InvalidRecord) { // by itself it may not be
				failed = s.producer.ProduceSync(ctx, recordOf(of, l, originals[j])).FirstErr()
			}
			if isTooLarge(failed) { // it goes without what does not fit
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

// Headers that a letter has behind those of its record.
const (
	headerReason     = "weir.reason"
	headerTopic      = "weir.topic"
	headerPartition  = "weir.partition"
	headerOffset     = "weir.offset"
	headerTimestamp  = "weir.timestamp" // milliseconds since 1970
	headerIncomplete = "weir.incomplete"
)

// recordOf is the record of a letter: the original one, where there is one, with what weir says of it.
func recordOf(of *source.Letter, l *lane, original *kgo.Record) *kgo.Record {
	if original == nil {
		return keptOf(of, l, "the topic no longer has the record, or it cannot be read")
	}
	r := &kgo.Record{Key: original.Key, Value: original.Value, Headers: append(slices.Clone(original.Headers), headersOf(of, l)...)}
	r.Headers = append(r.Headers, headerOf(headerTimestamp, strconv.FormatInt(original.Timestamp.UnixMilli(), 10)))
	return r
}

// keptOf is a record with what the database keeps of a letter.
func keptOf(of *source.Letter, l *lane, why string) *kgo.Record {
	value := of.Text
	if value == nil {
		value = []byte{} // no tombstone
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
