// Package kafka reads Kafka topics. Each partition is a lane.
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

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/source"
)

// A Source reads partitions. They are assigned by name or by a consumer group. The goroutine that calls Next owns it.
type Source struct {
	*catalog
	member   *member             // nil: partitions are assigned by name
	consumer *kgo.Client         // fetches; nil before consume
	reading  map[partition]*lane // lanes being fetched
	pending  []fetched           // not yet returned by Next
	texts    texter
	events   []source.Event // returned before fetched records
	next     interrupter    // interrupts what Next waits for
	stopped  atomic.Bool
	closing  []func() // what Close calls, last first
}

// A config is what a source was opened with. It does not change.
type config struct {
	common source.Options
	kafka  Options
	spec   Spec
}

var _ source.Catalog = (*Source)(nil)

// New connects to the brokers in a spec, and finds the partitions to read.
func New(ctx context.Context, spec string, o source.Options, k Options) (_ *Source, err error) {
	if o.Nameless {
		k.Instance = ""
	}
	cfg := &config{kafka: k}
	if cfg.common, err = o.WithDefaults(); err != nil {
		return nil, err
	}
	if cfg.spec, err = ParseSpec(spec); err != nil {
		return nil, err
	}
	if len(k.Partitions) == 0 && k.Group == "" {
		return nil, fmt.Errorf("%s: only weir sync reads topics", spec)
	}
	b, err := newBrokers(spec, cfg)
	if err != nil {
		return nil, err
	}
	c := &catalog{brokers: b}
	if err := b.retry(ctx, func() error { return c.find(ctx) }); err != nil {
		b.client.Close()
		return nil, err
	}
	s := &Source{catalog: c, reading: map[partition]*lane{}, texts: texter{maxLine: cfg.common.MaxLine, kafka: &cfg.kafka, keys: newKeyReader()},
		closing: []func(){b.client.Close, background(c.watchEnds)}}
	if k.Group != "" {
		s.member = &member{catalog: c, calls: make(chan *call, 1), dirty: make(chan struct{}, 1), closing: make(chan struct{})}
	} else {
		for _, l := range c.lanes {
			s.events = append(s.events, s.opened(l))
		}
		if cfg.spec.Pattern != nil && !k.UntilEnd {
			s.closing = append(s.closing, background(c.watchTopics))
		}
	}
	return s, nil
}

// Lanes implements [source.Catalog].
func (s *Source) Lanes() []string {
	names := make([]string, len(s.lanes))
	for i, l := range s.lanes {
		names[i] = l.name
	}
	return names
}

// Ends implements [source.Catalog].
func (s *Source) Ends() map[string]int64 {
	ends := map[string]int64{}
	for _, l := range s.lanes {
		ends[l.name] = l.end
	}
	return ends
}

// Next implements [source.Source].
func (s *Source) Next(ctx context.Context) (source.Event, error) {
	reading, cancel := s.next.context(ctx)
	defer cancel()
	if s.stopped.Load() {
		cancel()
	}
	for {
		e, err := s.step(reading)
		switch {
		case err != nil && ctx.Err() == nil && s.stopped.Load():
			return e, io.EOF
		case err != nil || e.Lane != "":
			return e, err
		}
	}
}

// Stop implements [source.Source]. Nothing is drained: records can be reread from the checkpoints.
func (s *Source) Stop() {
	s.stopped.Store(true)
	s.next.interrupt()
}

// Close implements [source.Source]. It takes at most closeWait: what has not ended then, because brokers do not answer,
// ends with the process.
func (s *Source) Close() error {
	s.Stop()
	ended := make(chan struct{})
	go func(closing []func()) {
		for _, end := range slices.Backward(closing) {
			end()
		}
		close(ended)
	}(s.closing)
	s.closing = nil
	select {
	case <-ended:
	case <-time.After(closeWait):
		s.cfg.common.Log.Warn(fmt.Sprintf("the brokers have not answered for %s: a group waits for this member until its session expires", closeWait))
	}
	return nil
}

// step returns the next event, or one without a lane if there is none yet. It returns io.EOF when everything is read.
func (s *Source) step(ctx context.Context) (e source.Event, err error) {
	switch {
	case ctx.Err() != nil:
		return e, ctx.Err()
	case s.grown.Load():
		return e, source.ErrNewLane
	case len(s.events) > 0:
		e, s.events = s.events[0], s.events[1:]
		return e, nil
	case s.member == nil && len(s.reading) == 0:
		return e, io.EOF
	case s.consumer == nil:
		return e, s.consume()
	}
	polling := ctx
	if s.member != nil {
		var cancel context.CancelFunc
		polling, cancel = s.member.polling.context(ctx) // before answer, so a later call ends the poll
		defer cancel()
		if answered, err := s.answer(ctx); answered || err != nil {
			return e, err
		}
	}
	if len(s.pending) > 0 {
		return s.take(), nil
	}
	if l := s.unreadable(); l != nil {
		return e, s.damaged(ctx, l)
	}
	return e, s.poll(ctx, polling)
}

// consume starts fetching the lanes that were begun, or joins the group.
func (s *Source) consume() error {
	m := s.member
	waiting, stop := context.WithCancel(context.Background()) // the client's waits
	s.closing = append(s.closing, stop)
	isolation := kgo.ReadCommitted()
	if s.cfg.kafka.Uncommitted {
		isolation = kgo.ReadUncommitted()
	}
	most, _ := maxBatch(&s.cfg.common)
	opts := append(s.options(), kgo.WithContext(waiting), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchIsolationLevel(isolation),
		kgo.KeepControlRecords(), kgo.FetchMaxBytes(s.fetchBytes()), kgo.MaxDecompressBatchBytes(most))
	if m == nil {
		opts = append(opts, kgo.ConsumePartitions(s.offsets()))
	} else {
		m.grouped(false)
		opts = append(opts, m.options()...)
	}
	consumer, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	s.consumer = consumer
	s.closing = append(s.closing, consumer.Close)
	if m != nil {
		s.closing = append(s.closing, background(func(ctx context.Context) { m.run(ctx, consumer, stop) }))
	}
	return nil
}

// answer handles a member's calls, and the end of all lanes, which it reports as io.EOF; both come before reading.
// answered is false if there is neither.
func (s *Source) answer(ctx context.Context) (answered bool, err error) {
	m := s.member
	if c := m.opening; c != nil { // the lanes that were not begun yet are begun now
		from := map[partition]cursor{}
		for _, l := range c.lanes {
			from[l.partition] = l.at
		}
		c.from <- from
		m.opening = nil
		return true, nil
	}
	select {
	case c := <-m.calls:
		return true, s.handle(c)
	default:
	}
	if len(s.reading) > 0 || !s.cfg.kafka.UntilEnd {
		return false, nil
	}
	all, err := m.allCommitted(ctx, s.Lanes())
	if all {
		err = io.EOF
	}
	return false, err
}

func (s *Source) handle(c *call) error {
	switch {
	case c.err != nil:
		return c.err
	case c.kind == assigned:
		s.member.opening = c
		for _, l := range c.lanes {
			if s.reading[l.partition] == nil && !l.ended {
				s.events = append(s.events, s.opened(l))
			}
		}
	default:
		for _, l := range c.lanes {
			s.release(l, c)
		}
	}
	return nil
}

// release stops reading a lane. A lane that was read to its end may have uncommitted lines.
func (s *Source) release(l *lane, c *call) {
	reading := s.reading[l.partition] != nil
	s.remove(l)
	switch {
	case c.kind == lost:
		l.owned.Store(false)
	case reading || l.ended:
		s.events = append(s.events, source.Event{Kind: source.Barrier, Lane: l.name, Reached: func(source.Point) { c.done <- struct{}{} }})
	default:
		c.done <- struct{}{}
	}
	if reading {
		s.events = append(s.events, source.Event{Kind: source.Lost, Lane: l.name})
	}
}

// take returns the oldest fetched records, of which there must be some, as a block, or an event without a lane if none
// of them is a message.
func (s *Source) take() source.Event {
	first := &s.pending[0]
	l := first.lane
	b, n := s.texts.fill(l, first.records, s.cfg.common.Pool)
	if first.records = first.records[n:]; len(first.records) == 0 {
		s.pending = slices.Delete(s.pending, 0, 1)
	}
	if l.isAtEnd() {
		s.end(l)
	}
	if b == nil {
		return source.Event{}
	}
	return source.Event{Lane: l.name, Block: b}
}

func (s *Source) opened(l *lane) source.Event {
	return source.Event{Kind: source.Opened, Lane: l.name, Begin: func(ctx context.Context, from source.Point) (source.Lane, error) {
		return s.begin(ctx, l, from)
	}}
}

func (s *Source) begin(ctx context.Context, l *lane, from source.Point) (none source.Lane, err error) {
	at, err := readCursor(from.Cursor, l)
	if err != nil {
		return none, err
	}
	if from.Cursor == "" {
		if at.Offset, err = s.startOf(ctx, l); err != nil {
			return none, err
		}
	}
	if err := s.leaveOut(ctx, l, &at); err != nil {
		return none, err
	}
	if err := s.check(ctx, l, at); err != nil {
		return none, err
	}
	l.at, l.damage = at, nil
	l.committed.Store(at.Offset)
	l.owned.Store(true)
	if l.isAtEnd() {
		s.end(l)
	} else {
		s.reading[l.partition] = l
	}
	s.member.commitSoon() // so others see who owns the lane
	return source.Lane{At: at.text(), Offset: at.Offset, Waits: !s.cfg.kafka.UntilEnd, Topic: l.topic, Number: fmt.Sprint(l.number),
		Lag: l.lag, Connected: s.connected, Committed: func(c source.Cursor) { s.committed(l, c) }}, nil
}

// committed learns that a lane's records before a cursor are committed.
func (s *Source) committed(l *lane, c source.Cursor) {
	at, err := readCursor(c, l)
	if err != nil || c == "" {
		return
	}
	l.committed.Store(at.Offset)
	s.member.commitSoon()
	if s.member != nil && l.until >= 0 && at.Offset >= l.until {
		s.member.polling.interrupt() // Next asks whether all lanes are committed
	}
}

// startOf returns the offset at which a lane without a checkpoint begins.
func (s *Source) startOf(ctx context.Context, l *lane) (offset int64, err error) {
	_, was := s.cfg.common.Ends[l.name]
	switch start := &s.cfg.kafka.Start; {
	case start.Committed:
		return s.member.committedOf(l)
	case s.cfg.common.Ends != nil && !was: // the partition is new: read all of it
		return l.start, nil
	case start.Latest:
		return l.end, nil
	case start.Time.IsZero():
		return l.start, nil
	}
	err = s.retry(ctx, func() error {
		found, err := s.admin.ListOffsetsAfterMilli(ctx, s.cfg.kafka.Start.Time.UnixMilli(), l.topic)
		if err = errors.Join(err, found.Error()); err != nil {
			return err
		}
		listed, _ := found.Lookup(l.topic, l.number)
		offset = listed.Offset
		return nil
	})
	return min(offset, l.end), err
}

// end handles a lane that was read to its end. With a group, the partition may stay assigned to the member.
func (s *Source) end(l *lane) {
	l.ended = true
	s.remove(l)
	of := map[string][]int32{l.topic: {l.number}}
	switch {
	case s.consumer == nil:
	case s.member != nil:
		s.consumer.PauseFetchPartitions(of)
	default:
		s.consumer.RemoveConsumePartitions(of)
	}
	s.events = append(s.events, source.Event{Kind: source.Closing, Lane: l.name})
}

// background runs a loop on its own goroutine. end stops it, and waits until it has ended.
func background(loop func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { loop(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// An interrupter lets any goroutine interrupt another one's wait.
type interrupter struct {
	cancel atomic.Pointer[context.CancelFunc]
}

// context returns a context to wait with. The next interrupt ends it.
func (i *interrupter) context(of context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(of)
	i.cancel.Store(&cancel)
	return ctx, cancel
}

func (i *interrupter) interrupt() {
	if cancel := i.cancel.Load(); cancel != nil {
		(*cancel)()
	}
}
