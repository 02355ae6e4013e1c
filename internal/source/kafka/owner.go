package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/source"
)

// ownerPrefix begins the metadata of the offsets that members commit to Kafka. The id of the database
// follows that has their checkpoints.
const ownerPrefix = "weir database "

// An OwnerError says that the members of a group write to another database.
type OwnerError struct {
	Group, Lane string
	Offset      int64 // that the other database has of the lane
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("group %s reads into another database, which has %s up to offset %d: with two of them each would get a part of the partitions. "+
		"Give this one another --group, and the same --job; or, to have it take the group over, end all members and add --start committed", e.Group, e.Lane, e.Offset)
}

// ExitCode is that of a run that finds another one in its place.
func (*OwnerError) ExitCode() int { return 4 }

// A Member is a source whose partitions a consumer group assigns.
type Member struct{ *Source }

var _ source.Member = (*Member)(nil)

// Join implements [source.Member]. The lanes of topics that are known, by other partitions, begin at their first
// records. The error is an [*OwnerError] where the group's members write to another database.
func (m *Member) Join(ctx context.Context, members source.Group) (map[string]source.Begun, error) {
	s, known := m.Source, members.Known
	s.group.members, s.group.owner = members, ownerPrefix+members.Database
	if err := s.takeGroup(ctx); err != nil {
		return nil, err
	}
	isKnown := map[string]bool{} // by topic; "" is any, for topics that a pattern finds
	for _, l := range s.lanes {
		if known(l.name) {
			isKnown[l.topic], isKnown[""] = true, s.spec.Pattern != nil
		}
	}
	starts := map[string]source.Begun{}
	var faults []error
	for _, l := range s.lanes {
		if known(l.name) {
			continue
		}
		at := cursor{Offset: l.start, Epoch: -1, Topic: l.id}
		if !isKnown[l.topic] && !isKnown[""] {
			var err error
			at.Offset, err = s.startOf(ctx, l)
			faults = append(faults, err)
		}
		starts[l.name] = source.Begun{At: at.text(), Offset: at.Offset}
	}
	return starts, errors.Join(faults...)
}

// takeGroup finds out what the group has committed, and takes the group over from another database where
// it is to.
func (s *Source) takeGroup(ctx context.Context) (err error) {
	if err := s.fetchCommitted(ctx); err != nil {
		return err
	}
	if err = s.checkOwner(s.group.committed); err == nil || !s.kafka.Start.Committed {
		return err
	}
	s.opts.Log.Warn(fmt.Sprintf("group %s has read into another database until now; taking it over", s.kafka.Group))
	err = s.brokers.patiently(ctx, func() error {
		all := kadm.Offsets{}
		for _, l := range s.lanes {
			if at, ok := s.group.committed.Lookup(l.topic, l.number); ok && at.At >= 0 {
				at.Metadata = s.group.owner
				all.Add(at.Offset)
			}
		}
		err := s.admin.CommitAllOffsets(ctx, s.kafka.Group, all)
		if errors.Is(err, kerr.UnknownMemberID) {
			return nil // there are members, of either database
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.fetchCommitted(ctx); err != nil {
		return err
	}
	return s.checkOwner(s.group.committed)
}

// fetchCommitted asks what the group has committed to Kafka, as often as it takes.
func (s *Source) fetchCommitted(ctx context.Context) error {
	return s.brokers.patiently(ctx, func() (err error) {
		s.group.committed, err = s.fetchOffsets(ctx)
		return err
	})
}

func (s *Source) fetchOffsets(ctx context.Context) (kadm.OffsetResponses, error) {
	found, err := s.admin.FetchOffsets(ctx, s.kafka.Group)
	if errors.Is(err, kerr.GroupIDNotFound) { // it has none yet
		return nil, nil
	}
	return found, errors.Join(err, found.Error())
}

// checkOwner reports that the offsets of lanes were committed by members that write to another
// database.
func (s *Source) checkOwner(committed kadm.OffsetResponses) error {
	for _, l := range s.lanes {
		at, ok := committed.Lookup(l.topic, l.number)
		if ok && strings.HasPrefix(at.Metadata, ownerPrefix) && at.Metadata != s.group.owner {
			return &OwnerError{Group: s.kafka.Group, Lane: l.name, Offset: at.At}
		}
	}
	return nil
}

// named puts the database's id into a commit of offsets.
func (g *group) named(commit *kmsg.OffsetCommitRequest) error {
	for i := range commit.Topics {
		for j := range commit.Topics[i].Partitions {
			commit.Topics[i].Partitions[j].Metadata = &g.owner
		}
	}
	return nil
}

// committedOf returns the offset that the group has committed to Kafka, and the first one where it
// has none.
func (s *Source) committedOf(l *lane) (int64, error) {
	at, ok := s.group.committed.Lookup(l.topic, l.number)
	const ways = "--start earliest begins at the first record of each partition that has no checkpoint, and kafka-consumer-groups --reset-offsets moves the offset"
	switch {
	case !ok || at.At < 0:
		return l.start, nil
	case at.At < l.start:
		return 0, fmt.Errorf("%s: %d records after the offset that group %s has committed are lost: it is %d, and the topic begins at %d (%s)",
			l.name, l.start-at.At, s.kafka.Group, at.At, l.start, ways)
	case at.At > l.end:
		return 0, fmt.Errorf("%s ends at offset %d, before the one that group %s has committed, %d: the topic was recreated, or records were lost (%s)",
			l.name, l.end, s.kafka.Group, at.At, ways)
	}
	return at.At, nil
}
