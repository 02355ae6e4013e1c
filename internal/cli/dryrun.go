package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A dryRun keeps what is printed of a run that writes nothing.
type dryRun struct {
	to      destination
	found   schema.Table // the table as it is
	table   schema.Table // as the rows so far need it
	rows    int
	rejects []fold.Reject
}

// someRejects are shown.
const someRejects = 10

// look takes what a flush would write.
func (d *dryRun) look(f *sink.Flush) error {
	if b := f.Batches[0]; b.Rows() > 0 {
		d.table, d.rows = b.Table, d.rows+b.Rows()
	}
	d.rejects = append(d.rejects, f.Rejects[:min(len(f.Rejects), someRejects-len(d.rejects))]...)
	return nil
}

// plan returns the statements that make the table what all rows need. A batch takes
// what those before it needed for done.
func (d *dryRun) plan() []string {
	d.table.Exists = d.found.Exists
	for i := range d.table.Columns {
		d.table.Columns[i].New = i >= len(d.found.Columns)
	}
	return d.to.Plan(&d.table)
}

// dryRun reads and folds all of the sources and prints what would be written.
func (e *env) dryRun(ctx context.Context, to destination, c job.Config, p *progress.Progress, out *printer) (err error) {
	d := &dryRun{to: to, found: schema.Table{Name: c.Tables[0].Name}}
	caps := to.Caps
	db, err := to.Inspect(ctx, to.dest, sink.Options{Log: e.log})
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, db.Close()) }()
		caps = db.Caps()
		if d.found, err = db.Table(ctx, c.Tables[0].Name, c.Tables[0].Fold.Key); err != nil && !(c.Rebuild && errors.As(err, new(sink.KeyError))) {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	d.table = d.found
	runErr := job.Fold(ctx, c, []schema.Table{d.found}, caps, p, d.look)
	out.close()
	if err := runErr; err != nil {
		return err
	}
	did := p.Snapshot()
	fmt.Fprintf(e.stdout, "-- %s: %s, %s of table %q", counted(did.Lines, "line"), counted(did.Total().Messages, "message"), counted(int64(d.rows), "row"), d.table.Name)
	if n := did.Batches; n > 1 {
		fmt.Fprintf(e.stdout, " at most (%s)", counted(n, "batch"))
	}
	fmt.Fprintf(e.stdout, "; %s rejected\n", counted(did.Rejected, "line"))
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
	if did.Rejected > 0 {
		return codeError(exitRejected)
	}
	return nil
}
