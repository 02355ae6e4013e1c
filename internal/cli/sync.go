package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/metrics"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

func (e *env) syncCommand() *cobra.Command {
	o := &syncOptions{}
	c := &cobra.Command{
		Use:   "sync [SOURCE...] --to DEST",
		Short: "Apply a feed to a table",
		Long: `Read JSON lines from each SOURCE and apply them to a table.

A message sets the columns that it names and leaves the others alone; null sets
NULL; the last message wins. Each batch is one transaction, with the checkpoint
of its source and its rejected lines: the same command resumes there.

A SOURCE is a file or a glob (plain, gzip or zstd, recognized by content), - for
stdin, tcp://host:port or tls://host:port to connect to a feed, or
tcp-listen://host:port (tls-listen://) to accept senders.

DEST is an SQLite file, created if it is missing, or a Postgres database: a URL,
or keywords and values as in psql. PG* variables, .pgpass and service files fill in
the rest. The table is made from the feed, or taken as it is.

` + exitHelp,
		Example: `  weir sync flights.jsonl.gz --to flights.db
  weir sync 'captures/*.jsonl.zst' --to flights.db --table flights --job backfill
  weir sync feed.jsonl --follow --to flights.db --key carrier,flight
  weir sync flights.jsonl.gz --to postgres://weir@db.example/air --table feeds.flights
  nc feed.example 4000 | weir sync --to flights.db --table flights --delete-when op=delete`,
		RunE: func(c *cobra.Command, args []string) error {
			settings, file, err := e.resolve(c.Flags(), o)
			e.logAs(&o.logOptions)
			if err != nil {
				return err
			}
			if err := file.OneTable(); err != nil {
				return usageError{err}
			}
			if len(args) == 0 {
				args = o.source
			}
			return e.sync(c.Context(), o, args, settings)
		},
	}
	o.flags(c.Flags())
	c.Flags().SortFlags = false
	return c
}

// pageCache is the size of SQLite's page cache, for a run with the given buffer. Both are in
// bytes.
func pageCache(buffer int64) int { return int(min(max(buffer/4, 8<<20), 64<<20)) }

// readerCache is the same for a connection of --prefetch, which only fills the system's
// cache.
const readerCache = 1 << 20 // bytes

// limitMemory has the garbage collected before the run takes more memory than it
// promises: one and a half times the buffer, 64 MiB, and ten times the longest line,
// SQLite's pages and the program itself included.
func limitMemory(buffer int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(buffer*5/4 + 32<<20)
	}
}

// sync runs a job: its database, its log and its metrics.
func (e *env) sync(ctx context.Context, o *syncOptions, args []string, settings []*config.Setting) (err error) {
	to, c, err := e.plan(o, args)
	if err != nil {
		return err
	}
	e.log = e.log.With("job", c.Job, "table", c.Table)
	c.Log = e.log
	p := job.NewProgress()
	out := newPrinter(e, o, p)
	defer out.close()
	for _, s := range settings {
		e.log.Debug(fmt.Sprintf("%s = %s (%s)", s.Name, s.Value(), s.Origin))
	}
	if o.dryRun {
		return e.dryRun(ctx, to, c, p, out)
	}
	if o.metricsFile != "" {
		if err := metrics.CheckFile(o.metricsFile); err != nil {
			return err
		}
	}
	limitMemory(c.Buffer)
	retries := &retryLog{log: e.log, verbose: e.verbose, reported: map[string]time.Time{}}
	onRetry := func(failure *sink.Error) {
		p.Retry(failure)
		retries.add(failure)
	}
	var db sink.Sink
	options := sink.Options{Level: o.synchronous, Cache: pageCache(c.Buffer), Log: e.log}
	err = sink.Patiently(ctx, o.retryFor.Duration, onRetry, func() error {
		db, err = to.Open(ctx, to.dest, options)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	claims, err := to.OpenClaims(ctx, to.dest, c.Job, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claims.Close()) }()
	c.OpenReader = func(ctx context.Context) (job.RowReader, error) {
		return to.Inspect(ctx, to.dest, sink.Options{Cache: readerCache, Log: slog.New(debugHandler{e.log.Handler()})})
	}
	stopMetrics, err := e.export(ctx, o, c, db, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopMetrics()) }()
	err = job.Run(ctx, c, sink.Retry(db, o.retryFor.Duration, onRetry), sink.RetryClaims(claims, o.retryFor.Duration, onRetry), p)
	out.close()
	e.summarize(o, c, p, err)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case p.RejectedTotal() > 0:
		return codeError(exitRejected)
	}
	return nil
}

// export serves the metrics of a run if the options ask for it. stop ends that and writes
// the metrics file.
func (e *env) export(ctx context.Context, o *syncOptions, c job.Config, db sink.Sink, p *job.Progress) (stop func() error, err error) {
	name := c.Job
	if slices.Equal(c.Sources, []string{"-"}) && !c.ResumeStdin {
		name = source.StdinName
	}
	run := metrics.Run{Job: name, Table: c.Table, Progress: p, BufferLimit: c.Buffer, Version: version, Commit: commit}
	if file, ok := db.(interface{ WALBytes() int64 }); ok {
		run.WALBytes = file.WALBytes
	}
	reg := metrics.New(run)
	write := func() error {
		if o.metricsFile == "" {
			return nil
		}
		return reg.WriteFile(o.metricsFile)
	}
	if o.metricsAddr == "" {
		return write, nil
	}
	l, err := metrics.Listen(o.metricsAddr)
	if err != nil {
		return nil, errors.Join(err, write())
	}
	e.log.Info(fmt.Sprintf("metrics at http://%s/metrics", l.Addr()))
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() {
		served <- reg.Serve(serving, l, func() bool { name, _, _ := p.Source(); return name != "" })
	}()
	return func() error {
		cancel()
		if err := <-served; err != nil {
			e.log.Warn(err.Error())
		}
		return write()
	}, nil
}
