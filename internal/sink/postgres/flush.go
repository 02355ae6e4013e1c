package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// maxStarts is how often a flush is started again because others changed the table or
// its rows meanwhile.
const maxStarts = 2

// What the failure of a flush means, beside errFenced and errStaleTable; see [attempt.cause].
var (
	// errRaced says that the versions of rows were written that a flush was about to write.
	errRaced = errors.New("another session wrote newer versions meanwhile")
	// errTaken says that another session inserted a row that a MERGE was about to insert, or that both waited for
	// each other.
	errTaken = errors.New("another session wrote rows of the same keys meanwhile")
	// errGone says that rows are gone that a flush was about to change.
	errGone = errors.New("another session deleted rows or changed their keys while they were written")
	// errNotNew says that not all of the rows were new that were written as if they were.
	errNotNew = errors.New("not all rows are new")
	// errUnmergeable says that the server refuses a MERGE.
	errUnmergeable = errors.New("the server refuses a MERGE")
	// errRows says that the database may reject some of the rows.
	errRows = errors.New("the database rejects rows")
)

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
		d.pendingID, d.pendingResult = id, sink.Result{Tables: make([]sink.Counts, len(f.Batches))}
	}
	d.rereads, d.gone, d.raced, d.taken = 0, 0, 0, 0
	res, err := d.write(ctx, f)
	for d.conn != nil {
		switch {
		case errors.Is(err, errGone) && d.gone < maxStarts:
			d.gone++
		case errors.Is(err, errRaced) && d.raced < maxStarts:
			d.raced++
		case errors.Is(err, errTaken):
			d.taken++
		case (isStale(pgError(err)) || errors.Is(err, errStaleTable)) && d.rereads < maxStarts:
			// Others changed a table since it was read.
			d.rereads++
			if err := d.reread(ctx, f); err != nil {
				return sink.Result{}, err
			}
		default:
			return d.ended(ctx, f, res, err)
		}
		res, err = d.write(ctx, f)
	}
	return d.ended(ctx, f, res, err)
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
func (d *DB) ended(ctx context.Context, f *sink.Flush, res sink.Result, err error) (sink.Result, error) {
	switch {
	case errors.Is(err, errFenced):
		res, err = d.judge(ctx, f)
	case errors.Is(err, errStaleTable), errors.Is(err, errGone), errors.Is(err, errRaced): // others keep changing it
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

// reread reads the tables of a flush, and whether weir's own exist. Tables and columns that others have made
// meanwhile are not counted: each that the flush makes may be.
func (d *DB) reread(ctx context.Context, f *sink.Flush) error {
	if err := d.askReady(ctx); err != nil {
		return err
	}
	var was []schema.Table
	var wanted []sink.TableKey
	for _, b := range f.Batches {
		t := d.known(b.Table.Name)
		if t.stage = (stage{}); t.Name != "" {
			was, wanted = append(was, t.Table), append(wanted, sink.TableKey{Name: t.Name, Key: t.key})
		}
	}
	now, err := d.Tables(ctx, wanted...)
	if err != nil {
		return err
	}
	for i := range now {
		if err := sink.CheckSame(&was[i], &now[i]); err != nil {
			return err
		}
		if len(now[i].Columns) > len(was[i].Columns) {
			d.rereads = 0
		}
	}
	return nil
}

// An attempt is one try to write a flush.
type attempt struct {
	d *DB
	f *sink.Flush

	script    *script
	parts     []*part
	refused   []fold.Reject
	others    string // a hash of the other jobs, when tables that are to be emptied were read
	late      bool   // the ID of a table is known at the end alone
	piecewise bool   // rows are written in pieces, for the database rejects some
	idAt      int    // the statement that reads the IDs, 0 where none does
}

// write sends a flush in one string of statements. Where the database refuses
// rows of tables whose messages it may judge, they are written piecewise.
func (d *DB) write(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	a := &attempt{d: d, f: f}
	for _, b := range f.Batches {
		a.parts = append(a.parts, &part{a: a, b: b, t: d.known(b.Table.Name), set: b.Child != nil && b.Child.Set})
	}
	err := a.compose(ctx)
	if err != nil {
		return a.failed(ctx, err, -1)
	}
	r, err := d.run(ctx, a.script)
	if a.count(r) {
		d.pendingResult = a.result() // it counts where the answer is lost and the commit is not
	}
	if err != nil {
		return a.failed(ctx, err, len(r))
	}
	for _, p := range a.parts {
		if p.merge == nil {
			continue
		}
		p.t.news.wrote(p.counts.Inserted == int64(len(p.writes)+p.took))
		p.repeatsNext()
		if p.merge.versions != nil {
			p.t.names = p.merge.versions.names
		}
	}
	if err = a.committed(r); err == nil {
		a.dropOrphans(ctx)
	}
	return a.result(), err
}

// count adds what the statements of the parts did, and reports whether they got so far.
func (a *attempt) count(r []result) (some bool) {
	some = a.countEmptied(r)
	for _, p := range a.parts {
		if p.merge != nil {
			if some = p.merge.count(&p.counts, r, p.tags, len(p.writes)+p.took); !some {
				return false
			}
		}
		for _, n := range p.taken {
			if some = n < len(r); !some {
				return false
			}
			p.counts.Deleted += r[n].tag.RowsAffected()
		}
	}
	return some
}

// result is what the attempt did.
func (a *attempt) result() sink.Result {
	res := sink.Result{Tables: make([]sink.Counts, len(a.parts)), Refused: a.refused}
	for i, p := range a.parts {
		res.Tables[i] = p.counts
	}
	return res
}

// compose makes the script of a flush. The versions of rows are read from the database by
// then, with what goes before in the transaction.
func (a *attempt) compose(ctx context.Context) error {
	if a.f.Rebuild {
		if err := a.readRebuild(ctx); err != nil {
			return err
		}
	}
	if err := a.fit(); err != nil {
		return err
	}
	if a.f.BeforeCommit != nil {
		if err := a.f.BeforeCommit(a.f.Rejects); err != nil {
			return err
		}
	}
	a.begin()
	for _, p := range a.parts {
		p.writes = p.rows
	}
	if err := a.mergeRows(ctx, true); err != nil {
		return err
	}
	a.end(a.f.Rejects, a.late)
	return nil
}

// fit finds what makes the tables what the batches need.
func (a *attempt) fit() error {
	a.script, a.late = &script{}, false
	for _, p := range a.parts {
		p.keys = nil
	}
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

// mergeRows adds what writes the rows of the parts: upserts in the order of the parts, then
// deletes in the reverse one. What the database has of rows with versions is read first, for
// which the script so far is sent; with assumeNew only where they do not seem to be new.
func (a *attempt) mergeRows(ctx context.Context, assumeNew bool) error {
	look := false
	for _, p := range a.parts {
		p.taken, p.took, p.newest, p.looks = nil, 0, nil, false
		if p.merge = nil; p.set || len(p.writes) == 0 && !p.mayFollow() {
			continue
		}
		if err := p.plan(assumeNew); err != nil {
			return err
		}
		look = look || p.looks
	}
	if look {
		if err := a.resolve(ctx); err != nil {
			return err
		}
	}
	if err := a.explodeAll(); err != nil {
		return err
	}
	a.lockSets()
	a.writeParts()
	return nil
}

// writeParts adds what writes the rows of the parts' merges.
func (a *attempt) writeParts() {
	tables := 0
	for _, p := range a.parts {
		if tables += len(a.takers(p)); p.merge != nil {
			tables++
		}
	}
	for _, p := range a.parts {
		if p.merge != nil {
			p.write(tables == 1)
		}
	}
	for _, p := range slices.Backward(a.parts) {
		switch {
		case p.merge == nil || len(p.newer) == 0:
		case p.merge.sweeps:
			p.tags.delete = p.merge.sweep(a.script)
		case p.merge.deletes && tables > 1:
			p.tags.delete = p.merge.delete(a.script)
		}
		for _, above := range a.takers(p) {
			p.taken = append(p.taken, p.take(above))
		}
	}
}

// failed ends a flush that did not go through at once, or writes it in another way. at is the statement of the script
// that failed, -1 for one before it.
func (a *attempt) failed(ctx context.Context, err error, at int) (sink.Result, error) {
	d := a.d
	if d.conn == nil || pgError(err) == nil && !d.open {
		return a.result(), err
	}
	for _, p := range a.parts {
		if p.merge != nil && p.merge.versions != nil {
			p.t.stage = stage{} // it was made in the transaction
		}
		p.t.stage.used = p.t.stage.made // its rows are rolled back, and still there
	}
	if err := d.rollback(ctx); err != nil {
		return a.result(), err
	}
	if err := d.unwidened(err); err != nil {
		return a.result(), err
	}
	why := a.cause(err, at)
	for _, p := range a.parts {
		p.t.news.failed(errors.Is(why, errNotNew) && p.direct)
	}
	switch {
	case errors.Is(why, errUnmergeable):
		a.withoutMerge(err)
		return d.write(ctx, a.f)
	case errors.Is(why, errNotNew):
		return d.write(ctx, a.f)
	case errors.Is(why, errRows):
		return a.flushPiecewise(ctx)
	}
	return a.result(), why
}

// cause is what an error of the script means, by the number of the statement and the SQLSTATE, and never by the words of a message, which
// a value may have put there: one of the errors of this package, or the error itself.
func (a *attempt) cause(err error, at int) error {
	e, d := pgError(err), a.d
	direct, rows := false, 0
	for _, p := range a.parts {
		direct, rows = direct || p.direct && p.t.Exists, rows+len(p.rows) // in a table that the flush makes all are new
	}
	switch {
	case direct && (errors.Is(err, errRaced) || e != nil && e.Code == uniqueViolation): // or others have numbered columns
		return errNotNew
	case e == nil:
		return err
	case a.orphaned(e) && d.gone < maxStarts:
		return errGone
	case a.unmergeable(e, at):
		return errUnmergeable
	case a.taken(e, at):
		return errTaken
	case isStale(e) && d.rereads < maxStarts:
		return err
	case rows > 0 && isRefusal(e), rows > 1 && e.Code == queryCanceled: // fewer may take less than the time that the server gives
		return errRows
	}
	return err
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

// rollback ends a transaction that failed.
func (c *client) rollback(ctx context.Context) error {
	if !c.open {
		return nil
	}
	_, err := c.query(ctx, "ROLLBACK")
	return err
}
