package postgres

// A flush goes through the files in this order. flush.go sends it, and tries again; grow.go makes the tables fit, lanes.go holds the
// fence; part.go plans how the rows of each table are written, and repeated.go or version.go with children.go read first what the
// table has of them; upsert.go has the statements that write them, of a shape (shape.go), from a staging table (stage.go); wire.go
// sends the script. cause.go has what follows an error, and refused.go writes in pieces what the database rejects.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A lastFlush is the last one that came: it may come again, because the answer to its COMMIT was lost.
type lastFlush struct {
	id     string
	result sink.Result // what it does, as far as an answer told
}

// A flushRun is one call of Flush: it tries to write a flush until one try commits, or nothing helps any more.
type flushRun struct {
	d         *DB
	f         *sink.Flush
	sentAgain bool          // it may be committed
	rows      [][]*fold.Row // of the batches, sorted
	tries     [nCauses]int  // that failed, by cause
	piecewise bool          // the database rejects rows: the others are found in pieces
}

// Flush implements [sink.Sink].
func (d *DB) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	if err := d.connect(ctx); err != nil {
		return sink.Result{}, err
	}
	run := &flushRun{d: d, f: f, rows: make([][]*fold.Row, len(f.Batches))}
	if id := flushID(f); d.last.id == id {
		run.sentAgain = true
	} else {
		d.last = lastFlush{id: id, result: noResult(f)}
	}
	for i, b := range f.Batches {
		if b.Used() {
			run.rows[i] = b.Sorted()
		}
	}
	res, err := run.write(ctx)
	d.wrote = d.wrote || err == nil
	return res, d.sinkError(err)
}

func noResult(f *sink.Flush) sink.Result {
	return sink.Result{Tables: make([]sink.Counts, len(f.Batches))}
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

// write tries the flush again until it is written or nothing helps: what follows a failed try stands in [causes]. Only pieces
// are retried on their own, by the same table: see [pieces.Write].
func (r *flushRun) write(ctx context.Context) (sink.Result, error) {
	for {
		a := newAttempt(r)
		err := a.write(ctx)
		if err == nil {
			a.dropOrphans(ctx)
			return a.result(), nil
		}
		why := a.cause(err)
		if err := a.undo(ctx); err != nil {
			return a.result(), err
		}
		a.noteCause(why, err)
		switch causes[why].remedy {
		case giveUp:
			return a.result(), err
		case readFence:
			return r.d.judge(ctx, r.f, err)
		case readTables:
			grown, err := r.d.reread(ctx, r.f)
			if err != nil {
				return sink.Result{}, err
			}
			if grown { // by what others have made, which the flush was about to make: each table and column may be
				r.tries[why] = 0
			}
		case writePieces:
			r.piecewise = true
		}
	}
}

// undo rolls an attempt back that failed.
func (a *attempt) undo(ctx context.Context) error {
	a.restore(a.before)
	for _, p := range a.parts {
		p.t.stage.used = p.t.stage.types != nil // its rows are rolled back, and still there
	}
	return a.d.rollback(ctx)
}

// rollback ends a transaction that failed.
func (c *client) rollback(ctx context.Context) error {
	if !c.open {
		return nil
	}
	_, err := c.query(ctx, "ROLLBACK")
	return err
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

// An attempt is one try to write a flush.
type attempt struct {
	*flushRun
	script  *script
	parts   []*part
	refused []fold.Reject
	// otherJobs is a hash of the other jobs and the tables that they have written; readRebuild sets it.
	otherJobs string
	idAt      int // the statement that reads the IDs of the tables
	before    []partState
}

// partState is what a transaction or a piece of it changes of a part, but for its rows.
type partState struct {
	counts sink.Counts
	stage  stage
}

func (a *attempt) state() []partState {
	states := make([]partState, len(a.parts))
	for i, p := range a.parts {
		states[i] = partState{p.counts, p.t.stage}
	}
	return states
}

func (a *attempt) restore(states []partState) {
	for i, p := range a.parts {
		p.counts, p.t.stage = states[i].counts, states[i].stage
	}
}

func newAttempt(r *flushRun) *attempt {
	a := &attempt{flushRun: r, script: &script{}}
	for i, b := range r.f.Batches {
		a.parts = append(a.parts, &part{a: a, b: b, t: r.d.tableOf(b.Table.Name), rows: r.rows[i], isSet: b.Child != nil && b.Child.Set})
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
	build := a.buildScript
	if a.piecewise {
		build = a.writePiecewise
	}
	if err := build(ctx); err != nil {
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

// buildScript makes the script of a flush. If rows have versions, it first sends what the script has so far, to read them. So it does
// if the flush may be committed: then the fence says so before [sink.Flush.BeforeCommit] is called, which would undo what it did.
func (a *attempt) buildScript(ctx context.Context) error {
	a.begin()
	if a.sentAgain {
		if _, err := a.send(ctx); err != nil {
			return err
		}
		a.d.last.result = noResult(a.f) // that of a flush that was restored away, if of any
	}
	for _, p := range a.parts {
		p.writes = p.rows
	}
	if err := a.mergeRows(ctx, a.tries[errNotNew] == 0); err != nil {
		return err
	}
	return a.end(a.f.Rejects)
}

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

// mergeRows adds what writes the rows of the parts: upserts in the order of the parts, then
// deletes in the reverse one. What the database has of rows with versions is read first, for
// which the script so far is sent; with assumeNew, only if they do not seem to be new.
func (a *attempt) mergeRows(ctx context.Context, assumeNew bool) error {
	look := false
	for _, p := range a.parts {
		p.lookup, p.resolver, p.plan = nil, nil, nil
		if p.isSet || len(p.writes) == 0 && !p.mayFollow() {
			continue
		}
		if err := p.planRows(assumeNew); err != nil {
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

// read reads what the database has of the rows of those parts that ask for it, and plans to write those that are newer, or
// missing. The script so far is sent.
func (a *attempt) read(ctx context.Context) error {
	r, err := a.send(ctx)
	if err != nil {
		a.unlooked(pgError(err))
		return err
	}
	return a.takeAnswers(r)
}

// send sends the script so far. What follows is another one.
func (a *attempt) send(ctx context.Context) ([]result, error) {
	r, err := a.d.run(ctx, a.script)
	if err != nil {
		return nil, err
	}
	a.count(r)
	a.script = &script{}
	return r, nil
}

// takeAnswers takes the answer to what the parts ask for.
func (a *attempt) takeAnswers(r []result) error {
	for _, p := range a.parts {
		switch {
		case p.lookup == nil:
		case p.lookup.repeated != nil:
			p.dropRepeated()
		default:
			if err := p.readVersions(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// decide completes the plans, parents before children: the rows of sets are made of their parents' rows as these are
// written.
func (a *attempt) decide() error {
	x := fold.NewExplosion(a.f.Batches, func(i int) *schema.Table { return &a.parts[i].after.Table })
	tables := 0
	for i, p := range a.parts {
		cascading := len(a.cascading(p))
		if tables += cascading; p.plan == nil {
			continue
		}
		tables++
		p.plan.guarded = p.plan.versions != nil && !p.exclusive()
		switch {
		case p.plan.isNew && cascading == 0:
			p.plan.way = copied
		case p.separates():
			p.plan.way = separate
		default:
			p.plan.way = merged
		}
		if err := a.explode(x, i); err != nil {
			return err
		}
	}
	for _, p := range a.parts {
		if p.plan != nil {
			p.plan.only = tables == 1
		}
	}
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
		from := len(a.script.statements)
		switch {
		case p.plan == nil || len(p.plan.rows) == 0:
		case p.plan.acts.sweeps > 0:
			a.script.put(p.plan.sweep())
		case p.plan.acts.deletes > 0 && !p.plan.only:
			a.script.put(p.plan.delete())
		}
		for _, above := range a.cascading(p) {
			a.script.put(p.cascade(above))
		}
		p.owns(from)
	}
	a.script.planned = true
}

// end adds the rejects, the checkpoints and the COMMIT.
func (a *attempt) end(rejects []fold.Reject) error {
	d, f, s := a.d, a.f, a.script
	if f.BeforeCommit != nil {
		if err := f.BeforeCommit(rejects); err != nil {
			return err
		}
	}
	s.addAll(d.dialect().DropRejects(f)...)
	if f.KeepRejects {
		d.keep(s, f, rejects)
	}
	s.addAll(d.dialect().Record(f)...)
	a.checkpoints()
	s.add("COMMIT")
	return nil
}

// count adds what the statements of the script did to the counts of the parts, and reports whether the answer got so far.
func (a *attempt) count(r []result) bool {
	var before [][]byte
	var merged int64
	for i, st := range a.script.statements {
		switch {
		case st.part == nil:
			continue
		case i >= len(r):
			return false
		}
		to, n := &st.part.counts, r[i].tag.RowsAffected()
		var ins, upd, del int64 // of rows that messages are about
		switch st.tally {
		case inserted:
			ins = n
		case updated:
			upd = n
		case deleted:
			del = n
		case removed:
			to.Deleted += n
		case countsBefore:
			before = r[i].rows[0]
		case byMerge:
			merged = n
		case countsAfter:
			ins, upd, del = st.part.plan.split(merged, before, r[i].rows[0])
		}
		to.Inserted, to.Updated, to.Deleted, to.Unchanged = to.Inserted+ins, to.Updated+upd, to.Deleted+del, to.Unchanged-ins-upd-del
	}
	for _, p := range a.parts {
		if a.script.planned && p.plan != nil {
			p.counts.Unchanged += int64(p.plan.about)
		}
	}
	return true
}

// result is what the attempt did.
func (a *attempt) result() sink.Result {
	res := sink.Result{Tables: make([]sink.Counts, len(a.parts)), Refused: a.refused}
	for i, p := range a.parts {
		res.Tables[i] = p.counts
	}
	return res
}

// committed takes the answer of a script whose last statement was COMMIT.
func (a *attempt) committed(r []result) error {
	if tag := r[len(r)-1].tag.String(); tag != "COMMIT" {
		return fmt.Errorf("the server answered COMMIT with %s", tag)
	}
	d := a.d
	_, ids := sink.SplitIDs(string(r[a.idAt].rows[0][0]))
	for i, p := range a.parts {
		if p.after.Exists && p.after.ID == "" {
			p.after.setID(ids[i])
		}
		p.committed()
		d.versions = d.versions || p.b.Used() && p.b.Scope == fold.ColumnScope
		if p.plan == nil || a.piecewise {
			continue
		}
		p.t.news.wrote(p.counts.Inserted == int64(p.plan.about))
		p.repeatsNext()
		if p.plan.versions != nil {
			p.t.names = p.plan.versions.names
		}
	}
	d.ready, d.named = true, "weir/"+a.f.Job
	return nil
}
