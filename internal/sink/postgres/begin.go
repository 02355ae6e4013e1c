package postgres

import (
	"maps"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/fold"
)

// fit finds the changes that adapt the tables to the batches.
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

// fit finds the statements that adapt the table to the batch.
func (p *part) fit() (err error) {
	if p.after = p.t.relation; !p.b.Used() && len(p.keys) == 0 {
		return nil
	}
	if p.ddl, p.after, err = p.a.d.fit(p.b, p.t, p.a.referredTable); err != nil {
		return err
	}
	if p.t.Exists && len(p.ddl) > 0 {
		if err := p.recreateForeignKeys(); err != nil {
			return err
		}
	}
	if len(p.ddl) > 0 {
		p.after.facts = ""
	}
	return nil
}

// arrayNulls makes a null in an array NULL, whatever the role's settings; else it may be the text NULL.
const arrayNulls = "SET LOCAL array_nulls = on"

// begin adds the statements before the rows: BEGIN with the durability that the user asked for, settings, weir's own
// tables if they are missing, the fence, locks, and changes of the tables. The fence precedes every access to the
// tables: a commit whose reply was lost may still be in progress, and the fence then waits for it.
func (a *attempt) begin() {
	d, s := a.d, a.script
	s.begin(commitLevels[d.opt.Level])
	if !d.pooled {
		s.add("SET application_name = %s", literal("weir/"+a.f.Job))
	}
	if d.idle == 0 || d.idle > stoppedAfter {
		s.add("SET LOCAL idle_in_transaction_session_timeout = %d", stoppedAfter.Milliseconds())
	}
	if d.opt.IgnoreForeignKeys {
		s.add("SET LOCAL session_replication_role = replica") // the only way to skip keys that are not deferrable
	}
	s.add("SET LOCAL work_mem = '64MB'") // to sort a batch
	s.add(arrayNulls)
	if !d.ready {
		s.addAll(d.dialect().Create()...)
	}
	a.fence()
	s.addAll(joins...)
	for _, p := range a.parts {
		if a.f.First() || !slices.Contains(p.after.Writers, storable(a.f.Job)) {
			// First of all: [DB.Forget] looks here for other jobs that have written to a table.
			s.addAll(d.dialect().AddTable(a.f.Job, p.b.Table.Name))
		}
	}
	a.lockTables()
	if a.f.Rebuild {
		a.emptyTables()
	}
	for _, p := range a.parts {
		// A rejected line may be one that the table, as it is now, accepts.
		if p.b.Used() || len(p.ddl) > 0 || len(a.f.Rejects) > 0 {
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

// stoppedAfter is how long the server waits for the client before it ends the session. If the client was stopped,
// others, including the one that could end the session, may be waiting for its locks. Between two scripts of a
// transaction the client compares its rows with the database's: that took 4 µs a row on a busy machine.
const stoppedAfter = time.Minute

// lockTables adds an advisory lock for each table, in the order of their numbers, because other writers may have the
// tables in another order: exclusive for tables that this flush needs for itself, shared for the others. A piecewise
// flush needs the tables that may reject rows for itself: it writes messages in feed order, so two such flushes could
// deadlock on each other's rows. Sets are written by one flush at a time: rows of one set that two insert do not see
// each other, and the row that has the set is not locked if it does not change. So are rows with versions: what a flush
// reads of them must still be so when it writes them.
func (a *attempt) lockTables() {
	modes := map[int64]string{} // by number
	for _, p := range a.parts {
		if !p.b.Used() {
			continue
		}
		n := lockNumber("turns", a.d.schema, a.d.fullName(&p.after))
		if modes[n] = "_shared"; p.isSet || p.b.Versioned() || a.piecewise && p.b.Table.HasConstraints {
			modes[n] = ""
		}
	}
	for _, n := range slices.Sorted(maps.Keys(modes)) {
		a.script.add("SELECT pg_advisory_xact_lock%s(%d)", modes[n], n)
	}
}

// lockTaken adds locks of the tables if others keep changing their rows.
func (a *attempt) lockTaken() {
	if a.moved < 2 {
		return
	}
	var tables []string
	for _, p := range a.parts {
		if p.t.Exists && p.b.Used() {
			tables = append(tables, p.t.ident)
		}
	}
	for _, t := range slices.Sorted(slices.Values(tables)) {
		a.script.add("LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE", t)
	}
}

// change adds statements that change the table, and prepare the storage of its versions.
func (p *part) change() {
	d, s := p.a.d, p.a.script
	if len(p.ddl) > 0 {
		s.add(briefly)
	}
	if p.t.Exists {
		d.sameFacts(s, &p.t.relation, len(p.ddl) > 0)
	}
	if s.put(p.ddl...); len(p.ddl) > 0 {
		s.add(patiently)
	}
	if !p.t.Exists { // a former table of that name may have left its versions
		d.dropVersions(s, d.fullName(&p.after))
	}
	if p.b.Versioned() && p.b.Scope == fold.ColumnScope && !d.versions {
		s.addAll(d.dialect().Versions()...)
	}
}
