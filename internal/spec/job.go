package spec

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/paths"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/kafka"
	"github.com/weirsync/weir/internal/spool"
)

// A UsageError is a fault of what a command was told.
type UsageError struct{ Err error }

// Usage makes an error one of usage.
func Usage(err error) error { return UsageError{err} }

// Usagef is an error of usage.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// ExitCode is that of wrong usage.
func (e UsageError) ExitCode() int { return 2 }

// A rulebook validates a spec, collects the faults, and builds the parts of the job.
type rulebook struct {
	*Spec
	kinds  source.Kinds // without options
	to     Destination
	faults []error
}

func (s *Spec) rulebook() *rulebook { return &rulebook{Spec: s, kinds: s.env.sources()} }

// fault adds a fault of a setting, unless its text is one already.
func (r *rulebook) fault(name, format string, args ...any) {
	if r.Setting(name).err == nil {
		r.faults = append(r.faults, r.Spec.fault(name, format, args...))
	}
}

func (r *rulebook) faultIf(wrong bool, name, format string, args ...any) {
	if wrong {
		r.fault(name, format, args...)
	}
}

// add adds faults that are not of one setting.
func (r *rulebook) add(err error) {
	if err != nil {
		r.faults = append(r.faults, err)
	}
}

// Validate returns all faults of the spec. Those of the environment, of sources and of the database are among them
// only as far as these are known.
func (s *Spec) Validate() error {
	_, _, usage, sourceErr := s.job(s.Source.Names)
	return errors.Join(usage, sourceErr)
}

// Job returns the job of a spec, whose sources the command line may name, and its database. It returns all faults
// at once.
func (s *Spec) Job(args []string) (Destination, job.Config, error) {
	if s.args = args; len(args) == 0 {
		args = s.Source.Names
	}
	to, c, usage, sourceErr := s.job(args)
	if usage != nil {
		usage = Usage(usage)
	}
	return to, c, errors.Join(usage, sourceErr)
}

// job is [Spec.Job] with two errors: usage is wrong usage; sourceErr may also come from the file system.
func (s *Spec) job(args []string) (to Destination, c job.Config, usage, sourceErr error) {
	r := s.rulebook()
	known := s.env.Lookup != nil
	args = slices.Clone(args)
	if len(args) == 0 && s.env.Asks && len(s.faults) == 0 { // else the file may name one
		r.add(errors.New("no source is named, and stdin is a terminal: weir sync feed.jsonl --to flights.db"))
	}
	rules, folding := s.rules()
	r.faults = append(r.faults, folding...)
	r.judgeValues()
	own := r.withPreset(args)
	src := source.Options{MaxLine: int(s.Source.MaxLine), Follow: s.Source.Follow, Compression: s.Source.Compression, TLS: r.tls(args)}
	feed := r.feed(&own)
	rejects := r.rejects()

	var toErr error
	if r.to.Driver = s.env.Drivers[0]; known || s.Table.To != "" {
		r.to, toErr = s.Destination(args...)
		unread := s.Table.To == "" && len(s.faults) > 0 // the file may name one
		if s.Setting("to").err == nil && !unread {
			r.add(toErr)
		}
	} else { // names that only SQLite takes for one are no fault of a file that names no database
		r.to.Caps.FoldCase = false
	}
	noSource := len(args) == 0 && !known || len(s.faults) > 0
	var sources []string
	var table string
	if !noSource {
		sources, table, sourceErr = r.sources(args)
	}
	if len(args) == 0 && s.env.Asks || toErr != nil && MeantForTo(args) != "" {
		sourceErr = nil // reported already, as a missing source or a missing --to
	}
	if len(s.faults) == 0 {
		of := table
		if s.EveryTable() {
			of = mapping.Star
		}
		r.tables(&c, cmp.Or(of, "t"), rules)
	}
	options := KindOptions{File: file.Options{Stdin: s.env.Stdin}, Kafka: r.kafka(&rules)}
	options.TCP.Idle = own.IdleTimeout
	live := slices.ContainsFunc(sources, func(name string) bool { return r.kinds.Traits(name).Live })
	if sourceErr == nil && !noSource {
		isKafka := IsKafka(sources)
		if r.judgeKafka(sources, &rejects); isKafka {
			live = !s.Kafka.UntilEnd
		}
		stored := slices.ContainsFunc(sources, func(name string) bool { return r.kinds.Traits(name).Stored() })
		r.judgeSpool(live && !isKafka, stored || isKafka)
	}
	if faults := slices.Concat(s.textFaults(), s.faults, r.faults); len(faults) > 0 {
		return to, c, ordered(faults), sourceErr
	}
	if sourceErr == nil {
		usage = r.outputs(args, sources, rejects)
	}
	if usage != nil || sourceErr != nil || noSource {
		return to, c, usage, sourceErr
	}
	src.RetryFor, options.Kafka.DeadLetters = s.Batch.RetryFor, rejects.Topic()
	if !s.Setting("retry-for").IsSet() && !live {
		src.RetryFor = defaultRetryFor
	}
	name := cmp.Or(s.Source.Job, s.Kafka.Group, table)
	if IsKafka(sources) && s.Kafka.Partitions == "" {
		options.Kafka.Group = cmp.Or(s.Kafka.Group, "weir-"+name)
	}
	return r.to, job.Config{
		Kind: *s.env.Kinds(&options).Of(sources[0]), Sources: sources, Source: src, Feed: feed,
		Job: name, ResumeStdin: s.Source.Job != "",
		Tables: c.Tables, Mapping: c.Mapping,
		BatchRows: s.Batch.Rows, BatchPeriod: s.Batch.Period, MaxRate: s.Source.MaxRate, Buffer: int64(s.Batch.Buffer), Tombstones: s.Fold.Tombstones,
		Spool:   spool.Folders{Dir: s.Spool.Folder, Max: int64(s.Spool.Max), Capture: s.Spool.Capture, KeepCaptures: s.Spool.KeepCaptures},
		Rejects: job.RejectRules{To: rejects, Max: s.Rejects.Max, Age: s.Rejects.Keep, Show: s.showRejects()},
		Restart: job.Restart{FromStart: s.Once.Restart == Reread, Rebuild: s.Once.Restart == Rebuild, AcceptSettings: s.Once.AcceptSettings, Backfill: s.backfill(name, sources)},
		Log:     s.env.Log,
	}, nil, nil
}

// FoldFiles returns a job that folds files for the tables of the spec, to compare, explain or test them, with its
// database; to is another one than that of the settings. table is the one of a spec without tables in a file; "":
// that of the settings, or which the files suggest.
func (s *Spec) FoldFiles(args []string, to *Destination, table string) (_ Destination, c job.Config, err error) {
	r := s.rulebook()
	var toErr error
	if to != nil {
		r.to = *to
	} else {
		r.to, toErr = s.Destination(args...)
	}
	files, filesErr := s.Expand(args)
	if toErr != nil && MeantForTo(args) != "" {
		filesErr = nil // a database is no file of a feed
	}
	rules, folding := s.rules()
	var usage error
	if faults := slices.Concat(s.textFaults(), s.faults, folding); len(faults) > 0 {
		usage = Usage(ordered(faults))
	}
	if err := errors.Join(usage, toErr, filesErr); err != nil {
		return r.to, c, err
	}
	switch {
	case table != "" || s.Mapping != nil:
	case s.Table.Name != "":
		table = s.Table.Name
	case s.EveryTable():
		table = mapping.Star
	default:
		if table, err = s.suggested(files); err != nil {
			return r.to, c, err
		}
	}
	if r.tables(&c, table, rules); len(r.faults) > 0 {
		return r.to, c, Usage(ordered(r.faults))
	}
	rejects, err := job.ParseRejects("discard")
	c.Kind, c.Sources, c.Source.MaxLine = *r.kinds.Of(files[0]), files, int(s.Source.MaxLine)
	c.BatchRows, c.BatchPeriod, c.Buffer = s.Batch.Rows, s.Batch.Period, int64(s.Batch.Buffer)
	c.Rejects, c.Log = job.RejectRules{To: rejects, Max: math.MaxInt64}, s.env.Log
	return r.to, c, err
}

// Resend returns the job that applies rejected lines again to the tables of the spec. table is the one of a spec
// without tables in a file.
func (s *Spec) Resend(name, table string) (c job.Config, err error) {
	r := s.rulebook()
	if r.to, err = s.Destination(); err != nil {
		return c, err
	}
	rules, folding := s.rules()
	r.faults = append(r.faults, folding...)
	r.judgeValues()
	if s.EveryTable() {
		table = mapping.Star
	}
	r.tables(&c, table, rules)
	if faults := slices.Concat(s.textFaults(), s.faults, r.faults); len(faults) > 0 {
		return c, Usage(ordered(faults))
	}
	c.Job, c.Source = name, source.Options{MaxLine: int(s.Source.MaxLine), RetryFor: defaultRetryFor}
	if s.Setting("retry-for").IsSet() {
		c.Source.RetryFor = s.Batch.RetryFor
	}
	c.BatchRows, c.Buffer, c.Tombstones = s.Batch.Rows, int64(s.Batch.Buffer), s.Fold.Tombstones
	c.Restart.AcceptSettings, c.Log = s.Once.AcceptSettings, s.env.Log
	c.Resume = func([]byte) error { return nil } // the source is not read
	return c, nil
}

// rules returns the fold options of a table, and the faults of their settings.
func (s *Spec) rules() (fold.Options, []error) {
	r := s.rulebook()
	f := &s.Fold
	o := fold.Options{Key: f.Key, Null: f.Null, FillOnly: f.FillOnly, Version: f.VersionField, Scope: f.VersionScope,
		UnknownFields: s.Table.UnknownFields, MaxColumns: s.Table.MaxColumns}
	if f.DeleteWhen != "" {
		var err error
		if o.DeleteField, o.DeleteValue, err = paths.CutCondition(f.DeleteWhen); err != nil {
			r.fault("delete-when", "--delete-when %q: %v", f.DeleteWhen, err)
		}
	}
	if max := s.Source.MaxLine; max < 1 || max > source.LimitMaxLine {
		r.fault("max-line", "--max-line %s: must be between 1B and %s", max, Size(source.LimitMaxLine))
	}
	r.faultIf(len(o.Key) == 0, "key", "--key names no field")
	keys := map[string]bool{}
	for _, k := range o.Key {
		name := strings.ToLower(k)
		if k == "" || keys[name] {
			r.fault("key", "--key %s: the names of the fields must differ, and none may be empty", strings.Join(o.Key, ","))
			break
		}
		keys[name] = true
	}
	r.faultIf(o.FillOnly && o.DeleteField != "", "fill-only", "--fill-only never removes a row: leave --delete-when out")
	r.faultIf(o.FillOnly && o.Version != "", "fill-only", "--fill-only needs no version: leave one of --version-field and --fill-only out")
	r.faultIf(o.Scope == fold.RowScope && o.Version == "", "version-scope", "--version-scope row: name the field with --version-field")
	return o, r.faults
}

// judgeValues judges the values that need no other part of the run.
func (r *rulebook) judgeValues() {
	b, sp := &r.Batch, &r.Spool
	r.faultIf(r.Once.AcceptSettings && r.Once.Restart != "", "accept-settings", "--accept-settings continues from the checkpoint, which --restart ignores: leave one out")
	r.faultIf(r.Fold.Tombstones < 0, "tombstones", "--tombstones cannot be negative")
	r.faultIf(r.Setting("batch-rows").IsSet() && b.Rows < 1, "batch-rows", "--batch-rows %d: must be at least 1", b.Rows)
	r.faultIf(b.Buffer < 1<<20 || b.Buffer > 32<<30, "buffer", "--buffer %s: must be between 1MiB and 32GiB", b.Buffer)
	r.faultIf(b.Period < 0, "batch-period", "--batch-period cannot be negative")
	r.faultIf(b.RetryFor < 0, "retry-for", "--retry-for cannot be negative")
	r.faultIf(sp.Folder != "" && sp.Max < 1<<20, "spool-max", "--spool-max %s: must be at least 1MiB", sp.Max)
	keep := r.Setting("keep-captures").IsSet() && sp.KeepCaptures != Forever
	r.faultIf(keep && (sp.Capture == "" || sp.KeepCaptures <= 0), "keep-captures", "--keep-captures: must be a duration such as 30d, and needs --capture")
	if address := r.Output.MetricsAddr; address != "" {
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			r.fault("metrics-addr", "--metrics-addr: %v", err)
		}
	}
}

// judgeSpool checks --spool and --init, which need a live source, and --capture, which needs one that is not stored. A
// file may have --init, as a backfill by the same file reads captures.
func (r *rulebook) judgeSpool(live, stored bool) {
	r.faultIf(r.Spool.Folder != "" && !live, "spool", "--spool needs a connection; files are already on disk, and stdin cannot be resumed")
	r.faultIf(r.Setting("init").IsFlag() && !live, "init", "--init is the first line that a connection sends, and the source is none")
	r.faultIf(r.Spool.Capture != "" && stored, "capture", "--capture is for a connection or stdin: a file can be read again")
}

// rejects parses --rejects and checks the settings for rejected lines.
func (r *rulebook) rejects() job.Rejects {
	o := &r.Rejects
	to, err := job.ParseRejects(o.To)
	if err != nil {
		r.fault("rejects", "--rejects: %v", err)
	}
	topic := to.Topic()
	r.faultIf(topic != "" && !kafka.IsTopic(topic) || o.To == "topic:", "rejects", "--rejects: %q is no name of a topic", topic)
	keep := r.Setting("keep-rejects")
	r.faultIf(keep.IsSet() && (o.Keep <= 0 || to.Path() != "" || topic != ""), "keep-rejects", "--keep-rejects %s: must be a duration such as 30d, and needs --rejects table", keep)
	return to
}

// tables sets the tables of a job: those of the file, or else the one that the settings name. It overwrites r.Mapping.
func (r *rulebook) tables(c *job.Config, table string, rules fold.Options) {
	before := len(r.faults)
	r.Mapping = r.Fold.Overlay(r.Mapping, table, rules, r.fault)
	m, once := r.Mapping, &r.Once
	switch {
	case len(r.faults) > before:
		return
	case once.Tables != nil && len(once.Tables) == 0:
		r.fault("tables", "--tables names no table")
		return
	case once.Tables != nil && (m == nil || m.File == ""):
		r.fault("tables", "--tables: names tables of a config file (--config), and there are none: --table names the one of a run without")
		return
	case m == nil:
		rules.DeleteField, _ = fieldName(rules.DeleteField)
		rules.Version, _ = fieldName(rules.Version)
		c.Tables = []job.Table{{Name: table, Fold: rules}}
		return
	case r.Table.Name != "" && m.File != "":
		r.fault("table", "--table %s: %s names its tables; leave --table out", r.Table.Name, m.File)
		return
	}
	written, whole, err := r.selected()
	if err != nil {
		r.add(err)
		return
	}
	for i := range written.Tables {
		t := &written.Tables[i]
		t.OnCreate = slices.DeleteFunc(t.OnCreate, func(s mapping.Statement) bool {
			return s.Database != "" && !strings.EqualFold(s.Database, r.to.Name)
		})
	}
	r.add(config.Locate(m.File, c.Map(written, whole, r.to.Caps.Limits)))
	r.faultIf(c.Mapping.Star != nil && once.Restart == Rebuild, "restart", "--restart rebuild: the tables are unknown until the stream is read; drop them yourself, or name them in a config file")
	r.faultIf(once.Tables != nil && r.Source.Job == "", "tables", "--tables needs its own --job: the job of %s is for all of its tables", m.File)
}

// EveryTable reports whether the run is for each table that the messages of its envelope name.
func (s *Spec) EveryTable() bool {
	return s.Mapping == nil && s.Table.Name == "" && s.Fold.Every()
}

// Resumes reports whether stdout has values from which the source resumes.
func (s *Spec) Resumes() bool {
	return s.Mapping != nil && s.Mapping.Envelope != nil && s.Mapping.Envelope.Resume.Base != paths.NoBase
}

// selected returns the mapping of the tables to write. whole is the mapping of all tables; nil without --tables.
func (s *Spec) selected() (m, whole *mapping.Mapping, err error) {
	if s.Once.Tables == nil {
		return s.Mapping, nil, nil
	}
	var names []string
	for i := range s.Mapping.Tables {
		names = append(names, s.Mapping.Tables[i].Name)
	}
	for _, name := range s.Once.Tables {
		if !slices.Contains(names, name) {
			return nil, nil, fmt.Errorf("--tables: %s has no table %q%s", s.Mapping.File, name, cmp.Or(config.DidYouMean(name, names), "; it has "+strings.Join(names, ", ")))
		}
	}
	if slices.Contains(names, mapping.Star) {
		return nil, nil, fmt.Errorf("--tables: %s has a table %q, which is for all that have no name there", s.Mapping.File, mapping.Star)
	}
	if m, err = s.Mapping.Select(s.Once.Tables); err != nil {
		return nil, nil, fmt.Errorf("--tables: %w", err)
	}
	return m, s.Mapping, nil
}

// sources resolves the sources of a run, and names its table, or its job if the file has tables.
func (r *rulebook) sources(args []string) (sources []string, table string, err error) {
	follow := r.Source.Follow
	sources, err = r.expand(args, follow)
	missing := errors.As(err, new(*fs.PathError)) || errors.As(err, new(*source.NotFoundError))
	if r.env.Lookup == nil && missing { // these files are on another machine, or come later
		sources, err = args, nil
	}
	if err != nil {
		return nil, "", err
	}
	switch table = r.Table.Name; {
	case r.Mapping != nil: // the job is named after the file
		table = strings.TrimSuffix(filepath.Base(r.File), filepath.Ext(r.File))
	case table == "":
		table, err = r.suggested(sources)
		switch {
		case err != nil && r.EveryTable(): // the job alone is called so
			table, err = r.Fold.Envelope, nil
		case err != nil && r.env.Lookup == nil: // a flag or a variable may name it
			table, err = "t", nil
		}
	}
	live := slices.ContainsFunc(sources, func(s string) bool { return r.kinds.Traits(s).Live })
	switch {
	case len(sources) < 2:
	case follow && slices.ContainsFunc(sources, func(s string) bool { return !r.kinds.Traits(s).Stored() }):
		err = errors.Join(err, Usage(r.Spec.fault("follow", "--follow reads files at the same time: name only files")))
	case live:
		err = errors.Join(err, Usage(r.sourceFault("a connection must be the only source")))
	}
	return sources, table, err
}

// Expand resolves the sources of the command line.
func (s *Spec) Expand(args []string) ([]string, error) {
	s.args = args
	return s.expand(args, false)
}

// expand resolves sources of the command line, or of the file. Faults that are not the file system's are wrong usage.
func (s *Spec) expand(args []string, follow bool) ([]string, error) {
	for _, a := range args {
		if _, rest, ok := strings.Cut(a, "://"); ok && strings.Contains(rest, "@") {
			instead := "--init sends what the feed asks for"
			if IsKafka([]string{a}) {
				instead = "--sasl reads KAFKA_USERNAME and KAFKA_PASSWORD"
			}
			return nil, Usage(s.sourceFault("%s: a source has no user and no password; "+instead, Redacted(a)))
		}
	}
	sources, err := s.env.sources().Expand(args, follow)
	if err == nil || errors.As(err, new(*fs.PathError)) || errors.As(err, new(*source.NotFoundError)) {
		return sources, err
	}
	return nil, Usage(s.sourceFault("%v", err))
}

// sourceFault is one of the sources, which the command line or the setting has.
func (s *Spec) sourceFault(format string, args ...any) error {
	if len(s.args) > 0 {
		return fmt.Errorf(format, args...)
	}
	return s.fault("source", format, args...)
}

// suggested is the table name that the sources suggest.
func (s *Spec) suggested(sources []string) (string, error) {
	name := ""
	for _, src := range sources {
		n := ""
		if suggests := s.env.sources().Of(src).Suggests; suggests != nil {
			n = suggests(src)
		}
		if n == "" {
			return "", Usage(s.sourceFault("%s suggests no name for the table: --table NAME", src))
		}
		if name != "" && n != name {
			return "", Usage(s.sourceFault("the sources suggest the tables %q and %q: --table NAME", name, n))
		}
		name = n
	}
	return name, nil
}
