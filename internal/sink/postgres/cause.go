package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A cause is the reason why a try to write a flush failed, if there is a remedy.
type cause int

const (
	errOther  cause = iota // the error says it
	errFenced              // a lane is not where this flush begins, or its tables must not be emptied, unless it did so before
	// errMoved: the table or its rows are not as they were read, or as they were assumed to be. The tables are reread,
	// and the next try assumes no row to be new. From the third try on, it waits for all who write to the tables.
	errMoved
	errRows // the database rejects rows: they are written in pieces
)

// maxMoved is how often errMoved may occur in a flush while others add no columns.
const maxMoved = 3

func (c cause) Error() string {
	if c == errFenced {
		return "a lane is not where this flush begins"
	}
	return "other sessions keep changing the table or its rows"
}

// cause returns why the attempt's script failed, judging by the statement's number and the SQLSTATE, never by the
// message, which may contain a value.
func (a *attempt) cause(err error) cause {
	e := pgError(err)
	var found cause
	switch {
	case a.d.conn == nil:
		return errOther
	case errors.As(err, &found) && found == errFenced, errors.As(err, new(rebuildError)):
		return errFenced
	case a.moved < maxMoved && (found == errMoved || isStale(e) || e != nil && e.Code == deadlockDetected && !isRaised(e) || a.isTaken(e)):
		return errMoved
	case !a.piecewise && len(slices.Concat(a.rows...)) > 0 && (isRefusal(e) || isTimeout(err)):
		return errRows // fewer may fit into the server's time limit
	}
	return errOther
}

// noteMoved records that rows were not as they were read, or assumed to be.
func (a *attempt) noteMoved() {
	a.moved++
	for _, p := range a.parts {
		if p.isCopied() {
			p.t.news.failed()
		}
	}
}

// isTaken reports whether a row that was copied into its table is not new, or a MERGE was about to insert a key that
// another session has inserted meanwhile.
func (a *attempt) isTaken(e *pgconn.PgError) bool {
	st := a.script.failed()
	switch {
	case e == nil || e.Code != uniqueViolation || st.part == nil:
		return false
	case st.part.isCopied():
		return st.part.t.Exists || a.piecewise // into a table that the flush creates, all rows are new at first
	}
	keys := st.part.after.keyIndexes
	return st.tally == counted && e.Where == "" && (keys == nil || slices.Contains(keys, e.SchemaName+"."+e.ConstraintName))
}

// reread rereads the tables of a flush, and whether weir's own exist. grown reports whether one has more columns.
func (d *DB) reread(ctx context.Context, f *sink.Flush) (grown bool, err error) {
	if err := d.askReady(ctx); err != nil {
		return false, err
	}
	var was []schema.Table
	var wanted []sink.TableKey
	for _, b := range f.Batches {
		t := d.tableOf(b.Table.Name)
		if t.stage = (stage{}); t.Name != "" { // whoever changed the table may have changed the stage, too, as DROP TYPE … CASCADE does
			was, wanted = append(was, t.Table), append(wanted, sink.TableKey{Name: t.Name, Key: t.key})
		}
	}
	now, err := d.Tables(ctx, wanted...)
	if err != nil {
		return false, err
	}
	for i := range now {
		if err := cmp.Or(sink.CheckSame(&was[i], &now[i]), admitsMore(&was[i], &now[i], was[i].Exists && len(f.Rejects) > 0)); err != nil {
			return false, err
		}
		grown = grown || len(now[i].Columns) > len(was[i].Columns)
	}
	return grown, nil
}

// admitsMore returns an error if a table now accepts values that were rejected or ignored when messages were folded.
func admitsMore(was, now *schema.Table, rejected bool) error {
	for i := range now.Columns {
		c := &now.Columns[i]
		old := schema.Column{Widening: schema.Widening{Own: c.Own}}
		if at := caps.Find(was, c.Name, i); at >= 0 {
			old = was.Columns[at]
		}
		if !old.Own && (rejected && old.Decl != c.Decl || old.Generated && !c.Generated || old.Labels != nil && !slices.Equal(old.Labels, c.Labels)) {
			return sink.ChangedError{Err: fmt.Errorf("column %q of table %q was added or altered while weir wrote to it", c.Name, now.Name)}
		}
	}
	return nil
}

// judge finds out why the fence did not let a flush pass. If it would now, it returns failed.
func (d *DB) judge(ctx context.Context, f *sink.Flush, failed error) (res sink.Result, err error) {
	if !d.ready { // another run may have created weir's tables; or the database was restored to before them
		if err := d.askReady(ctx); err != nil {
			return res, err
		}
	}
	done, err := d.CheckFence(ctx, f)
	switch {
	case done:
		d.opt.Log.Debug(fmt.Sprintf("a flush of %s had been committed, though its answer was lost", f.Lanes[0].Source))
		_, err = d.reread(ctx, f) // another run may have changed the tables
		return d.lastResult, err
	case errors.As(err, new(sink.BehindError)):
		for _, t := range d.tables {
			t.Writers = nil // the rows of weir_jobs may be gone, too
		}
	case err == nil: // the lanes are now at the flush's start: failed is transient if it was the fence
		err = failed
	}
	return res, err
}
