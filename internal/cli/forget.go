package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
			dest, err := sp.Destination()
			if err != nil {
				return err
			}
			return e.forget(c.Context(), dest, args[0])
		},
	}
	sp.AddFlags(c.Flags(), "to", "config")
	return c
}

func (e *env) forget(ctx context.Context, dest settings.Destination, job string) (err error) {
	if job == "" {
		return usagef("the name of the job is empty: weir status lists them")
	}
	o := sink.Options{Level: sink.Full, Log: e.log}
	st, err := statusOf(ctx, dest, o) // Open would create a missing database
	if err != nil {
		return err
	}
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
		return unknownJob(st, job)
	}
	versions := ""
	if f.Versions {
		versions = ", with the versions of its table"
	}
	e.log.Info(fmt.Sprintf("forgot job %q: %s and %s%s", job, quantity.Count(f.Sources, "checkpoint"), quantity.Count(f.Rejects, "rejected line"), versions))
	return nil
}

// statusOf returns the jobs in a database without creating it.
func statusOf(ctx context.Context, d settings.Destination, o sink.Options) (st sink.Status, err error) {
	db, err := d.Reader(ctx, d.Dest, o)
	if err != nil {
		return st, err
	}
	st, err = db.Status(ctx)
	return st, errors.Join(err, db.Close())
}

// unknownJob returns the error for a job that is not in a database.
func unknownJob(st sink.Status, job string) error {
	var names, plain []string
	for _, j := range st.Jobs {
		if !slices.Contains(plain, j.Job) {
			names, plain = append(names, fmt.Sprintf("%q", j.Job)), append(plain, j.Job)
		}
	}
	if meant := settings.DidYouMean(job, plain); meant != "" {
		return fmt.Errorf("the database has no job %q%s", job, meant)
	}
	if len(names) > 10 {
		names = append(names[:10], fmt.Sprintf("%d more", len(names)-10))
	}
	if len(names) == 0 {
		return errors.New("the database has no jobs")
	}
	return fmt.Errorf("the database has no job %q; it has %s", job, strings.Join(names, ", "))
}
