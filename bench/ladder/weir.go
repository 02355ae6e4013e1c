package ladder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/status"
)

// A synced is the result of one sync by weir.
type synced struct {
	Timing
	flushes int
	longest time.Duration
}

// RunJob runs a job that discards rejected lines into a sink, and closes the sink. It returns an error if the job was
// stopped.
func RunJob(ctx context.Context, c pipeline.Config, to sink.Sink, p *status.Progress) (err error) {
	c.Rejects.To = pipeline.DiscardRejects
	err = pipeline.Run(ctx, c, to, nil, p)
	return errors.Join(cmp.Or(err, ctx.Err()), to.Close())
}

// weir syncs the sample.
func (c *Config) weir(ctx context.Context, db Database, s *sample, level sink.Level, period time.Duration) (one synced, err error) {
	before, err := db.Usage(ctx)
	if err != nil {
		return one, err
	}
	start := time.Now()
	to, err := db.Sink(ctx, sink.Options{Level: level})
	if err != nil {
		return one, err
	}
	p := status.New("t")
	p.Observe(func(f *status.Flush) {
		one.flushes++
		one.longest = max(one.longest, time.Duration(f.Seconds*float64(time.Second)))
	})
	run := pipeline.Config{Kind: file.Kind(file.Options{}), Sources: []string{s.path}, Limits: pipeline.Limits{BatchPeriod: period, Buffer: 256 << 20},
		Rejects: pipeline.RejectRules{Max: int64(s.messages)}, Log: c.Log}
	table := mapping.Table{Name: "t", Key: []string{c.Key}, Rules: fold.Rules{MaxColumns: len(s.names)}}
	if run.Plan, err = mapping.Compile(&mapping.Mapping{Tables: []mapping.Table{table}}, to.Caps().Limits); err != nil {
		return one, err
	}
	if err := RunJob(ctx, run, to, p); err != nil {
		return one, fmt.Errorf("weir at %s: %w", level, err)
	}
	took := time.Since(start)
	after, err := db.Usage(ctx)
	one.Timing = NewTiming(int(p.Snapshot().Tables[0].Messages), took, before, after)
	return one, errors.Join(err, db.Wipe(ctx))
}
