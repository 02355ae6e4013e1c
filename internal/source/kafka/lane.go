package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/source"
)

// A lane is a partition.
type lane struct {
	name string
	partition
	id         string // of the topic; "" where the brokers have none
	start, end int64  // its offsets when it was found
	compacted  bool
	until      int64 // the offset at which it ends; -1: it does not
	ended      bool  // it was read until then

	at         cursor // of what was not handed out yet
	unreadable error  // why the batch there could not be read; nil: it could, or was not fetched yet
	doubted    int64  // the offset at which that was wrong, doubts times
	doubts     int

	last      atomic.Int64 // the end, as far as is known
	committed atomic.Int64 // the offset
	owned     atomic.Bool  // it was begun, and no other member is known to have it
}

// A cursor says which record is the next one.
type cursor struct {
	Offset int64  `json:"offset"`
	Epoch  int32  `json:"epoch"` // of the leader that wrote the record before; -1 where it is not known
	Topic  string `json:"topic,omitempty"`
}

func (c cursor) text() source.Cursor {
	text, _ := json.Marshal(c) // a plain struct
	return source.Cursor(text)
}

// offset is the same for the client.
func (c cursor) offset() kgo.Offset {
	at := kgo.NewOffset().At(c.Offset)
	if c.Epoch >= 0 {
		at = at.WithEpoch(c.Epoch)
	}
	return at
}

// readCursor returns what a cursor of a lane holds.
func readCursor(c source.Cursor, l *lane) (at cursor, err error) {
	if c == "" {
		return cursor{Epoch: -1, Topic: l.id}, nil
	}
	if err := json.Unmarshal([]byte(c), &at); err != nil {
		return at, fmt.Errorf("the checkpoint of %s: %w", l.name, err)
	}
	if at.Topic == "" {
		at.Topic = l.id
	}
	return at, nil
}

// key is the lane as TOPIC/PARTITION.
func (l *lane) key() string { return fmt.Sprintf("%s/%d", l.topic, l.number) }

// check reports why a lane cannot be read from a cursor.
func (l *lane) check(at cursor) error {
	switch {
	case l.id != "" && at.Topic != l.id:
		return &source.ChangedError{Name: l.name, What: "is of another topic than the one that was read before, which was deleted and recreated"}
	case at.Offset < l.start:
		return fmt.Errorf("%s: %d records after the checkpoint are lost: it is at offset %d, and the topic begins at %d (its retention has removed them; --restart reread reads again from where it begins)",
			l.name, l.start-at.Offset, at.Offset, l.start)
	case at.Offset > l.end:
		return &source.ChangedError{Name: l.name, What: fmt.Sprintf("ends at offset %d, before the checkpoint at %d: records were lost, or it was restored", l.end, at.Offset)}
	}
	return nil
}

// lag is how many records are not committed.
func (l *lane) lag() int64 { return max(0, l.last.Load()-l.committed.Load()) }

// raise notes where the lane ends now.
func (l *lane) raise(end int64) {
	for {
		last := l.last.Load()
		if end <= last || l.last.CompareAndSwap(last, end) {
			return
		}
	}
}

// find finds the partitions that are to be read.
func (s *Source) find(ctx context.Context) error {
	named := s.spec.Topics
	if letters := s.kafka.DeadLetters; letters != "" && s.spec.Pattern == nil {
		named = append(slices.Clone(named), letters)
	}
	meta, err := s.admin.Metadata(ctx, named...)
	if err != nil {
		return err
	}
	if err := s.checkLetters(meta.Topics); err != nil {
		return err
	}
	s.cluster, s.nodes, s.lanes = meta.Cluster, len(meta.Brokers), nil
	var topics []string
	for _, t := range meta.Topics.Sorted() {
		switch {
		case s.spec.Pattern != nil && (t.IsInternal || !s.spec.Pattern.MatchString(t.Topic)):
			continue
		case t.Err != nil:
			return fmt.Errorf("topic %s: %w", t.Topic, t.Err)
		}
		topics = append(topics, t.Topic)
		if err := s.findPartitions(&t); err != nil {
			return err
		}
	}
	if len(topics) == 0 {
		return fatalError{fmt.Errorf("no topic matches %s", s.spec.Pattern)}
	}
	for _, key := range slices.Sorted(maps.Keys(s.kafka.Start.Offsets)) {
		if !slices.ContainsFunc(s.lanes, func(l *lane) bool { return l.key() == key }) {
			return fatalError{fmt.Errorf("--start %s=%d: there is no such partition", key, s.kafka.Start.Offsets[key])}
		}
	}
	starts, err := s.admin.ListStartOffsets(ctx, topics...)
	if err = errors.Join(err, starts.Error()); err != nil {
		return err
	}
	ends, err := s.listEnds(ctx, topics)
	if err != nil {
		return err
	}
	if err := s.findCompacted(ctx, topics); err != nil {
		return err
	}
	for _, l := range s.lanes {
		start, _ := starts.Lookup(l.topic, l.number)
		end, _ := ends.Lookup(l.topic, l.number)
		l.start, l.end, l.until = start.Offset, end.Offset, -1
		if s.kafka.UntilEnd {
			l.until = l.end
			if ends := s.opts.Ends; ends != nil {
				l.until = ends[l.name]
			}
		}
		l.raise(l.end)
	}
	return nil
}

// findPartitions adds the lanes of a topic.
func (s *Source) findPartitions(t *kadm.TopicDetail) error {
	id := ""
	if t.ID != (kadm.TopicID{}) {
		id = t.ID.String()
	}
	numbers := t.Partitions.Numbers()
	for _, n := range s.kafka.Partitions {
		if !slices.Contains(numbers, n) {
			return fatalError{fmt.Errorf("topic %s has no partition %d: it has %d", t.Topic, n, len(numbers))}
		}
	}
	for _, n := range numbers {
		if s.kafka.Group != "" || slices.Contains(s.kafka.Partitions, n) {
			s.lanes = append(s.lanes, &lane{name: laneName(s.cluster, partition{t.Topic, n}), partition: partition{t.Topic, n}, id: id})
		}
	}
	return nil
}

// findCompacted notes which lanes are of compacted topics, which that of dead letters must not be.
func (s *Source) findCompacted(ctx context.Context, topics []string) error {
	letters := s.kafka.DeadLetters
	if letters != "" {
		topics = append(slices.Clone(topics), letters)
	}
	found, err := s.admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return err
	}
	for _, c := range found {
		if k := &s.kafka; c.Err != nil && c.Name != letters && k.Compacted != "" && k.Tombstone == "" && !k.DropTombstones {
			s.opts.Log.Warn(fmt.Sprintf("topic %s: whether it is compacted is not known: %v (--tombstones-by-key says what records without a value do)", c.Name, c.Err))
		}
		for _, config := range c.Configs {
			if config.Key != "cleanup.policy" || !strings.Contains(config.MaybeValue(), "compact") {
				continue
			}
			if c.Name == letters {
				return fatalError{fmt.Errorf("--rejects topic:%s: the topic is compacted: it would keep only the last dead letter of each key, and takes none without a key: use one with cleanup.policy=delete", letters)}
			}
			for _, l := range s.lanes {
				l.compacted = l.compacted || l.topic == c.Name
			}
		}
	}
	return nil
}

// listEnds returns the offsets at which partitions end for this reader.
func (s *Source) listEnds(ctx context.Context, topics []string) (kadm.ListedOffsets, error) {
	list := s.admin.ListCommittedOffsets
	if s.kafka.Uncommitted {
		list = s.admin.ListEndOffsets
	}
	ends, err := list(ctx, topics...)
	return ends, errors.Join(err, ends.Error())
}

// findBounds finds out where a lane begins and ends now.
func (s *Source) findBounds(ctx context.Context, l *lane) error {
	starts, err := s.admin.ListStartOffsets(ctx, l.topic)
	if err != nil {
		return err
	}
	ends, err := s.listEnds(ctx, []string{l.topic})
	if err != nil {
		return err
	}
	start, _ := starts.Lookup(l.topic, l.number)
	end, _ := ends.Lookup(l.topic, l.number)
	l.start, l.end = start.Offset, end.Offset
	l.raise(l.end)
	return nil
}

// endOf is where a partition ended for this reader when it was fetched.
func (s *Source) endOf(p *kgo.FetchPartition) int64 {
	if s.kafka.Uncommitted {
		return p.HighWatermark
	}
	return p.LastStableOffset
}

// startOf returns the offset at which a lane without a checkpoint begins.
func (s *Source) startOf(ctx context.Context, l *lane) (offset int64, err error) {
	at := s.kafka.Start
	switch {
	case at.Latest:
		return l.end, nil
	case at.Committed:
		return s.committedOf(l)
	case at.Time.IsZero():
		return l.start, nil
	}
	err = s.brokers.patiently(ctx, func() error {
		found, err := s.admin.ListOffsetsAfterMilli(ctx, at.Time.UnixMilli(), l.topic)
		if err = errors.Join(err, found.Error()); err != nil {
			return err
		}
		listed, _ := found.Lookup(l.topic, l.number)
		offset = listed.Offset
		return nil
	})
	return min(offset, l.end), err
}

// endsEvery is how often the ends of partitions are asked for, which fetches tell while there are
// records.
const endsEvery = 15 * time.Second

// watchEnds keeps the ends of lanes up to date while nothing is fetched.
func (s *Source) watchEnds(ctx context.Context) {
	var topics []string
	for _, l := range s.lanes {
		if !slices.Contains(topics, l.topic) {
			topics = append(topics, l.topic)
		}
	}
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ends, err := s.listEnds(ctx, topics)
		if err != nil {
			continue // the next fetch meets the same
		}
		for _, l := range s.lanes {
			if end, ok := ends.Lookup(l.topic, l.number); ok {
				l.raise(end.Offset)
			}
		}
	}
}
