package memory

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/sink"
)

// jobClaim records who holds a job and its lanes. The database's mu guards it.
type jobClaim struct {
	whole *claims            // holds the whole job
	runs  map[*claims]bool   // have called Take, even without lanes, since they were opened
	lanes map[string]*claims // by name
}

// claims are the [sink.Claims] of one job.
type claims struct {
	db  *database
	job string
}

var _ sink.Claims = (*claims)(nil)

// held returns who holds the job. The database must be locked.
func (c *claims) held() *jobClaim {
	j := c.db.claims[c.job]
	if j == nil {
		j = &jobClaim{runs: map[*claims]bool{}, lanes: map[string]*claims{}}
		c.db.claims[c.job] = j
	}
	return j
}

// Take implements [sink.Claims].
func (c *claims) Take(ctx context.Context, lanes ...string) ([]sink.Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := c.take(lanes); err != nil {
		return nil, err
	}
	return c.Checkpoints(ctx, lanes...)
}

func (c *claims) take(lanes []string) error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	j := c.held()
	if j.whole != nil && j.whole != c {
		return sink.BusyError{Job: c.job}
	}
	for _, name := range lanes {
		if by := j.lanes[name]; by != nil && by != c {
			return sink.BusyError{Job: c.job, Lane: name}
		}
	}
	for _, name := range lanes {
		j.lanes[name] = c
	}
	j.runs[c] = true
	return nil
}

// TakeJob implements [sink.Claims].
func (c *claims) TakeJob(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	j := c.held()
	others := len(j.runs)
	if j.runs[c] {
		others--
	}
	if others > 0 || j.whole != nil && j.whole != c {
		return sink.BusyError{Job: c.job}
	}
	j.whole = c
	return nil
}

// Drop implements [sink.Claims].
func (c *claims) Drop(_ context.Context, lanes ...string) error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	j := c.held()
	for _, name := range lanes {
		if j.lanes[name] == c {
			delete(j.lanes, name)
		}
	}
	return nil
}

// Close implements [sink.Claims].
func (c *claims) Close() error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	j := c.held()
	if j.whole == c {
		j.whole = nil
	}
	delete(j.runs, c)
	maps.DeleteFunc(j.lanes, func(_ string, by *claims) bool { return by == c })
	return nil
}

// Checkpoints implements [sink.Claims].
func (c *claims) Checkpoints(ctx context.Context, lanes ...string) ([]sink.Checkpoint, error) {
	s := c.db.committed()
	found := make([]sink.Checkpoint, len(lanes))
	for i, name := range lanes {
		found[i] = s.checkpoints[lane{c.job, name}]
	}
	return found, ctx.Err()
}

// Tables implements [sink.Claims].
func (c *claims) Tables(ctx context.Context) (names []string, err error) {
	for name, jobs := range c.db.committed().writers {
		if slices.Contains(jobs, c.job) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, ctx.Err()
}

// Latest implements [sink.Claims].
func (c *claims) Latest(ctx context.Context) (source string, cp sink.Checkpoint, err error) {
	for l, at := range c.db.committed().checkpoints {
		if l.job == c.job && at.Mark != "" && !strings.HasPrefix(l.name, sink.RunPrefix) && !at.Committed.Before(cp.Committed) {
			source, cp = l.name, at
		}
	}
	return source, cp, ctx.Err()
}
