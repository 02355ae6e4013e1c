package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/source"
)

// pollRecords is how many records are polled from the client at a time.
const pollRecords = 5000

// A fetcher fetches the records of lanes. The goroutine that calls Next owns it.
type fetcher struct {
	cfg      *config
	brokers  *brokers
	catalog  *catalog
	consumer *kgo.Client         // nil before connect
	lanes    map[partition]*lane // lanes being fetched
	pending  []fetched           // not yet returned by Next
	texts    texter
}

// fetched holds records of one lane.
type fetched struct {
	lane    *lane
	records []*kgo.Record
}

// connect creates the client that fetches; the options say what.
func (f *fetcher) connect(what []kgo.Opt) (consumer *kgo.Client, err error) {
	isolation := kgo.ReadCommitted()
	if f.cfg.kafka.Uncommitted {
		isolation = kgo.ReadUncommitted()
	}
	most, _ := maxBatch(&f.cfg.common)
	opts := append(f.brokers.options(), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(f.catalog.fetchBytes()), kgo.MaxDecompressBatchBytes(most))
	f.consumer, err = kgo.NewClient(append(opts, what...)...)
	return f.consumer, err
}

// offsets returns the offsets from which the lanes are fetched.
func (f *fetcher) offsets() map[string]map[int32]kgo.Offset {
	from := map[string]map[int32]kgo.Offset{}
	for p, l := range f.lanes {
		if from[p.topic] == nil {
			from[p.topic] = map[int32]kgo.Offset{}
		}
		from[p.topic][p.number] = l.at.offset()
	}
	return from
}

// remove drops a lane and what was fetched from it.
func (f *fetcher) remove(l *lane) {
	delete(f.lanes, l.partition)
	f.pending = slices.DeleteFunc(f.pending, func(some fetched) bool { return some.lane == l })
}

// end removes a lane that was read to its end. With a group, the partition may stay assigned to the member.
func (f *fetcher) end(l *lane) {
	f.remove(l)
	of := map[string][]int32{l.topic: {l.number}}
	switch {
	case f.consumer == nil:
	case f.cfg.kafka.Group != "":
		f.consumer.PauseFetchPartitions(of)
	default:
		f.consumer.RemoveConsumePartitions(of)
	}
}

// take makes a block of the oldest fetched records, of which there must be some. The block is nil if none of them is a
// message.
func (f *fetcher) take() (*lane, *source.Block) {
	first := &f.pending[0]
	l := first.lane
	b, n := f.texts.fill(l, first.records, f.cfg.common.Pool)
	if first.records = first.records[n:]; len(first.records) == 0 {
		f.pending = slices.Delete(f.pending, 0, 1)
	}
	return l, b
}

// poll polls records from the client. It waits until some arrive or polling ends, at most a second.
func (f *fetcher) poll(ctx, polling context.Context) error {
	polling, cancel := context.WithTimeout(polling, time.Second)
	defer cancel()
	fetches := f.consumer.PollRecords(polling, pollRecords)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if l := f.lanes[partition{p.Topic, p.Partition}]; l != nil {
			if len(p.Records) > 0 {
				f.pending = append(f.pending, fetched{l, p.Records})
			}
			l.raise(f.catalog.endOf(&p.FetchPartition))
		}
	})
	var failures []error
	fetches.EachError(func(topic string, number int32, err error) {
		failures = append(failures, f.failed(ctx, f.lanes[partition{topic, number}], err))
	})
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return f.brokers.connections.unreachable()
}

// failed handles an error of a fetch. It returns an error if that ends the run. l is nil if the error belongs to no
// lane.
func (f *fetcher) failed(ctx context.Context, l *lane, err error) error {
	var session *kgo.ErrGroupSession
	var lost *kgo.ErrDataLoss
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil
	case errors.As(err, &session) && isNameTaken(err):
		return fmt.Errorf("group %s: another member has the name %q (%w): give each its own --group-instance", f.cfg.kafka.Group, f.cfg.kafka.Instance, source.ErrNameTaken)
	case errors.As(err, &session) && errors.Is(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("--session-timeout %s: %w", f.cfg.kafka.Session, err)
	case errors.As(err, &session) && !isHopeless(err) && (!isRefusal(err) || f.brokers.connections.mayBeReplaced(err)):
		f.cfg.common.Log.Info(fmt.Sprintf("left group %s: %v; joining it again", f.cfg.kafka.Group, session.Err))
		return nil
	}
	f.cfg.common.Observer.FetchFailed()
	switch {
	case l == nil:
		return fmt.Errorf("reading from Kafka: %w", err)
	case isUnreadable(err):
		l.damage = err
		return nil
	case errors.As(err, &lost):
		return fmt.Errorf("%s lost its records from offset %d to %d, which were read: --restart reread reads it again", l.name, lost.ResetTo, lost.ConsumedTo-1)
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return &source.ChangedError{Name: l.name, What: fmt.Sprintf("is of a topic that was deleted, or recreated, while it was read (offset %d)", l.at.Offset)}
	case errors.Is(err, kerr.OffsetOutOfRange):
		if f.catalog.findBounds(ctx, l) == nil {
			if err := l.check(l.at); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("reading %s at offset %d: %w", l.name, l.at.Offset, err)
}
