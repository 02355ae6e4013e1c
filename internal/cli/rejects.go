package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

func (e *env) rejectsCommand() *cobra.Command {
	c := e.rejectsListCommand()
	c.Use = "rejects --to DEST"
	c.Short = "List or drop rejected lines"
	c.Long = `Print the rejected lines that weir_rejects keeps, as weir rejects list does, or
remove them with drop.

Exit codes: 0 done, 1 failed, 2 wrong usage.`
	c.Example = `  weir rejects --to flights.db
  weir rejects list --to flights.db --reason not_json --raw
  weir rejects drop --to flights.db --job flights`
	c.Args = noCommand
	c.AddCommand(e.rejectsListCommand(), e.rejectsDropCommand())
	return c
}

// A rejectFilter selects rejected lines. "" selects all.
type rejectFilter struct{ job, reason string }

func (f *rejectFilter) flags(flags *pflag.FlagSet, sp *settings.Spec, verb string) {
	sp.AddFlags(flags, "to", "config", "job")
	flags.Lookup("job").Usage = verb + " only lines of this `JOB`"
	flags.StringVar(&f.reason, "reason", "", verb+" only lines with this `REASON`, such as not_json or value")
}

// each calls a function with each selected line.
func (f *rejectFilter) each(ctx context.Context, db sink.Inspector, each func(sink.Kept) error) error {
	return db.Rejects(ctx, f.job, func(k sink.Kept) error {
		if reason, _, _ := strings.Cut(k.Reason, ":"); f.reason != "" && f.reason != reason {
			return nil
		}
		return each(k)
	})
}

// openRejects opens the database for a command about rejected lines. It counts those that the filter selects.
func (e *env) openRejects(c *cobra.Command, sp *settings.Spec, f *rejectFilter) (w written, err error) {
	if err := e.load(c, sp); err != nil {
		return w, err
	}
	f.job = sp.Source.Job
	w, err = e.openWritten(c.Context(), sp, f.job, sp.Setting("job").IsFlag())
	w.st.Rejects = slices.DeleteFunc(w.st.Rejects, func(r sink.RejectCount) bool { return f.reason != "" && f.reason != r.Reason })
	return w, err
}

func (e *env) rejectsListCommand() *cobra.Command {
	sp := e.newSpec()
	var f rejectFilter
	var l rejectList
	c := &cobra.Command{
		Use:   "list --to DEST",
		Short: "Print rejected lines",
		Long: `Print rejected lines with their positions and reasons, in the order in which they
were rejected, and count them by reason. It only reads, and may run during a sync.

With --raw, print only the original lines, to correct them and send them again:

    weir rejects list --to flights.db --raw | jq -c … | weir sync - --to flights.db --table flights

Line feeds within a Kafka record are printed as spaces. Only the first 64 KiB of
a line are kept.`,
		Example: `  weir rejects list --to flights.db --raw | tail
  weir rejects list --to flights.db --reason value --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if l.raw && l.json {
				return usagef("--raw and --json cannot be combined")
			}
			w, err := e.openRejects(c, sp, &f)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, w.db.Close()) }()
			return e.listRejects(c.Context(), &w, &f, &l)
		},
	}
	f.flags(c.Flags(), sp, "print")
	c.Flags().BoolVar(&l.raw, "raw", false, "print the lines alone, as they came")
	c.Flags().BoolVar(&l.json, "json", false, "print a JSON object per line, with place and reason")
	return c
}

// A rejectList tells how rejected lines are printed.
type rejectList struct {
	raw, json bool
	cut       int64 // printed lines that may be longer than what is kept
}

func (e *env) listRejects(ctx context.Context, w *written, f *rejectFilter, l *rejectList) error {
	err := f.each(ctx, w.db, func(k sink.Kept) error { return e.printReject(&k, l) })
	if l.cut > 0 {
		e.log.Warn(fmt.Sprintf("%s of 64 KiB or more: only the first 64 KiB of each are kept", quantity.Count(l.cut, "line")))
	}
	if err != nil || l.raw || l.json {
		return err
	}
	if len(w.st.Rejects) == 0 {
		_, err := fmt.Fprintln(e.stdout, "no rejected lines")
		return err
	}
	return printRejectCounts(tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0), w.st.Rejects)
}

func (e *env) printReject(k *sink.Kept, l *rejectList) error {
	if len(k.Text) >= fold.MaxRejectText {
		l.cut++
	}
	switch {
	case l.raw: // a record of Kafka may have several lines
		_, err := fmt.Fprintf(e.stdout, "%s\n", bytes.ReplaceAll(k.Text, []byte{'\n'}, []byte{' '}))
		return err
	case l.json:
		return e.printJSON(map[string]any{"job": k.Job, "source": k.Source, "line": k.Line, "offset": k.Offset,
			"element": k.Element, "reason": k.Reason, "raw": string(k.Text), "time": k.Time})
	}
	_, err := fmt.Fprintf(e.stdout, "%s %s, %s: %s\n  %s\n", printable(k.Source), rejectPlace(k), k.Time.Local().Format(time.DateTime),
		printable(k.Reason), printable(clipped(string(k.Text), shownLine)))
	return err
}

// rejectPlace says where in its source a rejected line is.
func rejectPlace(k *sink.Kept) string {
	if settings.Sources.Type(k.Source) == source.Partition {
		return fmt.Sprintf("offset %d%s", k.Offset, fold.ElementText(k.Element))
	}
	return fmt.Sprintf("line %d (byte %d)%s", k.Line, k.Offset, fold.ElementText(k.Element))
}

// shownLine is how much of a rejected line is printed.
const shownLine = 500 // characters

func (e *env) rejectsDropCommand() *cobra.Command {
	sp := e.newSpec()
	var f rejectFilter
	var all bool
	c := &cobra.Command{
		Use:   "drop --to DEST",
		Short: "Remove rejected lines",
		Long: `Remove rejected lines from weir_rejects, and print how many. The checkpoints do
not change: the lines are not read again.`,
		Example: `  weir rejects drop --to flights.db --job flights --reason not_json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if !sp.Setting("job").IsFlag() && f.reason == "" && !all {
				return usagef("choose the lines with --job or --reason, or remove all with --all")
			}
			w, err := e.openRejects(c, sp, &f)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, w.db.Close()) }()
			return e.dropRejects(c.Context(), &w, &f)
		},
	}
	f.flags(c.Flags(), sp, "remove")
	c.Flags().BoolVar(&all, "all", false, "remove the rejected lines of all jobs")
	return c
}

func (e *env) dropRejects(ctx context.Context, w *written, f *rejectFilter) (err error) {
	db, err := w.to.Open(ctx, w.to.Dest, sink.Options{Level: sink.Full, Log: e.log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	dropper, err := sink.As[sink.RejectDropper](db, "drop rejected lines")
	if err != nil {
		return err
	}
	var dropped int64
	retry := sink.Retry{Patience: settings.DefaultRetryFor, OnRetry: func(*sink.Error) {}}
	err = retry.Do(ctx, func() (err error) {
		dropped, err = dropper.DropRejects(ctx, f.job, f.reason)
		return err
	})
	if err == nil {
		e.log.Info(fmt.Sprintf("dropped %s", quantity.Count(dropped, "rejected line")))
	}
	return err
}
