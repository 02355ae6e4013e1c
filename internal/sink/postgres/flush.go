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

// Flush implements [sink.Sink].
func (d *DB) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if err := d.connect(ctx); err != nil {
		return sink.Result{}, err
	}
	id := flushID(f)
	if d.committedID == id {
		return d.pendingResult, nil
	}
	if d.pendingID != id {
		d.pendingID, d.pendingResult = id, sink.Result{}
	}
	d.rereads, d.gone = 0, 0
	t := d.known(f.Batch.Table.Name)
	if t.stageName == "" {
		t.stageName = d.stageName(f, t)
	}
	res, err := d.write(ctx, f, t)
	for d.conn != nil {
		switch {
		case errors.Is(err, errGone) && d.gone < maxStarts:
			d.gone++
		case (isStale(pgError(err)) || errors.Is(err, errStaleTable)) && d.rereads < maxStarts:
			// Others changed the table since it was read.
			d.rereads++
			if err := d.reread(ctx, t); err != nil {
				return sink.Result{}, err
			}
		default:
			return d.ended(ctx, f, t, res, err)
		}
		res, err = d.write(ctx, f, t)
	}
	return d.ended(ctx, f, t, res, err)
}

// flushID is the same for a flush that is sent again, and for no other.
func flushID(f *sink.Flush) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%s", f.Job, f.Run)
	for i := range f.Lanes {
		fmt.Fprintf(&b, "\x00%s\x00%d", f.LaneName(&f.Lanes[i]), f.Lanes[i].Checkpoint.Seq)
	}
	return b.String()
}

// ended is what comes of a flush that is not started again.
func (d *DB) ended(ctx context.Context, f *sink.Flush, t *table, res sink.Result, err error) (sink.Result, error) {
	switch {
	case errors.Is(err, errFenced):
		res, err = d.judge(ctx, f, t)
	case errors.Is(err, errStaleTable), errors.Is(err, errGone): // others keep changing it
		err = &sink.Error{Class: sink.Transient, Reason: "serialization", Err: err}
	}
	if err == nil {
		d.committedID, d.pendingResult = d.pendingID, res
	}
	return res, d.explain(err)
}

// known is what is known of a table.
func (d *DB) known(name string) *table {
	t := d.tables[name]
	if t == nil {
		t = &table{n: len(d.tables)}
		d.tables[name] = t
	}
	return t
}

// reread reads a table, and whether weir's own exist.
func (d *DB) reread(ctx context.Context, t *table) error {
	if err := d.askReady(ctx); err != nil {
		return err
	}
	t.stage, d.versions = stage{}, false
	if t.Name == "" {
		return nil
	}
	was := t.Table
	if _, err := d.Table(ctx, was.Name, t.key); err != nil {
		return err
	}
	return sink.CheckSame(&was, &t.Table)
}

// How a batch is cut where reads dominate: a slice has sliceRows at least, and there
// are mostSlices at most, for each looks through the staging table.
const (
	sliceRows  = 500
	mostSlices = 40
)

// An attempt is one try to write a flush.
type attempt struct {
	d *DB
	f *sink.Flush
	t *table // as it is known

	script *script
	others string      // a hash of the other jobs, when a table that is to be emptied was read
	rows   []*fold.Row // of the batch, sorted
	merge  *merge      // nil where there are no rows
	tags   tags        // of its statements
	direct bool        // the rows are copied into the table itself, as if all were new
	res    sink.Result

	// The table, once the flush is committed.
	after    relation
	stage    stage
	unmarked bool // it is unlogged, and gets its marker
	late     bool // its ID is known at the end alone
	idAt     int  // the statement that reads it, 0 where none does
}

// write sends a flush in one string of statements. Where the database refuses
// rows of a table whose messages it may judge, they are written piecewise.
func (d *DB) write(ctx context.Context, f *sink.Flush, t *table) (sink.Result, error) {
	a := &attempt{d: d, f: f, t: t}
	err := a.compose(ctx)
	if err != nil {
		return a.failed(ctx, err)
	}
	r, err := d.run(ctx, a.script)
	if a.merge != nil && a.merge.count(&a.res, r, a.tags, len(a.rows)) {
		d.pendingResult = a.res // it counts where the answer is lost and the commit is not
	}
	if err != nil {
		return a.failed(ctx, err)
	}
	if a.merge != nil {
		t.allNew = a.res.Inserted == int64(len(a.rows))
		if a.merge.versions != nil {
			t.names = a.merge.versions.names
		}
	}
	return a.res, a.committed(r)
}

// compose makes the script of a flush. The versions of rows are read from the database by
// then, with what goes before in the transaction.
func (a *attempt) compose(ctx context.Context) error {
	if a.f.Rebuild {
		if err := a.readRebuild(ctx); err != nil {
			return err
		}
	}
	ddl, err := a.fit()
	if err != nil {
		return err
	}
	if a.f.BeforeCommit != nil {
		if err := a.f.BeforeCommit(a.f.Rejects); err != nil {
			return err
		}
	}
	a.begin(ddl)
	if len(a.rows) > 0 {
		if err := a.mergeRows(ctx); err != nil {
			return err
		}
	}
	a.end(a.f.Rejects, a.late)
	return nil
}

// fit finds the statements that make the table what the batch needs.
func (a *attempt) fit() (ddl []change, err error) {
	a.script, a.after, a.stage = &script{}, a.t.relation, a.t.stage
	if a.f.Batch.Rows() > 0 {
		if a.rows == nil {
			a.rows = a.f.Batch.Sorted()
		}
		if ddl, a.after, err = a.d.fit(a.f.Batch, a.t); err != nil {
			return nil, err
		}
		if a.unmarked = a.after.unlogged && a.after.marker == ""; a.unmarked {
			a.after.ID = ""
		}
	}
	a.late = a.after.Exists && a.after.ID == ""
	return ddl, nil
}

// mergeRows adds what writes the rows.
func (a *attempt) mergeRows(ctx context.Context) (err error) {
	d, t, b := a.d, a.t, a.f.Batch
	changing, assumed := a.rows, t.allNew || !t.Exists
	switch {
	case !b.Versioned():
		a.merge = d.newMerge(b, t, a.after, a.rows)
	case assumed:
		if changing, err = a.mergeAssumingNew(); err != nil {
			return err
		}
	}
	// A delete of a row that is missing leaves none to write; it may exist.
	a.direct = assumed && len(changing) == len(a.rows) && a.merge.direct()
	if !a.direct && b.Versioned() {
		if changing, err = a.resolve(ctx, a.rows); err != nil {
			return err
		}
	}
	if a.direct {
		a.tags = a.merge.copyAll(a.script, changing)
	} else {
		slice := len(changing)
		if a.f.ReadsDominate {
			slice = max(sliceRows, len(changing)/mostSlices)
		}
		a.stageRows(changing, slice)
	}
	if a.merge.versions != nil {
		a.merge.versions.keep(a.script, a.merge, a.f, changing)
	}
	return nil
}

// stageRows adds what writes rows by way of the staging table, in slices.
func (a *attempt) stageRows(rows []*fold.Row, slice int) {
	var sql []string
	sql, a.stage = a.merge.prepare()
	for _, q := range sql {
		a.script.add("%s", q)
	}
	a.tags = a.merge.statements(a.script, rows, slice)
}

// failed ends a flush that did not go through at once, or finds the rows that the
// database refuses.
func (a *attempt) failed(ctx context.Context, err error) (sink.Result, error) {
	d, t := a.d, a.t
	t.allNew = false
	refused := pgError(err)
	if d.conn == nil || refused == nil && !d.open {
		return a.res, err
	}
	if a.merge != nil && a.merge.versions != nil {
		t.stage = stage{} // it was made in the transaction
	}
	t.stage.used = true // its rows are rolled back, and still there
	if err := d.rollback(ctx); err != nil {
		return a.res, err
	}
	if err := mismatch(refused); err != nil {
		return a.res, err
	}
	if err := d.unwidened(&a.after, err); err != nil {
		return a.res, err
	}
	switch {
	case a.direct && refused != nil && !isStale(refused) && (refused.Code == "23505" || refused.Code == "22P02"):
		return d.write(ctx, a.f, t) // not all rows were new, or others have numbered columns
	case isStale(refused) && d.rereads < maxStarts:
		return a.res, err
	case a.merge != nil && (isRefusal(refused) || refused != nil && refused.Code == "57014" && len(a.rows) > 1):
		return a.flushPiecewise(ctx)
	}
	return a.res, err
}

// begin starts a flush's transaction, which is as durable as the user asked for.
// The fence comes before all else: a commit whose answer was lost may still be
// under way, and then this waits for it.
func (a *attempt) begin(ddl []change) {
	d, s := a.d, a.script
	s.add("BEGIN ISOLATION LEVEL READ COMMITTED") // a role's default may be another
	if name := "weir/" + a.f.Job; d.named != name && !d.pooled {
		s.add("SET application_name = %s", d.literal(name))
	}
	s.add("SET LOCAL synchronous_commit = %s", commitLevels[d.opt.Level])
	s.add("SET LOCAL work_mem = '64MB'") // keys and places of the batch are sorted
	s.add("SET LOCAL jit = off")         // compiling a statement of many columns takes longer than running it
	s.add("SET LOCAL array_nulls = on")  // else a null in an array is the text NULL
	s.add("SET LOCAL client_min_messages = warning")
	s.add("SET LOCAL extra_float_digits = 1") // a double's text has all its digits
	if !d.ready {
		for _, q := range d.dialect().Ledger() {
			s.add("%s", q)
		}
	}
	a.fence()
	s.add("SET LOCAL enable_hashjoin = off") // they would hash the whole table, and lose the order of the keys
	s.add("SET LOCAL enable_mergejoin = off")
	if a.f.First() || !slices.Contains(a.after.Writers, d.storable(a.f.Job)) {
		// Before anything else: [DB.Forget] looks here for who else has written to a table.
		s.add("INSERT INTO %s.weir_jobs (job, tbl) VALUES (%s, %s) ON CONFLICT DO NOTHING", d.schema, d.literal(a.f.Job), d.literal(a.f.Batch.Table.Name))
	}
	if a.f.Rebuild {
		a.empty()
	}
	if len(a.rows) > 0 {
		a.change(ddl)
	}
}

// readRebuild reads the table that the flush is going to empty.
func (a *attempt) readRebuild(ctx context.Context) error {
	d, t := a.d, a.t
	if d.ready { // else no job has written yet
		r, err := d.query(ctx, a.othersSQL())
		if err != nil {
			return err
		}
		a.others = string(r[0].rows[0][0])
	}
	now, err := d.readTable(ctx, a.f.Batch.Table.Name, t.key)
	if err != nil && !errors.As(err, new(sink.KeyError)) {
		return err
	}
	t.relation = now
	if d.versions, err = d.hasVersions(ctx); err != nil {
		return err
	}
	return sink.MayRebuild(&t.Table, d.storable(a.f.Job))
}

// empty adds what removes all that the job has written to the table.
func (a *attempt) empty() {
	d, s, t := a.d, a.script, a.t
	job := d.literal(a.f.Job)
	s.add("DELETE FROM %s.weir_checkpoints WHERE job = %s AND source NOT IN (%s)", d.schema, job, a.names(a.lanes()))
	s.add("DELETE FROM %s.weir_rejects WHERE job = %s", d.schema, job)
	d.dropVersions(s, d.fullName(&t.relation))
	s.add("SET LOCAL lock_timeout = '2s'")
	switch {
	case t.Exists:
		s.add("TRUNCATE %s", t.ident)
	case t.oid != "": // it has another key
		s.add("DROP TABLE %s", t.ident)
	}
	// Another job may have written to the table before this had its lock.
	s.add("SELECT ('%s' || jobs)::int FROM (%s) AS now (jobs) WHERE jobs <> %s", columnsWord, a.othersSQL(), d.literal(a.others))
}

// othersSQL is a hash of the other jobs that have written, with their tables.
func (a *attempt) othersSQL() string {
	return "SELECT coalesce(md5(string_agg(job || ' ' || tbl, ',' ORDER BY job, tbl)), '') FROM " + a.d.schema + ".weir_jobs WHERE job <> " + a.d.literal(a.f.Job)
}

// change adds statements that change the table, and makes ready what is kept of its
// versions. Behind a change that waits for a long reader, everybody else would queue: so
// it waits only for a moment, and the flush is tried again.
func (a *attempt) change(ddl []change) {
	d, s, b := a.d, a.script, a.f.Batch
	if b.Versioned() {
		d.lockVersions(s, &a.after)
	}
	if len(ddl) > 0 {
		s.add("SET LOCAL lock_timeout = '2s'")
	}
	if a.t.Exists {
		d.sameColumns(s, &a.t.relation, len(ddl) > 0)
	}
	for _, c := range ddl {
		if n := s.add("%s", c.sql); c.failed != nil {
			if s.failed == nil {
				s.failed = map[int]func(*pgconn.PgError) error{}
			}
			s.failed[n] = c.failed
		}
	}
	if a.unmarked {
		d.markUnlogged(s, &a.after)
	}
	if b.Versioned() && b.Scope == fold.ColumnScope {
		d.readyVersions(s, &a.after)
	}
}

// mismatch returns what an error says of a transaction that found a lane, or the table's
// columns, otherwise than the flush takes them to be: errFenced, errStaleTable, or nil.
func mismatch(e *pgconn.PgError) error {
	ended := func(word string) bool { return e.Code == "22P02" && strings.Contains(e.Message, word) }
	switch {
	case e == nil:
		return nil
	case ended(fenceWord), e.Code == "23505" && e.TableName == "weir_checkpoints":
		return errFenced
	case ended(columnsWord):
		return errStaleTable
	case ended(goneWord):
		return errGone
	}
	return nil
}

// end adds the rejects, what is known of the checkpoints at the end alone, and the COMMIT.
func (a *attempt) end(rejects []fold.Reject, late bool) {
	d, f, s := a.d, a.f, a.script
	job := d.literal(f.Job)
	var restarts []string
	unnamed := false
	for _, l := range a.lanes() {
		if l.Restart {
			restarts = append(restarts, d.literal(l.Source))
		}
		unnamed = unnamed || l.Unnamed && l.Checkpoint.Seq == 1
	}
	if len(restarts) > 0 {
		s.add("DELETE FROM %s.weir_rejects WHERE job = %s AND source IN (%s)", d.schema, job, strings.Join(restarts, ", "))
	}
	if !f.DropRejects.IsZero() {
		s.add("DELETE FROM %s.weir_rejects WHERE job = %s AND time < to_timestamp(%d)", d.schema, job, f.DropRejects.Unix())
	}
	if f.KeepRejects {
		d.keep(s, f, rejects)
	}
	if r := f.RejectFile; r != nil {
		s.add("INSERT INTO %s.weir_reject_files (job, path, size, id) VALUES (%s, %s, %d, %s) ON CONFLICT (job, path) DO UPDATE SET size = excluded.size, id = excluded.id",
			d.schema, job, d.literal(r.Path), r.Size, d.literal(r.ID))
	}
	if unnamed {
		s.add("DELETE FROM %s.weir_checkpoints WHERE source LIKE '%s%%' AND updated < now() - interval '%d seconds'", d.schema, sink.RunPrefix, int64(sink.RunsKept.Seconds()))
	}
	if late {
		a.checkpoints()
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
	job, sources := d.storable(f.Job), make([]string, len(f.Lanes))
	for i := range sources {
		sources[i] = d.storable(f.Lanes[i].Source)
	}
	s.copies = append(s.copies, func(w *copyWriter) error {
		text := func(line []byte, s string) []byte { return append(appendCopyText(line, []byte(s)), '\t') }
		for i := range rejects {
			r := &rejects[i]
			line := text(text(w.line(), job), sources[r.Lane])
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
func (a *attempt) committed(r []result) error {
	if tag := r[len(r)-1].tag.String(); tag != "COMMIT" {
		return fmt.Errorf("the server answered COMMIT with %s", tag)
	}
	d, t := a.d, a.t
	if a.idAt > 0 {
		a.after.ID = string(r[a.idAt].rows[0][0])
		parts := strings.Split(a.after.ID, "/")
		a.after.oid = parts[0]
		if a.after.unlogged {
			a.after.marker = parts[len(parts)-1]
		}
	}
	if job := d.storable(a.f.Job); !slices.Contains(a.after.Writers, job) {
		a.after.Writers = append(slices.Clip(a.after.Writers), job)
	}
	t.relation, t.stage, t.stage.used = a.after, a.stage, false
	if t.stage.kind == perFlush {
		t.stage = stage{}
	}
	d.ready, d.named = true, "weir/"+a.f.Job
	d.versions = d.versions || a.merge != nil && a.f.Batch.Scope == fold.ColumnScope
	return nil
}

// rollback ends a transaction that failed.
func (c *client) rollback(ctx context.Context) error {
	if !c.open {
		return nil
	}
	_, err := c.query(ctx, "ROLLBACK")
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
