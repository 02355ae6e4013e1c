package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// carefully writes a batch some of whose rows the database refuses, in one
// transaction too, but piece by piece.
func (d *DB) carefully(ctx context.Context, f *sink.Flush, table relation, rows []*fold.Row) (res sink.Result, err error) {
	s := &script{}
	d.begin(s, f)
	ddl, _, err := d.fit(f.Batch)
	if err != nil {
		return res, err
	}
	d.change(s, f.Batch, &table, ddl)
	linked := s.add(linkedSQL, quote(table.ident))
	r, err := d.run(ctx, s)
	if err != nil {
		return res, d.abandon(ctx, err)
	}
	p := &pieces{d: d, ctx: ctx, f: f, table: table, linked: map[string]string{}}
	for _, row := range r[linked].rows {
		p.linked[string(row[0])] = string(row[0])
	}
	if err := p.probe(rows); err != nil {
		return res, d.abandon(ctx, err)
	}
	if p.res.Refused, err = sink.Bisect(f.Batch, rows, p); err != nil {
		return res, d.abandon(ctx, err)
	}
	res = p.res
	cp := f.Checkpoint
	rejects := append(f.Batch.Rejects[:len(f.Batch.Rejects):len(f.Batch.Rejects)], res.Refused...)
	if f.BeforeCommit != nil {
		if err := f.BeforeCommit(rejects, &cp); err != nil {
			return res, d.abandon(ctx, err)
		}
	}
	s = &script{}
	d.end(s, f, &table, rejects, cp)
	d.last = res
	if r, err = d.run(ctx, s); err != nil {
		return res, d.abandon(ctx, err)
	}
	return res, d.committed(s, r, table, stage{})
}

// abandon rolls back what failed, and returns why it did.
func (d *DB) abandon(ctx context.Context, err error) error {
	if why := mismatch(pgError(err)); why != nil {
		err = why
	}
	d.stage = stage{}
	if d.conn != nil {
		if undo := d.rollback(ctx); undo != nil {
			return undo
		}
	}
	return err
}

// pieces writes rows in pieces, each undone by itself where the database rejects it.
type pieces struct {
	d     *DB
	ctx   context.Context
	f     *sink.Flush
	table relation
	res   sink.Result
	// linked maps SQLSTATEs to themselves; see linkedSQL.
	linked map[string]string
	// What they were at the mark.
	marked sink.Result
	stage  stage
}

// Mark implements [sink.RowWriter].
func (p *pieces) Mark() error {
	p.marked, p.stage = p.res, p.d.stage
	_, err := p.d.query(p.ctx, "SAVEPOINT weir_mark")
	return err
}

// Undo implements [sink.RowWriter].
func (p *pieces) Undo() error {
	p.res, p.d.stage = p.marked, p.stage
	_, err := p.d.query(p.ctx, "ROLLBACK TO weir_mark")
	return err
}

// Write implements [sink.RowWriter].
func (p *pieces) Write(rows []*fold.Row, _ bool) error {
	p.d.gone = 0
	err := p.try(rows)
	for ; mismatch(pgError(err)) == errGone && p.d.gone < maxStarts; p.d.gone++ {
		err = p.try(rows)
	}
	switch e := pgError(err); {
	case err == nil, mismatch(e) != nil:
		return err
	case isRefusal(e):
		return &sink.Refusal{Err: errors.New(words(e)), At: copyLine(e, len(rows)), Needs: p.linked[e.Code], Taken: e.Code == "23505" || e.Code == "23P01"}
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
func (p *pieces) probe(rows []*fold.Row) error {
	s, m := &script{}, p.d.newMerge(p.f.Batch, p.table, rows)
	s.add("SAVEPOINT weir")
	sql, _ := m.prepare()
	for _, q := range sql {
		s.add("%s", q)
	}
	m.statements(s, rows, len(rows))
	s.copies = []copier{func(*copyWriter) error { return nil }}
	s.add("ROLLBACK TO weir")
	s.add("RELEASE weir")
	_, err := p.d.run(p.ctx, s)
	return err
}

// try writes rows or leaves no trace of them. Constraints that can wait do so until all
// of the rows are written, as in a flush they wait for the COMMIT.
func (p *pieces) try(rows []*fold.Row) error {
	d := p.d
	s, before := &script{}, d.stage
	s.add("SAVEPOINT weir")
	s.add("SET CONSTRAINTS ALL DEFERRED")
	m, changing, err := d.newMerge(p.f.Batch, p.table, rows), rows, error(nil)
	if p.f.Batch.Versioned() {
		if m, changing, err = d.resolve(p.ctx, s, p.f, p.table, rows); err == nil {
			s = &script{}
		}
	}
	if err == nil {
		sql, now := m.prepare()
		for _, q := range sql {
			s.add("%s", q)
		}
		at := m.statements(s, changing, len(rows))
		if m.versions != nil {
			m.versions.keep(s, m, p.f, changing)
		}
		s.add("SET CONSTRAINTS ALL IMMEDIATE")
		s.add("RELEASE weir")
		var r []result
		if r, err = d.run(p.ctx, s); err == nil {
			m.count(&p.res, r, at, len(rows))
			d.stage = now
			return nil
		}
	}
	if d.conn == nil {
		return err
	}
	d.stage = before
	d.stage.used = before.made
	if _, undo := d.query(p.ctx, "ROLLBACK TO weir", "RELEASE weir"); undo != nil {
		return undo
	}
	return err
}
