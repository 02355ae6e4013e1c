package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/spool"
)

// plan checks the options, reports all faults at once, and turns the options into what a
// run needs.
func (e *env) plan(o *syncOptions, args []string) (to destination, c job.Config, err error) {
	if len(args) == 0 && e.terminal(int(os.Stdin.Fd())) && e.stdin == os.Stdin {
		err = errors.New("no source is named, and stdin is a terminal: weir sync feed.jsonl --to flights.db")
	}
	o.preset(args, o.compression)
	src := source.Options{MaxLine: int(o.maxLine), Follow: o.follow, Compression: o.compression}
	byKind := kindOptions{file: file.Options{Stdin: e.stdin}}
	rules, rulesErr := o.rules()
	feed, feedErr := o.feedOptions.settings(e.lookupEnv, &src, &byKind.tcp)
	rate, rateErr := readRate("max-rate", o.maxRate)
	rejects, rejectsErr := o.parse()
	to, toErr := e.destination(o.to, args...)
	sources, table, live, sourceErr := o.sources(args)
	if err != nil || toErr != nil && meantForTo(args) != "" {
		sourceErr = nil // stdin has no name, either, and a database is no source
	}
	of := table
	if o.every() {
		of = mapping.Star
	}
	tablesErr := o.tables(&c, &to.Driver, of, rules)
	if c.Star != nil && o.restart == rebuild {
		tablesErr = errors.Join(tablesErr, errors.New("--restart rebuild: the tables are those that the stream names, which are not known before it is read: drop them, or name them in a config file"))
	}
	if o.only != nil && o.job == "" && tablesErr == nil {
		tablesErr = fmt.Errorf("--tables: needs a job of its own (--job NAME): that of %s is for all of its tables", o.mapping.File)
	}
	var kafkaErr error
	byKind.kafka, kafkaErr = o.kafkaOptions.settings(e.lookupEnv, &rules, o.mapping)
	usage := errors.Join(err, rulesErr, o.check(), feedErr, kafkaErr, rateErr, rejectsErr, toErr, tablesErr)
	if sourceErr == nil {
		kafka := isKafka(sources)
		if usage = errors.Join(usage, o.checkKafka(sources, to, &rejects)); kafka {
			live = !o.untilEnd
		}
		stored := slices.ContainsFunc(sources, func(s string) bool { return sourceKinds.Traits(s).Stored() })
		usage = errors.Join(usage, o.spoolOptions.check(live && !kafka, stored || kafka))
	}
	if usage == nil && sourceErr == nil {
		usage = e.checkOutputs(o, to, args, sources, rejects)
	}
	if usage != nil {
		usage = usageError{usage}
	}
	if err := errors.Join(usage, sourceErr); err != nil {
		return to, c, err
	}
	if !o.retryFor.IsSet {
		if o.retryFor.Duration = defaultRetryFor; live {
			o.retryFor.Duration = config.Forever
		}
	}
	src.RetryFor, byKind.kafka.DeadLetters = o.retryFor.Duration, rejects.Topic()
	jobName := cmp.Or(o.job, o.group, table)
	if isKafka(sources) && o.partitions == "" {
		byKind.kafka.Group = cmp.Or(o.group, "weir-"+jobName)
	}
	return to, job.Config{
		Kind: *kindsWith(&byKind).Of(sources[0]), Sources: sources, Source: src, Feed: feed,
		Job: jobName, ResumeStdin: o.job != "",
		Tables: c.Tables, Star: c.Star, Names: c.Names, NewMapper: c.NewMapper, Mapping: c.Mapping, Stream: c.Stream, Backfill: o.backfill(jobName, sources),
		BatchRows: o.batchRows.N, BatchPeriod: o.batchPeriod, MaxRate: rate, Buffer: o.buffer.Bytes, Tombstones: time.Duration(o.tombstones),
		Spool:   spool.Folders{Dir: o.spool, Max: int64(o.spoolMax), Capture: o.capture, KeepCaptures: o.keepCaptures.Duration},
		Rejects: rejects, MaxRejects: o.maxRejects, RejectsAge: o.keepRejects.Duration, ShowRejects: o.showRejects(),
		FromStart: o.restart == reread, Rebuild: o.restart == rebuild, AcceptSettings: o.accept,
	}, nil
}

// sources resolves the sources of a run, of which a connection is live, and names the table.
func (o *syncOptions) sources(args []string) (sources []string, table string, live bool, err error) {
	if sources, err = expand(args, o.follow); err != nil {
		return nil, "", false, err
	}
	live = slices.ContainsFunc(sources, func(s string) bool { return sourceKinds.Traits(s).Live })
	switch table = o.table; {
	case o.mapping != nil: // the job is named after the file
		table = strings.TrimSuffix(filepath.Base(o.mapping.File), filepath.Ext(o.mapping.File))
	case table == "":
		if table, err = stem(sources); err != nil && o.every() { // the job alone is called so
			table, err = o.narrowing.Envelope, nil
		}
	}
	switch {
	case len(sources) < 2:
	case o.follow && slices.ContainsFunc(sources, func(s string) bool { return !sourceKinds.Traits(s).Stored() }):
		err = errors.Join(err, usagef("--follow reads files at the same time: name only files"))
	case live:
		err = errors.Join(err, usagef("a connection has no end: name only one source"))
	}
	return sources, table, live, err
}

// expand resolves the sources of the command line. Faults that are not the file system's are
// wrong usage.
func expand(args []string, follow bool) ([]string, error) {
	for _, a := range args {
		if _, rest, ok := strings.Cut(a, "://"); ok && strings.Contains(rest, "@") {
			if isKafka([]string{a}) {
				return nil, usagef("%s: a source has no user and no password; --sasl reads KAFKA_USERNAME and KAFKA_PASSWORD", redacted(a))
			}
			return nil, usagef("%s: a source has no user and no password; --init sends what the feed asks for", redacted(a))
		}
	}
	sources, err := sourceKinds.Expand(args, follow)
	if err == nil || errors.As(err, new(*fs.PathError)) || errors.As(err, new(*source.NotFoundError)) {
		return sources, err
	}
	return nil, usageError{err}
}

// stem is the table name that the sources suggest.
func stem(sources []string) (string, error) {
	name := ""
	for _, s := range sources {
		n := ""
		if suggests := sourceKinds.Of(s).Suggests; suggests != nil {
			n = suggests(s)
		}
		if n == "" {
			return "", usagef("%s suggests no name for the table: --table NAME", s)
		}
		if name != "" && n != name {
			return "", usagef("the sources suggest the tables %q and %q: --table NAME", name, n)
		}
		name = n
	}
	return name, nil
}
