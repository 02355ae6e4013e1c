package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// A dryRunSink writes nothing: it keeps what a dry run prints.
type dryRunSink struct {
	database // nil where there is none yet
	to       destination
	found    schema.Table // the table as it is
	table    schema.Table // as the rows so far need it
	rows     int
	rejects  []fold.Reject
}

// someRejects are shown.
const someRejects = 10

func (d *dryRunSink) Caps() sink.Caps {
	if d.database == nil {
		return (*sqlite.DB)(nil).Caps()
	}
	return d.database.Caps()
}

func (d *dryRunSink) Claim(context.Context, string, string) (sink.Checkpoint, error) {
	return sink.Checkpoint{}, nil
}

func (d *dryRunSink) Table(ctx context.Context, name string, key []string) (t schema.Table, err error) {
	if d.database != nil {
		t, err = d.database.Table(ctx, name, key)
	} else {
		t = d.to.newTable(name)
	}
	d.found, d.table = t, t
	return t, err
}

func (d *dryRunSink) Flush(_ context.Context, f *sink.Flush) (sink.Result, error) {
	if n := f.Batch.Rows(); n > 0 {
		d.table, d.rows = f.Batch.Table, d.rows+n
	}
	for _, r := range f.Batch.Rejects {
		if len(d.rejects) < someRejects {
			d.rejects = append(d.rejects, r)
		}
	}
	return sink.Result{}, nil
}

// plan returns the statements that make the table what all rows need. A batch takes
// what those before it needed for done.
func (d *dryRunSink) plan() []string {
	d.table.Exists = d.found.Exists
	for i := range d.table.Columns {
		d.table.Columns[i].New = i >= len(d.found.Columns)
	}
	return d.to.plan(&d.table)
}

// dryRun reads and folds all of the sources and prints what would be written.
func (e *env) dryRun(ctx context.Context, to destination, c job.Config, p *job.Progress, out *printer) (err error) {
	d := &dryRunSink{to: to}
	if d.database, err = to.openToRead(ctx, out.warn, out.debug); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if d.database != nil {
		defer d.Close()
	}
	runErr := job.Run(ctx, c, d, p)
	out.close()
	if err := cmp.Or(runErr, ctx.Err()); err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "-- %s: %s, %s of table %q", counted(p.Lines.Load(), "line"), counted(p.Messages.Load(), "message"), counted(int64(d.rows), "row"), d.table.Name)
	if n := p.Batches.Load(); n > 1 {
		fmt.Fprintf(e.stdout, " at most (%s)", counted(n, "batch"))
	}
	fmt.Fprintf(e.stdout, "; %s rejected\n", counted(p.RejectedTotal(), "line"))
	for _, r := range d.rejects {
		fmt.Fprintf(e.stdout, "-- line %d: %s\n", r.Line, printable(r.Detail))
	}
	plan := []string{"-- no table would be made"}
	if d.rows > 0 || d.found.Exists {
		plan = d.plan()
	}
	for _, sql := range plan {
		fmt.Fprintln(e.stdout, printable(sql))
	}
	if len(plan) == 0 {
		fmt.Fprintln(e.stdout, "-- the table stays as it is")
	}
	if p.RejectedTotal() > 0 {
		return codeError(exitRejected)
	}
	return nil
}
