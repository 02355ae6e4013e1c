package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// writePiecewise writes the rows of a flush some of which the database rejects, in pieces, and makes the script that commits them.
func (a *attempt) writePiecewise(ctx context.Context) error {
	a.begin()
	c := &pieces{attempt: a, ctx: ctx}
	first := len(a.script.statements)
	c.askLinked()
	r, err := a.send(ctx)
	if err != nil {
		return err
	}
	for _, answer := range r[first:] {
		linked := map[string]bool{}
		for _, row := range answer.rows {
			linked[string(row[0])] = true
		}
		c.linked = append(c.linked, linked)
	}
	if err := c.probe(); err != nil {
		return err
	}
	if a.refused, err = sink.Bisect(a.f.Batches, a.rows, true, c); err != nil {
		return err
	}
	c.next()
	return a.end(slices.Concat(a.f.Rejects, a.refused))
}

// pieces writes some of an attempt's rows at a time, each piece behind its own savepoint: a rejected one is undone by
// itself.
type pieces struct {
	*attempt
	ctx    context.Context
	linked []map[string]bool // the SQLSTATEs and constraints of each table: see [linkedSQL]
	marked []partState       // of the parts, what they were at the mark
	first  []string          // the statements that the next script begins with
	sent   int               // rows that were written
}

// Mark implements [sink.RowWriter].
func (c *pieces) Mark() error {
	c.marked = c.state()
	c.first = append(c.first, "SAVEPOINT weir_mark")
	return nil
}

// Undo implements [sink.RowWriter].
func (c *pieces) Undo() error {
	c.restore(c.marked)
	c.sent = 0
	c.first = append(c.first, "ROLLBACK TO weir_mark")
	return nil
}

// next begins the next script.
func (c *pieces) next() {
	c.script = &script{}
	c.script.addAll(c.first...)
	c.first = nil
}

// Write implements [sink.RowWriter].
func (c *pieces) Write(rows [][]*fold.Row, _ bool) error {
	n := 0
	for i, p := range c.parts {
		p.writes = rows[i]
		n += len(rows[i])
	}
	gone := c.tries[errGone]
	c.tries[errGone] = 0 // of each piece
	err := c.try()
	for why := c.cause(err); causes[why].remedy == retry && !isDeadlock(pgError(err)); why = c.cause(err) {
		c.noteCause(why, err)
		err = c.try()
	}
	c.tries[errGone] = gone
	if err == nil {
		c.sent += n
		c.f.TellSent(c.sent)
	}
	switch e := pgError(err); {
	case isRefusal(e):
		table := c.failedTable()
		why := &sink.Refusal{Err: errors.New(words(e)), Table: table, Of: table, At: -1, Taken: e.Code == uniqueViolation || e.Code == exclusionViolation}
		if table >= 0 && !c.parts[table].isSet {
			why.At = c.rowOfCopy(e, c.parts[table])
		}
		leadsOut := slices.ContainsFunc(c.linked, func(linked map[string]bool) bool { return linked[constraintName(e)] })
		for i, linked := range c.linked {
			if linked[e.Code] && !leadsOut && (table < 0 || table == i) {
				why.Needs = e.Code
			}
		}
		return why
	case e != nil && e.Code == queryCanceled && n > 1: // fewer may take less than the time that the server gives
		return &sink.Refusal{Err: err, Table: -1, Of: -1, At: -1, Slow: true}
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

// rowOfCopy returns which of a part's rows the server could not write by its COPY, or -1: whatever else failed may name a line too,
// in a value. The COPY is the last that the error's context names.
func (c *pieces) rowOfCopy(e *pgconn.PgError, p *part) (at int) {
	if c.script.failed().copy == nil || p.plan == nil {
		return -1
	}
	into := p.t.stageIdent()
	if p.isCopied() {
		_, into = p.a.d.schemaOf(p.b.Table.Name)
	}
	named := "\nCOPY " + into + ", line "
	where := "\n" + e.Where
	line := strings.LastIndex(where, named)
	if line < 0 {
		return -1
	}
	if _, err := fmt.Sscan(where[line+len(named):], &at); err != nil || at < 1 || at > len(p.plan.rows) {
		return -1
	}
	key := p.plan.rows[at-1].Key // with versions, not all rows are copied
	return slices.IndexFunc(p.writes, func(r *fold.Row) bool { return bytes.Equal(r.Key, key) })
}

// linkedSQL asks for the SQLSTATEs of violations that are about other rows of the flush's
// tables too, and may be none once these are written: of foreign keys between the tables, and of
// unique values that may be exchanged. With them come the foreign keys of the same SQLSTATE that lead out of these
// tables, as [constraintName] has them: a message that waited in vain for a row there would leave unique values to later ones.
const linkedSQL = "SELECT DISTINCT CASE contype WHEN 'f' THEN '23503' WHEN 'u' THEN '23505' ELSE '23P01' END FROM pg_constraint" +
	" WHERE contype = 'f' AND (conrelid = %[1]s AND confrelid IN (%[2]s) OR confrelid = %[1]s AND conrelid IN (%[2]s))" +
	" OR conrelid = %[1]s AND contype IN ('u', 'x') AND condeferrable" +
	" UNION SELECT concat_ws(' ', n.nspname, r.relname, k.conname) FROM pg_constraint k JOIN pg_class r ON r.oid = k.conrelid JOIN pg_namespace n ON n.oid = r.relnamespace" +
	" WHERE k.contype = 'f' AND k.conrelid = %[1]s AND k.confrelid NOT IN (%[2]s)"

// constraintName names the constraint that an error is about.
func constraintName(e *pgconn.PgError) string {
	return strings.Join([]string{e.SchemaName, e.TableName, e.ConstraintName}, " ")
}

// askLinked adds what asks for them, table by table.
func (c *pieces) askLinked() {
	tables, all := make([]string, len(c.parts)), []string(nil)
	for i, p := range c.parts {
		if tables[i] = "NULL"; p.b.Used() {
			tables[i] = quote(p.after.ident) + "::regclass"
			all = append(all, tables[i])
		}
	}
	for _, t := range tables {
		c.script.add(linkedSQL, t, strings.Join(all, ", "))
	}
}

// probe runs the statements that write rows without any: what fails now is about no row. The
// staging tables that it makes have room for all rows.
func (c *pieces) probe() error {
	for _, p := range c.parts {
		if p.plan = nil; len(p.rows) == 0 {
			continue
		}
		p.writes = p.rows
		if p.plan = p.newPlan(p.b, p.rows); p.b.Versioned() {
			p.plan.versions = &versions{names: p.t.names, kept: p.t.names}
		}
	}
	if err := c.decide(); err != nil {
		return err
	}
	c.next()
	c.lockSets() // for all pieces
	for _, p := range c.parts {
		if p.plan == nil {
			continue
		}
		p.stageRows(p.plan.shape, &staging{})
		p.t.stage.used = false
	}
	ready := c.state()
	c.script.add("SAVEPOINT weir")
	c.writeParts()
	for i := range c.script.statements {
		if st := &c.script.statements[i]; st.copy != nil {
			st.copy = func(*copyWriter) error { return nil }
		}
	}
	c.script.add("ROLLBACK TO weir")
	c.script.add("RELEASE weir")
	_, err := c.d.run(c.ctx, c.script)
	c.restore(ready)
	return err
}

// try writes rows, or none of them: the next script begins by undoing what failed.
// Constraints that can wait do so until all of the rows are written, as in a flush they
// wait for the COMMIT.
func (c *pieces) try() error {
	c.next()
	c.emptyStages()
	before := c.state()
	err := c.sendPiece()
	switch {
	case c.d.conn == nil:
		return err
	case err == nil:
		for i, p := range c.parts {
			if p.plan != nil {
				p.t.news.wrote(p.counts.Inserted-before[i].counts.Inserted == int64(p.plan.about))
			}
		}
		return nil
	}
	for i, p := range c.parts {
		if s := &before[i].stage; s.types != nil && p.plan != nil && !p.isCopied() {
			s.used, s.rows = true, s.rows+len(p.plan.rows)
		}
	}
	c.restore(before)
	c.first = append(c.first, "ROLLBACK TO weir", "RELEASE weir")
	return err
}

// sendPiece writes rows behind a savepoint.
func (c *pieces) sendPiece() error {
	c.script.add("SAVEPOINT weir")
	c.script.add("SET CONSTRAINTS ALL DEFERRED")
	if err := c.mergeRows(c.ctx, c.assumesNew()); err != nil {
		return err
	}
	c.script.add("SET CONSTRAINTS ALL IMMEDIATE")
	c.script.add("RELEASE weir")
	r, err := c.d.run(c.ctx, c.script)
	if err != nil {
		return err
	}
	c.count(r)
	return nil
}

// assumesNew reports whether rows that seem to be new are copied into the table itself. A few rows never are: one may
// exist, and have what a COPY finds missing.
func (c *pieces) assumesNew() bool {
	p := c.parts[0]
	return c.tries[errNotNew] == 0 && len(c.parts) == 1 && !p.b.Versioned() && len(p.writes) > fewStaged
}

// emptyStages adds what empties the staging tables. Behind the savepoint each TRUNCATE would give a table
// a new file, and the catalog one more version of its row, all of which the next one looks through.
func (c *pieces) emptyStages() {
	for _, p := range c.parts {
		if p.t.stage.used {
			c.script.addAll(p.t.stage.emptySQL(p.t.stageName()))
		}
	}
}

// failedTable returns the table that the statement writes to that failed, the one where only one is written, or -1.
func (c *pieces) failedTable() int {
	of := c.script.failed().part
	if of == nil { // it checks constraints
		for _, p := range c.parts {
			if len(p.writes) == 0 && p.plan == nil {
				continue
			}
			if of != nil {
				return -1
			}
			of = p
		}
	}
	return slices.Index(c.parts, of)
}
