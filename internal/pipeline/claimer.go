package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// claimChunk is how many sources are claimed at a time, because each claim is a round trip.
const claimChunk = 200

// A claimer claims lanes that a source has opened, before they are begun, and returns where they continue. It is the
// opener's.
type claimer struct {
	*run
	check   *resumeCheck
	fences  *fences
	inGroup bool // the consumer group assigns the run's lanes

	starts   []start           // not claimed yet
	claimed  map[string]*start // not begun yet; nil: there is nothing to read
	finished int64             // sources that an earlier run read to their ends
	rejected int64             // lines of these sources that were rejected then
}

// claim claims a lane and returns where it continues. It returns nil if there is nothing to read.
func (c *claimer) claim(ctx context.Context, name string) (*start, error) {
	for !c.inGroup {
		if s, ok := c.claimed[name]; ok {
			delete(c.claimed, name)
			return s, nil
		}
		n := min(claimChunk, len(c.starts))
		if n == 0 {
			break
		}
		if err := c.claimStarts(ctx, c.starts[:n]); err != nil {
			return nil, err
		}
		c.starts = c.starts[n:]
	}
	return c.claimOne(ctx, name)
}

// claimOne claims a lane that appeared during the attempt, that is read again, or that the consumer group assigned.
func (c *claimer) claimOne(ctx context.Context, name string) (*start, error) {
	if c.fences.isLost(name) {
		return nil, nil
	}
	take := func() ([]sink.Checkpoint, error) { return c.claims.Take(ctx, name) }
	if c.inGroup {
		group := c.claims.(sink.GroupClaims) // prepareGroup has checked the type
		// A fresh ID, because a flush that finds its own run's ID in a checkpoint believes that it has committed.
		id := rand.Text()
		take = func() ([]sink.Checkpoint, error) { return group.TakeOver(ctx, id, name) }
	}
	found, err := sink.Retried(ctx, c.cfg.Retry, take)
	if err != nil {
		return nil, err
	}
	s := c.check.startOf(name)
	if err := s.setCheckpoint(found[0]); err != nil {
		return nil, err
	}
	switch others := c.check.otherTables(&s); {
	case !c.inGroup || len(others) == 0:
	case !slices.ContainsFunc(others, func(t *schema.Table) bool { return t.Exists }):
		s.cp.TableID = "" // another member has created them since: the next flush finds them
	case !c.check.accepts(&s):
		return nil, sink.ChangedError{Err: errors.New("a table was replaced meanwhile, and another member of the group has written to it")}
	}
	if s.cp.Run == c.id {
		return &s, nil
	}
	return &s, c.check.admit(&s)
}

// claimStarts claims sources. It skips the files that were read to their ends before.
func (c *claimer) claimStarts(ctx context.Context, starts []start) error {
	var names []string
	for i := range starts {
		s := &starts[i]
		c.claimed[s.name] = s
		if finished := c.cfg.Kind.Finished; !c.check.accepts(s) && finished != nil && finished(s.name, c.cfg.Source, s.from.mark.Source) {
			c.claimed[s.name] = nil
			c.skip(s)
			c.p.SkipFile(s.name)
		} else if !s.unnamed {
			names = append(names, s.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := sink.Retried(ctx, c.cfg.Retry, func() ([]sink.Checkpoint, error) { return c.claims.Take(ctx, names...) })
	if err != nil {
		return err
	}
	for i, name := range names {
		// The flush that empties the tables also removes the checkpoints of sources that are claimed later.
		if at, s := found[i], c.claimed[name]; (at.Seq != s.cp.Seq || at.Run != s.cp.Run) && !(c.cfg.Restart.Rebuild && at.Seq == 0) {
			return sink.ChangedError{Err: fmt.Errorf("another run has read %s meanwhile", name)}
		}
	}
	return nil
}

// skip counts a source that was read to its end before.
func (c *claimer) skip(s *start) {
	c.finished++
	c.rejected += s.cp.Rejected
}

// logFinished logs, in one line, how many files were read to their ends before.
func (c *claimer) logFinished() {
	sources, rejected := c.cfg.Sources, ""
	if c.rejected > 0 {
		rejected = fmt.Sprintf(" (lines rejected then: %d; to show them: %s)", c.rejected, c.cfg.Rejects.Show)
	}
	switch {
	case c.finished == 0:
	case len(sources) == 1:
		c.cfg.Log.Info(fmt.Sprintf("%s was read to its end before and has not changed: nothing to do%s", sources[0], rejected), "source", sources[0])
	default:
		c.cfg.Log.Info(fmt.Sprintf("%d of %d files were read to their ends before and have not changed: nothing to do for these%s", c.finished, len(sources), rejected))
	}
}
