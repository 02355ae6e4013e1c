package cli

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/metrics"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// syncOptions are the flags of sync.
type syncOptions struct {
	to, table  string
	key        []string
	deleteWhen string
	null       fold.Null
	fillOnly   bool
	version    string // the field
	scope      fold.Scope
	tombstones config.Duration
	newColumns fold.NewColumns
	maxColumns int

	batchPeriod time.Duration
	batchRows   int
	maxRate     string
	buffer      config.Size
	synchronous string
	prefetch    string
	retryFor    config.OptDuration

	job         string
	fromStart   bool
	rebuild     bool
	accept      bool
	follow      bool
	compression string
	feedOptions
	spool    string
	spoolMax config.Size
	capture  string
	keepFor  config.OptDuration // of captures
	maxLine  config.Size

	rejects    string
	maxRejects int64
	rejectsAge config.OptDuration

	metricsAddr, metricsFile string

	dryRun    bool
	progress  progressMode
	summary   outputFormat
	logFormat outputFormat
	quiet     bool
	config    string
	choices

	source []string // from the config file, where the command line has none
}

// progressMode says when the status line is shown.
type progressMode string

const (
	progressAuto   progressMode = "auto"
	progressAlways progressMode = "always"
	progressNever  progressMode = "never"
)

// outputFormat is that of the log and of the summary.
type outputFormat string

const (
	textFormat outputFormat = "text"
	jsonFormat outputFormat = "json"
)

const toHelp = "the database: an SQLite file, sqlite:PATH, postgres://… or postgres: (all from PG* variables)"

// The defaults of the flags.
const (
	defaultBatchRows   = 100_000
	defaultSynchronous = "full"
	defaultBuffer      = 256 << 20 // bytes
	defaultSpoolMax    = 10 << 30  // bytes
	defaultMaxColumns  = 500
	defaultMaxRejects  = 10_000
	defaultRetryFor    = 5 * time.Minute
	defaultTombstones  = 7 * 24 * time.Hour
)

func (o *syncOptions) flags(f *pflag.FlagSet) {
	inGroup(f, sourceFlags, o.sourceFlags)
	inGroup(f, tableFlags, func(f *pflag.FlagSet) {
		o.tableFlags(f)
		f.BoolVar(&o.dryRun, "dry-run", false, "read and fold, print the table that would be made, and write nothing")
	})
	inGroup(f, foldFlags, func(f *pflag.FlagSet) {
		o.foldFlags(f)
		o.tombstones = config.Duration(defaultTombstones)
		f.Var(&o.tombstones, "tombstones", "how long a delete is remembered, so that an older message does not bring the row back")
	})
	inGroup(f, batchFlags, o.batchFlags)
	inGroup(f, feedFlags, func(f *pflag.FlagSet) { o.feedOptions.flags(f, &o.choices) })
	inGroup(f, spoolFlags, o.spoolFlags)
	inGroup(f, rejectFlags, func(f *pflag.FlagSet) {
		f.StringVar(&o.rejects, "rejects", "table", "where bad lines go: table (weir_rejects), file:PATH, fail (the run stops), discard")
		f.Var(&o.rejectsAge, "keep-rejects", "how long rejected lines stay in weir_rejects, such as 30d (default forever)")
		f.Int64Var(&o.maxRejects, "max-rejects", defaultMaxRejects, "stop the run after more than this many bad lines")
	})
	inGroup(f, logFlags, func(f *pflag.FlagSet) {
		f.StringVar(&o.metricsAddr, "metrics-addr", "", "serve /metrics, /healthz and /readyz at this address, such as :9461 (default off)")
		f.StringVar(&o.metricsFile, "metrics-file", "", "write the final metrics to this file, for node_exporter's textfile collector")
		addChoice(&o.choices, f, &o.progress, "progress", progressAuto, "the status line: auto (on a terminal), always or never", progressAuto, progressAlways, progressNever)
		addChoice(&o.choices, f, &o.summary, "summary", textFormat, "the summary at the end: text on stderr, or json on stdout", textFormat, jsonFormat)
		addChoice(&o.choices, f, &o.logFormat, "log-format", textFormat, "of messages on stderr", textFormat, jsonFormat)
		f.BoolVarP(&o.quiet, "quiet", "q", false, "print only warnings and errors")
	})
	f.StringVar(&o.config, "config", "", "a YAML file with these settings, such as batch_rows: 1000")
}

func (o *syncOptions) sourceFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.follow, "follow", false, "keep reading as the file grows, over rotation and truncation; wait for a file that does not exist yet")
	addChoice(&o.choices, f, &o.compression, "compression", source.Auto, "of the sources; auto recognizes gzip and zstd, deflate is raw", source.Auto, source.None, source.Gzip, source.Zstd, source.Zlib, source.Deflate)
	o.maxLineFlag(f)
	f.StringVar(&o.maxRate, "max-rate", "", "read at most this many lines, such as 5000/s, so that a backfill leaves room for others (default no limit)")
	f.StringVar(&o.job, "job", "", "the job whose checkpoints are read and written (default the name of the table; stdin has none)")
	f.BoolVar(&o.fromStart, "from-start", false, "read again from the start, over the rows that exist; deletes nothing")
	f.BoolVar(&o.rebuild, "rebuild", false, "empty the table in the first batch and read from the start; refused if other jobs have written to it")
	f.BoolVar(&o.accept, "accept-settings", false, "continue from a checkpoint of other settings, or of a table that was recreated since")
}

func (o *syncOptions) batchFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.batchPeriod, "batch-period", 0, "write a line after this time at the latest (default 1s; files: when a batch is full)")
	f.IntVar(&o.batchRows, "batch-rows", defaultBatchRows, "write a batch when it has this many rows")
	o.buffer = defaultBuffer
	f.Var(&o.buffer, "buffer", "memory for batches; when it is full, reading pauses")
	addChoice(&o.choices, f, &o.synchronous, "synchronous", defaultSynchronous, "how safe a commit is from a power cut; see docs/durability.md", levels...)
	addChoice(&o.choices, f, &o.prefetch, "prefetch", job.ReadAheadAuto, "look up the rows of a batch on 8 more connections before it is written; auto: when flushes wait for the disk", job.ReadAheadAuto, job.ReadAheadOn, job.ReadAheadOff)
	f.Var(&o.retryFor, "retry-for", "how long to retry a locked or unavailable database, or a lost feed (default 5m; connections: forever)")
}

func (o *syncOptions) spoolFlags(f *pflag.FlagSet) {
	f.StringVar(&o.spool, "spool", "", "a folder that holds a connection's lines until they are committed, so that reading continues while the database is unavailable")
	o.spoolMax = defaultSpoolMax
	f.Var(&o.spoolMax, "spool-max", "size of the spool; when it is full, reading pauses")
	f.StringVar(&o.capture, "capture", "", "a folder that keeps all lines of a connection or of stdin, as files that sync and replay read")
	f.Var(&o.keepFor, "keep-captures", "remove captures whose lines are all older than this, such as 30d (default forever)")
}

// tableFlags are those of all commands that fold for a table.
func (o *syncOptions) tableFlags(f *pflag.FlagSet) {
	f.StringVar(&o.to, "to", "", toHelp)
	f.StringVar(&o.table, "table", "", "the table (default the name of the source file)")
	addChoice(&o.choices, f, &o.newColumns, "new-columns", "", "fields without a column (default add in a table that weir made, else ignore)", fold.AddColumns, fold.IgnoreColumns, fold.RejectColumns)
	f.IntVar(&o.maxColumns, "max-columns", defaultMaxColumns, "add at most this many columns to a table")
}

// foldFlags are those of all commands that fold.
func (o *syncOptions) foldFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.key, "key", []string{"id"}, "the field or fields that identify a row")
	f.StringVar(&o.deleteWhen, "delete-when", "", "FIELD=VALUE: a message with it removes its row; FIELD=null is JSON's null")
	addChoice(&o.choices, f, &o.null, "null", fold.ClearNull, "clear: null sets NULL; keep: null is the same as absent", fold.ClearNull, fold.KeepNull)
	f.StringVar(&o.version, "version-field", "", "the field with the version of a message: each column has the value of the newest message that named it, in whatever order they arrive")
	addChoice(&o.choices, f, &o.scope, "version-scope", fold.ColumnScope, "column, or row: a message older than its row changes nothing", fold.ColumnScope, fold.RowScope)
	f.BoolVar(&o.fillOnly, "fill-only", false, "write only where the table has NULL, so that the first value of a column stays")
}

func (o *syncOptions) maxLineFlag(f *pflag.FlagSet) {
	o.maxLine = source.DefaultMaxLine
	f.Var(&o.maxLine, "max-line", "the longest line that is accepted")
}

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
			settings, err := e.resolve(c.Flags(), o)
			if err != nil {
				return err
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

// readerCache is the same for each connection that prefetches: it is there to fill the
// system's cache.
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
	p := job.NewProgress()
	out := newPrinter(e, o, p)
	defer out.close()
	for _, s := range settings {
		out.debug("%s = %s (%s)", s.Name, s.Value(), s.Origin)
	}
	c.Warn, c.Info = out.warn, out.info
	if o.dryRun {
		return e.dryRun(ctx, to, c, p, out)
	}
	if o.metricsFile != "" {
		if err := metrics.CheckFile(o.metricsFile); err != nil {
			return err
		}
	}
	limitMemory(c.Buffer)
	onRetry := func(failure *sink.Error) {
		p.Retry(failure)
		out.retry(failure)
	}
	var db database
	err = sink.Patiently(ctx, o.retryFor.Duration, onRetry, func() error {
		db, err = to.open(ctx, openOptions{synchronous: o.synchronous, cache: pageCache(c.Buffer), warn: out.warn, debug: out.debug})
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c.OpenReader = func(ctx context.Context) (job.Reader, error) {
		return to.open(ctx, openOptions{synchronous: defaultSynchronous, readOnly: true, cache: readerCache, warn: out.debug, debug: out.debug})
	}
	stopMetrics, err := o.export(ctx, c, db, p, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopMetrics()) }()
	err = job.Run(ctx, c, sink.Retry(db, o.retryFor.Duration, onRetry), p)
	out.close()
	e.summarize(o, c, p, out, err)
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
func (o *syncOptions) export(ctx context.Context, c job.Config, db database, p *job.Progress, out *printer) (stop func() error, err error) {
	run := metrics.Run{Job: c.Job, Table: c.Table, Progress: p, BufferLimit: c.Buffer, Version: version, Commit: commit}
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
	out.info("metrics at http://%s/metrics", l.Addr())
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() {
		served <- reg.Serve(serving, l, func() bool { name, _, _ := p.Source(); return name != "" })
	}()
	return func() error {
		cancel()
		if err := <-served; err != nil {
			out.warn("%v", err)
		}
		return write()
	}, nil
}
