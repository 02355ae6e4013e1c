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

// fetched holds records of one lane.
type fetched struct {
	lane    *lane
	records []*kgo.Record
}

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

func (s *Source) remove(l *lane) {
	delete(s.reading, l.partition)
	s.pending = slices.DeleteFunc(s.pending, func(f fetched) bool { return f.lane == l })
}

// poll polls records from the client. It waits until some arrive or polling ends, at most a second.
func (s *Source) poll(ctx, polling context.Context) error {
	polling, cancel := context.WithTimeout(polling, time.Second)
	defer cancel()
	fetches := s.consumer.PollRecords(polling, pollRecords)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if l := s.reading[partition{p.Topic, p.Partition}]; l != nil {
			if len(p.Records) > 0 {
				s.pending = append(s.pending, fetched{l, p.Records})
			}
			l.raise(s.endOf(&p.FetchPartition))
		}
	})
	var failures []error
	fetches.EachError(func(topic string, number int32, err error) {
		failures = append(failures, s.failed(ctx, s.reading[partition{topic, number}], err))
	})
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return s.connections.unreachable()
}

// failed handles an error of a fetch. It returns an error if that ends the run. l is nil if the error belongs to no
// lane.
func (s *Source) failed(ctx context.Context, l *lane, err error) error {
	var session *kgo.ErrGroupSession
	var lost *kgo.ErrDataLoss
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil
	case errors.As(err, &session) && isNameTaken(err):
		return fmt.Errorf("group %s: another member has the name %q (%w): give each its own --group-instance", s.cfg.kafka.Group, s.cfg.kafka.Instance, source.ErrNameTaken)
	case errors.As(err, &session) && errors.Is(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("--session-timeout %s: %w", s.cfg.kafka.Session, err)
	case errors.As(err, &session) && !isHopeless(err) && (!isRefusal(err) || s.connections.mayBeReplaced(err)):
		s.cfg.common.Log.Info(fmt.Sprintf("left group %s: %v; joining it again", s.cfg.kafka.Group, session.Err))
		return nil
	}
	s.cfg.common.Observer.FetchFailed()
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
		if s.findBounds(ctx, l) == nil {
			if err := l.check(l.at); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("reading %s at offset %d: %w", l.name, l.at.Offset, err)
}
