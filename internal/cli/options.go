package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/memory"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/kafka"
)

// syncOptions are the flags of sync: a struct for each group. flags defines those of a
// group, check returns all of its faults.
type syncOptions struct {
	fileOptions
	sourceOptions
	batchOptions
	feedOptions
	kafkaOptions
	spoolOptions
	rejectOptions
	logOptions

	tombstones config.Duration
	dryRun     bool
	config     string // the file
	resolved   []*config.Setting
	args       []string // of the command line
	source     []string // of the config file and the environment
	helpAll    bool
}

// tablesFlag is no setting: in a config file, tables are what is to be made.
const tablesFlag = "tables"

func (o *syncOptions) flags(f *pflag.FlagSet) {
	inGroup(f, sourceFlags, func(f *pflag.FlagSet) {
		o.sourceOptions.flags(f, &o.choices)
		o.maxLineFlag(f)
	})
	inGroup(f, tableFlags, func(f *pflag.FlagSet) {
		o.tableOptions.flags(f, &o.choices)
		f.StringSliceVar(&o.only, tablesFlag, nil, "write only these `TABLES` of the config file, in a job of their own (--job): so a new table is filled")
		f.BoolVar(&o.dryRun, "dry-run", false, "print the tables that would be made and their first rows; write nothing")
	})
	inGroup(f, foldFlags, func(f *pflag.FlagSet) {
		o.foldOptions.flags(f, &o.choices)
		o.tombstones = config.Duration(defaultTombstones)
		f.Var(&o.tombstones, "tombstones", "how long a delete is remembered, so that an older message does not bring the row back")
	})
	inGroup(f, batchFlags, func(f *pflag.FlagSet) { o.batchOptions.flags(f, &o.choices) })
	inGroup(f, feedFlags, func(f *pflag.FlagSet) { o.feedOptions.flags(f, &o.choices) })
	inGroup(f, kafkaFlags, func(f *pflag.FlagSet) { o.kafkaOptions.flags(f, &o.choices) })
	inGroup(f, spoolFlags, o.spoolOptions.flags)
	inGroup(f, rejectFlags, o.rejectOptions.flags)
	inGroup(f, logFlags, func(f *pflag.FlagSet) { o.logOptions.flags(f, &o.choices) })
	f.StringVar(&o.config, "config", "", configHelp)
}

func (o *syncOptions) check() error {
	var err error
	if o.tombstones < 0 {
		err = errors.New("--tombstones cannot be negative")
	}
	return errors.Join(o.sourceOptions.check(), err, o.batchOptions.check(), o.logOptions.check())
}

// fileOptions are those of all commands that fold files for a table.
type fileOptions struct {
	tableOptions
	foldOptions
	choices
	mapping *mapping.Mapping // of the file; nil where it has no tables
	only    []string         // tables of it; nil: all
}

// tables has a job make the table of the flags, or those of the file, in a database of a kind.
func (o *fileOptions) tables(c *job.Config, to *sink.Driver, table string, rules fold.Options) (err error) {
	if o.mapping, err = o.narrowing.Overlay(o.mapping, table, rules); err != nil {
		return err
	}
	if o.only != nil && (o.mapping == nil || o.mapping.File == "") {
		return errors.New("--tables: names tables of a config file (--config), and there are none: --table names the one of a run without")
	}
	if o.mapping == nil {
		c.Tables = []job.Table{{Name: table, Fold: rules}}
		return nil
	}
	if o.table != "" && o.mapping.File != "" {
		return fmt.Errorf("--table %s: %s has tables, which have names", o.table, o.mapping.File)
	}
	m, whole, err := o.selected()
	if err != nil {
		return err
	}
	for i := range m.Tables {
		t := &m.Tables[i]
		t.OnCreate = slices.DeleteFunc(t.OnCreate, func(s mapping.Statement) bool {
			return s.Database != "" && !strings.EqualFold(s.Database, to.Name)
		})
	}
	return config.Locate(m.File, c.Map(m, whole, to.Caps.Limits))
}

// resumes reports whether stdout has values from which the source resumes.
func (o *fileOptions) resumes() bool {
	return o.mapping != nil && o.mapping.Envelope != nil && o.mapping.Envelope.Resume.Base != mapping.NoBase
}

// every reports whether the run is for each table that the messages of its envelope name.
func (o *fileOptions) every() bool { return o.mapping == nil && o.table == "" && o.narrowing.Every() }

// selected are the tables of the file that are written; whole is the mapping of all of them, nil
// where these are all.
func (o *fileOptions) selected() (m, whole *mapping.Mapping, err error) {
	if o.only == nil {
		return o.mapping, nil, nil
	}
	var names []string
	for i := range o.mapping.Tables {
		names = append(names, o.mapping.Tables[i].Name)
	}
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return nil, nil, fmt.Errorf("--tables: %s has no table %q%s", o.mapping.File, name, cmp.Or(config.DidYouMean(name, names), "; it has "+strings.Join(names, ", ")))
		}
	}
	if slices.Contains(names, mapping.Star) {
		return nil, nil, fmt.Errorf("--tables: %s has a table %q, which is for all that have no name there", o.mapping.File, mapping.Star)
	}
	if m, err = o.mapping.Select(o.only); err != nil {
		return nil, nil, fmt.Errorf("--tables: %w", err)
	}
	return m, o.mapping, nil
}

// rules are those of the fold, and the faults of all options.
func (o *fileOptions) rules() (fold.Options, error) {
	f, err := o.foldOptions.rules(&o.tableOptions)
	return f, errors.Join(o.faults(), err)
}

// sourceOptions say how sources are read, and from where.
type sourceOptions struct {
	follow      bool
	compression string
	maxRate     string
	job         string
	restart     restart
	accept      bool
}

func (o *sourceOptions) flags(f *pflag.FlagSet, enums *choices) {
	f.BoolVar(&o.follow, "follow", false, "keep reading as files grow, rotate or are truncated; wait for one that does not exist yet")
	addChoice(enums, f, &o.compression, "compression", source.Auto, "of the sources; auto recognizes gzip and zstd, deflate is raw", source.Auto, source.None, source.Gzip, source.Zstd, source.Zlib, source.Deflate)
	f.StringVar(&o.maxRate, "max-rate", "", "read at most at this `RATE`, such as 5000/s (default no limit)")
	f.StringVar(&o.job, "job", "", "the `JOB` whose checkpoints are used (default the name of the table, or of a config file with tables; stdin: none)")
	addChoice(enums, f, &o.restart, "restart", "", "read from the start: reread keeps existing rows, rebuild empties the table first", reread, rebuild)
	f.BoolVar(&o.accept, "accept-settings", false, "continue from a checkpoint of other settings, or of a table that was recreated since")
}

func (o *sourceOptions) check() error {
	if o.accept && o.restart != "" {
		return errors.New("--accept-settings continues from the checkpoint, which --restart ignores: leave one out")
	}
	return nil
}

// A restart is how a run that has a checkpoint begins from the start; "" is that it does not.
type restart string

const (
	reread  restart = "reread"  // over the rows that exist
	rebuild restart = "rebuild" // into emptied tables
)

var toHelp = "database `DEST`: " + forms()

// tableOptions are those of all commands that fold for a table.
type tableOptions struct {
	to, table  string
	unknown    fold.NewColumns
	maxColumns int
}

const defaultMaxColumns = 500

func (o *tableOptions) flags(f *pflag.FlagSet, enums *choices) {
	f.StringVar(&o.to, "to", "", toHelp)
	f.StringVar(&o.table, "table", "", "the `TABLE` to write (default the name of the source file)")
	addChoice(enums, f, &o.unknown, "unknown-fields", "", "fields without a column (default add in a table that weir made, else ignore)", fold.AddColumns, fold.IgnoreColumns, fold.RejectColumns)
	addWhole(f, &o.maxColumns, "max-columns", defaultMaxColumns, "add at most this many `COLUMNS` to a table")
}

// foldOptions are those of all commands that fold.
type foldOptions struct {
	key        []string
	deleteWhen string
	null       fold.Null
	fillOnly   bool
	version    string // the field
	scope      fold.Scope
	maxLine    config.Size
	narrowing  config.Narrowing
}

const defaultTombstones = 7 * 24 * time.Hour

func (o *foldOptions) flags(f *pflag.FlagSet, enums *choices) {
	f.StringSliceVar(&o.key, "key", []string{"id"}, "`FIELD,...` that identify a row")
	f.StringVar(&o.deleteWhen, "delete-when", "", "delete the row when a message has `FIELD=VALUE`; FIELD=null is JSON's null")
	addChoice(enums, f, &o.null, "null", fold.ClearNull, "clear: null sets NULL; keep: null is the same as absent", fold.ClearNull, fold.KeepNull)
	f.StringVar(&o.version, "version-field", "", "keep per column the value with the highest `FIELD`, regardless of arrival order")
	addChoice(enums, f, &o.scope, "version-scope", fold.ColumnScope, "column, or row: a message older than its row changes nothing", fold.ColumnScope, fold.RowScope)
	f.BoolVar(&o.fillOnly, "fill-only", false, "write only where the table has NULL, so that the first value of a column stays")
	addChoice(enums, f, &o.narrowing.Envelope, "envelope", "", "read a change data capture stream, all its tables or with --table one", config.PresetNames()...)
	f.StringVar(&o.narrowing.Row, "row", "", "the row is the object at this `PATH` of the message, such as payload.after (default the message)")
	f.StringArrayVar(&o.narrowing.When, "when", nil, "apply only messages with `FIELD=VALUE`, or FIELD=A,B for one of several; repeated: all must hold")
	f.StringSliceVar(&o.narrowing.Columns, "columns", nil, "store only these `FIELDS` and the key (default all)")
}

// maxLineFlag is that of the group of the source.
func (o *foldOptions) maxLineFlag(f *pflag.FlagSet) {
	o.maxLine = source.DefaultMaxLine
	f.Var(&o.maxLine, "max-line", "the longest line that is accepted")
}

// rules are those of a fold for a table.
func (o *foldOptions) rules(t *tableOptions) (fold.Options, error) {
	field, value, err := fieldValue("delete-when", o.deleteWhen)
	f := fold.Options{Key: o.key, DeleteField: field, DeleteValue: value, Null: o.null,
		FillOnly: o.fillOnly, Version: o.version, Scope: o.scope, Columns: t.unknown, MaxColumns: t.maxColumns}
	if o.maxLine < 1 || o.maxLine > source.LimitMaxLine {
		err = errors.Join(err, fmt.Errorf("--max-line %s: must be between 1B and %dB", o.maxLine, source.LimitMaxLine))
	}
	return f, errors.Join(f.Validate(), err)
}

// fieldValue reads the value of a flag, FIELD=VALUE or nothing.
func fieldValue(flag, s string) (field, value string, err error) {
	if s == "" {
		return "", "", nil
	}
	if field, value, err = mapping.CutCondition(s); err != nil {
		err = fmt.Errorf("--%s %q: %w", flag, s, err)
	}
	return field, value, err
}

// foldBuffer is the memory for batches, in bytes, of commands that fold without a run.
const foldBuffer = 256 << 20

// A bufferSize is the size of the batches' memory, with the reason why the default is what it is.
type bufferSize struct{ memory.Buffer }

// Set reads a size.
func (b *bufferSize) Set(text string) error { return (*config.Size)(&b.Bytes).Set(text) }

func (b *bufferSize) String() string { return config.Size(b.Bytes).String() }

// Type names the kind of value in the help.
func (b *bufferSize) Type() string { return (*config.Size)(&b.Bytes).Type() }

// Why is the reason of the default.
func (b *bufferSize) Why() string { return b.Buffer.Why }

// batchOptions say when batches are written, and how.
type batchOptions struct {
	batchPeriod time.Duration
	batchRows   config.OptCount
	buffer      bufferSize
	synchronous sink.Level
	retryFor    config.OptDuration
}

const (
	defaultSynchronous = sink.Full
	defaultRetryFor    = 5 * time.Minute
)

func (o *batchOptions) flags(f *pflag.FlagSet, enums *choices) {
	f.DurationVar(&o.batchPeriod, "batch-period", 0, "write a message after this time at the latest (default 1s; files: when a batch is full)")
	f.Var(&o.batchRows, "batch-rows", "write a batch when it has this many `ROWS`")
	o.buffer = bufferSize{memory.Available().Buffer()}
	f.Var(&o.buffer, "buffer", "memory for batches; when full, reading pauses (default a quarter of the memory, 64MiB to 2GiB)")
	f.Lookup("buffer").DefValue = "" // it is another one on another machine
	addChoice(enums, f, &o.synchronous, "synchronous", defaultSynchronous, "what a commit survives: docs/durability.md", sink.Levels...)
	f.Var(&o.retryFor, "retry-for", "retry a locked or unavailable database, or a lost feed (default 5m; connections: forever)")
}

func (o *batchOptions) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.batchRows.IsSet && o.batchRows.N < 1 {
		fault("--batch-rows %d: must be at least 1", o.batchRows.N)
	}
	if o.buffer.Bytes < 1<<20 || o.buffer.Bytes > 32<<30 {
		fault("--buffer %s: must be between 1MiB and 32GiB", &o.buffer)
	}
	if o.batchPeriod < 0 {
		fault("--batch-period cannot be negative")
	}
	if o.retryFor.Duration < 0 {
		fault("--retry-for cannot be negative")
	}
	return errors.Join(faults...)
}

// spoolOptions say what is kept of a connection's lines.
type spoolOptions struct {
	spool        string
	spoolMax     config.Size
	capture      string
	keepCaptures config.OptDuration
}

const defaultSpoolMax = 10 << 30 // bytes

func (o *spoolOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.spool, "spool", "", "keep a connection's lines in this `FOLDER` until they are committed, so that reading continues while the database is unavailable")
	o.spoolMax = defaultSpoolMax
	f.Var(&o.spoolMax, "spool-max", "size of the spool; when it is full, reading pauses")
	f.StringVar(&o.capture, "capture", "", "a `FOLDER` that keeps all lines of a connection or of stdin, as files that sync and replay read")
	f.Var(&o.keepCaptures, "keep-captures", "remove captures whose lines are all older than this, such as 30d (default forever)")
}

// check needs to know whether a source is live, and whether one is stored.
func (o *spoolOptions) check(live, stored bool) (err error) {
	if o.spool != "" && !live {
		err = errors.New("--spool is for a connection: a file needs none, and stdin cannot be asked again")
	}
	if o.spool != "" && o.spoolMax < 1<<20 {
		err = errors.Join(err, fmt.Errorf("--spool-max %s: must be at least 1MiB", o.spoolMax))
	}
	switch {
	case o.capture != "" && stored:
		err = errors.Join(err, errors.New("--capture is for a connection or stdin: a file can be read again"))
	case o.keepCaptures.IsSet && o.keepCaptures.Duration != config.Forever && (o.capture == "" || o.keepCaptures.Duration <= 0):
		err = errors.Join(err, errors.New("--keep-captures: must be a duration such as 30d, and needs --capture"))
	}
	return err
}

// rejectOptions say what becomes of bad lines.
type rejectOptions struct {
	rejects     string
	maxRejects  int64
	keepRejects config.OptDuration
}

const defaultMaxRejects = 10_000

func (o *rejectOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.rejects, "rejects", "table", "`WHERE` bad lines go: table (weir_rejects), file:PATH, topic:NAME (Kafka), fail (the run stops), discard")
	f.Var(&o.keepRejects, "keep-rejects", "how long rejected lines stay in weir_rejects, such as 30d (default forever)")
	addWhole(f, &o.maxRejects, "max-rejects", defaultMaxRejects, "stop the run after more than this many bad `LINES`")
}

// parse returns where bad lines go.
func (o *rejectOptions) parse() (r job.Rejects, err error) {
	if r, err = job.ParseRejects(o.rejects); err != nil {
		err = fmt.Errorf("--rejects: %w", err)
	}
	if topic := r.Topic(); topic != "" && !kafka.IsTopic(topic) {
		err = fmt.Errorf("--rejects: %q is no name of a topic", topic)
	}
	if o.keepRejects.IsSet && (o.keepRejects.Duration <= 0 || r.Path() != "" || r.Topic() != "") {
		err = errors.Join(err, fmt.Errorf("--keep-rejects %s: must be a duration such as 30d, and needs --rejects table", &o.keepRejects))
	}
	return r, err
}

// logOptions say what people and Prometheus see of a run.
type logOptions struct {
	metricsAddr, metricsFile string

	summary   outputFormat
	logFormat outputFormat
	quiet     bool
}

// outputFormat is that of the log and of the summary.
type outputFormat string

const (
	textFormat outputFormat = "text"
	jsonFormat outputFormat = "json"
)

func (o *logOptions) flags(f *pflag.FlagSet, enums *choices) {
	f.StringVar(&o.metricsAddr, "metrics-addr", "", "serve a status page, /metrics, /api/status, /healthz and /readyz at `ADDRESS`, such as :9461")
	f.StringVar(&o.metricsFile, "metrics-file", "", "write the final metrics to this `FILE`, for node_exporter's textfile collector")
	addChoice(enums, f, &o.summary, "summary", textFormat, "the summary at the end: text on stderr, or json on stdout", textFormat, jsonFormat)
	addChoice(enums, f, &o.logFormat, "log-format", textFormat, "log format", textFormat, jsonFormat)
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print only warnings and errors")
}

func (o *logOptions) check() error {
	if o.metricsAddr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(o.metricsAddr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("--metrics-addr: %w", err)
	}
	return nil
}
