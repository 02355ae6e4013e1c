package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// carefully writes a batch some of whose rows the database refuses, in one
// transaction too, but piece by piece.
func (d *DB) carefully(ctx context.Context, f *sink.Flush, table relation, rows []*fold.Row) (res sink.Result, err error) {
	s := &script{}
	d.begin(s, f)
	s.add("SET CONSTRAINTS ALL IMMEDIATE") // else they would speak at the COMMIT
	ddl, _, err := d.fit(f.Batch, rows)
	if err != nil {
		return res, err
	}
	d.change(s, f.Batch, &table, ddl)
	if _, err := d.run(ctx, s); err != nil {
		return res, d.abandon(ctx, err)
	}
	p := &pieces{d: d, ctx: ctx, f: f, table: table}
	if err := p.batch(rows); err != nil {
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
	d.end(s, f, rejects, cp)
	d.last = res
	r, err := d.run(ctx, s)
	if err != nil {
		return res, d.abandon(ctx, err)
	}
	return res, d.committed(r, table, stage{})
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

// pieces writes rows in pieces, each undone by itself where the database refuses
// it, until the rows that are refused stand alone.
type pieces struct {
	d     *DB
	ctx   context.Context
	f     *sink.Flush
	table relation
	res   sink.Result
	bad   []refusal
}

type refusal struct {
	row *fold.Row
	why *pgconn.PgError
}

// batch writes all rows. Those that are refused are tried again when the others
// are written, for a value may have moved between rows of the batch; then
// message by message.
func (p *pieces) batch(rows []*fold.Row) error {
	if err := p.write(rows, false); err != nil {
		return err
	}
	for before := len(rows) + 1; len(p.bad) > 0 && len(p.bad) < before; {
		before = len(p.bad)
		again := p.bad
		p.bad = nil
		slices.Reverse(again) // a chain of moves is undone from its end
		for _, r := range again {
			if err := p.write([]*fold.Row{r.row}, false); err != nil {
				return err
			}
		}
	}
	if len(p.bad) == 0 {
		return nil
	}
	if !p.f.Batch.Table.Judged {
		return sink.ErrUnlogged{Err: p.d.explain(p.bad[0].why)}
	}
	rows = rows[:0:0]
	for _, r := range p.bad {
		rows = append(rows, r.row)
	}
	p.bad = nil
	for m := range p.f.Batch.Singles(rows) {
		if err := p.write([]*fold.Row{&m.Row}, false); err != nil {
			return err
		}
		for _, r := range p.bad {
			p.res.Refused = append(p.res.Refused, fold.Reject{Place: m.Place, Reason: feed.Database, Detail: words(r.why), Text: slices.Clone(m.Text)})
		}
		p.bad = nil
	}
	return nil
}

// words are the database's own for a refusal.
func words(e *pgconn.PgError) string {
	s := e.Message
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", s, e.Code)
}

// write writes rows, and halves them where they are refused. refused says that
// they are known to be.
func (p *pieces) write(rows []*fold.Row, refused bool) error {
	if !refused || len(rows) == 1 {
		err := p.try(rows)
		e := pgError(err)
		switch {
		case err == nil:
			return nil
		case e != nil && e.Code == "57014" && len(rows) > 1:
		case !isRefusal(e):
			return err
		case len(rows) == 1:
			p.bad = append(p.bad, refusal{rows[0], e})
			return nil
		default:
			if at, ok := copyLine(e); ok && at < len(rows) {
				return p.around(rows, at)
			}
			refused = true
		}
	}
	half, before := len(rows)/2, len(p.bad)
	if err := p.write(rows[:half], false); err != nil {
		return err
	}
	// Where the first half was good, the second is what was refused.
	return p.write(rows[half:], refused && len(p.bad) == before)
}

// around writes the rows about one that the COPY could not read.
func (p *pieces) around(rows []*fold.Row, at int) error {
	for _, part := range [][]*fold.Row{rows[:at], rows[at : at+1], rows[at+1:]} {
		// Where one value is bad, more may be: the pieces stay small, so that
		// not all of the rest is sent for each.
		for chunk := range slices.Chunk(part, 4096) {
			if err := p.write(chunk, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyLine returns which line of a COPY the server could not read, from 0.
func copyLine(e *pgconn.PgError) (at int, ok bool) {
	_, rest, found := strings.Cut(e.Where, "COPY weir_stage")
	if !found {
		return 0, false
	}
	if _, rest, found = strings.Cut(rest, "line "); !found {
		return 0, false
	}
	_, err := fmt.Sscan(rest, &at)
	return at - 1, err == nil && at > 0
}

// try writes rows or leaves no trace of them.
func (p *pieces) try(rows []*fold.Row) error {
	d := p.d
	s, before := &script{}, d.stage
	s.add("SAVEPOINT weir")
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
	if _, undo := d.query(p.ctx, "ROLLBACK TO weir", "RELEASE weir"); undo != nil {
		return undo
	}
	return err
}
