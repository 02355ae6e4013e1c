package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/spec"
)

func (e *env) rejectsResendCommand() *cobra.Command {
	o := &resendOptions{spec: e.newSpec()}
	c := &cobra.Command{
		Use:   "resend --to DEST",
		Short: "Apply rejected lines again",
		Long: `Apply the rejected lines of a job again: after a column was altered, a constraint
was dropped, or weir or its config file was corrected. Use the settings of the
job's weir sync: the same flags, or the same --config.

Each batch is one transaction that also removes its lines from weir_rejects, so a
line is applied once, whatever ends the command. Lines that are rejected again
stay there with their new reason. A sync of the job may run at the same time; if
another run removes the same lines, the command ends with exit code 4.

The lines are applied as the newest messages: a column that a later message has
set gets the older value of the line. With --version-field the newer value wins,
--fill-only only writes columns that are NULL, and a sum adds the line once.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 lines are left that were rejected
again, 4 another run has the lines, 130/143 stopped by a signal.`,
		Example: `  weir rejects resend --to flights.db --table flights
  weir rejects resend --config weir.yaml --reason database`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.load(c, o.spec); err != nil {
				return err
			}
			return e.resend(c.Context(), o)
		},
	}
	f := c.Flags()
	o.spec.AddFlags(f, append([]string{"to", "table", "job", "accept-settings", "unknown-fields", "max-columns", "foreign-keys", "tombstones",
		"batch-rows", "buffer", "synchronous", "retry-for"}, spec.FoldFlags...)...)
	f.Lookup("job").Usage = "the `JOB` whose lines are applied (default the name of the table, or of a config file with tables)"
	f.Lookup("accept-settings").Usage = "apply the lines although settings differ from the job's checkpoints"
	f.StringVar(&o.reason, "reason", "", "apply only lines with this `REASON`, such as value or database")
	f.SortFlags = false
	return c
}

type resendOptions struct {
	spec   *spec.Spec
	reason string
}

// resend applies the rejected lines of a job again.
func (e *env) resend(ctx context.Context, o *resendOptions) (err error) {
	dest, err := o.spec.Destination()
	if err != nil {
		return err
	}
	in, err := dest.Reader(ctx, dest.Dest, sink.Options{Cache: readerCache, Log: e.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	st, err := in.Status(ctx)
	if err != nil {
		return err
	}
	if len(st.Rejects) == 0 && o.spec.Mapping == nil && cmp.Or(o.spec.Source.Job, o.spec.Table.Name) == "" {
		e.log.Info("no rejected lines to resend")
		return nil
	}
	plan, filter, err := e.planResend(o, st)
	if err != nil {
		return err
	}
	if plan, err = plan.AtDatabase(ctx, in.Tables); err != nil {
		return err
	}
	c := &plan.Job
	left := &keptLines{filter: filter, db: in}
	if err := left.count(ctx); err != nil {
		return err
	}
	left.warn(e)
	if left.total() == 0 {
		e.log.Info(fmt.Sprintf("no rejected lines of job %q to resend", c.Job))
		return nil
	}
	if err := left.checkUnread(st, c); err != nil {
		return err
	}
	return e.resendLines(ctx, o, plan, left)
}

// planResend makes the plan of the job whose lines are applied.
func (e *env) planResend(o *resendOptions, st sink.Status) (_ *spec.Plan, f rejectFilter, err error) {
	sp := o.spec
	f.reason = o.reason
	table := sp.Table.Name
	if sp.Mapping != nil { // its tables have names, and --table selects lines
		f.table, sp.Table.Name = table, ""
		f.job = cmp.Or(sp.Source.Job, strings.TrimSuffix(filepath.Base(sp.File), filepath.Ext(sp.File)))
	} else if f.job, table, err = o.target(st); err != nil {
		return nil, f, err
	}
	if err := f.find(st, true); err != nil {
		return nil, f, err
	}
	plan, err := sp.Resend(f.job, table)
	return plan, f, err
}

// target returns the job and its table if no config file names tables.
func (o *resendOptions) target(st sink.Status) (of, table string, err error) {
	sp := o.spec
	tables := map[string][]string{}
	var jobs []string // jobs with rejected lines
	for _, j := range st.Jobs {
		tables[j.Job] = j.Tables
	}
	for _, r := range st.Rejects {
		if !slices.Contains(jobs, r.Job) {
			jobs = append(jobs, r.Job)
		}
	}
	table = sp.Table.Name
	if of = cmp.Or(sp.Source.Job, table); of == "" && sp.EveryTable() {
		of = sp.Fold.Envelope
	}
	if of == "" {
		if len(jobs) != 1 {
			return "", "", usagef("name the job with --job NAME; %s", jobsText(jobs))
		}
		of = jobs[0]
	}
	if table != "" || sp.EveryTable() {
		return of, table, nil
	}
	switch n := len(tables[of]); n {
	case 0:
		return of, table, nil // find reports what the database has
	case 1:
		return of, tables[of][0], nil
	default:
		return "", "", usagef("job %q writes %d tables (%s): its --config is needed", of, n, strings.Join(tables[of], ", "))
	}
}

// jobsText lists jobs with rejected lines.
func jobsText(jobs []string) string {
	quoted := make([]string, len(jobs))
	for i := range jobs {
		quoted[i] = fmt.Sprintf("%q", jobs[i])
	}
	return "jobs with rejected lines: " + strings.Join(quoted, ", ")
}

// resendLines applies the lines, one source after the other.
func (e *env) resendLines(ctx context.Context, o *resendOptions, plan *spec.Plan, left *keptLines) (err error) {
	defer func() {
		if stoppedInOutage(ctx, err) {
			e.log.Warn("the database is unavailable: " + err.Error())
			err = ctx.Err()
		}
	}()
	dest, c := &plan.To, &plan.Job
	limitMemory(c.Buffer)
	options := o.spec.SinkOptions(pageCache(c.Buffer), e.log)
	patience := c.Source.RetryFor
	names := make([]string, len(c.Tables))
	for i := range c.Tables {
		names[i] = c.Tables[i].Name
	}
	p := progress.New(names...)
	outage := &outageLog{log: e.log, p: p, to: dest.Shown()}
	var db sink.Sink
	if err = sink.Patiently(ctx, patience, outage.retried, func() error {
		db, err = dest.Open(ctx, dest.Dest, options)
		return err
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	claims, err := dest.OpenClaims(ctx, dest.Dest, c.Job, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claims.Close()) }()
	if err := left.claim(ctx, claims); err != nil {
		return err
	}
	for _, name := range left.sources {
		lines := job.Resent{Source: name, Each: func(ctx context.Context, each func(sink.Kept) error) error { return left.each(ctx, name, each) }}
		if err = job.Resend(ctx, *c, lines, sink.Retry(db, patience, outage.retried), sink.RetryClaims(claims, patience, outage.retried), p); err != nil {
			break
		}
	}
	if err != nil && plan.Mapping != nil {
		err = config.Locate(plan.Mapping.File, err)
	}
	return e.resent(c.Job, p, left.total(), err)
}

// resent logs how many lines were applied or rejected again. The returned error has the exit code.
func (e *env) resent(name string, p *progress.Progress, total int64, err error) error {
	did := p.Snapshot()
	applied := did.Lines - did.Pending - did.Rejected
	text := fmt.Sprintf("job %q: applied %s of %s", name, quantity.Grouped(max(0, applied)), quantity.Count(total, "rejected line"))
	if err != nil {
		if applied > 0 || errors.Is(err, context.Canceled) {
			e.log.Info(text + "; the same command applies the rest")
		}
		return err
	}
	if did.Rejected == 0 {
		e.log.Info(text)
		return nil
	}
	reasons := slices.SortedStableFunc(slices.Values(did.Reasons), func(a, b progress.Reason) int { return cmp.Compare(b.Count, a.Count) })
	texts := make([]string, len(reasons))
	for i := range reasons {
		r := &reasons[i]
		texts[i] = fmt.Sprintf("%s × %s (first: %s %s)", quantity.Grouped(r.Count), clipped(r.First.Why(), shownDetail), r.Source, rejectPlace(r.Source, r.First.Line, r.First.Offset))
	}
	e.log.Warn(fmt.Sprintf("%s; rejected again: %s", text, strings.Join(texts, "; ")))
	return codeError(exitRejected)
}

// keptLines are the rejected lines that are applied, as of the start of the command.
type keptLines struct {
	filter rejectFilter
	db     sink.Inspector

	sources []string // in the order of their first lines
	counts  map[string]int64
	firsts  map[string]int64 // offset of the first line of each source
	last    int64            // the highest ID

	cut, unclear int64 // lines that cannot be applied; see usable
}

// count counts the lines.
func (l *keptLines) count(ctx context.Context) error {
	l.counts, l.firsts, l.last = map[string]int64{}, map[string]int64{}, math.MaxInt64
	last := int64(0)
	err := l.filter.each(ctx, l.db, func(k sink.Kept) error {
		last = max(last, k.ID)
		switch usable(&k) {
		case lineCut:
			l.cut++
			return nil
		case lineUnclear:
			l.unclear++
			return nil
		}
		if l.counts[k.Source]++; l.counts[k.Source] == 1 {
			l.sources, l.firsts[k.Source] = append(l.sources, k.Source), k.Offset
		}
		return nil
	})
	l.last = last
	return err
}

// checkUnread rejects lines that the next run will read again, if applying them twice would add them twice. This
// happens if all lines were rejected and the table does not exist yet.
func (l *keptLines) checkUnread(st sink.Status, c *job.Config) error {
	at := slices.IndexFunc(c.Tables, func(t job.Table) bool { return t.AddsTo() != "" })
	if at < 0 {
		return nil
	}
	for _, s := range st.Jobs {
		if first, kept := l.firsts[s.Source]; kept && s.Job == c.Job && first >= s.Offset {
			return usagef("nothing of %s is written yet, so the next run reads it from the start, and a resend would add its lines twice to %s: "+
				"run weir sync with the corrected settings instead", s.Source, c.Tables[at].AddsTo())
		}
	}
	return nil
}

func (l *keptLines) total() (n int64) {
	for _, count := range l.counts {
		n += count
	}
	return n
}

// each calls a function with each line of a source.
func (l *keptLines) each(ctx context.Context, name string, each func(sink.Kept) error) error {
	return l.filter.each(ctx, l.db, func(k sink.Kept) error {
		if k.Source != name || k.ID > l.last || usable(&k) != lineWhole {
			return nil
		}
		return each(k)
	})
}

// claim locks the job, so weir forget cannot run meanwhile. The lock is exclusive if the job reads Kafka, because
// members of its consumer group may be sending the same lines to a topic.
func (l *keptLines) claim(ctx context.Context, claims sink.Claims) error {
	if slices.ContainsFunc(l.sources, func(name string) bool { return sourceKinds.Traits(name).Records }) {
		return claims.TakeJob(ctx)
	}
	_, err := claims.Take(ctx)
	return err
}

// warn logs how many lines were not applied, and why.
func (l *keptLines) warn(e *env) {
	if l.cut > 0 {
		e.log.Warn(fmt.Sprintf("%s cannot be applied: only the first 64 KiB of each are kept", quantity.Count(l.cut, "rejected line")))
	}
	if l.unclear > 0 {
		e.log.Warn(fmt.Sprintf("not applied: %s with a single field, which may stand for a tombstone. If it is a message, pipe it into weir sync", quantity.Count(l.unclear, "rejected record")))
	}
}

// lineState tells whether a kept line is complete.
type lineState int

const (
	lineWhole   lineState = iota
	lineCut               // truncated
	lineUnclear           // a Kafka record that may have only a key, so it would delete its row
)

func usable(k *sink.Kept) lineState {
	if len(k.Text) >= keptText {
		return lineCut
	}
	if !sourceKinds.Traits(k.Source).Records || !json.Valid(k.Text) {
		return lineWhole
	}
	fields := 0
	for w := feed.Walk(k.Text); w.Next(); {
		if w.Depth == 1 {
			fields++
			w.Raw() // not the JSON inside
		}
	}
	if fields == 1 {
		return lineUnclear
	}
	return lineWhole
}

// keptText is the maximum size in bytes of a line in weir_rejects.
const keptText = 64 << 10
