package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/status/metrics"
	"github.com/weirsync/weir/internal/status/web"
)

func (e *env) syncCommand() *cobra.Command {
	o := e.newSpec()
	var all bool // --help-all
	c := &cobra.Command{
		Use:   "sync [SOURCE...] --to DEST",
		Short: "Apply a feed to a table",
		Long: `Read JSON lines from each SOURCE and apply them to a table.

A message sets the columns that it names and leaves the others alone; null sets
NULL; the last message wins. Each batch is one transaction, with its rejected
lines and the checkpoint of its source. The same command resumes there.

A SOURCE is a file or a glob (plain, gzip or zstd, recognized by content), - for
stdin, tcp://host:port or tls://host:port to connect to a feed,
tcp-listen://host:port (tls-listen://) to accept senders, or
kafka://broker:9092,…/topic,… (kafka+tls://; ~PATTERN instead of topics).

DEST is an SQLite file, created if it is missing, or a Postgres database: a URL,
or keywords and values as in psql. PG* variables, .pgpass and service files fill
in the rest. The table is created from the feed, unless it exists.

` + exitHelp,
		Example: `  weir sync flights.jsonl.gz --to flights.db
  weir sync 'captures/*.jsonl.zst' --to flights.db --table flights --job backfill
  weir sync feed.jsonl --follow --to flights.db --key carrier,flight
  weir sync flights.jsonl.gz --to postgres://weir@db.example/air --table feeds.flights
  weir sync kafka://b1:9092,b2:9092/flights --partitions 0-3 --to flights.db
  nc feed.example 4000 | weir sync --to flights.db --table flights --delete-when op=delete`,
		RunE: func(c *cobra.Command, args []string) error {
			if all {
				return c.Help()
			}
			_ = e.load(c, o) // the job returns its error with all others
			return e.sync(c.Context(), o, args)
		},
	}
	o.AddFlags(c.Flags())
	c.Flags().BoolVar(&all, helpAll, false, "help with all flags")
	c.Flags().SortFlags = false
	return c
}

// pageCache returns the size of SQLite's page cache for a run with a buffer. Both are in bytes.
func pageCache(buffer int64) int { return int(min(max(buffer/4, 8<<20), 64<<20)) }

// readerCache is the page cache of a connection that only reads.
const readerCache = 1 << 20 // bytes

// programSize is the memory in bytes that the program needs in addition to its heap and SQLite's pages.
const programSize = 32 << 20

// limitMemory sets the garbage collector's limit so the run stays within the memory that is documented: 1.5 times the
// buffer, 64 MiB, and ten times the longest line, including SQLite's pages and the program itself. The limit is a
// seventh lower because the collector exceeds it while it works, and part of the heap is not counted.
func limitMemory(buffer int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		heap := buffer*3/2 + 64<<20 - int64(pageCache(buffer)) - programSize
		debug.SetMemoryLimit(heap * 6 / 7)
	}
}

// sync runs a job with its log, metrics and database.
func (e *env) sync(ctx context.Context, o *settings.Spec, args []string) error {
	plan, err := o.Plan(args)
	if err != nil {
		return err
	}
	c := plan.Job
	tables := c.Plan.TableNames()
	e.log = e.log.With("job", shownJob(&c))
	if len(tables) == 1 {
		e.log = e.log.With("table", tables[0])
	}
	c.Log = e.log
	p := status.New(tables...)
	p.Describe(describeRun(o, plan))
	out := newPrinter(e, &o.Output)
	defer out.close()
	for _, s := range o.Settings() {
		if s.IsSet() || s.Why != "" {
			e.log.Debug(o.Line(s))
		}
	}
	e.log.Debug("the other settings have their defaults: weir config print shows all")
	if o.Table.DryRun {
		defer p.Watch(out.print)()
		return e.dryRun(ctx, plan, p, out)
	}
	if o.Output.MetricsFile != "" {
		if err := metrics.CheckFile(o.Output.MetricsFile); err != nil {
			return err
		}
	}
	limitMemory(c.Buffer)
	run := &syncRun{env: e, o: o, plan: plan, p: p, metrics: metrics.New(p), out: out}
	stop, err := run.serve(ctx)
	if err == nil {
		err = run.run(ctx)
		stop()
	}
	if o.Output.MetricsFile != "" {
		code := e.exitCode(err)
		if werr := run.metrics.WriteFile(o.Output.MetricsFile, code, code == exitOK || code == exitRejected); werr != nil && errors.As(err, new(codeError)) {
			err = werr // it must be reported
		} else {
			err = errors.Join(err, werr)
		}
	}
	return err
}

// A syncRun is a run of a job.
type syncRun struct {
	*env
	o       *settings.Spec
	plan    *settings.Plan
	p       *status.Progress
	metrics *metrics.Registry
	out     *printer
}

// run opens the database, runs the job, and prints the result.
func (r *syncRun) run(ctx context.Context) (err error) {
	defer func() { err = r.stoppedIn(ctx, err) }()
	manager, stop := r.report(ctx)
	defer stop()
	log := newRunLog(ctx, r.log, r.plan)
	defer r.p.Watch(r.out.print, log.watch, manager.watch)()
	onRetry := func(failure *sink.Error) {
		r.p.Retry(failure)
		s := r.p.Snapshot()
		if log.stalls(&s); failure != nil {
			r.log.Debug(fmt.Sprintf("%v; retrying", failure), "attempt", failure.Attempt)
		}
		manager.started()
	}
	retry := sink.Retry{Patience: r.plan.Job.Source.RetryFor, OnRetry: onRetry, Stop: ctx}
	to, db := r.plan.To, sink.Sink(nil)
	options := r.o.SinkOptions(pageCache(r.plan.Job.Buffer), r.log)
	options.Stop = ctx
	err = retry.Do(ctx, func() error {
		db, err = to.Open(ctx, to.Dest, options)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if closing := db.Close(); !errors.As(err, new(sink.StoppedError)) { // of which it is a consequence
			err = errors.Join(err, closing)
		}
	}()
	if g, ok := db.(sink.Gauged); ok {
		for _, gauge := range g.Gauges() {
			r.metrics.Database(gauge.Name, gauge.Help, gauge.Read)
		}
	}
	claims, err := to.OpenClaims(ctx, to.Dest, r.plan.Job.Job, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claims.Close()) }()
	manager.started()
	plan, err := r.plan.AtDatabase(ctx, retry.Tables(db.Tables))
	if err == nil {
		r.plan = plan
		err = r.apply(ctx, db, claims, retry)
	}
	r.out.close()
	r.summarize(r.o, r.plan, r.p, err)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		r.log.Info(stoppedText(r.o, r.p.Snapshot().Stops))
		return ctx.Err()
	case r.p.Rejected() > 0:
		return codeError(exitRejected)
	}
	return nil
}

// stoppedIn returns a run's error. If the run was stopped while the database was unavailable, it logs what is not
// committed, and returns ctx's error.
func (r *syncRun) stoppedIn(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.As(err, new(sink.StoppedError)) {
		return err
	}
	s, left := r.p.Snapshot(), ""
	if s.Pending > 0 {
		left = " and lacks " + quantity.Count(s.Pending, "line") + " that this run has read"
	}
	r.log.Warn(fmt.Sprintf("the database is unavailable%s: %v; %s", left, err, stoppedText(r.o, s.Stops)), "pending_lines", s.Pending)
	return ctx.Err()
}

func (r *syncRun) apply(ctx context.Context, db sink.Sink, claims sink.Claims, retry sink.Retry) error {
	c := r.plan.Job
	c.Log, c.Retry = r.log, retry
	if r.plan.Resumes() {
		c.Resume = func(value []byte) error {
			_, err := r.stdout.Write(append(value, '\n'))
			return err
		}
	}
	return countStored(ctx, &r.o.Output, r.storedRejects, func() error { return pipeline.Run(ctx, c, db, claims, r.p) })
}

// shownJob returns the name of a job in messages and metrics.
func shownJob(c *pipeline.Config) string {
	if slices.Equal(c.Sources, []string{"-"}) && !c.ResumeStdin {
		return source.StdinName
	}
	return c.Job
}

// describeRun returns what a run is called, and its limits.
func describeRun(o *settings.Spec, plan *settings.Plan) status.Run {
	c, m := &plan.Job, plan.Mapping
	host, _ := os.Hostname() // an error leaves it out
	waits := c.Source.Follow || slices.ContainsFunc(c.Sources, func(name string) bool { return settings.Sources.Type(name).Live() })
	run := status.Run{Job: shownJob(c), To: plan.To.Shown(), Host: host, Version: version, Commit: commit, BufferLimit: c.Buffer,
		RejectsAt: "--rejects " + string(o.Rejects.To), IgnoredBy: m.File, NoTable: ", no table takes them",
		BySource: waits && len(c.Sources) > 1 || settings.IsKafka(c.Sources)}
	if c.Spool.Dir != "" {
		run.SpoolLimit = c.Spool.Max
	}
	if o.Rejects.To == pipeline.KeepRejects {
		run.RejectsAt = c.Rejects.Show
	}
	if m.File == "" {
		run.NoTable = " by --when"
	}
	if m.File == "" && m.Envelope != nil {
		run.IgnoredBy = "--envelope " + m.Envelope.Preset
	}
	return run
}

// serve serves the status page and metrics of a run, if that is set, until stop is called.
func (r *syncRun) serve(ctx context.Context) (stop func(), err error) {
	if r.o.Output.MetricsAddr == "" {
		return func() {}, nil
	}
	l, err := web.Listen(r.o.Output.MetricsAddr)
	if err != nil {
		return nil, err
	}
	r.log.Info(fmt.Sprintf("status page at http://%s/, metrics at http://%[1]s/metrics", l.Addr()))
	site := &web.Site{Progress: r.p, Metrics: r.metrics.Handler()}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- site.Serve(serving, l) }()
	return func() {
		cancel()
		if err := <-served; err != nil {
			r.log.Warn(err.Error())
		}
	}, nil
}
