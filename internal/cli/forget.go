package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
)

func (e *env) forgetCommand() *cobra.Command {
	sp := e.newSpec()
	c := &cobra.Command{
		Use:   "forget JOB --to DEST",
		Short: "Remove a job's checkpoints and rejected lines",
		Long: `Remove the rejected lines and checkpoints of a job from a database. The next run
of the job then reads its sources from the start. The rows of the table do not
change. The versions of its values are also removed, unless another job has
written to the table.

weir status lists the jobs.

Exit codes: 0 done, 1 failed, or no such job, 2 wrong usage,
4 a run of the job is active.`,
		Example: `  weir forget flights --to flights.db`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := e.load(c, sp); err != nil {
				return err
			}
			return e.forget(c.Context(), sp, args[0])
		},
	}
	sp.AddFlags(c.Flags(), "to", "config")
	return c
}

func (e *env) forget(ctx context.Context, sp *settings.Spec, job string) (err error) {
	if job == "" {
		return usagef("the name of the job is empty: weir status lists them")
	}
	w, err := e.openWritten(ctx, sp, "", false) // Open would create a missing database
	if err == nil {
		err = w.db.Close()
	}
	if err != nil {
		return err
	}
	o, dest := sink.Options{Level: sink.Full, Log: e.log}, w.to
	db, err := dest.Open(ctx, dest.Dest, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	forgetter, err := sink.As[sink.Forgetter](db, "forget a job")
	if err != nil {
		return err
	}
	claims, err := dest.OpenClaims(ctx, dest.Dest, job, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claims.Close()) }()
	if err := claims.TakeJob(ctx); err != nil {
		return err
	}
	f, err := forgetter.Forget(ctx, job)
	if err != nil {
		return err
	}
	if !f.Found {
		return unknownJob(w.st, job)
	}
	versions := ""
	if f.Versions {
		versions = ", with the versions of its table"
	}
	e.log.Info(fmt.Sprintf("forgot job %q: %s and %s%s", job, quantity.Count(f.Sources, "checkpoint"), quantity.Count(f.Rejects, "rejected line"), versions))
	return nil
}

// A written is a database that is open for reading, with what weir has written to it.
type written struct {
	to settings.Destination
	db sink.Inspector
	st sink.Status // of one job, if that is asked for
}

// openWritten opens the database of a command, for one job; "": all. If the user has named the job, an unknown one is
// an error.
func (e *env) openWritten(ctx context.Context, sp *settings.Spec, job string, named bool) (w written, err error) {
	if w.to, err = sp.Destination(); err != nil {
		return w, err
	}
	if w.db, err = w.to.Reader(ctx, w.to.Dest, sink.Options{Log: e.log}); err != nil {
		return w, err
	}
	all, err := w.db.Status(ctx)
	if w.st = all; job != "" {
		w.st.Jobs = slices.DeleteFunc(slices.Clone(all.Jobs), func(j sink.JobStatus) bool { return j.Job != job })
		w.st.Rejects = slices.DeleteFunc(slices.Clone(all.Rejects), func(r sink.RejectCount) bool { return r.Job != job })
		if err == nil && named && len(w.st.Jobs)+len(w.st.Rejects) == 0 {
			err = unknownJob(all, job)
		}
	}
	if err != nil {
		err = errors.Join(err, w.db.Close())
	}
	return w, err
}

func unknownJob(st sink.Status, job string) error {
	var names []string
	for _, j := range st.Jobs {
		names = append(names, j.Job)
	}
	return fmt.Errorf("the database has no job %q%s", job, cmp.Or(feed.DidYouMean(job, names), ": weir status lists them"))
}
