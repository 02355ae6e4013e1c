package settings

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/spool"
)

// A Plan is a run's configuration, resolved in its environment.
type Plan struct {
	To      Destination
	Mapping *mapping.Mapping // of the file or the settings
	Job     pipeline.Config

	spec    *Spec
	options KindOptions // for the job's sources
}

// Resumes reports whether the run prints resume values to stdout.
func (p *Plan) Resumes() bool {
	return p.Mapping.Envelope != nil && p.Mapping.Envelope.Resume.Base != paths.NoBase
}

// A builder builds a plan from a spec and collects faults. It does not change the spec.
type builder struct {
	*Spec
	plan   Plan
	faults []error
}

// builder returns a builder with the parts that all plans have: the fold's options and the batch settings.
func (s *Spec) builder() *builder {
	b := &builder{Spec: s}
	b.checkRules()
	b.plan.spec, b.plan.Mapping = s, &mapping.Mapping{} // unless a fault leaves no other
	b.plan.Job = pipeline.Config{Source: source.Options{MaxLine: int(s.Source.MaxLine)}, Log: s.env.Log, Plan: &mapping.Plan{},
		Limits: pipeline.Limits{BatchRows: s.Batch.Rows, BatchPeriod: s.Batch.Period, Buffer: int64(s.Batch.Buffer)}, Tombstones: s.Fold.Tombstones,
		Restart: pipeline.Restart{AcceptSettings: s.Source.AcceptSettings}}
	return b
}

// fault adds a fault of a setting, unless its text is already a fault.
func (b *builder) fault(name, format string, args ...any) {
	if b.Setting(name).faults == nil {
		b.faults = append(b.faults, b.Spec.fault(name, format, args...))
	}
}

func (b *builder) faultIf(wrong bool, name, format string, args ...any) {
	if wrong {
		b.fault(name, format, args...)
	}
}

// add adds faults that do not belong to one setting.
func (b *builder) add(err error) {
	if err != nil {
		b.faults = append(b.faults, err)
	}
}

// usage returns all faults so far, or nil.
func (b *builder) usage() error {
	if faults := slices.Concat(b.textFaults(), b.Spec.faults, b.faults); len(faults) > 0 {
		return Usage(ordered(faults))
	}
	return nil
}

// Validate returns all faults of the spec. It can find faults of the environment, the sources and the database only if
// they are known.
func (s *Spec) Validate() error {
	_, err := s.plan(s.Source.Names)
	return err
}

// Plan returns the plan of a sync. args are the sources on the command line. It returns all faults at once.
func (s *Spec) Plan(args []string) (*Plan, error) {
	if s.args = args; len(args) == 0 {
		args = s.Source.Names
	}
	return s.plan(args)
}

func (s *Spec) plan(args []string) (*Plan, error) {
	b := s.builder()
	p, c := &b.plan, &b.plan.Job
	args = slices.Clone(args)
	if len(args) == 0 && s.env.Asks && len(s.faults) == 0 { // otherwise the file may name one
		b.add(errors.New("no source is named, and stdin is a terminal: weir sync feed.jsonl --to flights.db"))
	}
	b.checkValues()
	feed := b.withPreset(args)
	c.Source.Follow, c.Source.Compression, c.Source.TLS = s.Source.Follow, s.Source.Compression, b.tls(args)
	c.Feed = b.feed(&feed)

	b.destination()
	noSource := len(args) == 0 && s.env.FileOnly || len(s.faults) > 0
	var name string
	var sourceErr error
	if !noSource {
		c.Sources, name, sourceErr = b.findSources(args)
	}
	if s.Table.To == "" && !s.env.FileOnly || len(args) == 0 && s.env.Asks {
		sourceErr = nil // one of them may be the database, with a password; or it is reported already
	}
	if len(s.faults) == 0 || s.File == "" || s.draft != nil && s.draft.given["tables"] == nil {
		of := name
		if s.EveryTable() {
			of = mapping.Star
		}
		b.tables(cmp.Or(of, "t"))
	}
	options := &p.options
	*options = KindOptions{File: file.Options{Stdin: s.env.Stdin, RotateWait: s.Source.RotateWait}, Kafka: b.kafka()}
	options.TCP.Idle = feed.IdleTimeout
	live := slices.ContainsFunc(c.Sources, func(name string) bool { return Sources.Type(name).Live() })
	isKafka := IsKafka(c.Sources)
	b.faultIf(s.Table.DryRun && s.Source.Follow, "dry-run", "--dry-run reads files to their ends, and --follow waits for more: leave one of them out")
	b.faultIf(s.Table.DryRun && live && !isKafka, "dry-run", "--dry-run reads to the end, and a connection has none: name a capture of it")
	if sourceErr == nil && !noSource {
		if b.checkKafka(c.Sources); isKafka {
			live = !s.Kafka.UntilEnd
		}
		stored := slices.ContainsFunc(c.Sources, func(name string) bool { return Sources.Type(name) == source.File })
		b.checkSpool(live && !isKafka, stored || isKafka)
		b.checkRepeats(&c.Feed, live && !isKafka)
	}
	if err := errors.Join(b.usage(), sourceErr); err != nil || noSource {
		return p, err
	}
	c.Source.RetryFor = s.retryFor(live)
	c.Job, c.ResumeStdin = cmp.Or(s.Source.Job, s.Kafka.Group, name), s.Source.Job != ""
	if isKafka && s.Kafka.Partitions == "" {
		options.Kafka.Group = cmp.Or(s.Kafka.Group, "weir-"+c.Job)
	}
	c.Kind = *Kinds(options).Of(c.Sources[0])
	c.MaxRate, c.Every = float64(s.Source.MaxRate), b.everyForDatabase()
	c.Spool = spool.Folders{Dir: s.Spool.Folder, Max: int64(s.Spool.Max), Capture: s.Spool.Capture}
	c.Rejects = pipeline.RejectRules{To: s.Rejects.To, Max: s.Rejects.Max, Age: s.Rejects.Keep, Show: s.showRejects()}
	c.Restart.FromStart, c.Restart.Rebuild = s.Source.Restart == Reread, s.Source.Restart == Rebuild
	return p, nil
}

func (b *builder) destination() {
	to := &b.plan.To
	if to.Driver = b.env.Drivers[0]; b.env.FileOnly && b.Table.To == "" {
		to.Caps.FoldCase = false // a file without a database may contain names that only SQLite considers equal
		return
	}
	var err error
	*to, err = b.Destination()
	unread := b.Table.To == "" && len(b.Spec.faults) > 0 // the file may name one
	if b.Setting("to").faults == nil && !unread {
		b.add(err)
	}
}

// DefaultRetryFor is how long a locked or unavailable database is retried.
const DefaultRetryFor = 5 * time.Minute

// retryFor returns how long a run retries.
func (s *Spec) retryFor(live bool) time.Duration {
	if !s.Setting("retry-for").IsSet() && !live {
		return DefaultRetryFor
	}
	return s.Batch.RetryFor
}

// FoldFiles returns the plan to fold files for the spec's tables, to compare, explain or test them. to overrides the
// database of the settings. table is the table name if no file has tables; "": the settings' name, or the name that the
// files suggest.
func (s *Spec) FoldFiles(args []string, to *Destination, table string) (*Plan, error) {
	b := s.builder()
	p, c := &b.plan, &b.plan.Job
	var toErr error
	if to != nil {
		p.To = *to
	} else {
		p.To, toErr = s.Destination()
	}
	files, filesErr := s.Expand(args)
	if s.Table.To == "" && to == nil {
		filesErr = nil // one of them may be the database, with a password
	}
	if err := errors.Join(b.usage(), toErr, filesErr); err != nil {
		return p, err
	}
	switch {
	case table != "" || s.Mapping != nil:
	case s.Table.Name != "":
		table = s.Table.Name
	case s.EveryTable():
		table = mapping.Star
	default:
		var err error
		if table, err = s.suggested(files); err != nil {
			return p, err
		}
	}
	if b.tables(table); len(b.faults) > 0 {
		return p, b.usage()
	}
	c.Kind, c.Sources = *Sources.Of(files[0]), files
	c.Rejects = pipeline.RejectRules{To: pipeline.DiscardRejects, Max: math.MaxInt64}
	return p, nil
}
