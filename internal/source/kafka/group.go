package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/source"
)

const (
	// heartbeat is how often a member says that it lives, and hears that the group rebalances.
	heartbeat = time.Second
	// releaseWait is how long a member keeps a partition that the group takes away, at most, until
	// what it has read of it is committed. The others wait as long.
	releaseWait = 20 * time.Second
	// tellWait is how long a member tells Kafka its offsets at most before it releases a partition.
	tellWait = 2 * time.Second
	// leaveWait is how long a member that ends waits for the group at most: the client leaves no
	// rebalance, and that may wait for a member that is dead.
	leaveWait = 10 * time.Second
)

// A group is what a member of a consumer group has besides. The client's goroutines call adjust,
// revoked and lost, and wait until Next has dealt with these calls; the fence in the database, not
// the group, keeps two members from committing the same records.
type group struct {
	calls   chan *call
	polling atomic.Pointer[context.CancelFunc] // ends the poll at hand
	at      *call                              // that Next is dealing with: its lanes are opened
	dirty   chan struct{}                      // there are offsets to tell
	closing <-chan struct{}                    // nobody calls Next any more
	stop    context.CancelFunc                 // ends all that the client waits for

	members   source.Group         // as Join has it
	owner     string               // the metadata of what is committed to Kafka
	committed kadm.OffsetResponses // what was, before the source has joined
}

type callKind int

const (
	assigned callKind = iota
	revoked
	lost
	failed
)

// A call has Next deal with partitions.
type call struct {
	kind  callKind
	lanes []*lane
	from  chan map[partition]cursor // of assigned: where the lanes are read from
	done  chan struct{}             // of revoked: gets one for each lane that is released
	err   error                     // of failed
}

// options are those of a member's client.
func (g *group) options(s *Source) []kgo.Opt {
	k := &s.kafka
	topics := s.spec.Topics
	if s.spec.Pattern != nil {
		topics = []string{s.spec.Pattern.String()}
	}
	opts := []kgo.Opt{kgo.ConsumerGroup(k.Group), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(heartbeat),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.AdjustFetchOffsetsFn(func(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			return s.assigned(ctx, offsets)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, of map[string][]int32) { s.revoked(ctx, cl, of) }),
		kgo.OnPartitionsLost(func(ctx context.Context, _ *kgo.Client, of map[string][]int32) {
			s.call(ctx, &call{kind: lost, lanes: s.lanesOf(of)})
		})}
	if s.spec.Pattern != nil {
		opts = append(opts, kgo.ConsumeRegex())
	}
	if k.Consumer {
		opts = append(opts, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	}
	if k.Instance != "" {
		opts = append(opts, kgo.InstanceID(k.Instance))
	}
	return opts
}

// lanesOf returns the lanes of partitions, in order.
func (s *Source) lanesOf(of map[string][]int32) (lanes []*lane) {
	for _, l := range s.lanes {
		if slices.Contains(of[l.topic], l.number) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// call hands a call to Next. It reports whether it has.
func (s *Source) call(ctx context.Context, c *call) bool {
	select {
	case s.group.calls <- c:
		if stop := s.group.polling.Load(); stop != nil {
			(*stop)()
		}
		return true
	case <-ctx.Done():
	case <-s.group.closing:
	}
	return false
}

// assigned has lanes opened, and returns from where they are read: from their checkpoints, whatever
// Kafka has.
func (s *Source) assigned(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	of, n := map[string][]int32{}, 0
	for topic, partitions := range offsets {
		for number := range partitions {
			of[topic] = append(of[topic], number)
			n++
		}
	}
	s.opts.Observer.Rebalanced()
	c := &call{kind: assigned, lanes: s.lanesOf(of), from: make(chan map[partition]cursor, 1)}
	if len(c.lanes) < n {
		c.kind, c.err = failed, source.ErrNewLane
	}
	if !s.call(ctx, c) {
		return nil, context.Canceled
	}
	select {
	case from := <-c.from:
		for p, at := range from {
			offsets[p.topic][p.number] = at.offset()
		}
		return offsets, nil
	case <-ctx.Done(): // the group rebalances again, and asks again for what was not answered
		return nil, ctx.Err()
	case <-s.group.closing:
		return nil, context.Canceled
	}
}

// revoked waits until what was read of lanes is committed, but not for long: what is committed
// later finds the fence of the next member.
func (s *Source) revoked(ctx context.Context, cl *kgo.Client, of map[string][]int32) {
	s.opts.Observer.Rebalanced()
	c := &call{kind: revoked, lanes: s.lanesOf(of)}
	if len(c.lanes) == 0 {
		return
	}
	c.done = make(chan struct{}, len(c.lanes))
	if !s.call(ctx, c) {
		return
	}
	defer func() {
		for _, l := range c.lanes {
			l.owned.Store(false)
		}
	}()
	timer := time.NewTimer(releaseWait)
	defer timer.Stop()
	for range c.lanes {
		select {
		case <-c.done:
		case <-timer.C:
			s.opts.Log.Warn(fmt.Sprintf("the group revokes partitions whose records could not be committed within %s: the member that gets them reads them again", releaseWait))
			return
		case <-s.group.closing:
			return
		}
	}
	s.tell(ctx, cl, c.lanes)
}

// answer deals with calls; some is false where there is none.
func (s *Source) answer() (some bool, err error) {
	g := s.group
	if c := g.at; c != nil { // the lanes that were not begun before were, since
		from := map[partition]cursor{}
		for _, l := range c.lanes {
			from[l.partition] = l.at
		}
		c.from <- from
		g.at = nil
		return true, nil
	}
	var c *call
	select {
	case c = <-g.calls:
	default:
		return false, nil
	}
	switch c.kind {
	case failed:
		return true, c.err
	case assigned:
		g.at = c
		for _, l := range c.lanes {
			if s.reading[l.partition] == nil && !l.ended {
				s.events = append(s.events, s.opened(l))
			}
		}
	case revoked, lost:
		for _, l := range c.lanes {
			s.release(l, c)
		}
	}
	return true, nil
}

// release stops reading a lane. One that was read to its end may have lines that are not committed yet.
func (s *Source) release(l *lane, c *call) {
	if c.kind == lost {
		l.owned.Store(false)
	}
	reading := s.reading[l.partition] != nil
	if !reading && (c.kind == lost || !l.ended) {
		if c.done != nil {
			c.done <- struct{}{}
		}
		return
	}
	delete(s.reading, l.partition)
	s.pending = slices.DeleteFunc(s.pending, func(f fetched) bool { return f.lane == l })
	if c.kind == revoked {
		s.events = append(s.events, source.Event{Kind: source.Barrier, Lane: l.name, Reached: func(source.Point) { c.done <- struct{}{} }})
	}
	if reading {
		s.events = append(s.events, source.Event{Kind: source.Lost, Lane: l.name})
	}
}

// tellOffsets tells Kafka what the database has, whenever that has changed.
func (s *Source) tellOffsets(ctx context.Context) {
	for {
		select {
		case <-s.group.dirty:
			s.tell(ctx, s.consumer, s.lanes)
		case <-ctx.Done():
			return
		}
	}
}

// tell commits the offsets of lanes to Kafka, for tools that show how far a group is, with the id of
// the database. No member reads the offsets back.
func (s *Source) tell(ctx context.Context, cl *kgo.Client, lanes []*lane) {
	var last []*kgo.Record
	for _, l := range lanes {
		if l.owned.Load() {
			last = append(last, &kgo.Record{Topic: l.topic, Partition: l.number, Offset: l.committed.Load() - 1, LeaderEpoch: -1})
		}
	}
	if len(last) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellWait)
	defer cancel()
	if err := cl.CommitRecords(kgo.PreCommitFnContext(ctx, s.group.named), last...); err != nil {
		s.opts.Log.Debug(fmt.Sprintf("committing the group's offsets to Kafka: %v", err))
	}
}

// leave has the member leave the group, so that the others get its partitions at once.
func (s *Source) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	member, _ := s.consumer.GroupMetadata()
	err := s.consumer.LeaveGroupContext(ctx)
	s.group.stop()
	if k := &s.kafka; errors.Is(err, context.DeadlineExceeded) && member != "" && k.Instance == "" && !k.Consumer {
		err = s.expel(member)
	}
	if err != nil {
		s.opts.Log.Debug(fmt.Sprintf("leaving group %s: %v", s.kafka.Group, err))
	}
}

// expel has a member leave whose client waits for a rebalance: else the others would wait for its
// session to expire.
func (s *Source) expel(member string) error {
	ctx, cancel := context.WithTimeout(context.Background(), tellWait)
	defer cancel()
	leave := kmsg.NewPtrLeaveGroupRequest()
	of := kmsg.NewLeaveGroupRequestMember()
	of.MemberID = member
	leave.Group, leave.MemberID, leave.Members = s.kafka.Group, member, []kmsg.LeaveGroupRequestMember{of}
	_, err := leave.RequestWith(ctx, s.client)
	return err
}

// allCommitted reports whether the database has all lanes up to their ends, whoever reads them. The
// checkpoint of a topic that was recreated is an error.
func (s *Source) allCommitted(ctx context.Context) (bool, error) {
	cursors, err := s.group.members.Cursors(ctx, s.Lanes())
	if err != nil {
		return false, err
	}
	for i, l := range s.lanes {
		at, err := readCursor(cursors[i], l)
		if err != nil || at.Offset < l.until {
			return false, err
		}
		if err := s.check(ctx, l, at); err != nil {
			return false, err
		}
	}
	return true, nil
}

// hopeless are the answers of a group that stay.
var hopeless = []error{kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.InvalidGroupID, kerr.InconsistentGroupProtocol, kerr.FencedInstanceID,
	kerr.UnreleasedInstanceID, kerr.InvalidSessionTimeout, kerr.UnsupportedAssignor, kerr.GroupMaxSizeReached, kerr.UnsupportedVersion}

// isHopeless reports whether a member that got an error need not try to join again.
func isHopeless(err error) bool {
	return slices.ContainsFunc(hopeless, func(of error) bool { return errors.Is(err, of) })
}
