package job

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// groupClaims are the claims of a member, as join has checked.
func (r *run) groupClaims() sink.GroupClaims { return r.claims.(sink.GroupClaims) }

// join has the run share the job with the other members: it writes where the lanes begin that have
// no checkpoint yet, also of those that others will read.
func (r *run) join(ctx context.Context, member source.Member, starts []start) error {
	group, err := sink.As[sink.GroupClaims](r.claims, "share a job between the members of a consumer group (--group)")
	if err != nil {
		return err
	}
	if _, err := r.claims.Take(ctx); err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range starts {
		known[starts[i].name] = starts[i].cp.Seq > 0
	}
	database, err := group.Database(ctx)
	if err != nil {
		return err
	}
	begins, err := member.Join(ctx, source.Group{Database: database, Known: func(lane string) bool { return known[lane] }, Cursors: r.cursors})
	if err != nil {
		return err
	}
	var lanes []sink.Lane
	for name, at := range begins {
		cp, err := position{offset: at.Offset, mark: mark{Source: at.At}}.checkpoint()
		if err != nil {
			return err
		}
		lanes = append(lanes, sink.Lane{Source: name, Checkpoint: cp})
	}
	return group.Begin(ctx, r.id, lanes)
}

// takeOver claims a lane that the group has assigned.
func (o *opener) takeOver(ctx context.Context, name string) (*start, error) {
	// The name is no run's: a flush that finds its own takes that for its commit.
	found, err := o.groupClaims().TakeOver(ctx, rand.Text(), name)
	if err != nil {
		return nil, err
	}
	s := o.startOf(name)
	if err := s.found(found[0]); err != nil {
		return nil, err
	}
	switch others := o.otherTables(&s); {
	case slices.ContainsFunc(others, func(t *schema.Table) bool { return t.Exists }):
		return nil, sink.ErrChanged{Err: errors.New("a table was replaced meanwhile, and another member of the group has written to it")}
	case len(others) > 0: // another member has made them since this attempt began: the next flush finds them
		s.cp.TableID = ""
	}
	return o.admitFound(&s)
}

// cursors returns those of the checkpoints of lanes.
func (r *run) cursors(ctx context.Context, lanes []string) ([]source.Cursor, error) {
	found, err := r.claims.Checkpoints(ctx, lanes...)
	if err != nil {
		return nil, err
	}
	all := make([]source.Cursor, len(found))
	for i := range found {
		at, err := positionOf(found[i])
		if err != nil {
			return nil, err
		}
		all[i] = at.mark.Source
	}
	return all, nil
}
