package spec

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/paths"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/spool"
)

// A Plan is what a spec makes of a run in its environment.
type Plan struct {
	To      Destination
	Mapping *mapping.Mapping // of the file, or of the settings; nil: the messages are the rows of the one table
	Job     job.Config

	spec    *Spec
	table   string      // that the settings make
	options KindOptions // of the job's sources
}

// Resumes reports whether stdout has values from which the source resumes.
func (p *Plan) Resumes() bool {
	return p.Mapping != nil && p.Mapping.Envelope != nil && p.Mapping.Envelope.Resume.Base != paths.NoBase
}

// A builder makes a plan of a spec, which it does not change, and collects the faults.
type builder struct {
	*Spec
	kinds  source.Kinds        // without options
	rules  fold.Options        // of a table that says nothing else
	keys   map[string][]string // primary keys of tables whose key nothing names
	open   map[string]bool     // such tables whose key messages may name
	plan   Plan
	faults []error
}

// builder begins a plan with what each has: the rules of the fold, and the job's settings for batches.
func (s *Spec) builder() *builder {
	b := &builder{Spec: s, kinds: s.env.sources()}
	b.rules = b.foldRules()
	b.plan.spec = s
	b.plan.Job = job.Config{Source: source.Options{MaxLine: int(s.Source.MaxLine)}, Log: s.env.Log,
		BatchRows: s.Batch.Rows, BatchPeriod: s.Batch.Period, Buffer: int64(s.Batch.Buffer), Tombstones: s.Fold.Tombstones,
		Restart: job.Restart{AcceptSettings: s.Once.AcceptSettings}}
	return b
}

// fault adds a fault of a setting, unless its text is one already.
func (b *builder) fault(name, format string, args ...any) {
	if b.Setting(name).err == nil {
		b.faults = append(b.faults, b.Spec.fault(name, format, args...))
	}
}

func (b *builder) faultIf(wrong bool, name, format string, args ...any) {
	if wrong {
		b.fault(name, format, args...)
	}
}

// add adds faults that are not of one setting.
func (b *builder) add(err error) {
	if err != nil {
		b.faults = append(b.faults, err)
	}
}

// usage returns all faults so far; nil: there are none.
func (b *builder) usage() error {
	if faults := slices.Concat(b.textFaults(), b.Spec.faults, b.faults); len(faults) > 0 {
		return Usage(ordered(faults))
	}
	return nil
}

// Validate returns all faults of the spec. Those of the environment, of sources and of the database are among them
// only as far as these are known.
func (s *Spec) Validate() error {
	_, err := s.plan(s.Source.Names)
	return err
}

// Plan returns the plan of a sync, whose sources the command line may name. It returns all faults at once.
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
	if len(args) == 0 && s.env.Asks && len(s.faults) == 0 { // else the file may name one
		b.add(errors.New("no source is named, and stdin is a terminal: weir sync feed.jsonl --to flights.db"))
	}
	b.judgeValues()
	feed := b.withPreset(args)
	c.Source.Follow, c.Source.Compression, c.Source.TLS = s.Source.Follow, s.Source.Compression, b.tls(args)
	c.Feed, c.Rejects.To = b.feed(&feed), b.rejects()

	toErr := b.destination(args)
	noSource := len(args) == 0 && s.env.FileOnly || len(s.faults) > 0
	var name string
	var sourceErr error
	if !noSource {
		c.Sources, name, sourceErr = b.findSources(args)
	}
	if len(args) == 0 && s.env.Asks || toErr != nil && MeantForTo(args) != "" {
		sourceErr = nil // reported already, as a missing source or a missing --to
	}
	if len(s.faults) == 0 {
		of := name
		if s.EveryTable() {
			of = mapping.Star
		}
		b.tables(cmp.Or(of, "t"))
	}
	options := &p.options
	*options = KindOptions{File: file.Options{Stdin: s.env.Stdin}, Kafka: b.kafka()}
	options.TCP.Idle = feed.IdleTimeout
	live := slices.ContainsFunc(c.Sources, func(name string) bool { return b.kinds.Traits(name).Live })
	isKafka := IsKafka(c.Sources)
	if sourceErr == nil && !noSource {
		if b.judgeKafka(c.Sources, &c.Rejects.To); isKafka {
			live = !s.Kafka.UntilEnd
		}
		stored := slices.ContainsFunc(c.Sources, func(name string) bool { return b.kinds.Traits(name).Stored() })
		b.judgeSpool(live && !isKafka, stored || isKafka)
		b.judgeRepeats(&c.Feed, live && !isKafka)
	}
	if b.usage() == nil && sourceErr == nil {
		b.outputs(args, c.Sources, c.Rejects.To)
	}
	if err := errors.Join(b.usage(), sourceErr); err != nil || noSource {
		return p, err
	}
	c.Source.RetryFor, options.Kafka.DeadLetters = s.retryFor(live), c.Rejects.To.Topic()
	c.Job, c.ResumeStdin = cmp.Or(s.Source.Job, s.Kafka.Group, name), s.Source.Job != ""
	if isKafka && s.Kafka.Partitions == "" {
		options.Kafka.Group = cmp.Or(s.Kafka.Group, "weir-"+c.Job)
	}
	c.Kind = *s.env.Kinds(options).Of(c.Sources[0])
	c.MaxRate = s.Source.MaxRate
	c.Spool = spool.Folders{Dir: s.Spool.Folder, Max: int64(s.Spool.Max), Capture: s.Spool.Capture, KeepCaptures: s.Spool.KeepCaptures}
	c.Rejects.Max, c.Rejects.Age, c.Rejects.Show = s.Rejects.Max, s.Rejects.Keep, s.showRejects()
	c.Restart.FromStart, c.Restart.Rebuild = s.Once.Restart == Reread, s.Once.Restart == Rebuild
	c.Restart.Again = s.again
	if to, _ := b.addsTo(); to == "" { // else a second job would add messages again
		c.Restart.Backfill = s.backfill(c.Job, c.Sources)
	}
	return p, nil
}

// destination sets the database of the plan. The error is among the faults, unless the file may name another one.
func (b *builder) destination(args []string) (err error) {
	to := &b.plan.To
	if to.Driver = b.env.Drivers[0]; b.env.FileOnly && b.Table.To == "" {
		to.Caps.FoldCase = false // a file that names no database may have names that only SQLite treats as one
		return nil
	}
	*to, err = b.Destination(args...)
	unread := b.Table.To == "" && len(b.Spec.faults) > 0 // the file may name one
	if b.Setting("to").err == nil && !unread {
		b.add(err)
	}
	return err
}

// DefaultRetryFor is how long a database is retried that is locked or unavailable.
const DefaultRetryFor = 5 * time.Minute

// retryFor is how long a run retries.
func (s *Spec) retryFor(live bool) time.Duration {
	if !s.Setting("retry-for").IsSet() && !live {
		return DefaultRetryFor
	}
	return s.Batch.RetryFor
}

// FoldFiles returns the plan to fold files for the tables of the spec, to compare, explain or test them; to is another
// database than that of the settings. table is the one of a spec without tables in a file; "": that of the settings, or
// the one that the files suggest.
func (s *Spec) FoldFiles(args []string, to *Destination, table string) (*Plan, error) {
	b := s.builder()
	p, c := &b.plan, &b.plan.Job
	var toErr error
	if to != nil {
		p.To = *to
	} else {
		p.To, toErr = s.Destination(args...)
	}
	files, filesErr := s.Expand(args)
	if toErr != nil && MeantForTo(args) != "" {
		filesErr = nil // a database is no file of a feed
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
	c.Kind, c.Sources = *b.kinds.Of(files[0]), files
	c.Rejects = job.RejectRules{To: job.DiscardRejects, Max: math.MaxInt64}
	return p, nil
}

// Resend returns the plan to apply rejected lines again to the tables of the spec. table is the one of a spec
// without tables in a file.
func (s *Spec) Resend(name, table string) (*Plan, error) {
	b := s.builder()
	p, c := &b.plan, &b.plan.Job
	var err error
	if p.To, err = s.Destination(); err != nil {
		return p, err
	}
	b.judgeValues()
	if s.EveryTable() {
		table = mapping.Star
	}
	if b.tables(table); b.usage() != nil {
		return p, b.usage()
	}
	c.Job, c.Source.RetryFor, c.BatchPeriod = name, s.retryFor(false), 0
	c.Resume = func([]byte) error { return nil } // the source is not read
	return p, nil
}
