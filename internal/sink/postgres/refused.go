package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// flushPiecewise writes a batch some of whose rows the database refuses, in one
// transaction too, but in chunks.
func (a *attempt) flushPiecewise(ctx context.Context) (sink.Result, error) {
	d, f := a.d, a.f
	a.merge, a.idAt, a.res = nil, 0, sink.Result{}
	ddl, err := a.fit()
	if err != nil {
		return a.res, err
	}
	a.begin(ddl)
	linked := a.script.add(linkedSQL, quote(a.after.ident))
	r, err := d.run(ctx, a.script)
	if err != nil {
		return a.res, a.abandon(ctx, err)
	}
	c := &chunks{attempt: a, ctx: ctx, linked: map[string]string{}}
	for _, row := range r[linked].rows {
		c.linked[string(row[0])] = string(row[0])
	}
	if err := c.probe(a.rows); err != nil {
		return a.res, a.abandon(ctx, err)
	}
	if a.res.Refused, err = sink.Bisect(f.Batch, a.rows, c); err != nil {
		return a.res, a.abandon(ctx, err)
	}
	rejects := slices.Concat(f.Rejects, a.res.Refused)
	if f.BeforeCommit != nil {
		if err := f.BeforeCommit(rejects); err != nil {
			return a.res, a.abandon(ctx, err)
		}
	}
	a.script = &script{}
	a.end(rejects, true)
	d.pendingResult = a.res
	if r, err = d.run(ctx, a.script); err != nil {
		return a.res, a.abandon(ctx, err)
	}
	a.stage = stage{}
	return a.res, a.committed(r)
}

// abandon rolls back what failed, and returns why it did.
func (a *attempt) abandon(ctx context.Context, err error) error {
	if why := mismatch(pgError(err)); why != nil {
		err = why
	}
	a.t.stage = stage{}
	if a.d.conn != nil {
		if undo := a.d.rollback(ctx); undo != nil {
			return undo
		}
	}
	return err
}

// chunks writes some of an attempt's rows at a time, each chunk undone by itself where the
// database rejects it.
type chunks struct {
	*attempt
	ctx context.Context
	// linked maps SQLSTATEs to themselves; see linkedSQL.
	linked map[string]string
	// What they were at the mark.
	markedRes   sink.Result
	markedStage stage
}

// Mark implements [sink.RowWriter].
func (c *chunks) Mark() error {
	c.markedRes, c.markedStage = c.res, c.t.stage
	_, err := c.d.query(c.ctx, "SAVEPOINT weir_mark")
	return err
}

// Undo implements [sink.RowWriter].
func (c *chunks) Undo() error {
	c.res, c.t.stage = c.markedRes, c.markedStage
	_, err := c.d.query(c.ctx, "ROLLBACK TO weir_mark")
	return err
}

// Write implements [sink.RowWriter].
func (c *chunks) Write(rows []*fold.Row, _ bool) error {
	c.d.gone = 0
	err := c.try(rows)
	for ; mismatch(pgError(err)) == errGone && c.d.gone < maxStarts; c.d.gone++ {
		err = c.try(rows)
	}
	switch e := pgError(err); {
	case err == nil, mismatch(e) != nil:
		return err
	case isRefusal(e):
		return &sink.Refusal{Err: errors.New(words(e)), At: copyLine(e, len(rows)), Needs: c.linked[e.Code], Taken: e.Code == "23505" || e.Code == "23P01"}
	case e != nil && e.Code == "57014" && len(rows) > 1: // fewer may take less than the time that the server gives
		return &sink.Refusal{Err: err, At: -1}
	default:
		return err
	}
}

// words are the database's own for a refusal.
func words(e *pgconn.PgError) string {
	s := e.Message
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", s, e.Code)
}

// copyLine returns which line of a COPY of rows the server could not read, from 0, or -1.
func copyLine(e *pgconn.PgError, rows int) (at int) {
	_, rest, _ := strings.Cut(e.Where, "COPY weir_stage")
	_, rest, _ = strings.Cut(rest, "line ")
	if _, err := fmt.Sscan(rest, &at); err != nil || at > rows {
		return -1
	}
	return at - 1
}

// linkedSQL asks for the SQLSTATEs of violations that are about other rows of the table
// too, and may be none once these are written: of foreign keys to the table itself, and of
// unique values that may be exchanged.
const linkedSQL = "SELECT DISTINCT CASE contype WHEN 'f' THEN '23503' WHEN 'u' THEN '23505' ELSE '23P01' END FROM pg_constraint" +
	" WHERE conrelid = %s::regclass AND (contype = 'f' AND confrelid = conrelid OR contype IN ('u', 'x') AND condeferrable)"

// probe runs the statements that write rows without any: what fails now is about no row.
func (c *chunks) probe(rows []*fold.Row) error {
	s, m := &script{}, c.d.newMerge(c.f.Batch, c.t, c.after, rows)
	s.add("SAVEPOINT weir")
	sql, _ := m.prepare()
	for _, q := range sql {
		s.add("%s", q)
	}
	m.statements(s, rows, len(rows))
	s.copies = []copier{func(*copyWriter) error { return nil }}
	s.add("ROLLBACK TO weir")
	s.add("RELEASE weir")
	_, err := c.d.run(c.ctx, s)
	return err
}

// try writes rows or leaves no trace of them. Constraints that can wait do so until all
// of the rows are written, as in a flush they wait for the COMMIT.
func (c *chunks) try(rows []*fold.Row) error {
	before := c.t.stage
	err := c.send(rows)
	if err == nil || c.d.conn == nil {
		return err
	}
	c.t.stage = before
	c.t.stage.used = before.made
	if _, undo := c.d.query(c.ctx, "ROLLBACK TO weir", "RELEASE weir"); undo != nil {
		return undo
	}
	return err
}

// send writes rows behind a savepoint.
func (c *chunks) send(rows []*fold.Row) (err error) {
	c.script = &script{}
	c.script.add("SAVEPOINT weir")
	c.script.add("SET CONSTRAINTS ALL DEFERRED")
	changing := rows
	if c.merge = c.d.newMerge(c.f.Batch, c.t, c.after, rows); c.f.Batch.Versioned() {
		if changing, err = c.resolve(c.ctx, rows); err != nil {
			return err
		}
	}
	c.stageRows(changing, len(rows))
	if c.merge.versions != nil {
		c.merge.versions.keep(c.script, c.merge, c.f, changing)
	}
	c.script.add("SET CONSTRAINTS ALL IMMEDIATE")
	c.script.add("RELEASE weir")
	r, err := c.d.run(c.ctx, c.script)
	if err == nil {
		c.merge.count(&c.res, r, c.tags, len(rows))
		c.t.stage = c.stage
	}
	return err
}
