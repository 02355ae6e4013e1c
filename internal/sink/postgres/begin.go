package postgres

import (
	"maps"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/fold"
)

// fit finds what makes the tables what the batches need.
func (a *attempt) fit() error {
	for _, p := range a.parts {
		if err := p.fit(); err != nil {
			return err
		}
	}
	for _, p := range a.parts {
		p.ddl = append(p.ddl, p.keys...)
	}
	return nil
}

// A tableChange is what makes a table what a batch needs, and the table then.
type tableChange struct {
	ddl      []statement
	keys     []statement // what makes its foreign keys again that a parent's change has dropped
	after    relation
	unmarked bool // it is unlogged, and gets its marker
}

// fit finds the statements that make the table what the batch needs.
func (p *part) fit() (err error) {
	p.tableChange = tableChange{after: p.t.relation, keys: p.keys}
	if !p.b.Used() && len(p.keys) == 0 {
		return nil
	}
	if p.ddl, p.after, err = p.a.d.fit(p.b, p.t, p.a.above); err != nil {
		return err
	}
	if p.t.Exists && len(p.ddl) > 0 {
		if err := p.loosen(); err != nil {
			return err
		}
	}
	if p.unmarked = p.after.unlogged && p.after.marker == ""; p.unmarked {
		p.after.ID = ""
	}
	return nil
}

// begin starts a flush's transaction, which is as durable as the user asked for.
// The fence comes before all else: a commit whose answer was lost may still be
// under way, and then this waits for it.
func (a *attempt) begin() {
	d, s := a.d, a.script
	s.begin(commitLevels[d.opt.Level])
	if name := "weir/" + a.f.Job; d.named != name && !d.pooled {
		s.add("SET application_name = %s", literal(name))
	}
	if limit := a.mayPause(); d.idle == 0 || d.idle > limit {
		s.add("SET LOCAL idle_in_transaction_session_timeout = %d", limit.Milliseconds())
	}
	if d.opt.IgnoreForeignKeys {
		s.add("SET LOCAL session_replication_role = replica") // the only way to skip keys that are not deferrable
	}
	s.add("SET LOCAL work_mem = '64MB'") // to sort a batch
	s.add("SET LOCAL array_nulls = on")  // else a null in an array is the text NULL
	if !d.ready {
		s.addAll(d.dialect().Ledger()...)
	}
	a.fence()
	s.addAll(joins...)
	for _, p := range a.parts {
		if a.f.First() || !slices.Contains(p.after.Writers, storable(a.f.Job)) {
			// Before anything else: [DB.Forget] looks here for who else has written to a table.
			s.add("INSERT INTO %s.weir_jobs (job, tbl) VALUES (%s, %s) ON CONFLICT DO NOTHING", d.schema, literal(a.f.Job), literal(p.b.Table.Name))
		}
	}
	a.lockTables()
	if a.f.Rebuild {
		a.emptyTables()
	}
	for _, p := range a.parts {
		if p.b.Used() || len(p.ddl) > 0 {
			p.change()
		}
	}
	for _, p := range slices.Backward(a.parts) { // children before their parents
		if p.b.Truncated != nil && p.t.Exists {
			s.put(statement{sql: "DELETE FROM " + p.t.ident, tally: removed})
			p.owns(len(s.statements) - 1)
		}
	}
}

// A flush may leave the server waiting for stoppedAfter, and stoppedRow for each of its rows, before the server ends it: others may
// wait for its locks, also those that could end it, and its process may be stopped. Between two scripts of a transaction it
// compares its rows with the database's: that took 4 µs a row on a busy machine.
const (
	stoppedAfter = 10 * time.Second
	stoppedRow   = 50 * time.Microsecond
)

// mayPause is how long the server waits for the flush at most.
func (r *flushRun) mayPause() time.Duration {
	limit := stoppedAfter
	for _, rows := range r.rows {
		limit += time.Duration(len(rows)) * stoppedRow
	}
	return limit
}

// lockTables adds the advisory locks between flushes: exclusive for the tables that this one needs to itself, shared for the
// others. One that is written piecewise needs the tables that may reject rows: it writes messages in the
// order of the feed, so that two could wait for each other's rows. One that is sent again because another
// session inserted a key first, or both waited for each other, needs all: or the next one is first at another key. For versions see
// [part.exclusive].
func (a *attempt) lockTables() {
	locks := map[int64]bool{} // by number, and whether nobody else may have them
	for _, p := range a.parts {
		if p.b.Used() {
			locks[lockNumber("turns", a.d.schema, a.d.fullName(&p.after))] = a.piecewise && p.b.Table.HasConstraints || a.tries[errTaken] > 0
		}
		if p.b.Versioned() && (p.b.Used() || len(p.ddl) > 0) {
			locks[a.d.versionsLock(&p.after)] = p.exclusive()
			if p.b.Scope == fold.ColumnScope && !a.d.versions {
				locks[lockNumber("versions", a.d.schema)] = true // which may make the table of versions
			}
		}
	}
	a.script.lockAll(locks)
}

// lockAll adds statements that take advisory locks; locks says which are exclusive. Another writer may have the tables in
// another order, so locks are taken in the order of their numbers.
func (s *script) lockAll(locks map[int64]bool) {
	for _, n := range slices.Sorted(maps.Keys(locks)) {
		mode := "_shared"
		if locks[n] {
			mode = ""
		}
		s.add("SELECT pg_advisory_xact_lock%s(%d)", mode, n)
	}
}

// change adds statements that change the table, and makes ready what is kept of its
// versions.
func (p *part) change() {
	d, s := p.a.d, p.a.script
	if len(p.ddl) > 0 {
		s.add(briefly)
	}
	if p.t.Exists {
		d.sameColumns(s, &p.t.relation, len(p.ddl) > 0)
	}
	if s.put(p.ddl...); len(p.ddl) > 0 {
		s.add(patiently)
	}
	if p.unmarked {
		d.markUnlogged(s, &p.after)
	}
	if p.b.Versioned() && p.b.Scope == fold.ColumnScope {
		d.readyVersions(s, &p.after)
	}
}
