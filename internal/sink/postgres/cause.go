package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A cause is the reason why a try to write a flush, or a piece of one, failed, if there is a remedy.
type cause int

const (
	errOther cause = iota // the error says it
	errFenced
	errRebuild
	errStaleTable
	errRaced
	errTaken
	errNotNew
	errRows
	nCauses
)

// A remedy is what to do after a failed try.
type remedy int

const (
	giveUp      remedy = iota
	readFence          // read why the fence did not let the flush pass
	readTables         // reread the tables, and retry
	retry              // retry; attempt.tries changes what the next try does
	writePieces        // retry in pieces
)

// causes has the meaning of each cause, its remedy, and how often it may occur in a flush; errStaleTable does not count
// while others add columns. Beyond that, another cause applies, or none.
var causes = [nCauses]struct {
	text   string
	remedy remedy
	limit  int
}{
	errFenced:     {"a lane is not where this flush begins", readFence, 1},
	errRebuild:    {"the tables must not be emptied", readFence, 1}, // unless the flush has done it
	errStaleTable: {"the table is not as it was read", readTables, 2},
	errRaced:      {"another session changed or deleted rows while they were written", retry, 2},
	// errTaken: another session inserted a row that a MERGE was about to insert, or there was a deadlock. The next try
	// waits for all who write to the table.
	errTaken:  {"another session wrote rows of the same keys meanwhile", retry, 2},
	errNotNew: {"not all rows are new", retry, 1},
	errRows:   {"the database rejects rows", writePieces, 1},
}

func (c cause) Error() string { return causes[c].text }

// cause returns why the attempt's script failed, judging by the statement's number and the SQLSTATE, never by the
// message, which may contain a value. A cause that has reached its limit does not match.
func (a *attempt) cause(err error) cause {
	e := pgError(err)
	if a.d.conn == nil || err == nil {
		return errOther
	}
	var found cause
	errors.As(err, &found)
	direct, rows := false, 0
	for _, p := range a.parts {
		direct = direct || p.isCopied() && (p.t.Exists || a.piecewise) // into a table that the flush creates, all rows are new at first
		rows += len(p.rows)
	}
	for _, c := range []struct {
		cause
		is bool
	}{
		{errNotNew, direct && (found == errRaced || e != nil && e.Code == uniqueViolation)}, // or others have numbered columns
		{found, true},
		{errRebuild, errors.As(err, new(rebuildError))},
		{errRaced, a.isOrphaned(e)},
		{errTaken, a.isTaken(e)},
		{errStaleTable, isStale(e)},
		{errRows, e != nil && (rows > 0 && (isRefusal(e) || e.Code == queryCanceled))}, // fewer may fit into the server's time limit
	} {
		if c.is && a.tries[c.cause] < causes[c.cause].limit {
			return c.cause
		}
	}
	return errOther
}

// noteCause records the cause of a failed try.
func (a *attempt) noteCause(c cause) {
	a.tries[c]++
	if c != errNotNew {
		return
	}
	for _, p := range a.parts {
		if p.isCopied() {
			p.t.news.failed()
		}
	}
}

// isTaken reports whether a MERGE was about to insert a key that another session has inserted meanwhile, or a deadlock
// was ended. A flush that deletes from one of several tables locks rows before its MERGE, in a different order.
func (a *attempt) isTaken(e *pgconn.PgError) bool {
	if isDeadlock(e) {
		return slices.ContainsFunc(a.parts, func(p *part) bool { return p.b.Used() })
	}
	st := a.script.failed()
	if e == nil || e.Code != uniqueViolation || e.Where != "" || st.tally != counted {
		return false
	}
	keys := st.part.after.keyIndexes
	return keys == nil || slices.Contains(keys, e.SchemaName+"."+e.ConstraintName)
}

// isDeadlock reports whether the server ended a deadlock with an error. A piece is not retried by itself: the locks
// that its transaction holds would cause the next deadlock.
func isDeadlock(e *pgconn.PgError) bool {
	return e != nil && e.Code == deadlockDetected && !isRaised(e)
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
		at := caps.Find(was, c.Name, i)
		if at < 0 {
			if rejected && !c.Own { // perhaps because the column was missing
				return sink.ErrChanged{Err: fmt.Errorf("table %q has a new column %q", now.Name, c.Name)}
			}
			continue
		}
		switch old := &was.Columns[at]; {
		case rejected && !old.Own && old.Decl != c.Decl:
			return sink.ErrChanged{Err: fmt.Errorf("column %q of table %q is %s now", c.Name, now.Name, c.Decl)}
		case old.Generated && !c.Generated:
			return sink.ErrChanged{Err: fmt.Errorf("the database no longer computes column %q of table %q", c.Name, now.Name)}
		case old.Type == schema.Enum && c.Type == schema.Enum && !slices.Equal(old.Labels, c.Labels):
			return sink.ErrChanged{Err: fmt.Errorf("the type of column %q of table %q has other labels now", c.Name, now.Name)}
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
	done, err := d.Judge(ctx, f)
	switch {
	case done:
		d.opt.Log.Debug(fmt.Sprintf("a flush of %s had been committed, though its answer was lost", f.Lanes[0].Source))
		_, err = d.reread(ctx, f) // another run may have changed the tables
		return d.last.result, err
	case errors.As(err, new(sink.BehindError)):
		for _, t := range d.tables {
			t.Writers = nil // the rows of weir_jobs may be gone, too
		}
	case err == nil: // the lanes are now at the flush's start: failed is transient if it was the fence
		err = failed
	}
	return res, err
}

// isOrphaned reports whether a row was refused because its parent, which the same flush had found, is gone. Starting
// again detects that change. If the rows' messages were kept, they are rejected instead.
func (a *attempt) isOrphaned(e *pgconn.PgError) bool {
	return e != nil && e.Code == "23503" && strings.HasPrefix(e.ConstraintName, schema.OwnKeys) &&
		slices.ContainsFunc(a.parts, func(p *part) bool { return len(p.rows) > 0 && !p.b.Table.HasConstraints })
}
