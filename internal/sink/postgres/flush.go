package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// weirTables are made in the first flush's transaction. The format of these
// tables is in weir_meta; see the constant format.
var weirTables = []string{
	`CREATE TABLE IF NOT EXISTS %s.weir_meta (
  name text PRIMARY KEY,
  value text
)`,
	`CREATE TABLE IF NOT EXISTS %s.weir_jobs (
  job text PRIMARY KEY,
  tbl text,
  seq bigint NOT NULL,
  run text NOT NULL,
  rejects text,
  updated timestamptz
) WITH (fillfactor = 50)`,
	`CREATE TABLE IF NOT EXISTS %s.weir_checkpoints (
  job text,
  source text,
  line bigint NOT NULL,
  "offset" bigint NOT NULL,
  mark text,
  updated timestamptz,
  PRIMARY KEY (job, source)
) WITH (fillfactor = 50)`,
	`CREATE TABLE IF NOT EXISTS %s.weir_rejects (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job text,
  source text,
  line bigint,
  "offset" bigint,
  reason text,
  raw text,
  bytes bytea, -- the line where it is no text
  time timestamptz
)`,
	fmt.Sprintf("INSERT INTO %%s.weir_meta (name, value) VALUES ('format', '%d') ON CONFLICT DO NOTHING", format),
}

// errFenced is what the server's answer means where the job is not where the
// flush begins.
var errFenced = errors.New("the job is not where this flush begins")

// Flush implements [sink.Sink].
func (d *DB) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if err := d.connect(ctx); err != nil {
		return sink.Result{}, err
	}
	if d.wrote == f.Checkpoint.Seq && d.wroter == d.jobName(f)+"\x00"+f.Run {
		return d.last, nil
	}
	res, err := d.write(ctx, f)
	for tries := 0; isStale(pgError(err)) && tries < 2 && d.conn != nil; tries++ {
		// Others changed the table since it was read.
		if err := d.reread(ctx); err != nil {
			return sink.Result{}, err
		}
		res, err = d.write(ctx, f)
	}
	if errors.Is(err, errFenced) {
		res, err = d.judge(ctx, f)
	}
	if err == nil {
		d.wrote, d.wroter, d.last = f.Checkpoint.Seq, d.jobName(f)+"\x00"+f.Run, res
	}
	return res, d.explain(err)
}

// reread reads the table and what weir has in the database anew.
func (d *DB) reread(ctx context.Context) error {
	r, err := d.query(ctx, "SELECT "+d.readySQL())
	if err != nil {
		return d.explain(err)
	}
	d.ready = string(r[0].rows[0][0]) == "t"
	d.stage = stage{}
	if d.table.Name == "" {
		return nil
	}
	_, err = d.Table(ctx, d.table.Name, d.key)
	return err
}

// write sends a flush in one string of statements. Where the database refuses
// rows of a table whose messages it may judge, it goes on piece by piece.
func (d *DB) write(ctx context.Context, f *sink.Flush) (res sink.Result, err error) {
	s := &script{}
	var m *merge
	var at tags
	var rows []*fold.Row
	table, now := d.table, d.stage
	d.begin(s, false)
	if f.Batch.Rows() > 0 {
		var ddl []string
		if ddl, table, err = d.fit(&f.Batch.Table); err != nil {
			return res, err
		}
		d.change(s, ddl)
		rows = f.Batch.Sorted()
		m = d.newMerge(f.Batch, table, rows)
		m.altered = len(ddl) > 0
	}
	d.fence(s, f)
	if m != nil {
		if d.fresh = (d.fresh || !d.table.Exists) && m.direct(); d.fresh {
			at = m.copyAll(s)
		} else {
			var sql []string
			sql, now = m.prepare()
			for _, q := range sql {
				s.add("%s", q)
			}
			at = m.statements(s)
		}
		s.copy = m.encode(rows)
	}
	cp := f.Checkpoint
	rejects := f.Batch.Rejects
	if f.BeforeCommit != nil {
		if err := f.BeforeCommit(rejects, &cp); err != nil {
			return res, err
		}
	}
	d.end(s, f, rejects, cp)
	r, err := d.run(ctx, s)
	if m != nil {
		m.count(&res, r, at, len(rows))
	}
	if err == nil {
		d.fresh = m == nil && d.fresh || m != nil && res.Inserted == int64(len(rows))
		return res, d.committed(r, table, now)
	}
	direct := d.fresh
	d.fresh = false
	d.last = res // what counts where the answer is lost and the commit is not
	refused := pgError(err)
	if refused == nil || d.conn == nil {
		return res, err // it was not sent, or the connection broke
	}
	if err := d.rollback(ctx); err != nil {
		return res, err
	}
	switch {
	case isFence(refused):
		return res, errFenced
	case direct && refused.Code == "23505":
		return d.write(ctx, f) // not all rows were new
	case m != nil && isRefusal(refused) && !f.Batch.Table.Judged:
		return res, sink.ErrUnlogged{Err: d.explain(err)}
	case m != nil && (isRefusal(refused) || refused.Code == "57014" && len(rows) > 1):
		return d.carefully(ctx, f, table, rows)
	}
	return res, err
}

// begin starts a transaction that is as durable as the user asked for.
func (d *DB) begin(s *script, immediate bool) {
	s.add("BEGIN")
	s.add("SET LOCAL synchronous_commit = %s", d.opt.Synchronous)
	s.add("SET LOCAL work_mem = '64MB'") // the batch is sorted
	if immediate {
		s.add("SET CONSTRAINTS ALL IMMEDIATE")
	}
	if !d.ready {
		for _, q := range weirTables {
			s.add(q, d.schema)
		}
	}
}

// change adds statements that change the table. Behind one that waits for a long
// reader, everybody else would queue: so it waits only for a moment, and the
// flush is tried again.
func (d *DB) change(s *script, ddl []string) {
	if len(ddl) == 0 {
		return
	}
	s.add("SET LOCAL lock_timeout = '2s'")
	for _, q := range ddl {
		s.add("%s", q)
	}
}

// jobName is what the job's row is kept under; a run without a job has a row of
// its own, so that a commit whose answer was lost is known again.
func (d *DB) jobName(f *sink.Flush) string {
	if f.Job == "" {
		return "run " + f.Run
	}
	return f.Job
}

const fenceWord = "weir: the job has moved"

// fence adds what demands that the job stand where this flush begins, and takes
// it on. It comes before all rows: a commit whose answer was lost may still be
// under way, and then this waits for it.
func (d *DB) fence(s *script, f *sink.Flush) {
	job, seq, run := d.literal(d.jobName(f)), f.Checkpoint.Seq, d.literal(f.Run)
	if seq == 1 {
		s.add("INSERT INTO %s.weir_jobs (job, seq, run) VALUES (%s, 1, %s)", d.schema, job, run)
		return
	}
	// A number that is none ends the transaction, and its text comes back in the
	// error.
	s.add("WITH moved AS (UPDATE %s.weir_jobs SET seq = %d, run = %s WHERE job = %s AND seq = %d RETURNING 1)"+
		" SELECT CASE WHEN count(*) = 0 THEN ('%s' || count(*))::integer END FROM moved", d.schema, seq, run, job, seq-1, fenceWord)
}

func isFence(e *pgconn.PgError) bool {
	return e != nil && (e.Code == "22P02" && strings.Contains(e.Message, fenceWord) || e.Code == "23505" && e.TableName == "weir_jobs")
}

// judge finds out why the fence did not let a flush pass.
func (d *DB) judge(ctx context.Context, f *sink.Flush) (res sink.Result, err error) {
	seq, run := int64(0), ""
	if d.ready { // else the database went back to before weir first wrote
		r, err := d.query(ctx, "SELECT seq, run FROM "+d.schema+".weir_jobs WHERE job = "+d.literal(d.jobName(f)))
		if err != nil {
			return res, err
		}
		for _, row := range r[0].rows {
			seq, run = number(row[0]), string(row[1])
		}
	}
	switch want := f.Checkpoint.Seq - 1; {
	case seq == f.Checkpoint.Seq && run == f.Run:
		d.opt.Debug("flush %d had been committed, though its answer was lost", seq)
		return d.last, nil
	case seq < want:
		return res, sink.ErrBehind{Found: seq, Want: want}
	case seq == want:
		return res, &sink.Error{Class: sink.Transient, Reason: "serialization", Err: errFenced}
	}
	return res, sink.ErrFenced
}

// end adds the rejects, the checkpoint and the COMMIT.
func (d *DB) end(s *script, f *sink.Flush, rejects []fold.Reject, cp sink.Checkpoint) {
	if f.KeepRejects {
		d.keep(s, f, rejects)
	}
	job := d.literal(d.jobName(f))
	s.add("UPDATE %s.weir_jobs SET tbl = %s, rejects = %s, updated = now() WHERE job = %s", d.schema, d.literal(f.Batch.Table.Name), d.literal(cp.Rejects), job)
	if f.Job != "" {
		s.add(`INSERT INTO %s.weir_checkpoints (job, source, line, "offset", mark, updated) VALUES (%s, %s, %d, %d, %s, now())`+
			" ON CONFLICT (job, source) DO UPDATE SET line = excluded.line, \"offset\" = excluded.\"offset\", mark = excluded.mark, updated = excluded.updated",
			d.schema, job, d.literal(f.Source), cp.Line, cp.Offset, d.literal(cp.Mark))
	} else if cp.Seq == 1 {
		s.add("DELETE FROM %s.weir_jobs WHERE job LIKE 'run %%' AND updated < now() - interval '1 day'", d.schema)
	}
	s.add("COMMIT")
}

// keep adds what writes rejected lines.
func (d *DB) keep(s *script, f *sink.Flush, rejects []fold.Reject) {
	for chunk := range slices.Chunk(rejects, 1000) {
		values := make([]string, len(chunk))
		for i := range chunk {
			r := &chunk[i]
			raw, bytes := string(r.Text), "NULL"
			if !utf8.ValidString(raw) || d.storable(raw) != raw {
				bytes = fmt.Sprintf(`'\x%x'::bytea`, raw)
				if strings.Contains(bytes, `\`) {
					bytes = "E" + strings.ReplaceAll(bytes, `\`, `\\`)
				}
			}
			values[i] = fmt.Sprintf("(%s, %s, %d, %d, %s, %s, %s, now())", d.literal(f.Job), d.literal(f.Source), r.Line, r.Offset,
				d.literal(string(r.Reason)+": "+r.Detail), d.literal(raw), bytes)
		}
		s.add(`INSERT INTO %s.weir_rejects (job, source, line, "offset", reason, raw, bytes, time) VALUES %s`, d.schema, strings.Join(values, ", "))
	}
}

// committed takes the answer of a script whose last statement was COMMIT.
func (d *DB) committed(r []result, table relation, now stage) error {
	if tag := r[len(r)-1].tag.String(); tag != "COMMIT" {
		return fmt.Errorf("the server answered COMMIT with %s", tag)
	}
	if table.oid == "" && table.Exists { // it was made
		table.oid = "new"
	}
	d.table, d.stage, d.ready = table, now, true
	if now.kind == perFlush {
		d.stage = stage{}
	}
	return nil
}

// rollback ends a transaction that failed.
func (d *DB) rollback(ctx context.Context) error {
	if !d.open {
		return nil
	}
	_, err := d.query(ctx, "ROLLBACK")
	return err
}

// count adds what a merge's statements did.
func (m *merge) count(res *sink.Result, r []result, at tags, rows int) {
	affected := func(i int) int64 {
		if i < 0 {
			return 0
		}
		return r[i].tag.RowsAffected()
	}
	if len(r) <= max(at.insert, at.update, at.delete) || rows == 0 {
		return // it did not get so far
	}
	inserted, updated, deleted := affected(at.insert), affected(at.update), affected(at.delete)
	res.Inserted += inserted
	res.Updated += updated
	res.Deleted += deleted
	res.Unchanged += int64(rows) - inserted - updated - deleted
}

// carefully writes a batch some of whose rows the database refuses, in one
// transaction too, but piece by piece.
func (d *DB) carefully(ctx context.Context, f *sink.Flush, table relation, rows []*fold.Row) (res sink.Result, err error) {
	s := &script{}
	d.begin(s, true)
	ddl, _, err := d.fit(&f.Batch.Table)
	if err != nil {
		return res, err
	}
	d.change(s, ddl)
	d.fence(s, f)
	if _, err := d.run(ctx, s); err != nil {
		return res, d.abandon(ctx, err)
	}
	p := &pieces{d: d, ctx: ctx, b: f.Batch, table: table, altered: len(ddl) > 0}
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
	if e := pgError(err); isFence(e) {
		err = errFenced
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
	b     *fold.Batch
	table relation
	// altered tells that the transaction has rewritten the table.
	altered bool
	res     sink.Result
	bad     []refusal
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
	rows = rows[:0:0]
	for _, r := range p.bad {
		rows = append(rows, r.row)
	}
	p.bad = nil
	for m := range p.b.Singles(rows) {
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
	s := &script{}
	m := d.newMerge(p.b, p.table, rows)
	m.altered = p.altered
	s.add("SAVEPOINT weir")
	sql, now := m.prepare()
	if len(sql) == 0 {
		sql = []string{"TRUNCATE " + m.name}
	}
	if d.stage.made && now.kind == perFlush {
		sql = append([]string{"DROP TABLE IF EXISTS " + m.name}, sql...)
	}
	for _, q := range sql {
		s.add("%s", q)
	}
	at := m.statements(s)
	s.copy = m.encode(rows)
	s.add("RELEASE weir")
	r, err := d.run(p.ctx, s)
	if err == nil {
		m.count(&p.res, r, at, len(rows))
		d.stage = now
		return nil
	}
	if d.conn == nil {
		return err
	}
	if _, undo := d.query(p.ctx, "ROLLBACK TO weir", "RELEASE weir"); undo != nil {
		return undo
	}
	return err
}
