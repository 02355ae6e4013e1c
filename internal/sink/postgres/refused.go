package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// writePiecewise writes a flush's rows in pieces, because the database rejects some, and builds the script that commits
// them.
func (a *attempt) writePiecewise(ctx context.Context) error {
	a.begin()
	linked := a.script.addAll(a.linkedSQL())
	r, err := a.send(ctx)
	if err != nil {
		return err
	}
	c := &pieces{attempt: a, ctx: ctx, linked: map[string]bool{}}
	for _, row := range r[linked].rows {
		c.linked[string(row[0])] = true
	}
	if err := c.probe(); err != nil {
		return err
	}
	refused, err := sink.Search(a.f, a.f.Batches, a.rows, c)
	if err != nil {
		return err
	}
	a.refused = refused
	c.next()
	return a.end(slices.Concat(a.f.Rejects, refused))
}

// pieces writes some of an attempt's rows at a time, each piece after its own savepoint, so a rejected piece is undone
// alone.
type pieces struct {
	*attempt
	ctx    context.Context
	linked map[string]bool // constraints: see [attempt.linkedSQL]
	first  []string        // statements at the start of the next script
	sent   int             // rows written
}

// next starts the next script.
func (c *pieces) next() {
	c.script = &script{}
	c.script.addAll(c.first...)
	c.first = nil
}

// Write implements [sink.RowWriter].
func (c *pieces) Write(rows [][]*fold.Row, together bool) error {
	n := 0
	for i, p := range c.parts {
		p.writes = rows[i]
		n += len(rows[i])
	}
	err := c.try()
	for c.moved < maxMoved && c.isTaken(pgError(err)) {
		c.noteMoved()
		err = c.try()
	}
	alone := n == 1 || !together
	if alone && isTimeout(err) {
		err = c.tryWithoutLocks()
	}
	if err == nil {
		c.sent += n
		c.f.TellSent(c.sent)
	}
	switch e := pgError(err); {
	case isTimeout(err) && !alone: // fewer may fit into the server's time limit
		return &sink.Refusal{Err: err, Table: -1, Slow: true}
	case isRefusal(e), isTimeout(err):
		text := words(e)
		if alone && isRefusal(e) {
			text = c.columnOf(e) + text
		}
		return &sink.Refusal{Err: errors.New(text), Table: c.failedTable(e), Waits: c.linked[constraintName(e)]}
	default:
		return err
	}
}

// isTimeout reports whether the server ended a statement at its time limit, or somebody did.
func isTimeout(err error) bool {
	e := pgError(err)
	return e != nil && e.Code == queryCanceled
}

// tryWithoutLocks writes a message again that exceeded the time limit. If it waits for a lock now, it may have waited
// then, and the limit says nothing about it.
func (c *pieces) tryWithoutLocks() error {
	c.first = append(c.first, "SET LOCAL lock_timeout = '10ms'")
	err := c.try()
	c.first = append(c.first, patiently)
	return err
}

// stagedColumn matches where an error of a COPY says that a value is.
var stagedColumn = regexp.MustCompile(`weir_stage_\d+\b.*?\bc(\d+)\b`)

// columnOf returns the column of the value that an error is about, as the start of a reason; "" if no value is, or the
// error names it. Of several columns with the domain that refuses the value it returns all.
func (c *pieces) columnOf(e *pgconn.PgError) string {
	st := c.script.failed()
	if st.part == nil || st.part.plan == nil || e.ColumnName != "" || e.TableName != "" {
		return ""
	}
	var names []string
	at := stagedColumn.FindStringSubmatch(e.Where)
	t := &st.part.plan.table
	for _, u := range st.part.plan.columns {
		if of := &t.Columns[u.at]; st.copy != nil && at != nil && at[1] == strconv.Itoa(u.at) ||
			st.copy == nil && t.cols[u.at].domain && e.DataTypeName != "" && strings.HasSuffix("."+strings.ReplaceAll(of.Decl, `"`, ""), "."+e.DataTypeName) {
			names = append(names, strconv.Quote(of.Name))
		}
	}
	if names == nil {
		return ""
	}
	return "column " + strings.Join(names, " or ") + ": "
}

// words returns the database's own message for a refusal, on one line.
func words(e *pgconn.PgError) string {
	s := e.Message
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", strings.ReplaceAll(s, "\n", " "), e.Code)
}

// linkedSQL returns a query for the constraints, as named by [constraintName], whose violations may disappear when other
// rows of the flush are written: foreign keys between its tables, and unique values that may be exchanged.
func (a *attempt) linkedSQL() string {
	var tables []string
	for _, p := range a.parts {
		if p.b.Used() {
			tables = append(tables, quote(p.after.ident)+"::regclass")
		}
	}
	return fmt.Sprintf(`WITH flushed (id) AS (SELECT unnest(ARRAY[%s]) UNION SELECT p.relid FROM unnest(ARRAY[%[1]s]) t (id), pg_partition_tree(t.id) p)
SELECT concat_ws(' ', n.nspname, r.relname, k.conname)
FROM pg_constraint k JOIN pg_class r ON r.oid = k.conrelid JOIN pg_namespace n ON n.oid = r.relnamespace
WHERE k.conrelid IN (SELECT id FROM flushed)
  AND (k.contype = 'f' AND k.confrelid IN (SELECT id FROM flushed) OR k.contype IN ('u', 'x') AND k.condeferrable)`, strings.Join(tables, ", "))
}

// constraintName returns the name of the constraint in an error.
func constraintName(e *pgconn.PgError) string {
	return strings.Join([]string{e.SchemaName, e.TableName, e.ConstraintName}, " ")
}

// probe runs the statements that write rows without any rows: an error now is not about a row. The staging tables that
// it creates have room for all rows.
func (c *pieces) probe() error {
	for _, p := range c.parts {
		if p.plan = nil; len(p.rows) == 0 {
			continue
		}
		p.writes = p.rows
		if p.plan = p.newPlan(p.b, p.rows); p.b.Versioned() {
			p.plan.versions = &versions{names: p.t.versioned, kept: p.t.versioned}
		}
	}
	if err := c.decide(); err != nil {
		return err
	}
	c.next()
	for _, p := range c.parts {
		if p.plan == nil {
			continue
		}
		p.stageRows(p.plan.shape, &staging{})
		p.stage.used = false
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

// state returns the parts as they are, to restore what a piece changes in them, except their rows.
func (c *pieces) state() (before []part) {
	for _, p := range c.parts {
		before = append(before, *p)
	}
	return before
}

func (c *pieces) restore(before []part) {
	for i, p := range c.parts {
		p.counts, p.stage = before[i].counts, before[i].stage
	}
}

// try writes all of the rows, or none: after a failure the next script begins with a rollback. Deferrable constraints
// are deferred until all rows are written, as a flush defers them to the COMMIT.
func (c *pieces) try() error {
	c.next()
	// After the savepoint, each TRUNCATE would create a new file, and one more version of the table's row in the catalog,
	// which the next one has to scan.
	for _, p := range c.parts {
		if p.stage.used {
			c.script.addAll(p.stage.emptySQL(p.t.stageName()))
		}
	}
	before := c.state()
	c.script.addAll("SAVEPOINT weir", "SET CONSTRAINTS ALL DEFERRED")
	err := c.mergeRows(c.ctx, c.assumesNew())
	if err == nil {
		c.script.addAll("SET CONSTRAINTS ALL IMMEDIATE", "RELEASE weir")
		var r []result
		if r, err = c.d.run(c.ctx, c.script); err == nil {
			c.count(r)
		}
	}
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

// assumesNew reports whether rows that seem to be new are copied into the table itself. A few rows never are: one may
// exist, with values that are missing in the COPY.
func (c *pieces) assumesNew() bool {
	p := c.parts[0]
	return c.moved == 0 && len(c.parts) == 1 && !p.b.Versioned() && len(p.writes) > fewStaged
}

// failedTable returns the index of the table whose statement failed; if it checks constraints of all tables, of the one
// that the error names, or -1.
func (c *pieces) failedTable(e *pgconn.PgError) int {
	of := c.script.failed().part
	return slices.IndexFunc(c.parts, func(p *part) bool {
		return p == of || of == nil && p.after.ident == identOf(e.SchemaName, e.TableName)
	})
}
