package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
)

func (e *env) statusCommand() *cobra.Command {
	sp := e.newSpec()
	var asJSON bool
	var sample int
	c := &cobra.Command{
		Use:   "status --to DEST",
		Short: "Show checkpoints and rejected lines",
		Long: `Show how far each job has read each source, and how many lines were rejected and
why. It only reads, and may run beside a sync.

weir rejects prints the rejected lines.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := e.load(c, sp); err != nil {
				return err
			}
			job, named := sp.Source.Job, sp.Setting("job").IsFlag() // and not by a file, whose first run may be to come
			dest, err := sp.Destination()
			if err != nil {
				return err
			}
			db, err := dest.Reader(c.Context(), dest.Dest, sink.Options{Log: e.log})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			st, err := db.Status(c.Context())
			if err != nil {
				return err
			}
			if job != "" {
				of := ofJob(st, job)
				if named && len(of.Jobs) == 0 && len(of.Rejects) == 0 {
					return unknownJob(st, job)
				}
				st = of
			}
			if asJSON {
				st.Jobs, st.Rejects = append([]sink.JobStatus{}, st.Jobs...), append([]sink.RejectCount{}, st.Rejects...) // [], not null
				return json.NewEncoder(e.stdout).Encode(st)
			}
			if err := e.printStatus(st, job); err != nil || sample == 0 {
				return err
			}
			return e.sample(c.Context(), db, st, sample)
		},
	}
	sp.AddFlags(c.Flags(), "to", "config", "job")
	c.Flags().Lookup("job").Usage = "show only this `JOB`"
	addWhole(c.Flags(), &sample, "sample", "also print this many `ROWS` of each table")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// ofJob is what a status says of one job.
func ofJob(st sink.Status, job string) sink.Status {
	st.Jobs = slices.DeleteFunc(slices.Clone(st.Jobs), func(j sink.JobStatus) bool { return j.Job != job })
	st.Rejects = slices.DeleteFunc(slices.Clone(st.Rejects), func(r sink.RejectCount) bool { return r.Job != job })
	return st
}

func (e *env) printStatus(st sink.Status, job string) error {
	if len(st.Jobs) == 0 && len(st.Rejects) == 0 {
		who := "weir"
		if job != "" {
			who = fmt.Sprintf("job %q", job)
		}
		_, err := fmt.Fprintf(e.stdout, "%s has not written to this database.\n", who)
		return err
	}
	t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tSOURCE\tLINE\tOFFSET\tBATCHES\tUPDATED\tJOB")
	for _, j := range st.Jobs {
		updated, tables := "", printable(strings.Join(j.Tables, ", "))
		if !j.Updated.IsZero() {
			updated = j.Updated.Local().Format(time.DateTime)
		}
		if j.Source == "" { // no run resumes what the job has read
			fmt.Fprintf(t, "%s\tstdin\t\t\t\t%s\t%s\n", tables, updated, printable(j.Job))
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", tables, printable(j.Source), quantity.Grouped(j.Line), quantity.Grouped(j.Offset), quantity.Grouped(j.Flushes), updated, printable(j.Job))
	}
	if len(st.Rejects) > 0 {
		fmt.Fprintln(t, "\nREJECTED\tREASON\tJOB")
	}
	for _, r := range st.Rejects {
		fmt.Fprintf(t, "%s\t%s\t%s\n", quantity.Grouped(r.Count), printable(r.Reason), printable(r.Job))
	}
	return t.Flush()
}

// sample prints some rows of each table that a job writes to.
func (e *env) sample(ctx context.Context, db sink.Inspector, st sink.Status, n int) error {
	seen := map[string]bool{}
	for _, j := range st.Jobs {
		for _, table := range j.Tables {
			if seen[table] {
				continue
			}
			seen[table] = true
			if t, err := sink.Table(ctx, db.Tables, table, nil); err == nil && !t.Exists {
				continue // with rejects alone
			}
			rows, total, err := db.Sample(ctx, table, n)
			if err != nil {
				return err
			}
			fmt.Fprintf(e.stdout, "\n%s: %s, such as\n", printable(table), quantity.Count(total, "row"))
			for _, r := range rows {
				fmt.Fprintln(e.stdout, printable(r))
			}
		}
	}
	return nil
}
