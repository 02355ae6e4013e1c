package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
)

// plan checks the options, reports all faults at once, and turns the options into what a
// run needs.
func (e *env) plan(o *syncOptions, args []string) (to destination, c job.Config, err error) {
	if len(args) == 0 && e.terminal(int(os.Stdin.Fd())) && e.stdin == os.Stdin {
		err = errors.New("no source is named, and stdin is a terminal: weir sync feed.jsonl --to flights.db")
	}
	o.preset(args, o.compression)
	src := source.Options{MaxLine: int(o.maxLine), Follow: o.follow, Compression: o.compression, Windows: int(o.buffer / 4), Stdin: e.stdin}
	folding, foldErr := o.fold()
	feed, feedErr := o.settings(e.lookupEnv, &src)
	rate, rateErr := readRate("max-rate", o.maxRate)
	rejects, rejectsErr := job.ParseRejects(o.rejects)
	if rejectsErr != nil {
		rejectsErr = fmt.Errorf("--rejects: %w", rejectsErr)
	}
	to, toErr := e.destination(o.to)
	sources, table, live, sourceErr := o.sources(args)
	usage := errors.Join(err, foldErr, feedErr, o.checkLimits(), rateErr, rejectsErr, o.checkRejects(rejects), o.checkJob(), toErr)
	if sourceErr == nil {
		usage = errors.Join(usage, o.checkSpool(live, slices.ContainsFunc(sources, func(s string) bool { return source.TraitsOf(s).Stored() })))
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
	src.RetryFor = o.retryFor.Duration
	return to, job.Config{
		Sources: sources,
		Source:  src, Feed: feed,
		Job: o.job, Table: table,
		Fold:      folding,
		BatchRows: o.batchRows, BatchPeriod: o.batchPeriod, MaxRate: rate, Buffer: int64(o.buffer), ReadAhead: o.prefetch, Tombstones: time.Duration(o.tombstones),
		Spool:   spool.Folders{Dir: o.spool, Max: int64(o.spoolMax), Capture: o.capture, KeepCaptures: o.keepFor.Duration},
		Rejects: rejects, MaxRejects: o.maxRejects, RejectsAge: o.rejectsAge.Duration, ShowRejects: showRejects(o.to),
		FromStart: o.fromStart, Rebuild: o.rebuild, AcceptSettings: o.accept,
	}, nil
}

// fold are the rules of the fold, and the faults of all flags that take one of several words.
func (o *syncOptions) fold() (fold.Options, error) {
	field, value, err := fieldValue("delete-when", o.deleteWhen)
	f := fold.Options{Key: o.key, DeleteField: field, DeleteValue: value, Null: o.null,
		FillOnly: o.fillOnly, Version: o.version, Scope: o.scope, Columns: o.newColumns, MaxColumns: o.maxColumns}
	if o.maxLine < 1 || o.maxLine > source.LimitMaxLine {
		err = errors.Join(err, fmt.Errorf("--max-line %s: must be between 1B and %dB", o.maxLine, source.LimitMaxLine))
	}
	return f, errors.Join(o.faults(), f.Validate(), err)
}

// fieldValue reads the value of a flag, FIELD=VALUE or nothing.
func fieldValue(flag, s string) (field, value string, err error) {
	field, value, ok := strings.Cut(s, "=")
	switch {
	case s != "" && (!ok || field == ""):
		err = fmt.Errorf("--%s %q: must be FIELD=VALUE, such as op=delete", flag, s)
	case strings.HasPrefix(value, "="):
		err = fmt.Errorf("--%s %q: FIELD=VALUE has one equals sign, as in --%s %s%s", flag, s, flag, field, value)
	}
	return field, value, err
}

// checkLimits returns the faults of numbers and addresses.
func (o *syncOptions) checkLimits() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.batchRows < 1 {
		fault("--batch-rows %d: must be at least 1", o.batchRows)
	}
	if o.buffer < 1<<20 || o.buffer > 32<<30 {
		fault("--buffer %s: must be between 1MiB and 32GiB", o.buffer)
	}
	if o.tombstones < 0 || o.batchPeriod < 0 || o.retryFor.Duration < 0 || o.maxRejects < 0 {
		fault("--tombstones, --batch-period, --retry-for and --max-rejects cannot be negative")
	}
	if o.spool != "" && o.spoolMax < 1<<20 {
		fault("--spool-max %s: must be at least 1MiB", o.spoolMax)
	}
	if _, _, err := net.SplitHostPort(o.metricsAddr); err != nil && o.metricsAddr != "" {
		fault("--metrics-addr: %w", err)
	}
	return errors.Join(faults...)
}

func (o *syncOptions) checkRejects(r job.Rejects) error {
	if o.rejectsAge.IsSet && (o.rejectsAge.Duration <= 0 || r.Path() != "") {
		return fmt.Errorf("--keep-rejects %s: must be a duration such as 30d, and needs --rejects table", &o.rejectsAge)
	}
	return nil
}

// checkJob returns the faults of the flags that say what job a run is of, and where it
// continues.
func (o *syncOptions) checkJob() (err error) {
	if strings.HasPrefix(o.job, sink.RunPrefix) {
		err = fmt.Errorf("--job %q: names that begin with %q are reserved for runs without a job", o.job, sink.RunPrefix)
	}
	if o.accept && (o.fromStart || o.rebuild) {
		err = errors.Join(err, errors.New("--accept-settings continues from the checkpoint, which --from-start and --rebuild ignore: leave one out"))
	}
	return err
}

// checkSpool returns the faults of the spool and of captures; live and stored say what the
// sources are.
func (o *syncOptions) checkSpool(live, stored bool) (err error) {
	if o.spool != "" && !live {
		err = errors.New("--spool is for a connection: a file needs none, and stdin cannot be asked again")
	}
	switch {
	case o.capture != "" && stored:
		err = errors.Join(err, errors.New("--capture is for a connection or stdin: a file can be read again"))
	case o.keepFor.IsSet && (o.capture == "" || o.keepFor.Duration <= 0):
		err = errors.Join(err, errors.New("--keep-captures: must be a duration such as 30d, and needs --capture"))
	}
	return err
}

// sources resolves the sources of a run, of which a connection is live, and names the table.
func (o *syncOptions) sources(args []string) (sources []string, table string, live bool, err error) {
	if sources, err = expand(args, o.follow); err != nil {
		return nil, "", false, err
	}
	live = slices.ContainsFunc(sources, func(s string) bool { return source.TraitsOf(s).Live })
	if table = o.table; table == "" {
		table, err = stem(sources)
	}
	switch {
	case len(sources) < 2:
	case o.follow:
		err = errors.Join(err, usagef("--follow reads one file, which has no end: name only one source"))
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
			return nil, usagef("%s: a source has no user and no password; --init sends what the feed asks for", redacted(a))
		}
	}
	sources, err := source.Expand(args, follow)
	if err == nil || errors.As(err, new(*fs.PathError)) || errors.As(err, new(*source.NotFoundError)) {
		return sources, err
	}
	return nil, usageError{err}
}

// stem is the table name that the sources suggest.
func stem(sources []string) (string, error) {
	name := ""
	for _, s := range sources {
		n := filepath.Base(s)
		for _, ext := range []string{".gz", ".zst", ".zstd", ".jsonl", ".ndjson", ".json", ".log"} {
			n = strings.TrimSuffix(n, ext)
		}
		if n == "" || !source.TraitsOf(s).Stored() {
			return "", usagef("%s suggests no name for the table: --table NAME", s)
		}
		if name != "" && n != name {
			return "", usagef("the sources suggest the tables %q and %q: --table NAME", name, n)
		}
		name = n
	}
	return name, nil
}
