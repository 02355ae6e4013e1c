package cli

import (
	"errors"
	"fmt"
	"path/filepath"
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
	c := &cobra.Command{
		Use:   "status --to DEST",
		Short: "Show checkpoints and rejected lines",
		Long: `Show how far each job has read each source, and how many lines were rejected and
why. It only reads, and may run during a sync. Ten or more files of one folder
are one line with their sums; -v and --json list each.

weir rejects prints the rejected lines.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := e.load(c, sp); err != nil {
				return err
			}
			job := sp.Source.Job
			w, err := e.openWritten(c.Context(), sp, job, sp.Setting("job").IsFlag()) // a job from a config file may not have run yet
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, w.db.Close()) }()
			if st := w.st; asJSON {
				st.Jobs, st.Rejects = append([]sink.JobStatus{}, st.Jobs...), append([]sink.RejectCount{}, st.Rejects...) // [], not null
				return e.printJSON(st)
			}
			return e.printStatus(w.st, job)
		},
	}
	sp.AddFlags(c.Flags(), "to", "config", "job")
	c.Flags().Lookup("job").Usage = "show only this `JOB`"
	addJSON(c.Flags(), &asJSON)
	return c
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
	fmt.Fprintln(t, "TABLE\tSOURCE\tLINE\tOFFSET\tUPDATED\tJOB")
	jobs := st.Jobs
	if !e.verbose {
		jobs = groupFiles(jobs)
	}
	for _, j := range jobs {
		updated, tables := "", printable(strings.Join(j.Tables, ", "))
		if !j.Updated.IsZero() {
			updated = j.Updated.Local().Format(time.DateTime)
		}
		if j.Source == "" { // no run resumes the job
			fmt.Fprintf(t, "%s\tstdin\t\t\t%s\t%s\n", tables, updated, printable(j.Job))
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", tables, printable(j.Source), quantity.Grouped(j.Line), quantity.Grouped(j.Offset), updated, printable(j.Job))
	}
	return printRejectCounts(t, st.Rejects)
}

// printRejectCounts prints the number of rejected lines by reason and job, and flushes t.
func printRejectCounts(t *tabwriter.Writer, all []sink.RejectCount) error {
	if len(all) > 0 {
		fmt.Fprintln(t, "\nREJECTED\tREASON\tJOB")
	}
	for _, r := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\n", quantity.Grouped(r.Count), printable(r.Reason), printable(r.Job))
	}
	return t.Flush()
}

// manyFiles is from how many files of a folder on they share one row.
const manyFiles = 10

// groupFiles merges the rows of many files in the same folder into one row with their sums and the time and name of the
// last file.
func groupFiles(jobs []sink.JobStatus) (rows []sink.JobStatus) {
	for len(jobs) > 0 {
		first, folder := jobs[0], filepath.Dir(jobs[0].Source)
		n := slices.IndexFunc(jobs, func(j sink.JobStatus) bool {
			return j.Job != first.Job || !filepath.IsAbs(j.Source) || filepath.Dir(j.Source) != folder
		})
		if n < 0 {
			n = len(jobs)
		}
		if n < manyFiles {
			n = max(n, 1)
			rows = append(rows, jobs[:n]...)
		} else {
			sum := sink.JobStatus{Job: first.Job, Tables: first.Tables}
			for _, j := range jobs[:n] {
				if !j.Updated.Before(sum.Updated) {
					sum.Updated = j.Updated
					sum.Source = fmt.Sprintf("%s (%s, last %s)", filepath.Join(folder, "*"), quantity.Count(int64(n), "file"), filepath.Base(j.Source))
				}
				sum.Line, sum.Offset = sum.Line+j.Line, sum.Offset+j.Offset
			}
			rows = append(rows, sum)
		}
		jobs = jobs[n:]
	}
	return rows
}
