package postgres

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
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

// begin starts a writing transaction. synchronous is its durability. Its settings take methods away from the planner:
// weir knows the rows and their order better than statistics do, which may be old or missing, and everything that an
// index can serve should be read by it.
func (s *script) begin(synchronous string) {
	s.addAll("BEGIN ISOLATION LEVEL READ COMMITTED", // a role's default may differ
		"SET LOCAL synchronous_commit = "+synchronous,
		"SET LOCAL client_min_messages = error", // a trigger may warn for each row
		allDigits,
		"SET LOCAL jit = off", // compiling a statement of many columns takes longer than running it
		// The planner assumes that a scan of a table that was empty at the last vacuum or analyze is free: it would
		// scan the rows inserted so far for each staged row.
		"SET LOCAL enable_seqscan = off")
}

// allDigits makes a double's text have all its digits.
const allDigits = "SET LOCAL extra_float_digits = 1"

// joins are for a flush. Hash and merge joins would read the whole table, and lose the order of the keys. If statistics
// consider a table empty, each staged row would be compared with all rows of a materialized one.
var joins = []string{"SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off", "SET LOCAL enable_material = off"}

const (
	// Everybody else would queue behind a lock of a whole table that waits for a long reader. So it waits only briefly,
	// and the flush is retried.
	briefly   = "SET LOCAL lock_timeout = '2s'"
	patiently = "SET LOCAL lock_timeout = DEFAULT"
)

// fence adds statements that lock the lanes' checkpoints until the flush ends, and check that they are at the flush's
// start. [Claims] wait for the lock that all flushes of the job share. To avoid deadlocks, flushes lock shared lanes in
// the order of their names: first the new lanes, which get a checkpoint at 0, then all.
func (a *attempt) fence() {
	d, s := a.d, a.script
	s.add("SELECT pg_advisory_xact_lock_shared(%d)", d.flushLock(a.f.Job))
	var begun []sink.Lane
	stand := make([]string, len(a.f.Lanes))
	for i := range a.f.Lanes {
		l := &a.f.Lanes[i]
		name := a.f.LaneName(l)
		if stand[i] = fmt.Sprintf("(%s, %d)", literal(name), l.Checkpoint.Seq-1); l.Checkpoint.Seq == 1 {
			begun = append(begun, sink.Lane{Source: name})
		}
	}
	if len(begun) > 0 {
		slices.SortFunc(begun, func(x, y sink.Lane) int { return cmp.Compare(x.Source, y.Source) })
		s.addAll(d.dialect().BeginLanes(a.f.Job, a.f.Run, begun))
	}
	s.put(demand(errFenced, "(SELECT count(*) FROM (\n"+
		"  SELECT FROM %s.weir_checkpoints c JOIN (VALUES %s) v (source, seq) ON c.source = v.source AND c.seq = v.seq\n"+
		"  WHERE c.job = %s\n  ORDER BY c.source FOR NO KEY UPDATE OF c) x) = %d",
		d.schema, strings.Join(stand, ", "), literal(a.f.Job), len(stand)))
}
