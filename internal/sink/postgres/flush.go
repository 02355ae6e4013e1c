package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// dialect is how Postgres declares weir's own tables.
func (d *DB) dialect() sink.Dialect {
	return sink.Dialect{Prefix: d.schema + ".", Integer: "bigint", Time: "timestamptz", Bytes: "bytea", Serial: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		Raw: "raw text,\n  bytes bytea", Hot: " WITH (fillfactor = 50)", Keyed: " WITH (fillfactor = 80)"}
}

// maxStarts is how often a flush is started again because others changed the table or
// its rows meanwhile.
const maxStarts = 2

// errGone says that rows are gone that a flush was about to change.
var errGone = errors.New("another session deleted rows or changed their keys while they were written")

// errFenced is what the server's answer means where the job is not where the
// flush begins.
var errFenced = errors.New("the job is not where this flush begins")

// Flush implements [sink.Sink].
func (d *DB) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if err := d.connect(ctx); err != nil {
		return sink.Result{}, err
	}
	flush := fmt.Sprintf("%s\x00%s\x00%d", f.JobName(), f.Run, f.Checkpoint.Seq)
	if d.wrote == flush {
		return d.last, nil
	}
	if d.tried != flush {
		d.tried, d.last = flush, sink.Result{}
	}
	d.rereads, d.gone = 0, 0
	res, err := d.write(ctx, f)
	for d.conn != nil {
		switch {
		case errors.Is(err, errGone) && d.gone < maxStarts:
			d.gone++
		case (isStale(pgError(err)) || errors.Is(err, errStaleTable)) && d.rereads < maxStarts:
			// Others changed the table since it was read.
			d.rereads++
			if err := d.reread(ctx); err != nil {
				return sink.Result{}, err
			}
		default:
			return d.ended(ctx, f, res, err)
		}
		res, err = d.write(ctx, f)
	}
	return d.ended(ctx, f, res, err)
}

// ended is what comes of a flush that is not started again.
func (d *DB) ended(ctx context.Context, f *sink.Flush, res sink.Result, err error) (sink.Result, error) {
	switch {
	case errors.Is(err, errFenced):
		res, err = d.judge(ctx, f)
	case errors.Is(err, errStaleTable), errors.Is(err, errGone): // others keep changing it
		err = &sink.Error{Class: sink.Transient, Reason: "serialization", Err: err}
	}
	if err == nil {
		d.wrote, d.last = d.tried, res
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
	d.stage, d.versions = stage{}, false
	if d.table.Name == "" {
		return nil
	}
	was := d.table
	if _, err = d.Table(ctx, was.Name, d.key); err != nil {
		return err
	}
	return sink.CheckSame(&was.Table, &d.table.Table)
}

// How a batch is cut where reads dominate: a slice has sliceRows at least, and there
// are mostSlices at most, for each looks through the staging table.
const (
	sliceRows  = 500
	mostSlices = 40
)

// write sends a flush in one string of statements. Where the database refuses
// rows of a table whose messages it may judge, it goes on piece by piece.
func (d *DB) write(ctx context.Context, f *sink.Flush) (res sink.Result, err error) {
	s := &script{}
	var m *merge
	var at tags
	var rows []*fold.Row
	table, now := d.table, d.stage
	if len(f.Rebuild) > 0 {
		if err := d.readRebuild(ctx, f); err != nil {
			return res, err
		}
		table = d.table
	}
	d.begin(s, f)
	if f.Batch.Rows() > 0 {
		var ddl []change
		rows = f.Batch.Sorted()
		if ddl, table, err = d.fit(f.Batch); err != nil {
			return res, err
		}
		d.change(s, f.Batch, &table, ddl)
		changing := rows
		d.fresh = d.fresh || !d.table.Exists
		switch {
		case !f.Batch.Versioned():
			m = d.newMerge(f.Batch, table, rows)
		case d.fresh:
			if m, changing, err = d.suppose(f, table, rows); err != nil {
				return res, err
			}
		}
		// A delete of a row that is not there leaves none to write; it may be there.
		if d.fresh = d.fresh && len(changing) == len(rows) && m.direct(); !d.fresh && f.Batch.Versioned() {
			if m, changing, err = d.resolve(ctx, s, f, table, rows); err != nil {
				return d.failed(ctx, f, m, rows, table, res, err)
			}
			s = &script{}
		}
		if d.fresh {
			at = m.copyAll(s, changing)
		} else {
			var sql []string
			sql, now = m.prepare()
			for _, q := range sql {
				s.add("%s", q)
			}
			slice := len(changing)
			if f.ReadsDominate {
				slice = max(sliceRows, len(changing)/mostSlices)
			}
			at = m.statements(s, changing, slice)
		}
		if m.versions != nil {
			m.versions.keep(s, m, f, changing)
		}
	}
	cp := f.Checkpoint
	rejects := f.Batch.Rejects
	if f.BeforeCommit != nil {
		if err := f.BeforeCommit(rejects, &cp); err != nil {
			return res, d.abandon(ctx, err)
		}
	}
	d.end(s, f, &table, rejects, cp)
	r, err := d.run(ctx, s)
	if m != nil && m.count(&res, r, at, len(rows)) {
		d.last = res // it counts where the answer is lost and the commit is not
	}
	if err == nil {
		if m != nil {
			d.fresh = res.Inserted == int64(len(rows))
		}
		if m != nil && m.versions != nil {
			d.names = m.versions.names
		}
		return res, d.committed(s, r, table, now)
	}
	return d.failed(ctx, f, m, rows, table, res, err)
}

// failed ends a flush that did not go through at once, or finds the rows that the
// database refuses. m is nil where there were no rows.
func (d *DB) failed(ctx context.Context, f *sink.Flush, m *merge, rows []*fold.Row, table relation, res sink.Result, err error) (sink.Result, error) {
	direct := d.fresh
	d.fresh = false
	refused := pgError(err)
	if d.conn == nil || refused == nil && !d.open {
		return res, err
	}
	if m != nil && m.versions != nil {
		d.stage = stage{} // it was made in the transaction
	}
	d.stage.used = true // its rows are rolled back, and still there
	if err := d.rollback(ctx); err != nil {
		return res, err
	}
	if err := mismatch(refused); err != nil {
		return res, err
	}
	if err := d.unwidened(&table, err); err != nil {
		return res, err
	}
	switch {
	case direct && refused != nil && !isStale(refused) && (refused.Code == "23505" || refused.Code == "22P02"):
		return d.write(ctx, f) // not all rows were new, or others have numbered columns
	case isStale(refused) && d.rereads < maxStarts:
		return res, err
	case m != nil && (isRefusal(refused) || refused != nil && refused.Code == "57014" && len(rows) > 1):
		return d.carefully(ctx, f, table, rows)
	}
	return res, err
}

// begin starts a flush's transaction, which is as durable as the user asked for.
// The fence comes before all else: a commit whose answer was lost may still be
// under way, and then this waits for it.
func (d *DB) begin(s *script, f *sink.Flush) {
	s.add("BEGIN ISOLATION LEVEL READ COMMITTED") // a role's default may be another
	s.add("SET LOCAL synchronous_commit = %s", d.opt.Synchronous)
	s.add("SET LOCAL work_mem = '64MB'")     // keys and places of the batch are sorted
	s.add("SET LOCAL jit = off")             // compiling a statement of many columns takes longer than running it
	s.add("SET LOCAL enable_hashjoin = off") // they would hash the whole table, and lose the order of the keys
	s.add("SET LOCAL enable_mergejoin = off")
	s.add("SET LOCAL array_nulls = on") // else a null in an array is the text NULL
	s.add("SET LOCAL client_min_messages = warning")
	s.add("SET LOCAL extra_float_digits = 1") // a double's text has all its digits
	if !d.ready {
		for _, q := range d.dialect().Ledger() {
			s.add("%s", q)
		}
	}
	d.fence(s, f)
	if len(f.Rebuild) > 0 {
		d.empty(s, f)
	}
}

// readRebuild reads the table that a flush is going to empty.
func (d *DB) readRebuild(ctx context.Context, f *sink.Flush) error {
	d.writing = ""
	if d.ready { // else no job has written yet
		r, err := d.query(ctx, d.jobsSQL())
		if err != nil {
			return err
		}
		d.writing = string(r[0].rows[0][0])
	}
	t, err := d.readTable(ctx, f.Batch.Table.Name, d.key)
	if err != nil && !errors.As(err, new(sink.KeyError)) {
		return err
	}
	d.table = t
	if d.versions, err = d.hasVersions(ctx); err != nil {
		return err
	}
	return f.MayRebuild(&t.Table)
}

// empty adds what removes all that the jobs of a flush's Rebuild have written to the table.
func (d *DB) empty(s *script, f *sink.Flush) {
	jobs := make([]string, len(f.Rebuild))
	for i, j := range f.Rebuild {
		jobs[i] = d.literal(j)
	}
	for _, table := range []string{"weir_checkpoints", "weir_rejects"} {
		s.add("DELETE FROM %s.%s WHERE job IN (%s)", d.schema, table, strings.Join(jobs, ", "))
	}
	d.dropVersions(s, d.fullName(&d.table))
	s.add("SET LOCAL lock_timeout = '2s'")
	switch {
	case d.table.Exists:
		s.add("TRUNCATE %s", d.table.ident)
	case d.table.oid != "": // it has another key
		s.add("DROP TABLE %s", d.table.ident)
	}
	// Another job may have written to the table before this had its lock.
	s.add("SELECT ('%s' || jobs)::int FROM (%s) AS now (jobs) WHERE jobs <> %s", columnsWord, d.jobsSQL(), d.literal(d.writing))
}

// jobsSQL is a hash of all jobs that have written, with their tables.
func (d *DB) jobsSQL() string {
	return "SELECT coalesce(md5(string_agg(job || ' ' || tbl, ',' ORDER BY job)), '') FROM " + d.schema + ".weir_jobs WHERE tbl IS NOT NULL"
}

// change adds statements that change the table, and makes ready what is kept of its
// versions. Behind a change that waits for a long reader, everybody else would queue: so
// it waits only for a moment, and the flush is tried again.
func (d *DB) change(s *script, b *fold.Batch, table *relation, ddl []change) {
	if b.Versioned() {
		d.lockVersions(s, table)
	}
	if len(ddl) > 0 {
		s.add("SET LOCAL lock_timeout = '2s'")
	}
	if d.table.Exists {
		d.sameColumns(s, len(ddl) > 0)
	}
	for _, c := range ddl {
		if n := s.add("%s", c.sql); c.widens != "" {
			if s.widens == nil {
				s.widens = map[int]string{}
			}
			s.widens[n] = c.widens
		}
	}
	if table.unlogged && table.marker == "" {
		d.markUnlogged(s, table)
	}
	if b.Versioned() && b.Scope == fold.ColumnScope {
		d.readyVersions(s, table)
	}
}

const fenceWord = "weir: the job has moved"

// fence adds what demands that the job stand where this flush begins, and takes
// it on.
func (d *DB) fence(s *script, f *sink.Flush) {
	job, seq, run := d.literal(f.JobName()), f.Checkpoint.Seq, d.literal(f.Run)
	if seq == 1 {
		s.add("INSERT INTO %s.weir_jobs (job, seq, run) VALUES (%s, 1, %s)", d.schema, job, run)
		return
	}
	// A number that is none ends the transaction, and its text comes back in the
	// error.
	s.add("WITH moved AS (UPDATE %s.weir_jobs SET seq = %d, run = %s WHERE job = %s AND seq = %d RETURNING 1)"+
		" SELECT CASE WHEN count(*) = 0 THEN ('%s' || count(*))::integer END FROM moved", d.schema, seq, run, job, seq-1, fenceWord)
}

// mismatch returns what an error says of a transaction that found the job, or the table's
// columns, otherwise than the flush takes them to be: errFenced, errStaleTable, or nil.
func mismatch(e *pgconn.PgError) error {
	ended := func(word string) bool { return e.Code == "22P02" && strings.Contains(e.Message, word) }
	switch {
	case e == nil:
		return nil
	case ended(fenceWord), e.Code == "23505" && e.TableName == "weir_jobs":
		return errFenced
	case ended(columnsWord):
		return errStaleTable
	case ended(goneWord):
		return errGone
	}
	return nil
}

// judge finds out why the fence did not let a flush pass.
func (d *DB) judge(ctx context.Context, f *sink.Flush) (res sink.Result, err error) {
	seq, run := int64(0), ""
	if !d.ready { // another run may have made weir's tables; or the database went back to before them
		r, err := d.query(ctx, "SELECT "+d.readySQL())
		if err != nil {
			return res, err
		}
		d.ready = string(r[0].rows[0][0]) == "t"
	}
	if d.ready {
		r, err := d.query(ctx, "SELECT seq, run FROM "+d.schema+".weir_jobs WHERE job = "+d.literal(f.JobName()))
		if err != nil {
			return res, err
		}
		for _, row := range r[0].rows {
			seq, run = number(row[0]), string(row[1])
		}
	}
	done, err := f.Judge(seq, run)
	switch {
	case done:
		d.opt.Debug("flush %d had been committed, though its answer was lost", seq)
		return d.last, d.reread(ctx) // it may have changed the table
	case errors.As(err, new(sink.ErrBehind)):
		d.wrote = ""
	case err == nil:
		err = &sink.Error{Class: sink.Transient, Reason: "serialization", Err: errFenced}
	}
	return res, err
}

// end adds the rejects, the checkpoint and the COMMIT.
func (d *DB) end(s *script, f *sink.Flush, table *relation, rejects []fold.Reject, cp sink.Checkpoint) {
	if f.Restart {
		s.add("DELETE FROM %s.weir_rejects WHERE job = %s AND source = %s", d.schema, d.literal(f.Job), d.literal(f.Source))
	}
	if !f.DropRejects.IsZero() {
		s.add("DELETE FROM %s.weir_rejects WHERE job = %s AND time < to_timestamp(%d)", d.schema, d.literal(f.Job), f.DropRejects.Unix())
	}
	if f.KeepRejects {
		d.keep(s, f, rejects)
	}
	job := d.literal(f.JobName())
	s.add("UPDATE %s.weir_jobs SET tbl = %s, rejects = %s, updated = now() WHERE job = %s", d.schema, d.literal(f.Batch.Table.Name), d.literal(cp.Rejects), job)
	if f.Job != "" {
		s.add(`INSERT INTO %s.weir_checkpoints (job, source, line, "offset", mark, rejected, settings, tableid, updated) VALUES (%s, %s, %d, %d, %s, %d, %s, %s, now())`+
			" ON CONFLICT (job, source) DO UPDATE SET line = excluded.line, \"offset\" = excluded.\"offset\", mark = excluded.mark, rejected = excluded.rejected,"+
			" settings = excluded.settings, tableid = excluded.tableid, updated = excluded.updated",
			d.schema, job, d.literal(f.Source), cp.Line, cp.Offset, d.literal(cp.Mark), cp.Rejected, d.literal(cp.Settings), d.tableID(table))
	} else if cp.Seq == 1 {
		s.add("DELETE FROM %s.weir_jobs WHERE job LIKE %s AND updated < now() - interval '%d seconds'", d.schema, d.literal(sink.RunPrefix+"%"), int64(sink.RunsKept.Seconds()))
	}
	if table.Exists && table.ID == "" {
		s.idAt = s.add("SELECT %s", d.tableID(table))
	}
	s.add("COMMIT")
}

// keep adds what writes rejected lines. They may be as large as the batch, and more so as
// SQL: a COPY holds none of them twice.
func (d *DB) keep(s *script, f *sink.Flush, rejects []fold.Reject) {
	if len(rejects) == 0 {
		return
	}
	s.add(`COPY %s.weir_rejects (job, source, line, "offset", reason, raw, bytes, time) FROM STDIN`, d.schema)
	s.copies = append(s.copies, func(w *copyWriter) error {
		text := func(line []byte, s string) []byte { return append(appendCopyText(line, []byte(s)), '\t') }
		for i := range rejects {
			r := &rejects[i]
			line := text(text(w.line(), d.storable(f.Job)), d.storable(f.Source))
			line = fmt.Appendf(line, "%d\t%d\t", r.Line, r.Offset)
			line = text(line, d.storable(r.Why()))
			raw := string(r.Text)
			shown := d.storable(raw)
			if line = text(line, shown); shown == raw && utf8.ValidString(raw) {
				line = append(line, `\N`...)
			} else {
				line = hex.AppendEncode(append(line, `\\x`...), r.Text)
			}
			if err := w.done(append(line, "\tnow\n"...)); err != nil { // the transaction's time
				return err
			}
		}
		return nil
	})
}

// committed takes the answer of a script whose last statement was COMMIT.
func (d *DB) committed(s *script, r []result, table relation, now stage) error {
	if tag := r[len(r)-1].tag.String(); tag != "COMMIT" {
		return fmt.Errorf("the server answered COMMIT with %s", tag)
	}
	now.used = false
	if s.idAt > 0 {
		table.ID = string(r[s.idAt].rows[0][0])
		parts := strings.Split(table.ID, "/")
		table.oid = parts[0]
		if table.unlogged {
			table.marker = parts[len(parts)-1]
		}
	}
	d.table, d.stage, d.ready = table, now, true
	d.versions = d.versions || now.versions
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

// count adds what a merge's statements did, if they got so far.
func (m *merge) count(res *sink.Result, r []result, at tags, rows int) bool {
	affected := func(statements ...int) (n int64) {
		for _, i := range statements {
			if i >= 0 {
				n += r[i].tag.RowsAffected()
			}
		}
		return n
	}
	if len(r) <= slices.Max(slices.Concat([]int{at.insert}, at.update, at.delete)) || rows == 0 {
		return false
	}
	inserted, updated, deleted := affected(at.insert), affected(at.update...), affected(at.delete...)
	res.Inserted += inserted
	res.Updated += updated
	res.Deleted += deleted
	res.Unchanged += int64(rows) - inserted - updated - deleted
	return true
}
