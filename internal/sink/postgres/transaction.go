package postgres

import (
	"context"
	"encoding/hex"
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
		Writer: writerSQL, Micros: micros, Moment: func(t time.Time) string { return fmt.Sprintf("to_timestamp(%d)", t.Unix()) }, Text: literal, Table: func(name string) string { return identOf(c.schemaOf(name)) }}
}

// stoppedAfter is how long a flush may leave the server waiting before the server ends it: others may
// wait for its locks, also those that could end it, and its process may be stopped.
const stoppedAfter = 10 * time.Second

// An attempt is one try to write a flush.
type attempt struct {
	*flushRun
	script  *script
	parts   []*part
	refused []fold.Reject
	others  string // a hash of the other jobs, when tables that are to be emptied were read
	late    bool   // the ID of a table is known at the end alone
	idAt    int    // the statement that reads the IDs, 0 where none does
	before  []partState
}

// partState is what a transaction or a piece of it changes of a part, but for its rows.
type partState struct {
	counts sink.Counts
	stage  stage
}

func (a *attempt) state() []partState {
	states := make([]partState, len(a.parts))
	for i, p := range a.parts {
		states[i] = partState{p.result.counts, p.t.stage}
	}
	return states
}

func (a *attempt) restore(states []partState) {
	for i, p := range a.parts {
		p.result.counts, p.t.stage = states[i].counts, states[i].stage
	}
}

func newAttempt(r *flushRun) *attempt {
	a := &attempt{flushRun: r, script: &script{}}
	for i, b := range r.f.Batches {
		a.parts = append(a.parts, &part{a: a, b: b, t: r.d.known(b.Table.Name), rows: r.rows[i], set: b.Child != nil && b.Child.Set})
	}
	a.before = a.state()
	return a
}

// write sends a flush: in one string of statements, or, where the database rejects rows, in pieces of one transaction.
func (a *attempt) write(ctx context.Context) error {
	if a.f.Rebuild {
		if err := a.readRebuild(ctx); err != nil {
			return err
		}
	}
	if err := a.fit(); err != nil {
		return err
	}
	compose := a.compose
	if a.piecewise {
		compose = a.composePiecewise
	}
	if err := compose(ctx); err != nil {
		return err
	}
	r, err := a.d.run(ctx, a.script)
	if a.piecewise || a.count(r) {
		a.d.last.result = a.result() // judge returns it if the COMMIT took effect and its answer was lost
	}
	if err != nil {
		return err
	}
	return a.committed(r)
}

// compose makes the script of a flush. If rows have versions, it first sends what the script has so far, to read them.
func (a *attempt) compose(ctx context.Context) error {
	if a.f.BeforeCommit != nil {
		if err := a.f.BeforeCommit(a.f.Rejects); err != nil {
			return err
		}
	}
	a.begin()
	for _, p := range a.parts {
		p.writes = p.rows
	}
	if err := a.mergeRows(ctx, a.tries[errNotNew] == 0); err != nil {
		return err
	}
	a.end(a.f.Rejects, a.late)
	return nil
}

// fit finds what makes the tables what the batches need.
func (a *attempt) fit() error {
	for _, p := range a.parts {
		if err := p.fit(); err != nil {
			return err
		}
		a.late = a.late || p.after.Exists && p.after.ID == ""
	}
	for _, p := range a.parts {
		p.ddl = append(p.ddl, p.keys...)
	}
	return nil
}

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
	s.add(roomToSort)
	s.add(interpreted)
	s.add("SET LOCAL array_nulls = on") // else a null in an array is the text NULL
	s.add("SET LOCAL client_min_messages = warning")
	s.add("SET LOCAL extra_float_digits = 1") // a double's text has all its digits
	if !d.ready {
		for _, q := range d.dialect().Ledger() {
			s.add("%s", q)
		}
	}
	a.fence()
	s.without(flushMethods...)
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
		if p.result.emptied = 0; p.b.Truncated != nil && p.t.Exists {
			p.result.emptied = a.script.add("DELETE FROM %s", p.t.ident)
		}
	}
}

// countEmptied adds what the statements did that remove all rows of tables, once.
func (a *attempt) countEmptied(r []result) (some bool) {
	for _, p := range a.parts {
		if p.result.emptied > 0 && p.result.emptied < len(r) {
			p.result.counts.Deleted += r[p.result.emptied].tag.RowsAffected()
			some = true
		}
		p.result.emptied = 0
	}
	return some
}

// takeTurns adds the advisory locks between flushes: exclusive for the tables that this one needs to itself, shared for the
// others. One that is written piecewise needs the tables that may reject rows: it writes messages in the
// order of the feed, so that two could wait for each other's rows. One that is sent again because another
// session inserted a key first, or both waited for each other, needs all: or the next one is first at another key. For versions see
// [part.alone].
func (a *attempt) takeTurns() {
	turns := map[int64]bool{} // locks, and whether nobody else may have them
	for _, p := range a.parts {
		if p.b.Used() {
			turns[lockNumber("turns", a.d.schema, a.d.fullName(&p.after))] = a.piecewise && p.b.Table.HasConstraints || a.tries[errTaken] > 0
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

// mergeRows adds what writes the rows of the parts: upserts in the order of the parts, then
// deletes in the reverse one. What the database has of rows with versions is read first, for
// which the script so far is sent; with assumeNew, only if they do not seem to be new.
func (a *attempt) mergeRows(ctx context.Context, assumeNew bool) error {
	look := false
	for _, p := range a.parts {
		p.lookup, p.resolver, p.plan = nil, nil, nil
		p.result = tableResult{emptied: p.result.emptied, counts: p.result.counts, stage: p.result.stage}
		if p.set || len(p.writes) == 0 && !p.mayFollow() {
			continue
		}
		if err := p.prepare(assumeNew); err != nil {
			return err
		}
		look = look || p.lookup != nil
	}
	if look {
		if err := a.read(ctx); err != nil {
			return err
		}
	}
	if err := a.decide(); err != nil {
		return err
	}
	a.lockSets()
	a.writeParts()
	return nil
}

// writeParts adds what writes the rows as they are planned.
func (a *attempt) writeParts() {
	for _, p := range a.parts {
		if p.plan != nil {
			p.write()
		}
	}
	for _, p := range slices.Backward(a.parts) {
		switch {
		case p.plan == nil || len(p.plan.rows) == 0:
		case p.plan.acts.sweeps > 0:
			p.addAll([]statement{p.plan.sweep()})
		case p.plan.acts.deletes > 0 && !p.plan.alone:
			p.addAll([]statement{p.plan.delete()})
		}
		for _, above := range a.takers(p) {
			p.result.taken = append(p.result.taken, a.script.addStatement(p.take(above)))
		}
	}
}

// end adds the rejects, what is known of the checkpoints at the end alone, and the COMMIT.
func (a *attempt) end(rejects []fold.Reject, late bool) {
	d, f, s := a.d, a.f, a.script
	for _, q := range d.dialect().DropRejects(f) {
		s.add("%s", q)
	}
	if f.KeepRejects {
		d.keep(s, f, rejects)
	}
	for _, q := range d.dialect().Record(f) {
		s.add("%s", q)
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

// count adds what the statements of the parts did, and reports whether they got so far.
func (a *attempt) count(r []result) (some bool) {
	some = a.countEmptied(r)
	for _, p := range a.parts {
		if p.plan != nil {
			if some = p.count(r); !some {
				return false
			}
		}
		for _, n := range p.result.taken {
			if some = n < len(r); !some {
				return false
			}
			p.result.counts.Deleted += r[n].tag.RowsAffected()
		}
	}
	return some
}

// result is what the attempt did.
func (a *attempt) result() sink.Result {
	res := sink.Result{Tables: make([]sink.Counts, len(a.parts)), Refused: a.refused}
	for i, p := range a.parts {
		res.Tables[i] = p.result.counts
	}
	return res
}

// committed takes the answer of a script whose last statement was COMMIT.
func (a *attempt) committed(r []result) error {
	if tag := r[len(r)-1].tag.String(); tag != "COMMIT" {
		return fmt.Errorf("the server answered COMMIT with %s", tag)
	}
	d, ids := a.d, []string(nil)
	if a.idAt > 0 {
		_, ids = sink.SplitIDs(string(r[a.idAt].rows[0][0]))
	}
	for i, p := range a.parts {
		if ids != nil {
			p.after.known(ids[i])
		}
		p.committed()
		d.versions = d.versions || p.b.Used() && p.b.Scope == fold.ColumnScope
		if p.plan == nil || a.piecewise {
			continue
		}
		p.t.news.wrote(p.result.counts.Inserted == int64(p.plan.about))
		p.repeatsNext()
		if p.plan.versions != nil {
			p.t.names = p.plan.versions.names
		}
	}
	d.ready, d.named = true, "weir/"+a.f.Job
	return nil
}

// known takes the ID of a table, which is known now.
func (t *relation) known(id string) {
	t.ID = id
	parts := strings.Split(id, "/")
	t.oid = parts[0]
	if t.unlogged {
		t.marker = parts[len(parts)-1]
	}
}
