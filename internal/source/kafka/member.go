package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/source"
)

const (
	// heartbeat is how often a member sends a heartbeat, and learns of a rebalance.
	heartbeat = time.Second
	// releaseWait is how long a member may keep a revoked partition until what it has read is committed. The other
	// members wait as long.
	releaseWait = 20 * time.Second
	// commitWait limits how long a member commits its offsets to Kafka before it releases a partition.
	commitWait = 2 * time.Second
	// leaveWait limits how long a member that ends waits for the group. The client does not leave during a rebalance,
	// and a rebalance may be waiting for a dead member.
	leaveWait = 3 * time.Second
	// closeWait limits all of it, and the end of the connections to brokers that may not answer any more.
	closeWait = 8 * time.Second
)

// A member is one member of a consumer group. The client's goroutines report assigned and revoked partitions with
// calls, and wait until Next has handled them. The fence in the database, not the group, prevents two members from
// committing the same records.
type member struct {
	*catalog

	calls   chan *call    // to Next
	opening *call         // Next's: the call whose lanes are being opened
	polling interrupter   // interrupts Next's poll
	dirty   chan struct{} // there are offsets to commit to Kafka
	closing chan struct{} // Next is not called any more

	peers     source.Group         // from Join
	owner     string               // the metadata of offsets committed to Kafka
	committed kadm.OffsetResponses // what the group had committed before the source joined
}

type callKind int

const (
	assigned callKind = iota
	revoked
	lost
)

// A call asks Next to handle partitions.
type call struct {
	kind  callKind
	lanes []*lane
	from  chan map[partition]cursor // for assigned: where the lanes are read from
	done  chan struct{}             // for revoked: receives once per released lane
	err   error                     // ends the run
}

// options returns the options of a member's client.
func (m *member) options() []kgo.Opt {
	k, spec := &m.cfg.kafka, &m.cfg.spec
	topics := spec.Topics
	if spec.Pattern != nil {
		topics = []string{spec.Pattern.String()}
	}
	opts := []kgo.Opt{kgo.ConsumerGroup(k.Group), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(heartbeat),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { m.grouped(true) }),
		kgo.AdjustFetchOffsetsFn(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost)}
	if spec.Pattern != nil {
		opts = append(opts, kgo.ConsumeRegex())
	}
	if k.Consumer {
		opts = append(opts, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	} else if k.Session > 0 {
		opts = append(opts, kgo.SessionTimeout(k.Session))
	}
	if k.Instance != "" {
		opts = append(opts, kgo.InstanceID(k.Instance))
	}
	return opts
}

// grouped reports to the observer whether the run has joined the group (with or without partitions), or is waiting to.
func (m *member) grouped(joined bool) { m.cfg.common.Observer.Grouped(joined, len(m.lanes)) }

// call passes a call to Next. It reports whether Next got it.
func (m *member) call(ctx context.Context, c *call) bool {
	select {
	case m.calls <- c:
		m.polling.interrupt()
		return true
	case <-ctx.Done():
	case <-m.closing:
	}
	return false
}

// assigned opens lanes, and returns where they are read from: their checkpoints, whatever offsets Kafka has.
func (m *member) assigned(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	m.cfg.common.Observer.Rebalanced()
	of, n := map[string][]int32{}, 0
	for topic, partitions := range offsets {
		of[topic] = slices.Collect(maps.Keys(partitions))
		n += len(partitions)
	}
	c := &call{kind: assigned, lanes: m.lanesOf(of), from: make(chan map[partition]cursor, 1)}
	if len(c.lanes) < n {
		c.err = source.ErrNewLane
	}
	if !m.call(ctx, c) {
		return nil, context.Canceled
	}
	select {
	case from := <-c.from:
		for p, at := range from {
			offsets[p.topic][p.number] = at.offset()
		}
		return offsets, nil
	case <-ctx.Done(): // the group rebalances again, and will ask again
		return nil, ctx.Err()
	case <-m.closing:
		return nil, context.Canceled
	}
}

// revoked waits until what was read of the lanes is committed, up to releaseWait. Anything committed later fails at the
// next member's fence.
func (m *member) revoked(ctx context.Context, cl *kgo.Client, of map[string][]int32) {
	m.cfg.common.Observer.Rebalanced()
	lanes := m.lanesOf(of)
	c := &call{kind: revoked, lanes: lanes, done: make(chan struct{}, len(lanes))}
	if len(lanes) == 0 || !m.call(ctx, c) {
		return
	}
	defer func() {
		for _, l := range lanes {
			l.owned.Store(false)
		}
	}()
	timer := time.NewTimer(releaseWait)
	defer timer.Stop()
	for range lanes {
		select {
		case <-c.done:
		case <-timer.C:
			m.cfg.common.Log.Warn(fmt.Sprintf("the group revokes partitions whose records could not be committed within %s: the member that gets them reads them again", releaseWait))
			return
		case <-m.closing:
			return
		}
	}
	m.commitOffsets(ctx, cl, lanes)
}

// lost releases lanes that the group has already assigned to another member.
func (m *member) lost(ctx context.Context, _ *kgo.Client, of map[string][]int32) {
	m.grouped(false)
	m.call(ctx, &call{kind: lost, lanes: m.lanesOf(of)})
}

// commitSoon triggers a commit of offsets to Kafka. A nil member does nothing.
func (m *member) commitSoon() {
	if m != nil {
		select {
		case m.dirty <- struct{}{}:
		default: // already triggered
		}
	}
}

// run commits offsets to Kafka whenever they change in the database, until ctx ends. The member then leaves the group.
func (m *member) run(ctx context.Context, consumer *kgo.Client, stop context.CancelFunc) {
	for ctx.Err() == nil {
		select {
		case <-m.dirty:
			m.commitOffsets(ctx, consumer, m.lanes)
		case <-ctx.Done():
		}
	}
	if m.connected() {
		m.commitOffsets(context.WithoutCancel(ctx), consumer, m.lanes)
	}
	close(m.closing)
	m.leave(consumer, stop)
}

// commitOffsets commits the lanes' offsets and the database's ID to Kafka, for tools that show a group's lag. Members
// read them at their start only.
func (m *member) commitOffsets(ctx context.Context, cl *kgo.Client, lanes []*lane) {
	var last []*kgo.Record
	for _, l := range lanes {
		if l.owned.Load() {
			last = append(last, &kgo.Record{Topic: l.topic, Partition: l.number, Offset: l.committed.Load() - 1, LeaderEpoch: -1})
		}
	}
	if len(last) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitWait)
	defer cancel()
	if err := cl.CommitRecords(kgo.PreCommitFnContext(ctx, m.nameOwner), last...); err != nil {
		m.cfg.common.Log.Debug(fmt.Sprintf("committing the group's offsets to Kafka: %v", err))
	}
}

// leave leaves the group, so the other members get the partitions at once. stop ends everything that the client waits
// for.
func (m *member) leave(consumer *kgo.Client, stop context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	k := &m.cfg.kafka
	id, _ := consumer.GroupMetadata()
	err := consumer.LeaveGroupContext(ctx)
	stop()
	if id != "" && (k.Instance != "" || !k.Consumer && errors.Is(err, context.DeadlineExceeded)) {
		err = m.expel(id)
	}
	if err != nil {
		m.cfg.common.Log.Debug(fmt.Sprintf("leaving group %s: %v", k.Group, err))
	}
}

// expel sends the leave request if the client does not: during a rebalance, or for a static member. Without it, the
// other members would wait for the session to expire. It identifies the member by member ID, because another member may
// have its static ID.
func (m *member) expel(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), commitWait)
	defer cancel()
	k := &m.cfg.kafka
	if k.Consumer {
		leave := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		leave.Group, leave.MemberID, leave.MemberEpoch = k.Group, id, -1 // the client's -2 would keep its partitions reserved
		_, err := leave.RequestWith(ctx, m.client)
		return err
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	of := kmsg.NewLeaveGroupRequestMember()
	of.MemberID = id
	leave.Group, leave.MemberID, leave.Members = k.Group, id, []kmsg.LeaveGroupRequestMember{of}
	_, err := leave.RequestWith(ctx, m.client)
	return err
}

// allCommitted reports whether the database has all lanes up to their ends, whichever member read them. It returns an
// error if a checkpoint belongs to a topic that was recreated since.
func (m *member) allCommitted(ctx context.Context, lanes []string) (bool, error) {
	cursors, err := m.peers.Cursors(ctx, lanes)
	if err != nil {
		return false, err
	}
	for i, l := range m.lanes {
		at, err := readCursor(cursors[i], l)
		if err != nil || at.Offset < l.until {
			return false, err
		}
		if err := m.check(ctx, l, at); err != nil {
			return false, err
		}
	}
	return true, nil
}

// isNameTaken reports that another member has this one's static ID. In a classic group, the member that joins last gets
// it. In the consumer protocol, the first keeps it until it leaves or its session expires.
func isNameTaken(err error) bool {
	return errors.Is(err, kerr.FencedInstanceID) || errors.Is(err, kerr.UnreleasedInstanceID)
}

// isHopeless reports whether an error makes it useless to join again.
func isHopeless(err error) bool {
	hopeless := []error{kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.InvalidGroupID, kerr.InconsistentGroupProtocol,
		kerr.UnsupportedAssignor, kerr.GroupMaxSizeReached, kerr.UnsupportedVersion}
	return slices.ContainsFunc(hopeless, func(of error) bool { return errors.Is(err, of) })
}
