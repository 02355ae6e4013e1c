package ladder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
)

// A sync is what one sync by weir was.
type sync struct {
	run
	flushes int
	longest time.Duration
}

// weir syncs the sample.
func (c *Config) weir(ctx context.Context, db Database, s *sample, level sink.Level, period time.Duration) (one sync, err error) {
	before, err := db.usage(ctx)
	if err != nil {
		return one, err
	}
	rejects, err := job.ParseRejects("discard")
	if err != nil {
		return one, err
	}
	start := time.Now()
	to, err := db.sink(ctx, level)
	if err != nil {
		return one, err
	}
	p := progress.New("t")
	p.Observe(func(f progress.Flush) {
		one.flushes++
		one.longest = max(one.longest, f.Took)
	})
	err = job.Run(ctx, job.Config{Sources: []string{s.path}, BatchRows: 100_000, BatchPeriod: period, Buffer: 256 << 20,
		Rejects: rejects, MaxRejects: int64(s.messages), Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{c.Key}, MaxColumns: len(s.names)}}},
		Log: c.Log}, to, nil, p)
	if err = errors.Join(cmp.Or(err, ctx.Err()), to.Close()); err != nil { // a run that is stopped has no error
		return one, fmt.Errorf("weir at %s: %w", level, err)
	}
	took := time.Since(start)
	after, err := db.usage(ctx)
	one.run = newRun(int(p.Snapshot().Tables[0].Messages), took, before, after)
	return one, errors.Join(err, db.wipe(ctx))
}
