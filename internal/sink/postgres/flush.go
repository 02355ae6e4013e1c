package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A lastFlush is the last one that came: it may come again, because the answer to its COMMIT was lost.
type lastFlush struct {
	id        string
	committed bool        // it is known to be
	result    sink.Result // what it does, as far as an answer told
}

// A flushRun is one call of Flush: it tries to write a flush until one try commits, or nothing helps any more.
type flushRun struct {
	d         *DB
	f         *sink.Flush
	rows      [][]*fold.Row // of the batches, sorted
	tries     [nCauses]int  // that failed, by cause
	piecewise bool          // the database rejects rows: the others are found in pieces
}

// Flush implements [sink.Sink].
func (d *DB) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if err := d.connect(ctx); err != nil {
		return sink.Result{}, err
	}
	switch id := flushID(f); {
	case d.last.id != id:
		d.last = lastFlush{id: id, result: sink.Result{Tables: make([]sink.Counts, len(f.Batches))}}
	case d.last.committed:
		return d.last.result, nil
	}
	run := &flushRun{d: d, f: f, rows: make([][]*fold.Row, len(f.Batches))}
	for i, b := range f.Batches {
		if b.Used() {
			run.rows[i] = b.Sorted()
		}
	}
	res, err := run.write(ctx)
	if err == nil {
		d.last.committed, d.last.result, d.wrote = true, res, true
	}
	return res, d.explain(err)
}

// flushID is the same for a flush that is sent again, and for no other.
func flushID(f *sink.Flush) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%s", f.Job, f.Run)
	for i := range f.Lanes {
		fmt.Fprintf(&b, "\x00%s\x00%d", f.LaneName(&f.Lanes[i]), f.Lanes[i].Checkpoint.Seq)
	}
	return b.String()
}

// write tries the flush again until it is written or nothing helps: what follows a failed try stands in [causes]. Only pieces
// are retried on their own, by the same table: see [chunks.Write].
func (r *flushRun) write(ctx context.Context) (sink.Result, error) {
	for {
		a := newAttempt(r)
		err := a.write(ctx)
		for _, p := range a.parts {
			p.t.next = nil // it is the attempt's
		}
		if err == nil {
			a.dropOrphans(ctx)
			return a.result(), nil
		}
		why := a.cause(err)
		if err := a.undo(ctx, err); err != nil {
			return a.result(), err
		}
		a.met(why, err)
		switch causes[why].remedy {
		case giveUp:
			return a.result(), err
		case readFence:
			return r.d.judge(ctx, r.f)
		case readTables:
			grown, err := r.d.reread(ctx, r.f)
			if err != nil {
				return sink.Result{}, err
			}
			if grown { // by what others have made, which the flush was about to make: each table and column may be
				r.tries[why] = 0
			}
		case writePieces:
			r.piecewise = true
		}
	}
}

// undo rolls an attempt back that failed with err.
func (a *attempt) undo(ctx context.Context, err error) error {
	a.restore(a.before)
	for _, p := range a.parts {
		p.t.stage.used = p.t.stage.made // its rows are rolled back, and still there
	}
	if a.d.conn == nil {
		return nil
	}
	if err := a.d.rollback(ctx); err != nil {
		return err
	}
	return a.d.unwidened(err)
}

// rollback ends a transaction that failed.
func (c *client) rollback(ctx context.Context) error {
	if !c.open {
		return nil
	}
	_, err := c.query(ctx, "ROLLBACK")
	return err
}

// known is what is known of a table.
func (d *DB) known(name string) *table {
	t := d.tables[name]
	if t == nil {
		t = &table{n: len(d.tables)}
		d.tables[name] = t
	}
	return t
}

// reread reads the tables of a flush, and whether weir's own exist. grown tells that one has more columns.
func (d *DB) reread(ctx context.Context, f *sink.Flush) (grown bool, err error) {
	if err := d.askReady(ctx); err != nil {
		return false, err
	}
	var was []schema.Table
	var wanted []sink.TableKey
	for _, b := range f.Batches {
		t := d.known(b.Table.Name)
		if t.stage = (stage{}); t.Name != "" { // whoever changed the table may have changed that one: DROP TYPE … CASCADE does
			was, wanted = append(was, t.Table), append(wanted, sink.TableKey{Name: t.Name, Key: t.key})
		}
	}
	now, err := d.Tables(ctx, wanted...)
	if err != nil {
		return false, err
	}
	for i := range now {
		if err := sink.CheckSame(&was[i], &now[i]); err != nil {
			return false, err
		}
		grown = grown || len(now[i].Columns) > len(was[i].Columns)
	}
	return grown, nil
}

// judge finds out why the fence did not let a flush pass.
func (d *DB) judge(ctx context.Context, f *sink.Flush) (res sink.Result, err error) {
	if !d.ready { // another run may have made weir's tables; or the database was restored to before them
		if err := d.askReady(ctx); err != nil {
			return res, err
		}
	}
	done, err := d.Judge(ctx, f)
	switch {
	case done:
		d.opt.Log.Debug(fmt.Sprintf("a flush of %s had been committed, though its answer was lost", f.Lanes[0].Source))
		_, err = d.reread(ctx, f) // it may have changed the tables
		return d.last.result, err
	case errors.As(err, new(sink.BehindError)):
		for _, t := range d.tables {
			t.Writers = nil // what weir_jobs had may be gone too
		}
	case err == nil:
		err = errFenced
	}
	return res, err
}
