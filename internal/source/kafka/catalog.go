package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/backoff"
)

// endsEvery is how often the brokers are asked for the partitions' end offsets. Fetched records update them as well.
const endsEvery = 15 * time.Second

// A catalog holds the topics and partitions to read, as they were when the source was opened.
type catalog struct {
	*brokers
	cluster string
	nodes   int         // the number of brokers
	lanes   []*lane     // sorted by topic and partition
	grown   atomic.Bool // new lanes have appeared; see watchTopics
}

// fetchBytes returns how much a broker may send at a time.
func (c *catalog) fetchBytes() int32 {
	if c.cfg.common.Buffer == 0 {
		return maxFetchBytes
	}
	return int32(min(max(c.cfg.common.Buffer/bufferShare/int64(max(c.nodes, 1)), minFetchBytes), maxFetchBytes))
}

func (c *catalog) lanesOf(of map[string][]int32) (lanes []*lane) {
	for _, l := range c.lanes {
		if slices.Contains(of[l.topic], l.number) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

func (c *catalog) find(ctx context.Context) error {
	if err := c.findLanes(ctx); err != nil {
		return err
	}
	k := &c.cfg.kafka
	for _, key := range slices.Sorted(maps.Keys(k.Start.Offsets)) {
		if !slices.ContainsFunc(c.lanes, func(l *lane) bool { return l.key() == key }) {
			return fatalError{fmt.Errorf("--start %s=%d: there is no such partition", key, k.Start.Offsets[key])}
		}
	}
	if err := c.findBounds(ctx, c.lanes...); err != nil {
		return err
	}
	for _, l := range c.lanes {
		switch first := c.cfg.common.Ends; {
		case !k.UntilEnd:
			l.until = -1
		case first != nil:
			l.until = first[l.name]
		default:
			l.until = l.end
		}
	}
	return c.findCompacted(ctx)
}

func (c *catalog) findLanes(ctx context.Context) error {
	pattern := c.cfg.spec.Pattern
	meta, err := c.admin.Metadata(ctx, c.cfg.spec.Topics...)
	if err != nil {
		return err
	}
	c.cluster, c.nodes, c.lanes = meta.Cluster, len(meta.Brokers), nil
	for _, t := range meta.Topics.Sorted() {
		if pattern != nil && (t.IsInternal || !pattern.MatchString(t.Topic)) {
			continue
		}
		switch {
		case errors.Is(t.Err, kerr.UnknownTopicOrPartition):
			return fatalError{fmt.Errorf("there is no topic %s: create it, or correct the name", t.Topic)}
		case t.Err != nil:
			return fmt.Errorf("topic %s: %w", t.Topic, t.Err)
		}
		if err := c.findPartitions(&t); err != nil {
			return err
		}
	}
	if len(c.lanes) == 0 {
		return fatalError{fmt.Errorf("no topic matches %s, or none has one of the partitions to read", pattern)}
	}
	return nil
}

func (c *catalog) findPartitions(t *kadm.TopicDetail) error {
	id := ""
	if t.ID != (kadm.TopicID{}) {
		id = t.ID.String()
	}
	k, numbers := &c.cfg.kafka, t.Partitions.Numbers()
	for _, n := range k.Partitions {
		if !slices.Contains(numbers, n) && c.cfg.spec.Pattern == nil { // topics of a pattern may have fewer
			return fatalError{fmt.Errorf("topic %s has no partition %d: it has %d", t.Topic, n, len(numbers))}
		}
	}
	for _, n := range numbers {
		if p := (partition{t.Topic, n}); k.Group != "" || slices.Contains(k.Partitions, n) {
			c.lanes = append(c.lanes, &lane{name: fmt.Sprintf("%s://%s/%s/%d", scheme, c.cluster, p.topic, p.number), partition: p, id: id})
		}
	}
	return nil
}

// findCompacted records which lanes belong to compacted topics.
func (c *catalog) findCompacted(ctx context.Context) error {
	k := &c.cfg.kafka
	found, err := c.admin.DescribeTopicConfigs(ctx, topicsOf(c.lanes)...)
	if err != nil {
		return err
	}
	for _, t := range found {
		if t.Err != nil && k.Tombstones.Compacted != "" && k.Tombstones.Field == "" && !k.Tombstones.Drop {
			c.cfg.common.Log.Warn(fmt.Sprintf("topic %s: weir could not find out whether it is compacted: %v (--tombstones-by-key says what records without a value do)", t.Name, t.Err))
		}
		isCompacted := slices.ContainsFunc(t.Configs, func(set kadm.Config) bool {
			return set.Key == "cleanup.policy" && strings.Contains(set.MaybeValue(), "compact")
		})
		for _, l := range c.lanes {
			l.compacted = l.compacted || isCompacted && l.topic == t.Name
		}
	}
	return nil
}

func topicsOf(lanes []*lane) (topics []string) {
	for _, l := range lanes {
		topics = append(topics, l.topic)
	}
	return slices.Compact(topics)
}

// listEnds returns the partitions' end offsets, at the reader's isolation level.
func (c *catalog) listEnds(ctx context.Context, topics []string) (kadm.ListedOffsets, error) {
	list := c.admin.ListCommittedOffsets
	if c.cfg.kafka.Uncommitted {
		list = c.admin.ListEndOffsets
	}
	ends, err := list(ctx, topics...)
	return ends, errors.Join(err, ends.Error())
}

func (c *catalog) findBounds(ctx context.Context, lanes ...*lane) error {
	topics := topicsOf(lanes)
	starts, err := c.admin.ListStartOffsets(ctx, topics...)
	if err = errors.Join(err, starts.Error()); err != nil {
		return err
	}
	ends, err := c.listEnds(ctx, topics)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		start, _ := starts.Lookup(l.topic, l.number)
		end, _ := ends.Lookup(l.topic, l.number)
		l.start, l.end = start.Offset, end.Offset
		l.raise(l.end)
	}
	return nil
}

// endOf returns a partition's end offset in a fetch, at the reader's isolation level.
func (c *catalog) endOf(p *kgo.FetchPartition) int64 {
	if c.cfg.kafka.Uncommitted {
		return p.HighWatermark
	}
	return p.LastStableOffset
}

// watchEnds keeps the lanes' ends up to date while nothing is fetched.
func (c *catalog) watchEnds(ctx context.Context) {
	topics := topicsOf(c.lanes)
	for backoff.Sleep(ctx, endsEvery) == nil {
		ends, err := c.listEnds(ctx, topics)
		if err != nil {
			continue // the next fetch reports it
		}
		for _, l := range c.lanes {
			if end, ok := ends.Lookup(l.topic, l.number); ok {
				l.raise(end.Offset)
			}
		}
	}
}

// watchTopics sets grown if a new topic matches the pattern, or there is a new partition to read. It is for runs
// without a group; a group reports this to its members.
func (c *catalog) watchTopics(ctx context.Context) {
	for !c.grown.Load() && backoff.Sleep(ctx, newTopics) == nil {
		now := &catalog{brokers: c.brokers}
		if now.findLanes(ctx) != nil {
			continue // the next fetch reports it
		}
		isNew := func(l *lane) bool {
			return !slices.ContainsFunc(c.lanes, func(old *lane) bool { return old.name == l.name })
		}
		c.grown.Store(slices.ContainsFunc(now.lanes, isNew))
	}
}

// leaveOut moves a lane's cursor past the records that --start skips.
func (c *catalog) leaveOut(ctx context.Context, l *lane, at *cursor) error {
	first, ok := c.cfg.kafka.Start.Offsets[l.key()]
	if ok && at.Offset < first {
		if err := c.findEnd(ctx, l, first); err != nil {
			return err
		}
		if first > l.end {
			return fmt.Errorf("--start %s=%d: the partition ends at offset %d", l.key(), first, l.end)
		}
		c.cfg.common.Log.Warn(fmt.Sprintf("%s begins at offset %d: --start leaves out those from %d on", l.name, first, at.Offset))
		at.Offset, at.Epoch = first, -1
	}
	return nil
}

// check returns an error if a lane cannot be read from a cursor.
func (c *catalog) check(ctx context.Context, l *lane, at cursor) error {
	if err := c.findEnd(ctx, l, at.Offset); err != nil {
		return err
	}
	return l.check(at)
}

// findEnd refreshes a lane's end if an offset is past it: records have arrived since.
func (c *catalog) findEnd(ctx context.Context, l *lane, offset int64) error {
	if offset <= l.end {
		return nil
	}
	return c.retry(ctx, func() error { return c.findBounds(ctx, l) })
}
