// Package kafka reads topics of Kafka. Each partition is a lane.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/source"
)

// pollRecords is how many records are taken of the client at a time.
const pollRecords = 5000

// A Source reads partitions that are assigned to it by name, or by a consumer group.
type Source struct {
	opts    source.Options
	kafka   Options
	spec    Spec
	brokers *brokers
	client  *kgo.Client // for all but records
	admin   *kadm.Client
	cluster string
	nodes   int     // brokers
	lanes   []*lane // sorted by topic and partition

	group    *group      // nil: the partitions are assigned by name
	finished atomic.Bool // the group has read all to the end
	offered  int         // of lanes, without a group
	consumer *kgo.Client // nil before all lanes are offered
	reading  map[partition]*lane
	pending  []fetched
	events   []source.Event // that come before all else

	decompressor kgo.Decompressor // of batches that the source itself fetches

	stopped context.Context    // ends with Stop
	stop    context.CancelFunc // of that
	cancel  context.CancelFunc // of what runs in the background
	waiting sync.WaitGroup     // for it
	texts   texter
}

type partition struct {
	topic  string
	number int32
}

// fetched are records of a partition that were polled.
type fetched struct {
	lane    *lane
	records []*kgo.Record
}

var (
	_ source.Catalog     = (*Source)(nil)
	_ source.DeadLetters = (*Source)(nil)
)

// New connects to the brokers of a spec, and finds the partitions that are to be read.
func New(ctx context.Context, spec string, o source.Options, k Options) (_ *Source, err error) {
	if o, err = o.WithDefaults(); err != nil {
		return nil, err
	}
	s := &Source{opts: o, kafka: k, reading: map[partition]*lane{}, decompressor: kgo.DefaultDecompressor()}
	if s.spec, err = ParseSpec(spec); err != nil {
		return nil, err
	}
	if len(k.Partitions) == 0 && k.Group == "" {
		return nil, fmt.Errorf("%s: only weir sync reads topics", spec)
	}
	s.brokers, s.texts = newBrokers(spec, &s.opts, k.SASL != ""), texter{maxLine: o.MaxLine, kafka: &s.kafka}
	if s.client, err = kgo.NewClient(s.options()...); err != nil {
		return nil, err
	}
	s.admin = kadm.NewClient(s.client)
	if err := s.brokers.patiently(ctx, func() error { return s.find(ctx) }); err != nil {
		s.client.Close()
		return nil, err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.stopped, s.stop = context.WithCancel(background)
	s.waiting.Go(func() { s.watchEnds(background) })
	if k.Group != "" {
		s.group = &group{calls: make(chan *call, 1), dirty: make(chan struct{}, 1), closing: background.Done()}
		s.offered = len(s.lanes)
		s.waiting.Go(func() { s.tellOffsets(background) })
	}
	return s, nil
}

// Lanes are the names of all lanes.
func (s *Source) Lanes() []string {
	names := make([]string, len(s.lanes))
	for i, l := range s.lanes {
		names[i] = l.name
	}
	return names
}

// Ends are the offsets at which the lanes end now.
func (s *Source) Ends() map[string]int64 {
	ends := map[string]int64{}
	for _, l := range s.lanes {
		ends[l.name] = l.end
	}
	return ends
}

// Next implements [source.Source].
func (s *Source) Next(ctx context.Context) (source.Event, error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopped, cancel)()
	e, err := s.next(reading)
	if err != nil && ctx.Err() == nil && s.stopped.Err() != nil {
		err = io.EOF
	}
	return e, err
}

// Stop implements [source.Source]: records can be read again from the checkpoints.
func (s *Source) Stop() { s.stop() }

func (s *Source) next(ctx context.Context) (source.Event, error) {
	for {
		switch {
		case ctx.Err() != nil:
			return source.Event{}, ctx.Err()
		case len(s.events) > 0:
			e := s.events[0]
			s.events = s.events[1:]
			return e, nil
		case s.offered < len(s.lanes):
			s.offered++
			return s.opened(s.lanes[s.offered-1]), nil
		}
		if some, err := s.answered(ctx); err != nil {
			return source.Event{}, err
		} else if some {
			continue
		}
		if len(s.pending) > 0 {
			if e, some := s.take(); some {
				return e, nil
			}
		} else if l := s.unreadable(); l != nil {
			if err := s.fetchAgain(ctx, l); err != nil {
				return source.Event{}, err
			}
		} else if err := s.poll(ctx); err != nil {
			return source.Event{}, err
		}
	}
}

// answered deals with what comes before reading; some is false where there is nothing. The error is
// io.EOF when all is read.
func (s *Source) answered(ctx context.Context) (some bool, err error) {
	switch {
	case s.group == nil && len(s.reading) == 0:
		return false, io.EOF
	case s.group == nil:
		return false, nil
	case s.consumer == nil:
		return true, s.consume()
	}
	if some, err = s.answer(); some || err != nil || len(s.reading) > 0 || !s.kafka.UntilEnd {
		return some, err
	}
	all, err := s.allCommitted(ctx)
	if all {
		s.finished.Store(true)
		return false, io.EOF
	}
	return false, err
}

// opened offers a lane.
func (s *Source) opened(l *lane) source.Event {
	return source.Event{Kind: source.Opened, Lane: l.name, Begin: func(ctx context.Context, from source.Point) (source.Lane, error) {
		return s.begin(ctx, l, from)
	}}
}

// begin has a lane read from a point.
func (s *Source) begin(ctx context.Context, l *lane, from source.Point) (source.Lane, error) {
	at, err := readCursor(from.Cursor, l)
	if err != nil {
		return nil, err
	}
	if from.Cursor == "" {
		if at.Offset, err = s.startOf(ctx, l); err != nil {
			return nil, err
		}
	}
	if first, ok := s.kafka.Start.Offsets[l.key()]; ok && at.Offset < first {
		if err := s.lookBehind(ctx, l, first); err != nil {
			return nil, err
		}
		if first > l.end {
			return nil, fmt.Errorf("--start %s=%d: the partition ends at offset %d", l.key(), first, l.end)
		}
		s.opts.Log.Warn(fmt.Sprintf("%s begins at offset %d: --start leaves out those from %d on", l.name, first, at.Offset))
		at.Offset, at.Epoch = first, -1
	}
	if err := s.check(ctx, l, at); err != nil {
		return nil, err
	}
	l.at = at
	l.committed.Store(at.Offset)
	l.owned.Store(true)
	if l.until >= 0 && at.Offset >= l.until {
		s.end(l)
	} else {
		s.reading[l.partition] = l
	}
	s.committed() // so that others see whose the lane is
	return &begunLane{l, s, source.Begun{At: at.text(), Offset: at.Offset, Waits: !s.kafka.UntilEnd}}, nil
}

// A begunLane is a lane for those who have begun it.
type begunLane struct {
	*lane
	of    *Source
	begun source.Begun
}

var (
	_ source.Lagging = (*begunLane)(nil)
	_ source.Acker   = (*begunLane)(nil)
)

// Begun implements [source.Lane].
func (l *begunLane) Begun() source.Begun { return l.begun }

// Partition implements [source.Lagging].
func (l *begunLane) Partition() (topic, number string) { return l.topic, fmt.Sprint(l.number) }

// Lag implements [source.Lagging].
func (l *begunLane) Lag() int64 { return l.lag() }

// Connected implements [source.Lagging].
func (l *begunLane) Connected() bool { return l.of.brokers.connected() }

// Committed implements [source.Acker].
func (l *begunLane) Committed(c source.Cursor) {
	if at, err := readCursor(c, l.lane); err == nil && c != "" {
		l.committed.Store(at.Offset)
		l.of.committed()
	}
}

// check reports why a lane cannot be read from a cursor.
func (s *Source) check(ctx context.Context, l *lane, at cursor) error {
	if err := s.lookBehind(ctx, l, at.Offset); err != nil {
		return err
	}
	return l.check(at)
}

// lookBehind finds out where a lane ends now, unless it is known to have an offset: another member may have read it since.
func (s *Source) lookBehind(ctx context.Context, l *lane, offset int64) error {
	if offset <= l.end {
		return nil
	}
	return s.brokers.patiently(ctx, func() error { return s.findBounds(ctx, l) })
}

// committed notes that there are offsets to tell.
func (s *Source) committed() {
	if s.group != nil {
		select {
		case s.group.dirty <- struct{}{}:
		default: // they are told already
		}
	}
}

// end ends a lane that was read to its end.
func (s *Source) end(l *lane) {
	l.ended = true
	delete(s.reading, l.partition)
	s.events = append(s.events, source.Event{Kind: source.Closing, Lane: l.name})
	of := map[string][]int32{l.topic: {l.number}}
	switch {
	case s.consumer == nil:
	case s.group != nil:
		s.consumer.PauseFetchPartitions(of)
	default:
		s.consumer.RemoveConsumePartitions(of)
	}
}

// poll takes records of the client.
func (s *Source) poll(ctx context.Context) error {
	if s.consumer == nil {
		if err := s.consume(); err != nil {
			return err
		}
	}
	polling, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.group != nil {
		s.group.polling.Store(&cancel)
		if len(s.group.calls) > 0 { // one that came before it could end this poll
			return nil
		}
	}
	fetches := s.consumer.PollRecords(polling, pollRecords)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var failures []error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if l := s.reading[partition{p.Topic, p.Partition}]; l != nil {
			if len(p.Records) > 0 {
				s.pending = append(s.pending, fetched{l, p.Records})
			}
			l.raise(s.endOf(&p.FetchPartition))
		}
	})
	fetches.EachError(func(topic string, number int32, err error) {
		var session *kgo.ErrGroupSession
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		case errors.As(err, &session) && !isHopeless(err) && !isRefusal(err):
			s.opts.Log.Info(fmt.Sprintf("left group %s: %v; joining it again", s.kafka.Group, session.Err))
		default:
			s.opts.Observer.FetchFailed()
			if l := s.reading[partition{topic, number}]; l != nil && isUnreadable(err) {
				l.unreadable = err
			} else {
				failures = append(failures, s.failure(ctx, l, err))
			}
		}
	})
	if len(failures) > 0 {
		return errors.Join(failures...)
	}
	return s.brokers.lost()
}

// consume begins to fetch the lanes that were begun, or joins the group.
func (s *Source) consume() (err error) {
	isolation := kgo.ReadCommitted()
	if s.kafka.Uncommitted {
		isolation = kgo.ReadUncommitted()
	}
	most, _ := s.maxBatch()
	opts := append(s.options(), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(s.fetchBytes()), kgo.MaxDecompressBatchBytes(most), kgo.WithPools(&pools{}))
	if s.group == nil {
		s.consumer, err = kgo.NewClient(append(opts, kgo.ConsumePartitions(s.offsets()))...)
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.group.stop = stop
	s.consumer, err = kgo.NewClient(append(append(opts, s.group.options(s)...), kgo.WithContext(ctx))...)
	return err
}

// offsets are those from which the lanes that were begun are fetched.
func (s *Source) offsets() map[string]map[int32]kgo.Offset {
	from := map[string]map[int32]kgo.Offset{}
	for p, l := range s.reading {
		if from[p.topic] == nil {
			from[p.topic] = map[int32]kgo.Offset{}
		}
		from[p.topic][p.number] = l.at.offset()
	}
	return from
}

// take makes a block of the records that were polled first. some is false where nothing has come
// of them.
func (s *Source) take() (e source.Event, some bool) {
	f := &s.pending[0]
	l := f.lane
	if s.reading[l.partition] != l {
		s.pending = slices.Delete(s.pending, 0, 1)
		return e, false
	}
	b, n := s.texts.fill(l, f.records, s.opts.Pool)
	f.records = f.records[n:]
	if len(f.records) == 0 {
		s.pending = slices.Delete(s.pending, 0, 1)
	}
	if l.until >= 0 && l.at.Offset >= l.until {
		s.end(l)
	}
	if b == nil {
		return e, false
	}
	return source.Event{Lane: l.name, Block: b}, true
}

// failure is an error of a partition, for people.
func (s *Source) failure(ctx context.Context, l *lane, err error) error {
	var lost *kgo.ErrDataLoss
	switch {
	case errors.As(err, &lost):
		return fmt.Errorf("%s lost its records from offset %d to %d, which were read: --restart reread reads it again", l.name, lost.ResetTo, lost.ConsumedTo-1)
	case l == nil:
		return fmt.Errorf("reading from Kafka: %w", err)
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return &source.ChangedError{Name: l.name, What: fmt.Sprintf("is of a topic that was deleted, or recreated, while it was read (offset %d)", l.at.Offset)}
	case errors.Is(err, kerr.OffsetOutOfRange):
		if s.findBounds(ctx, l) == nil {
			if err := l.check(l.at); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("reading %s at offset %d: %w", l.name, l.at.Offset, err)
}

// Close implements [source.Source].
func (s *Source) Close() error {
	if s.consumer != nil && s.group != nil && s.brokers.connected() {
		s.tell(context.Background(), s.consumer, s.lanes)
	}
	s.cancel()
	if s.consumer != nil {
		if s.group != nil {
			s.leave()
		}
		s.consumer.Close()
	}
	s.client.Close()
	s.waiting.Wait()
	return nil
}
