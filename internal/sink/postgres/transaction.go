package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// dialect is how Postgres declares weir's own tables.
func (c *client) dialect() sink.Dialect {
	return sink.Dialect{Prefix: c.schema + ".", Integer: "bigint", Time: "timestamptz", Bytes: "bytea", Serial: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
		Raw: "raw text,\n  bytes bytea", Hot: " WITH (fillfactor = 50)", Keyed: " WITH (fillfactor = 50)", KeyOrder: "key, tbl",
		Bytewise: ` COLLATE "C"`, Reason: "split_part(reason, ':', 1)", Kept: "encode(bytes, 'hex'), raw",
		Micros: micros, Text: literal, Table: func(name string) string { return identOf(c.schemaOf(name)) }}
}

// stoppedAfter is how long a flush may leave the server waiting before the server ends it: others may
// wait for its locks, also those that could end it, and its process may be stopped.
const stoppedAfter = 10 * time.Second

// begin starts a flush's transaction, which is as durable as the user asked for.
// The fence comes before all else: a commit whose answer was lost may still be
// under way, and then this waits for it.
func (a *attempt) begin() {
	d, s := a.d, a.script
	s.add("BEGIN ISOLATION LEVEL READ COMMITTED") // a role's default may be another
	if name := "weir/" + a.f.Job; d.named != name && !d.pooled {
		s.add("SET application_name = %s", literal(name))
	}
	s.add("SET LOCAL synchronous_commit = %s", commitLevels[d.opt.Level])
	if d.idle == 0 || d.idle > stoppedAfter {
		s.add("SET LOCAL idle_in_transaction_session_timeout = %d", stoppedAfter.Milliseconds())
	}
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
	s.add("SET LOCAL enable_material = off") // where statistics take the table for empty, each staged row would be compared with all of it
	for _, p := range a.parts {
		if a.f.First() || !slices.Contains(p.after.Writers, storable(a.f.Job)) {
			// Before anything else: [DB.Forget] looks here for who else has written to a table.
			s.add("INSERT INTO %s.weir_jobs (job, tbl) VALUES (%s, %s) ON CONFLICT DO NOTHING", d.schema, literal(a.f.Job), literal(p.b.Table.Name))
		}
	}
	a.takeTurns()
	if a.f.Rebuild {
		a.empty()
	}
	for _, p := range a.parts {
		if p.b.Used() || len(p.ddl) > 0 {
			p.change()
		}
	}
	for _, p := range slices.Backward(a.parts) { // children before their parents
		if p.emptied = 0; p.b.Truncated != nil && p.t.Exists {
			p.emptied = a.script.add("DELETE FROM %s", p.t.ident)
		}
	}
}

// countEmptied adds what the statements did that remove all rows of tables, once.
func (a *attempt) countEmptied(r []result) (some bool) {
	for _, p := range a.parts {
		if p.emptied > 0 && p.emptied < len(r) {
			p.counts.Deleted += r[p.emptied].tag.RowsAffected()
			some = true
		}
		p.emptied = 0
	}
	return some
}

// takeTurns adds what has a flush wait for the others of tables that it needs for itself, and these
// for it. One that is written piecewise needs the tables that may reject rows: it writes messages in the
// order of the feed, so that two could wait for each other's rows. One that is sent again because another
// session inserted a key first, or both waited for each other, needs all: or the next one is first at another key. For versions see
// [part.alone].
func (a *attempt) takeTurns() {
	turns := map[int64]bool{} // locks, and whether nobody else may have them
	for _, p := range a.parts {
		if p.b.Used() {
			turns[lockNumber("turns", a.d.schema, a.d.fullName(&p.after))] = a.piecewise && p.b.Table.HasConstraints || a.d.taken > 0
		}
		if p.b.Versioned() && (p.b.Used() || len(p.ddl) > 0) {
			turns[a.d.versionsLock(&p.after)] = p.alone()
			if p.b.Scope == fold.ColumnScope && !a.d.versions {
				turns[lockNumber("versions", a.d.schema)] = true // which may make the table of versions
			}
		}
	}
	a.script.takeTurns(turns)
}

// takeTurns adds what takes advisory locks, of which turns tells whether nobody else may have them. Others
// may have the tables in another order: so it is that of the numbers.
func (s *script) takeTurns(turns map[int64]bool) {
	for _, n := range slices.Sorted(maps.Keys(turns)) {
		mode := "_shared"
		if turns[n] {
			mode = ""
		}
		s.add("SELECT pg_advisory_xact_lock%s(%d)", mode, n)
	}
}

// readRebuild reads the tables that the flush is going to empty.
func (a *attempt) readRebuild(ctx context.Context) error {
	d := a.d
	if d.ready { // else no job has written yet
		r, err := d.query(ctx, a.othersSQL())
		if err != nil {
			return err
		}
		a.others = string(r[0].rows[0][0])
	}
	wanted := make([]sink.TableKey, len(a.parts))
	for i, p := range a.parts {
		wanted[i] = sink.TableKey{Name: p.b.Table.Name, Key: p.t.key}
	}
	now, err := d.readRelations(ctx, wanted)
	if err != nil && !errors.As(err, new(sink.KeyError)) {
		return err
	}
	for i, p := range a.parts {
		p.t.relation = now[i]
		if err := errors.Join(sink.MayRebuild(&p.t.Table, storable(a.f.Job)), sink.MayEmpty(&p.t.Table, func(other string) bool { return a.called(other) != nil })); err != nil {
			return err
		}
	}
	return nil
}

// empty adds what removes all that the job has written to the tables.
func (a *attempt) empty() {
	d, s := a.d, a.script
	job := literal(a.f.Job)
	s.add("DELETE FROM %s.weir_checkpoints WHERE job = %s AND source NOT IN (%s)", d.schema, job, a.names(a.lanes()))
	s.add("DELETE FROM %s.weir_rejects WHERE job = %s", d.schema, job)
	var truncate, drop []string
	for _, p := range a.parts {
		d.dropVersions(s, d.fullName(&p.t.relation))
		switch {
		case p.t.Exists:
			truncate = append(truncate, p.t.ident)
		case p.t.oid != "": // it has another key
			drop = append(drop, p.t.ident)
		}
	}
	s.add("SET LOCAL lock_timeout = '2s'")
	if len(drop) > 0 {
		s.add("DROP TABLE %s", strings.Join(drop, ", "))
	}
	if len(truncate) > 0 {
		s.add("TRUNCATE %s", strings.Join(truncate, ", "))
	}
	// Another job may have written to a table before this had its lock.
	s.demand(errStaleTable, "(%s) = %s", a.othersSQL(), literal(a.others))
}

// othersSQL is a hash of the other jobs that have written, with their tables.
func (a *attempt) othersSQL() string {
	return "SELECT coalesce(md5(string_agg(job || ' ' || tbl, ',' ORDER BY job, tbl)), '') FROM " + a.d.schema + ".weir_jobs WHERE job <> " + literal(a.f.Job)
}

// end adds the rejects, what is known of the checkpoints at the end alone, and the COMMIT.
func (a *attempt) end(rejects []fold.Reject, late bool) {
	d, f, s := a.d, a.f, a.script
	job := literal(f.Job)
	var restarts []string
	unnamed := false
	for _, l := range a.lanes() {
		if l.Restart {
			restarts = append(restarts, literal(l.Source))
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
			d.schema, job, literal(r.Path), r.Size, literal(r.ID))
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
	job, sources := storable(f.Job), make([]string, len(f.Lanes))
	for i := range sources {
		sources[i] = storable(f.Lanes[i].Source)
	}
	s.copies = append(s.copies, func(w *copyWriter) error {
		text := func(line []byte, s string) []byte { return append(appendCopyText(line, []byte(s)), '\t') }
		for i := range rejects {
			r := &rejects[i]
			line := text(text(w.line(), job), sources[r.Lane])
			line = fmt.Appendf(line, "%d\t%d\t", r.Line, r.Offset)
			line = text(line, storable(r.Why()))
			raw := string(r.Text)
			shown := storable(raw)
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
