package job

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// claimChunk is how many sources are claimed at a time: each claim is a round trip.
const claimChunk = 200

// A claimer claims lanes before they are opened, and says from where they continue. The opener's goroutines use it.
type claimer struct {
	cfg       *Config
	claims    sink.Claims
	admission *admission
	lost      map[string]bool // lanes that other runs have written: they are theirs
	p         *progress.Progress
	inGroup   bool // a consumer group says which lanes the run has

	mu       sync.Mutex
	starts   []start           // that are not claimed yet
	claimed  map[string]*start // that are not opened yet; nil: there is nothing to read
	finished int64             // sources that had been read to their ends before
	rejected int64             // lines of these that were rejected then
}

// claim returns where a lane continues, when it is claimed; nil: there is nothing to read.
func (c *claimer) claim(ctx context.Context, name string) (*start, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.inGroup {
		if s, ok := c.claimed[name]; ok {
			delete(c.claimed, name)
			return s, nil
		}
		n := min(claimChunk, len(c.starts))
		if n == 0 {
			return c.claimNew(ctx, name)
		}
		if err := c.take(ctx, c.starts[:n]); err != nil {
			return nil, err
		}
		c.starts = c.starts[n:]
	}
	return c.takeOver(ctx, name)
}

// claimNew claims a lane that was not known when the attempt began, or that comes back.
func (c *claimer) claimNew(ctx context.Context, name string) (*start, error) {
	if c.lost[name] {
		return nil, nil
	}
	s := c.admission.startOf(name)
	found, err := c.claims.Take(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.found(found[0]); err != nil {
		return nil, err
	}
	return c.admit(&s)
}

// takeOver claims a lane that the group has assigned.
func (c *claimer) takeOver(ctx context.Context, name string) (*start, error) {
	group := c.claims.(sink.GroupClaims) // as joining it has checked
	// The name is no run's: a flush that finds its own takes that for its commit.
	found, err := group.TakeOver(ctx, rand.Text(), name)
	if err != nil {
		return nil, err
	}
	s := c.admission.startOf(name)
	if err := s.found(found[0]); err != nil {
		return nil, err
	}
	switch others := c.admission.otherTables(&s); {
	case slices.ContainsFunc(others, func(t *schema.Table) bool { return t.Exists }):
		return nil, sink.ErrChanged{Err: errors.New("a table was replaced meanwhile, and another member of the group has written to it")}
	case len(others) > 0: // another member has made them since this attempt began: the next flush finds them
		s.cp.TableID = ""
	}
	return c.admit(&s)
}

// admit admits a start that was found during the attempt.
func (c *claimer) admit(s *start) (*start, error) {
	if s.cp.Run == c.admission.run {
		return s, nil
	}
	return s, c.admission.admit(s)
}

// take claims sources.
func (c *claimer) take(ctx context.Context, starts []start) error {
	var names []string
	for i := range starts {
		s := &starts[i]
		c.claimed[s.name] = s
		if finished := c.cfg.Kind.Finished; !s.accepted && finished != nil && finished(s.name, c.cfg.Source, s.from.mark.Source) {
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
	found, err := c.claims.Take(ctx, names...)
	if err != nil {
		return err
	}
	for i, name := range names {
		// The flush that empties the table forgets the checkpoints of the sources to come.
		if at, s := found[i], c.claimed[name]; (at.Seq != s.cp.Seq || at.Run != s.cp.Run) && !(c.cfg.Restart.Rebuild && at.Seq == 0) {
			return sink.ErrChanged{Err: fmt.Errorf("another run has read %s meanwhile", name)}
		}
	}
	return nil
}

// skip counts a source that had been read to its end before.
func (c *claimer) skip(s *start) {
	c.finished++
	c.rejected += s.cp.Rejected
}

// skipOpened is skip of a source that is not known to be read to its end until it is opened.
func (c *claimer) skipOpened(s *start) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skip(s)
}

// logFinished logs the files that were read to their ends before, in one line.
func (c *claimer) logFinished() {
	sources, rejected := c.cfg.Sources, ""
	if c.rejected > 0 {
		rejected = fmt.Sprintf(" (lines rejected then: %d; those that are left: %s)", c.rejected, c.cfg.Rejects.Show)
	}
	switch {
	case c.finished == 0:
	case len(sources) == 1:
		c.cfg.Log.Info(fmt.Sprintf("%s was read to its end before and has not changed: nothing to do%s", sources[0], rejected), "source", sources[0])
	default:
		c.cfg.Log.Info(fmt.Sprintf("%d of %d files were read to their ends before and have not changed: nothing to do for these%s", c.finished, len(sources), rejected))
	}
}
