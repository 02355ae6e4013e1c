package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/status"
)

// A dryRun collects what a run would write.
type dryRun struct {
	*env
	to      settings.Destination
	plan    *settings.Plan
	unused  *mapping.UnusedFinder
	found   map[string]schema.Table
	tables  []dryTable
	untaken map[string]int64 // values that no table stores, by field
	rejects []fold.Reject
}

// A dryTable collects what a run would do to a table.
type dryTable struct {
	found  schema.Table // as it is in the database
	table  schema.Table // as needed for the rows so far
	rows   int
	filled map[string]bool // columns that have a value
	sample []string        // rows that are printed

	truncated bool // a message truncates it
}

// Limits of what is printed.
const (
	someRejects = 10
	someRows    = 3
)

func (d *dryRun) add(name string) {
	d.tables = append(d.tables, dryTable{found: d.found[name], table: d.found[name], filled: map[string]bool{}})
}

// look collects what a flush would write.
func (d *dryRun) look(f *sink.Flush) error {
	batches, err := explode(f.Batches)
	if err != nil {
		return err
	}
	for i, b := range batches {
		if i == len(d.tables) { // a message has added it
			d.add(b.Table.Name)
		}
		if b.Rows() > 0 {
			d.tables[i].take(b)
		}
		d.tables[i].truncated = d.tables[i].truncated || b.Truncated != nil
	}
	for _, m := range fold.Messages(f.Batches) {
		for _, field := range d.unused.Fields(m.Text()) { // none of a line longer than the text
			d.untaken[field]++
		}
	}
	d.rejects = append(d.rejects, f.Rejects[:min(len(f.Rejects), someRejects-len(d.rejects))]...)
	return nil
}

// take collects the rows of a batch.
func (t *dryTable) take(b *fold.Batch) {
	t.table, t.rows = b.Table, t.rows+b.Rows()
	for _, r := range b.Sorted() {
		var columns []string
		for i := range b.Table.Columns {
			c := &b.Table.Columns[i]
			if v := b.Value(r, i); v != nil && v[0] != 'n' && c.Stored() {
				t.filled[c.Name] = true
				columns = append(columns, fmt.Sprintf("%q: %s", c.Name, v))
			}
		}
		if len(t.sample) < someRows && !r.Deleted {
			t.sample = append(t.sample, "{"+strings.Join(columns, ", ")+"}")
		}
	}
}

// plan returns the statements that create or alter the table for all rows. Each batch assumes the changes for the
// batches before it.
func (t *dryTable) plan(to *settings.Destination) []string {
	if t.rows == 0 && !t.found.Exists {
		return []string{"-- no table would be made"}
	}
	t.table.Exists = t.found.Exists
	for i := range t.table.Columns {
		t.table.Columns[i].New = i >= len(t.found.Columns)
	}
	if plan := to.Plan(&t.table); len(plan) > 0 {
		return plan
	}
	return []string{"-- the table stays as it is"}
}

// empty returns the columns that no message has filled.
func (t *dryTable) empty() (names []string) {
	for i := range t.table.Columns {
		if c := &t.table.Columns[i]; !t.filled[c.Name] && c.Stamp == schema.NoStamp && c.Stored() && !c.Generated && !t.table.Refers(i) {
			names = append(names, c.Name)
		}
	}
	return names
}

func (e *env) dryRun(ctx context.Context, plan *settings.Plan, p *status.Progress, out *printer) (err error) {
	to := plan.To
	d := &dryRun{env: e, to: to, found: map[string]schema.Table{}, untaken: map[string]int64{}}
	caps := to.Caps
	have := sink.ReadTables(sink.NoTables)
	db, err := to.Reader(ctx, to.Dest, sink.Options{Log: e.log})
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, db.Close()) }()
		caps, have = db.Caps(), db.Tables
	case errors.Is(err, fs.ErrNotExist):
	default:
		return err
	}
	if plan, err = plan.AtDatabase(ctx, have); err != nil {
		return err
	}
	c, m, tables := plan.Job, plan.Mapping, plan.Job.Plan.Tables
	c.Log = e.log
	d.plan = plan
	if d.unused, err = mapping.NewUnusedFinder(m, caps.Limits); err != nil {
		return err
	}
	read := func(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
		tables, err := have(ctx, wanted...)
		for i := range tables {
			t := &tables[i]
			d.found[t.Name] = *t
			t.HasConstraints = true // batches keep their messages
		}
		return tables, err
	}
	err = pipeline.Fold(ctx, c, caps, p, d.look, read)
	out.close()
	if err != nil {
		return err
	}
	for _, t := range tables[min(len(d.tables), len(tables)):] { // there were no messages
		d.add(t.Name)
	}
	did := p.Snapshot()
	d.print(&did)
	if did.Rejected > 0 {
		return codeError(exitRejected)
	}
	return nil
}

func (d *dryRun) print(did *status.Snapshot) {
	say := func(format string, args ...any) { fmt.Fprintln(d.stdout, printable(fmt.Sprintf(format, args...))) }
	atMost := ""
	if n := did.Batches; n > 1 {
		atMost = fmt.Sprintf(" at most (%s)", quantity.Count(n, "batch"))
	}
	say("-- %s: %s; %s rejected", quantity.Count(did.Lines, "line"), quantity.Count(did.Messages, "message"), quantity.Count(did.Rejected, "line"))
	for _, r := range d.rejects {
		say("-- line %d%s: %s", r.Line, fold.ElementText(r.Element), r.Detail)
	}
	notesTo(func(text string, _ bool) { say("-- %s", text) }, did, d.plan)
	if len(d.untaken) > 0 {
		say("-- fields that no table takes: %s", someOf(d.untaken))
	}
	for i := range d.tables {
		t := &d.tables[i]
		truncated := ""
		if t.truncated {
			truncated = "; a truncation removes those that it had"
		}
		say("-- table %q: %s%s%s", t.table.Name, quantity.Count(int64(t.rows), "row"), atMost, truncated)
		for _, sql := range t.plan(&d.to) {
			say("%s", sql)
		}
		if empty := t.empty(); len(empty) > 0 && t.rows > 0 {
			say("-- no message fills: %s", strings.Join(empty, ", "))
		}
		for _, row := range t.sample {
			say("-- %s", row)
		}
	}
}
