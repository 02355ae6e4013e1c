package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// A flushRun is one call of Flush: it tries to write a flush until one try commits, or no remedy is left.
type flushRun struct {
	d         *DB
	f         *sink.Flush
	sentAgain bool          // it was sent before, and may be committed
	rows      [][]*fold.Row // of the batches, sorted
	moved     int           // tries that failed by errMoved
	piecewise bool          // the database rejects rows: write the others in pieces
}

// Flush implements [sink.Sink].
func (d *DB) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if err := d.connect(ctx); err != nil {
		return sink.Result{}, err
	}
	run := &flushRun{d: d, f: f, rows: make([][]*fold.Row, len(f.Batches))}
	if id := flushID(f); d.lastID == id {
		run.sentAgain = true
	} else {
		d.lastID, d.lastResult = id, noResult(f)
	}
	for i, b := range f.Batches {
		if b.Used() {
			run.rows[i] = b.Sorted()
		}
	}
	res, err := run.write(ctx)
	return res, d.sinkError(err)
}

func noResult(f *sink.Flush) sink.Result {
	return sink.Result{Tables: make([]sink.Counts, len(f.Batches))}
}

// flushID identifies a flush. A flush that is resent has the same ID.
func flushID(f *sink.Flush) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%s", f.Job, f.Run)
	for i := range f.Lanes {
		fmt.Fprintf(&b, "\x00%s\x00%d", f.LaneName(&f.Lanes[i]), f.Lanes[i].Checkpoint.Seq)
	}
	return b.String()
}

// write retries the flush until it is written or no remedy is left.
func (r *flushRun) write(ctx context.Context) (sink.Result, error) {
	for {
		a := newAttempt(r)
		err := a.write(ctx)
		if err == nil {
			return a.result(), nil
		}
		why := a.cause(err)
		if err := a.undo(ctx); err != nil {
			return a.result(), err
		}
		switch why {
		case errOther:
			return a.result(), err
		case errFenced:
			return r.d.judge(ctx, r.f, err)
		case errMoved:
			a.noteMoved()
			grown, err := r.d.reread(ctx, r.f)
			if err != nil {
				return sink.Result{}, err
			}
			if grown { // others created what the flush was about to create: this may happen for each table and column
				r.moved = 0
			}
		case errRows:
			r.piecewise = true
		}
	}
}

// An attempt is one try to write a flush.
type attempt struct {
	*flushRun
	script  *script
	parts   []*part
	refused []fold.Reject
	// otherJobs is a hash of the other jobs and the tables that they have written; readRebuild sets it.
	otherJobs string
	idAt      int // the statement that reads the tables' IDs
}

func newAttempt(r *flushRun) *attempt {
	a := &attempt{flushRun: r, script: &script{}}
	for i, b := range r.f.Batches {
		t := r.d.tableOf(b.Table.Name)
		a.parts = append(a.parts, &part{a: a, b: b, t: t, stage: t.stage, rows: r.rows[i], isSet: b.Child != nil && b.Child.Set})
	}
	return a
}

// write sends a flush, as one string of statements, or, if the database rejects rows, in pieces of one transaction.
func (a *attempt) write(ctx context.Context) error {
	if a.f.Rebuild {
		if err := a.readRebuild(ctx); err != nil {
			return err
		}
	}
	if err := a.fit(); err != nil {
		return err
	}
	build := a.buildScript
	if a.piecewise {
		build = a.writePiecewise
	}
	if err := build(ctx); err != nil {
		return err
	}
	r, err := a.d.run(ctx, a.script)
	if a.piecewise || a.count(r) {
		a.d.lastResult = a.result() // judge returns it if the COMMIT took effect and its reply was lost
	}
	if err != nil {
		return err
	}
	return a.committed(r)
}

// buildScript builds the script of a flush. If rows have versions, it first sends the script so far, to read them. It
// does the same if the flush may already be committed: the fence then reports that before [sink.Flush.BeforeCommit] is
// called, which must not happen for a committed flush.
func (a *attempt) buildScript(ctx context.Context) error {
	a.begin()
	if a.sentAgain {
		if _, err := a.send(ctx); err != nil {
			return err
		}
		a.d.lastResult = noResult(a.f) // not the result of a flush that a restore has removed
	}
	for _, p := range a.parts {
		p.writes = p.rows
	}
	if err := a.mergeRows(ctx, a.moved == 0); err != nil {
		return err
	}
	return a.end(a.f.Rejects)
}
