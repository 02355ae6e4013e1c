package pipeline

import (
	"context"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// prepareGroup checks the consumer group, which the source joins later, and writes the start positions of all lanes that
// have no checkpoint yet, including lanes that other members will read.
func (a *attempt) prepareGroup(ctx context.Context, member source.Member, starts []start) error {
	group, err := sink.As[sink.GroupClaims](a.claims, "share a job between the members of a consumer group (--group)")
	if err != nil {
		return err
	}
	retry := a.cfg.Retry
	if err := retry.Do(ctx, func() error { _, err := group.Take(ctx); return err }); err != nil {
		return err
	}
	known := map[string]bool{}
	for i := range starts {
		known[starts[i].name] = starts[i].cp.Seq > 0
	}
	database, err := sink.Retried(ctx, retry, func() (string, error) { return group.Database(ctx) })
	if err != nil {
		return err
	}
	begins, err := member.Join(ctx, source.Group{Database: database, Known: func(lane string) bool { return known[lane] }, Cursors: a.cursors})
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
	return retry.Do(ctx, func() error { return group.Begin(ctx, a.id, lanes) })
}

// cursors returns the source cursors in the checkpoints of lanes.
func (r *run) cursors(ctx context.Context, lanes []string) ([]source.Cursor, error) {
	found, err := r.readCheckpoints(ctx, lanes)
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

// findLanes returns the lanes of the sources. If a source had to be opened for that, it is returned too.
func (a *attempt) findLanes(ctx context.Context) (names []string, src source.Source, err error) {
	c := a.cfg
	if len(c.Sources) == 1 && c.Kind.Type(c.Sources[0]) == source.Partition {
		if src, err = c.Kind.Open(ctx, c.Sources, a.sourceOptions()); err != nil {
			return nil, nil, err
		}
		catalog := src.(source.Catalog)
		if a.history.ends == nil {
			a.history.ends = catalog.Ends()
		}
		return catalog.Lanes(), src, nil
	}
	for _, spec := range c.Sources {
		name, err := c.Kind.NameOf(spec)
		if err != nil {
			return nil, nil, err
		}
		names = append(names, name)
	}
	return names, nil, nil
}

// sourceOptions returns the options of the run's sources.
func (a *attempt) sourceOptions() source.Options {
	r, opt := a.run, a.cfg.Source
	opt.Pool, opt.Log = r.pool, r.cfg.Log
	opt.Whole = func(line []byte) bool {
		var l feed.Line
		l.Scan(feed.NewScanner(&feed.Names{}), nil, line)
		return l.Err == nil || l.Array
	}
	opt.Observer, opt.Buffer, opt.Ends, opt.Nameless = r.p, r.cfg.Buffer, a.history.ends, a.history.nameless
	opt.Hello, opt.Resumes = r.cfg.Feed.Hello, r.cfg.Feed.ResumeField != ""
	return opt
}
