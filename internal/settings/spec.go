// Package settings reads all settings of weir. Each is declared once, as a field of a struct with tags; a walk over the
// struct decodes it with the place of each fault, passes it on to tables, and makes its flag, variable, JSON Schema, page
// of the docs and completion ([field], [Value]); its fingerprint comes from the same tags. Values with a text of their own
// implement UnmarshalText and MarshalText.
//
// A [Spec] owns the settings of a run and where each came from. A mappingDraft owns the tables of a config file until
// they are checked; then they are a [mapping.Mapping]. [Spec.Plan] validates the settings together, without a database,
// and resolves them into a [Plan]. [Plan.AtDatabase] adds the primary keys of existing tables.
package settings

import (
	"reflect"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/memory"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
)

// A Spec holds the settings of a run. If a field is 0 or "", [Spec.Plan] chooses the value. The tags of its fields are
// those of [field]; a group is a heading in the help.
type Spec struct {
	Table   Table   `group:"Table"`
	Source  Source  `group:"Source"`
	Fold    Fold    `group:"Fold"`
	Batch   Batch   `group:"Batching and durability"`
	Feed    Feed    `group:"Feeds"`
	Kafka   Kafka   `group:"Kafka"`
	Spool   Spool   `group:"Spool and capture"`
	Rejects Rejects `group:"Rejects"`
	Output  Output  `group:"Metrics and logs"`
	File    string  `key:"config" help:"YAML ‘FILE’ with settings and tables, such as batch_rows: 1000"`

	Mapping *mapping.Mapping // tables of File, or nil
	Every   []mapping.PeriodicSQL
	Cases   []Case // tests in File

	draft    *mappingDraft // what Mapping was made from
	env      *Env
	args     []string // sources on the command line
	settings []*Setting
	faults   []error // from Load; values that do not parse are in Setting.err
}

// Source has the settings of the sources.
type Source struct {
	Names          []string      `key:"source" flag:"no" help:"the sources, if the command line names none: a path, a URL, or a list"`
	Follow         bool          `key:"follow" help:"keep reading as files grow, rotate or are truncated; wait for one that does not exist yet"`
	RotateWait     time.Duration `key:"rotate_wait" help:"read a renamed file until it has not grown for this long"`
	Compression    string        `key:"compression" words:"auto none gzip zstd zlib deflate" help:"compression of the sources; auto detects gzip and zstd; deflate is raw"`
	MaxRate        Rate          `key:"max_rate" help:"read at most at this ‘RATE’, such as 5000/s (default no limit)"`
	Job            string        `key:"job" help:"the ‘JOB’ whose checkpoints are used (default the name of the table, or of a config file with tables; stdin: none)"`
	Restart        Restart       `key:"restart" words:"reread rebuild" unset:"" once:"yes" help:"read from the start: reread keeps existing rows, rebuild empties the table first"`
	AcceptSettings bool          `key:"accept_settings" once:"yes" help:"resume although settings or table identity changed"`
	MaxLine        Size          `key:"max_line" help:"the longest line that is accepted"`
}

// A Restart is how a run ignores its checkpoint; "": it resumes.
type Restart string

// The values of Restart.
const (
	Reread  Restart = "reread"  // over the existing rows
	Rebuild Restart = "rebuild" // into emptied tables
)

// Table is the database and its tables.
type Table struct {
	To          string      `key:"to" help:"database ‘DEST’: "`
	Name        string      `key:"table" help:"name of the ‘TABLE’ (default the name of the source file)"`
	ForeignKeys ForeignKeys `key:"foreign_keys" words:"check off" help:"off: accept rows whose parents arrive later; ON DELETE actions do not run"`
	// Tables are the tables of the file to write; nil: all.
	Tables []string `key:"tables" commas:"yes" once:"yes" help:"write only these ‘TABLES’, under a separate --job; backfills a table added later"`
	DryRun bool     `key:"dry_run" once:"yes" help:"print the tables that would be created and their first rows; write nothing"`
}

// ForeignKeys tells whether the foreign keys of the tables matter.
type ForeignKeys string

// The values of ForeignKeys.
const (
	CheckForeignKeys  ForeignKeys = "check"
	IgnoreForeignKeys ForeignKeys = "off"
)

// Fold has the update rules: what a table takes from the top of a config file, and the table that the settings make
// without tables in a file.
type Fold struct {
	// Key nil: the table's primary key, or id.
	Key        []string   `key:"key" commas:"yes" none:"none" help:"‘FIELD,...’ that identify a row (default the primary key of the table if that exists, else id); none: each message is its own row"`
	DeleteWhen paths.When `key:"delete_when" unset:"" help:"delete the row when a message has ‘FIELD=VALUE’; FIELD=null is JSON's null"`
	Version    paths.Path `key:"version_field" unset:"" help:"keep per column the value with the highest ‘FIELD’, regardless of arrival order"`
	fold.Rules
	Merge      []merging       `key:"merge" commas:"yes" help:"merge a column's values, by ‘COLUMN=FUNCTION,...’: sum, min, max, first, patch (JSON objects, RFC 7396) or last"`
	Envelope   string          `key:"envelope" words:"presets" unset:"" help:"read a change data capture stream, all its tables or with --table one"`
	Row        mapping.RowPath `key:"row" unset:"" help:"the row is the object at this ‘PATH’ of the message, such as payload.after, or in the string at 'PATH as json_text' (default the message)"`
	When       []oneOf         `key:"when" help:"apply only messages with ‘FIELD=VALUE’, or FIELD=A,B for one of several; repeated: all must hold"`
	Columns    []string        `key:"columns" commas:"yes" help:"store only these ‘FIELDS’ and the key (default all)"`
	Tombstones time.Duration   `key:"tombstones" help:"how long a delete is remembered, so an older message does not bring the row back"`
}

// Batch has the settings of batches.
type Batch struct {
	Period      time.Duration `key:"batch_period" unset:"" help:"write a message after this time at the latest (default 1s; files: when a batch is full)"`
	Rows        int           `key:"batch_rows" unset:"no limit" min:"1" help:"write a batch when it has this many ‘ROWS’"`
	Buffer      Size          `key:"buffer" help:"memory for batches; when full, reading pauses (default a quarter of the memory, 64MiB to 2GiB)"`
	Synchronous sink.Level    `key:"synchronous" words:"off normal full extra" help:"what a commit survives: docs/reliability.md"`
	RetryFor    time.Duration `key:"retry_for" word:"forever" unset:"" help:"retry a locked or unavailable database, or a lost feed (default 5m; connections: forever)"`
}

// Feed has the settings of connections: first line, resume value, keepalives, timeouts, TLS.
type Feed struct {
	Name            string        `key:"feed" words:"firehose" unset:"" help:"a feed that weir knows: FlightAware's firehose (reads FH_USERNAME and FH_APIKEY)"`
	Events          string        `key:"feed_events" help:"the ‘EVENTS’ to ask Firehose for, such as 'position flightplan'"`
	Init            string        `key:"init" help:"first ‘LINE’ to send, or @FILE: a template with {{.resume}}, {{env \"NAME\"}}, {{file \"PATH\"}}"`
	ResumeField     string        `key:"resume_field" help:"‘FIELD’ whose last committed value is {{.resume}} when weir connects"`
	IdleTimeout     time.Duration `key:"idle_timeout" word:"never" unset:"" help:"reconnect when nothing arrives for this long, or disconnect a sender (default never)"`
	KeepaliveWhen   string        `key:"keepalive_when" help:"skip messages with ‘FIELD=VALUE’: they are keepalives"`
	StaleKeepalives int           `key:"stale_keepalives" help:"reconnect after ‘N’ keepalives in a row without a new resume value (0: never)"`
	ErrorWhen       string        `key:"error_when" help:"stop the run at a message with ‘FIELD=VALUE’, and print its error_msg"`
	TimeField       string        `key:"time_field" help:"the ‘FIELD’ with the time of a message (seconds since 1970, or RFC 3339), to show the lag"`
	TLSCA           string        `key:"tls_ca" help:"a PEM ‘FILE’ of trusted authorities (default the system's); clients of tls-listen:// must present a certificate signed by one of them"`
	TLSCert         string        `key:"tls_cert" help:"a PEM ‘FILE’ with the certificate to show (tls-listen:// needs one)"`
	TLSKey          string        `key:"tls_key" help:"a PEM ‘FILE’ with the key of the certificate"`
	TLSServerName   string        `key:"tls_server_name" help:"the ‘NAME’ that the certificate of a tls:// feed must be for (default the host)"`
}

// Kafka has the settings of topics.
type Kafka struct {
	Group           string        `key:"group" help:"consumer ‘GROUP’, and name of the job (default weir-JOB)"`
	GroupProtocol   groupProtocol `key:"group_protocol" words:"classic consumer" help:"consumer: the brokers assign the partitions (KIP-848; best from Kafka 4.3 on)"`
	GroupInstance   string        `key:"group_instance" help:"static member ID, ‘NAME’ (group.instance.id): a killed member gets its partitions back when it restarts (default the name of a StatefulSet's pod, or of a systemd service and its host)"`
	SessionTimeout  time.Duration `key:"session_timeout" help:"after this long without a heartbeat, others get a member's partitions (classic protocol)"`
	Partitions      string        `key:"partitions" help:"‘PARTITIONS’ to read without a consumer group, such as 0-3,7"`
	Start           string        `key:"start" help:"‘WHERE’ a partition without a checkpoint begins: earliest, latest, committed (by the group, to Kafka), or a time such as 2026-11-01T00:00:00Z; or TOPIC/PARTITION=OFFSET,..., which skips the records of partitions before it"`
	UntilEnd        bool          `key:"until_end" help:"end when all records that existed at the start are committed"`
	Isolation       isolation     `key:"isolation" words:"committed uncommitted" help:"uncommitted also reads records of transactions that are open or were aborted"`
	TombstonesByKey string        `key:"tombstones_by_key" help:"the ‘FIELD’ that has a record's key: a record without a value then deletes its row; off skips these records (default the --key, of a compacted topic)"`
	RecordFields    []string      `key:"record_fields" commas:"yes" help:"add to each message, by ‘PART=FIELD,...’, its record's offset, partition, timestamp, key, topic or header.NAME"`
	SASL            string        `key:"sasl" words:"plain scram-sha-256 scram-sha-512 oauthbearer" unset:"" help:"log in with KAFKA_USERNAME and KAFKA_PASSWORD or KAFKA_PASSWORD_FILE (of oauthbearer the token)"`
}

// Spool has the settings for keeping a connection's lines on disk.
type Spool struct {
	Folder  string `key:"spool" help:"keep a connection's lines in this ‘FOLDER’ until they are committed, so reading continues while the database is unavailable"`
	Max     Size   `key:"spool_max" help:"size of the spool; when it is full, reading pauses"`
	Capture string `key:"capture" help:"a ‘FOLDER’ that keeps all lines of a connection or of stdin, as files that sync and replay read"`
}

// Rejects has the settings for bad lines.
type Rejects struct {
	To   pipeline.Rejects `key:"rejects" words:"table fail discard" help:"bad lines are kept in weir_rejects, or the first ends the run, or they are only counted"`
	Keep time.Duration    `key:"keep_rejects" word:"forever" unset:"" help:"how long rejected lines stay in weir_rejects, such as 30d (default forever)"`
	Max  int64            `key:"max_rejects" help:"stop the run after more than this many bad ‘LINES’"`
}

// Output has the settings of logs, summaries and metrics.
type Output struct {
	MetricsAddr string `key:"metrics_addr" help:"serve a status page, /metrics, /api/status, /healthz and /readyz at ‘ADDRESS’, such as :9461"`
	MetricsFile string `key:"metrics_file" help:"write the final metrics to this ‘FILE’, such as weir.prom, for node_exporter's textfile collector"`
	Summary     Format `key:"summary" words:"text json" help:"the summary at the end: text on stderr, or json on stdout"`
	LogFormat   Format `key:"log_format" words:"text json" help:"log format"`
	Quiet       bool   `key:"quiet" flag:"no" help:"print only warnings and errors, and what was asked for"`
	Verbose     bool   `key:"verbose" flag:"no" help:"print more, such as the settings in use"`
}

// A Format is the output format of the log or the summary.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
)

// New returns a spec with default settings.
func New(env *Env) *Spec {
	buffer := memory.Available().Buffer()
	instance, why := stableName(env)
	s := &Spec{
		env:    env,
		Source: Source{Compression: source.Auto, RotateWait: file.DefaultRotateWait, MaxLine: source.DefaultMaxLine},
		Table:  Table{ForeignKeys: CheckForeignKeys},
		Fold:   Fold{Rules: fold.Rules{Null: fold.ClearNull, Scope: fold.ColumnScope, MaxColumns: 500}, Tombstones: 7 * 24 * time.Hour},
		Batch:  Batch{Buffer: Size(buffer.Bytes), Synchronous: sink.Full, RetryFor: Forever},
		Feed:   Feed{StaleKeepalives: 5},
		Kafka:  Kafka{GroupProtocol: classicProtocol, GroupInstance: instance, SessionTimeout: 45 * time.Second, Start: startEarliest, Isolation: committedIsolation},
		Spool:  Spool{Max: 10 << 30}, Rejects: Rejects{To: pipeline.KeepRejects, Max: 10_000}, Output: Output{Summary: Text, LogFormat: Text},
	}
	s.declare(reflect.ValueOf(s).Elem(), "")
	s.Setting("config").elsewhere = "is not of a file: name it by --config or " + envPrefix + "CONFIG"
	s.Setting("to").help += s.env.forms()
	s.Setting("buffer").Why, s.Setting("group-instance").Why = buffer.Why, why
	return s
}

// Groups returns the headings of settings in the help.
func Groups() (titles []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Spec]()) {
		if title := f.Tag.Get("group"); title != "" {
			titles = append(titles, title)
		}
	}
	return titles
}

// declare adds the settings that are fields of a struct, and of the groups in it.
func (s *Spec) declare(v reflect.Value, group string) {
	for _, f := range fieldsOf(v.Type()) {
		one := &Setting{Name: flagName(f.name), Value: Value{field: f, v: v.FieldByIndex(f.index)}, group: group}
		if one.preset = one.String(); f.tag.Get("once") != "" {
			one.elsewhere = actionOfOneRun
		}
		s.settings = append(s.settings, one)
	}
	for i := range v.NumField() {
		if title := v.Type().Field(i).Tag.Get("group"); title != "" {
			s.declare(v.Field(i), title)
		}
	}
}
