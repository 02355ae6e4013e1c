// Package settings reads and writes all settings of weir. Each is declared once, as a field of a struct.
//
// A [Spec] has the settings of a run, by flag, variable and key of the config file. A [File] has the tables of the config
// file. Reading collects all faults, each with its place. [Spec.Plan] validates the settings together, without a database,
// and resolves them into a [Plan]. [Plan.AtDatabase] adds the primary keys of existing tables.
package settings

import (
	"time"

	"github.com/weirsync/weir/internal/envelope/firehose"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/memory"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
)

// A Spec holds the settings of a run. If a field is 0 or "", [Spec.Plan] chooses the value.
type Spec struct {
	Source  Source
	Table   Table
	Fold    Fold
	Batch   Batch
	Feed    Feed
	Kafka   Kafka
	Spool   Spool
	Rejects Rejects
	Output  Output
	Once    Once

	File    string           // the config file, or ""
	Mapping *mapping.Mapping // tables of File, or nil
	Every   []mapping.PeriodicSQL
	Cases   []Case // tests in File

	env      *Env
	args     []string // sources on the command line
	settings []*Setting
	faults   []error // from Load; values that do not parse are in Setting.err
}

// Source has the settings of the sources.
type Source struct {
	Names       []string // from the file or the environment
	Follow      bool
	RotateWait  time.Duration
	Compression string
	MaxRate     float64 // lines per second
	MaxLine     Size
	Job         string
}

// Table is the database and its table.
type Table struct {
	To, Name      string
	UnknownFields fold.UnknownFields
	MaxColumns    int
	ForeignKeys   ForeignKeys
}

// ForeignKeys tells whether the foreign keys of the tables matter.
type ForeignKeys string

// The values of ForeignKeys.
const (
	CheckForeignKeys  ForeignKeys = "check"
	IgnoreForeignKeys ForeignKeys = "off"
)

// Fold has the update rules.
type Fold struct {
	Key          []string // nil: the table's primary key, or id
	DeleteWhen   string
	Null         fold.Null
	BadValues    fold.BadValues
	VersionField string
	VersionScope fold.Scope
	FillOnly     bool
	Merge        []string // COLUMN=FUNCTION
	Tombstones   time.Duration
	Narrowing
}

// Batch has the settings of batches.
type Batch struct {
	Period      time.Duration
	Rows        int
	Buffer      Size
	Synchronous sink.Level
	RetryFor    time.Duration
}

// Feed has the settings of connections: first line, resume value, keepalives, timeouts, TLS.
type Feed struct {
	Name, Events    string // of a known feed
	Init            string
	ResumeField     string
	IdleTimeout     time.Duration
	KeepaliveWhen   string
	StaleKeepalives int
	ErrorWhen       string
	TimeField       string

	TLSCA, TLSCert, TLSKey, TLSServerName string
}

// Kafka has the settings of topics.
type Kafka struct {
	Group           string
	GroupProtocol   groupProtocol
	GroupInstance   string
	SessionTimeout  time.Duration
	Partitions      string
	Start           string
	UntilEnd        bool
	Isolation       isolation
	TombstonesByKey string
	RecordFields    []string
	SASL            string
}

// Spool has the settings for keeping a connection's lines on disk.
type Spool struct {
	Folder       string
	Max          Size
	Capture      string
	KeepCaptures time.Duration
}

// Rejects has the settings for bad lines.
type Rejects struct {
	To   job.Rejects
	Keep time.Duration
	Max  int64
}

// Output has the settings of logs, summaries and metrics.
type Output struct {
	MetricsAddr, MetricsFile string
	Summary, LogFormat       Format
	Quiet, Verbose           bool
}

// A Format is the output format of the log or the summary.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
)

// Once has the settings that apply to one run.
type Once struct {
	Restart        Restart
	AcceptSettings bool
	DryRun         bool
	Tables         []string // tables of the file to write; nil: all
}

// A Restart is how a run ignores its checkpoint; "": it resumes.
type Restart string

// The values of Restart.
const (
	Reread  Restart = "reread"  // over the existing rows
	Rebuild Restart = "rebuild" // into emptied tables
)

// New returns a spec with default settings.
func New(env *Env) *Spec {
	buffer := memory.Available().Buffer()
	instance, why := stableName(env)
	s := &Spec{
		env:    env,
		Source: Source{Compression: source.Auto, RotateWait: file.DefaultRotateWait, MaxLine: source.DefaultMaxLine},
		Table:  Table{MaxColumns: 500, ForeignKeys: CheckForeignKeys},
		Fold:   Fold{Null: fold.ClearNull, BadValues: fold.RejectBad, VersionScope: fold.ColumnScope, Tombstones: 7 * 24 * time.Hour},
		Batch:  Batch{Buffer: Size(buffer.Bytes), Synchronous: sink.Full, RetryFor: Forever},
		Feed:   Feed{StaleKeepalives: 5},
		Kafka:  Kafka{GroupProtocol: classicProtocol, GroupInstance: instance, SessionTimeout: 45 * time.Second, Start: startEarliest, Isolation: committedIsolation},
		Spool:  Spool{Max: 10 << 30}, Rejects: Rejects{To: job.KeepRejects, Max: 10_000}, Output: Output{Summary: Text, LogFormat: Text},
	}
	s.declareSource()
	s.declareTable()
	s.declareFold()
	s.declareBatch(buffer.Why)
	s.declareFeed()
	s.declareKafka(why)
	s.declareOutput()
	return s
}

// declare adds a setting.
func (s *Spec) declare(group, name string, v value, help string) *Setting {
	one := &Setting{Name: name, Help: help, group: group, value: v, preset: v.String()}
	s.settings = append(s.settings, one)
	return one
}

func (s *Spec) declareSource() {
	o, group := &s.Source, SourceGroup
	s.declare("", "source", &sourceList{list{value: &o.Names}}, "the sources, if the command line names none: a path, a URL, or a list").noFlag = true
	s.declare(group, "follow", (*flag)(&o.Follow), "keep reading as files grow, rotate or are truncated; wait for one that does not exist yet")
	s.declare(group, "rotate-wait", &Duration{Value: &o.RotateWait}, "with --follow: read a renamed file until it has not grown for this long")
	s.declare(group, "compression", NewChoice(&o.Compression, source.Auto, source.None, source.Gzip, source.Zstd, source.Zlib, source.Deflate), "compression of the sources; auto detects gzip and zstd; deflate is raw")
	s.declare(group, "max-rate", (*rate)(&o.MaxRate), "read at most at this `RATE`, such as 5000/s (default no limit)")
	s.declare(group, "job", (*anyText)(&o.Job), "the `JOB` whose checkpoints are used (default the name of the table, or of a config file with tables; stdin: none)")
	s.declare(group, "restart", NewChoice(&s.Once.Restart, Reread, Rebuild), "read from the start: reread keeps existing rows, rebuild empties the table first").elsewhere = actionOfOneRun
	s.declare(group, "accept-settings", (*flag)(&s.Once.AcceptSettings), "resume although settings or table identity changed").elsewhere = actionOfOneRun
	s.declare(group, "max-line", &o.MaxLine, "the longest line that is accepted")
}

func (s *Spec) declareTable() {
	o, group := &s.Table, TableGroup
	s.declare(group, "to", (*anyText)(&o.To), "database `DEST`: "+s.env.forms())
	s.declare(group, "table", (*anyText)(&o.Name), "name of the `TABLE` (default the name of the source file)")
	s.declare(group, "unknown-fields", NewChoice(&o.UnknownFields, fold.AddUnknown, fold.IgnoreUnknown, fold.RejectUnknown), "fields without a column (default add in a table that weir made, else ignore)")
	s.declare(group, "max-columns", &Whole[int]{Value: &o.MaxColumns}, "add at most this many `COLUMNS` to a table")
	s.declare(group, "foreign-keys", NewChoice(&o.ForeignKeys, CheckForeignKeys, IgnoreForeignKeys), "off: accept rows whose parents arrive later; ON DELETE actions do not run")
	s.declare(group, "tables", &list{value: &s.Once.Tables, commas: true}, "write only these `TABLES`, under a separate --job; backfills a table added later").elsewhere = actionOfOneRun
	s.declare(group, "dry-run", (*flag)(&s.Once.DryRun), "print the tables that would be created and their first rows; write nothing").elsewhere = actionOfOneRun
}

// FoldFlags are the flags of all commands that fold files.
var FoldFlags = []string{"max-line", "key", "delete-when", "null", "bad-values", "version-field", "version-scope", "fill-only", "merge", "envelope", "row", "when", "columns", "config"}

func (s *Spec) declareFold() {
	o, group := &s.Fold, FoldGroup
	s.declare(group, "key", &keyList{list{value: &o.Key, commas: true}}, "`FIELD,...` that identify a row (default the primary key of the table if that exists, else id); none: each message is its own row")
	s.declare(group, "delete-when", (*anyText)(&o.DeleteWhen), "delete the row when a message has `FIELD=VALUE`; FIELD=null is JSON's null")
	s.declare(group, "null", NewChoice(&o.Null, fold.ClearNull, fold.KeepNull), "clear: null sets NULL; keep: null is the same as absent")
	s.declare(group, "bad-values", NewChoice(&o.BadValues, fold.RejectBad, fold.NullBad), "reject lines with values that do not fit their columns; null: store NULL instead, and count it")
	s.declare(group, "version-field", (*anyText)(&o.VersionField), "keep per column the value with the highest `FIELD`, regardless of arrival order")
	s.declare(group, "version-scope", NewChoice(&o.VersionScope, fold.ColumnScope, fold.RowScope), "what has a version: each column, or the row (then a message older than its row changes nothing)")
	s.declare(group, "fill-only", (*flag)(&o.FillOnly), "write only columns that are NULL in the table: the first value of a column stays")
	s.declare(group, "merge", &list{value: &o.Merge, commas: true}, "merge a column's values, by `COLUMN=FUNCTION,...`: sum, min, max, first, patch (JSON objects, RFC 7396) or last")
	s.declare(group, "envelope", NewChoice(&o.Envelope, PresetNames()...), "read a change data capture stream, all its tables or with --table one")
	s.declare(group, "row", (*anyText)(&o.Row), "the row is the object at this `PATH` of the message, such as payload.after, or in the string at 'PATH as json_text' (default the message)")
	s.declare(group, "when", &list{value: &o.When}, "apply only messages with `FIELD=VALUE`, or FIELD=A,B for one of several; repeated: all must hold")
	s.declare(group, "columns", &list{value: &o.Columns, commas: true}, "store only these `FIELDS` and the key (default all)")
	s.declare(group, "tombstones", &Duration{Value: &o.Tombstones}, "how long a delete is remembered, so an older message does not bring the row back")
}

func (s *Spec) declareBatch(why string) {
	o, group := &s.Batch, BatchGroup
	s.declare(group, "batch-period", &Duration{Value: &o.Period, Open: true}, "write a message after this time at the latest (default 1s; files: when a batch is full)")
	s.declare(group, "batch-rows", &Whole[int]{Value: &o.Rows, None: "no limit", Least: 1}, "write a batch when it has this many `ROWS`")
	s.declare(group, "buffer", &o.Buffer, "memory for batches; when full, reading pauses (default a quarter of the memory, 64MiB to 2GiB)").Why = why
	s.declare(group, "synchronous", NewChoice(&o.Synchronous, sink.Levels...), "what a commit survives: docs/reliability.md")
	s.declare(group, "retry-for", &Duration{Value: &o.RetryFor, Word: forever, Means: Forever, Open: true}, "retry a locked or unavailable database, or a lost feed (default 5m; connections: forever)")
}

const forever = "forever"

func (s *Spec) declareFeed() {
	o, group := &s.Feed, FeedGroup
	s.declare(group, "feed", NewChoice(&o.Name, firehose.Name), "a feed that weir knows: FlightAware's firehose (reads FH_USERNAME and FH_APIKEY)")
	s.declare(group, "feed-events", (*anyText)(&o.Events), "the `EVENTS` to ask Firehose for, such as 'position flightplan'")
	s.declare(group, "init", (*anyText)(&o.Init), "first `LINE` to send, or @FILE: a template with {{.resume}}, {{env \"NAME\"}}, {{file \"PATH\"}}")
	s.declare(group, "resume-field", (*anyText)(&o.ResumeField), "`FIELD` whose last committed value is {{.resume}} when weir connects")
	s.declare(group, "idle-timeout", &Duration{Value: &o.IdleTimeout, Word: "never", Open: true}, "reconnect when nothing arrives for this long, or disconnect a sender (default never)")
	s.declare(group, "keepalive-when", (*anyText)(&o.KeepaliveWhen), "skip messages with `FIELD=VALUE`: they are keepalives")
	s.declare(group, "stale-keepalives", &Whole[int]{Value: &o.StaleKeepalives}, "reconnect after `N` keepalives in a row without a new resume value (0: never)")
	s.declare(group, "error-when", (*anyText)(&o.ErrorWhen), "stop the run at a message with `FIELD=VALUE`, and print its error_msg")
	s.declare(group, "time-field", (*anyText)(&o.TimeField), "the `FIELD` with the time of a message (seconds since 1970, or RFC 3339), to show the lag")
	s.declare(group, "tls-ca", (*anyText)(&o.TLSCA), "a PEM `FILE` of trusted authorities (default the system's); clients of tls-listen:// must present a certificate signed by one of them")
	s.declare(group, "tls-cert", (*anyText)(&o.TLSCert), "a PEM `FILE` with the certificate to show (tls-listen:// needs one)")
	s.declare(group, "tls-key", (*anyText)(&o.TLSKey), "a PEM `FILE` with the key of the certificate")
	s.declare(group, "tls-server-name", (*anyText)(&o.TLSServerName), "the `NAME` that the certificate of a tls:// feed must be for (default the host)")
}

// declareKafka declares the settings of Kafka. why is the origin of the default of --group-instance.
func (s *Spec) declareKafka(why string) {
	o, group := &s.Kafka, KafkaGroup
	s.declare(group, "group", (*anyText)(&o.Group), "consumer `GROUP`, and name of the job (default weir-JOB)")
	s.declare(group, "group-protocol", NewChoice(&o.GroupProtocol, classicProtocol, consumerProtocol), "consumer: the brokers assign the partitions (KIP-848; best from Kafka 4.3 on)")
	s.declare(group, "group-instance", (*anyText)(&o.GroupInstance), "static member ID, `NAME` (group.instance.id): a killed member gets its partitions back when it restarts (default the name of a StatefulSet's pod, or of a systemd service and its host)").Why = why
	s.declare(group, "session-timeout", &Duration{Value: &o.SessionTimeout}, "after this long without a heartbeat, others get a member's partitions (classic protocol)")
	s.declare(group, "partitions", (*anyText)(&o.Partitions), "`PARTITIONS` to read without a consumer group, such as 0-3,7")
	s.declare(group, "start", (*anyText)(&o.Start), "`WHERE` a partition without a checkpoint begins: earliest, latest, committed (by the group, to Kafka), or a time such as 2026-11-01T00:00:00Z; or TOPIC/PARTITION=OFFSET,..., which skips the records of partitions before it")
	s.declare(group, "until-end", (*flag)(&o.UntilEnd), "end when all records that existed at the start are committed")
	s.declare(group, "isolation", NewChoice(&o.Isolation, committedIsolation, uncommittedIsolation), "uncommitted also reads records of transactions that are open or were aborted")
	s.declare(group, "tombstones-by-key", (*anyText)(&o.TombstonesByKey), "the `FIELD` that has a record's key: a record without a value then deletes its row; off skips these records (default the --key, of a compacted topic)")
	s.declare(group, "record-fields", &list{value: &o.RecordFields, commas: true}, "add to each message, by `PART=FIELD,...`, its record's offset, partition, timestamp, key, topic or header.NAME")
	s.declare(group, "sasl", NewChoice(&o.SASL, "plain", "scram-sha-256", "scram-sha-512", "oauthbearer"), "log in with KAFKA_USERNAME and KAFKA_PASSWORD or KAFKA_PASSWORD_FILE (of oauthbearer the token)")
}

// declareOutput declares the settings of logs, summaries and metrics.
func (s *Spec) declareOutput() {
	sp, group := &s.Spool, SpoolGroup
	s.declare(group, "spool", (*anyText)(&sp.Folder), "keep a connection's lines in this `FOLDER` until they are committed, so reading continues while the database is unavailable")
	s.declare(group, "spool-max", &sp.Max, "size of the spool; when it is full, reading pauses")
	s.declare(group, "capture", (*anyText)(&sp.Capture), "a `FOLDER` that keeps all lines of a connection or of stdin, as files that sync and replay read")
	s.declare(group, "keep-captures", &Duration{Value: &sp.KeepCaptures, Word: forever, Means: Forever, Open: true}, "remove captures whose lines are all older than this, such as 30d (default forever)")

	r, group := &s.Rejects, RejectsGroup
	s.declare(group, "rejects", NewChoice(&r.To, job.KeepRejects, job.FailRejects, job.DiscardRejects), "bad lines are kept in weir_rejects, or the first ends the run, or they are only counted")
	s.declare(group, "keep-rejects", &Duration{Value: &r.Keep, Word: forever, Means: Forever, Open: true}, "how long rejected lines stay in weir_rejects, such as 30d (default forever)")
	s.declare(group, "max-rejects", &Whole[int64]{Value: &r.Max}, "stop the run after more than this many bad `LINES`")

	o, group := &s.Output, OutputGroup
	s.declare(group, "metrics-addr", (*anyText)(&o.MetricsAddr), "serve a status page, /metrics, /api/status, /healthz and /readyz at `ADDRESS`, such as :9461")
	s.declare(group, "metrics-file", (*anyText)(&o.MetricsFile), "write the final metrics to this `FILE`, for node_exporter's textfile collector")
	s.declare(group, "summary", NewChoice(&o.Summary, Text, JSON), "the summary at the end: text on stderr, or json on stdout")
	s.declare(group, "log-format", NewChoice(&o.LogFormat, Text, JSON), "log format")
	s.declare(group, "quiet", (*flag)(&o.Quiet), "print only warnings and errors").short = "q"
	s.declare("", "verbose", (*flag)(&o.Verbose), "print more, such as the settings in use").noFlag = true
	s.declare("", "config", (*anyText)(&s.File), "YAML `FILE` with settings and tables, such as batch_rows: 1000").elsewhere = "is not of a file: name it by --config or " + envPrefix + "CONFIG"
}
