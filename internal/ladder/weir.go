package ladder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
)

// weir syncs the sample.
func (c *Config) weir(ctx context.Context, db Database, s *sample, level sink.Level, period time.Duration) (set Setting, err error) {
	set = Setting{Level: level, Period: period, Lost: db.lost(level)}
	if set.Lost != nothing && level != sink.Off {
		set.Lost += ", which the next run reads again"
	}
	c.Log.Info(fmt.Sprintf("weir, synchronous %s, batch period %s", level, period))
	before, err := db.usage(ctx)
	if err != nil {
		return set, err
	}
	rejects, err := job.ParseRejects("discard")
	if err != nil {
		return set, err
	}
	start := time.Now()
	to, err := db.sink(ctx, level)
	if err != nil {
		return set, err
	}
	p := progress.New("t")
	p.Observe(func(f progress.Flush) {
		set.Flushes++
		set.Longest = max(set.Longest, f.Took)
	})
	err = job.Run(ctx, job.Config{Sources: []string{s.path}, BatchRows: 100_000, BatchPeriod: period, Buffer: 256 << 20,
		Rejects: rejects, MaxRejects: int64(s.messages), Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{c.Key}, MaxColumns: len(s.names)}}},
		Log: c.Log}, to, nil, p)
	if err = errors.Join(err, to.Close()); err != nil {
		return set, fmt.Errorf("weir at %s: %w", level, err)
	}
	took := time.Since(start)
	set.Lag = period + set.Longest
	after, err := db.usage(ctx)
	set.end(int(p.Snapshot().Tables[0].Messages), took, before, after)
	return set, errors.Join(err, db.wipe(ctx))
}
