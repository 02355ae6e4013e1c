package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/source"
)

// ownerPrefix starts the metadata of the offsets that members commit to Kafka. The ID of the database with their
// checkpoints follows.
const ownerPrefix = "weir database "

// An OwnerError reports that the group's members write to another database.
type OwnerError struct {
	Group, Lane string
	Offset      int64 // the lane's offset in the other database
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("group %s reads into another database, which has %s up to offset %d: with two of them each would get a part of the partitions. "+
		"Give this one another --group, and the same --job; or end all members, forget the database by kafka-consumer-groups --group %[1]s --reset-offsets --to-current --all-topics --execute, and add --start committed", e.Group, e.Lane, e.Offset)
}

// ExitCode is the exit code of a run that finds another one in its place.
func (*OwnerError) ExitCode() int { return 4 }

// A groupSource is a source whose partitions a consumer group assigns.
type groupSource struct{ *Source }

var _ source.Member = groupSource{}

// Join implements [source.Member]. A new partition of a topic with checkpoints begins at its first record. The error is
// an [*OwnerError] if the group's members write to another database.
func (s groupSource) Join(ctx context.Context, peers source.Group) (map[string]source.Lane, error) {
	s.member.peers, s.member.owner = peers, ownerPrefix+peers.Database
	if err := s.member.checkOwner(ctx); err != nil {
		return nil, err
	}
	isKnown := map[string]bool{} // by topic; "" is any topic that a pattern finds
	for _, l := range s.lanes {
		if peers.Known(l.name) {
			isKnown[l.topic], isKnown[""] = true, s.cfg.spec.Pattern != nil
		}
	}
	starts := map[string]source.Lane{}
	var faults []error
	for _, l := range s.lanes {
		if peers.Known(l.name) {
			continue
		}
		at := cursor{Offset: l.start, Epoch: -1, Topic: l.id}
		if !isKnown[l.topic] && !isKnown[""] {
			var err error
			at.Offset, err = s.startOf(ctx, l)
			faults = append(faults, err)
		}
		starts[l.name] = source.Lane{At: at.text(), Offset: at.Offset}
	}
	return starts, errors.Join(faults...)
}

// checkOwner reads the group's offsets committed to Kafka. The error is an [*OwnerError] if they were committed for
// another database.
func (m *member) checkOwner(ctx context.Context) error {
	err := m.retry(ctx, func() (err error) {
		m.committed, err = m.admin.FetchOffsets(ctx, m.cfg.kafka.Group)
		if errors.Is(err, kerr.GroupIDNotFound) { // it has committed nothing yet
			return nil
		}
		return errors.Join(err, m.committed.Error())
	})
	if err != nil {
		return err
	}
	for _, l := range m.lanes {
		at, ok := m.committed.Lookup(l.topic, l.number)
		if ok && strings.HasPrefix(at.Metadata, ownerPrefix) && at.Metadata != m.owner {
			return &OwnerError{Group: m.cfg.kafka.Group, Lane: l.name, Offset: at.At}
		}
	}
	return nil
}

// nameOwner adds the database's ID to an offset commit.
func (m *member) nameOwner(commit *kmsg.OffsetCommitRequest) error {
	for i := range commit.Topics {
		for j := range commit.Topics[i].Partitions {
			commit.Topics[i].Partitions[j].Metadata = &m.owner
		}
	}
	return nil
}

// committedOf returns the group's offset committed to Kafka; if there is none, the first offset.
func (m *member) committedOf(l *lane) (int64, error) {
	at, ok := m.committed.Lookup(l.topic, l.number)
	const ways = "--start earliest begins at the first record of each partition that has no checkpoint, and kafka-consumer-groups --reset-offsets moves the offset"
	switch {
	case !ok || at.At < 0:
		return l.start, nil
	case at.At < l.start:
		return 0, fmt.Errorf("%s: %d records after the offset that group %s has committed are lost: it is %d, and the topic begins at %d (%s)",
			l.name, l.start-at.At, m.cfg.kafka.Group, at.At, l.start, ways)
	case at.At > l.end:
		return 0, fmt.Errorf("%s ends at offset %d, before the one that group %s has committed, %d: the topic was recreated, or records were lost (%s)",
			l.name, l.end, m.cfg.kafka.Group, at.At, ways)
	}
	return at.At, nil
}

// Leads implements [source.Member].
func (s groupSource) Leads() bool { return len(s.lanes) > 0 && s.lanes[0].owned.Load() }
