package postgres

import (
	"context"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A part is an attempt's writes to one table.
type part struct {
	a *attempt
	b *fold.Batch
	t *table // as last read

	stage stage       // its staging table, as the transaction leaves it
	rows  []*fold.Row // of the batch, sorted
	isSet bool        // its rows are the elements of a set in a parent's row

	after   relation    // the table as the flush leaves it
	ddl     []statement // make it so
	keys    []statement // recreate its foreign keys that a parent's change drops
	factsAt int         // the statement that reads the facts of a table that the flush creates or alters; 0: none

	writes   []*fold.Row               // the rows that the script writes
	asked    func(read []result) error // plans to write them from what is read from the table first; nil: nothing is read
	repeated *repeated                 // see mayRepeat; nil: the rows are not compared
	plan     *tablePlan                // nil: no row is written
	counts   sink.Counts               // the statements' effects, as far as known
}

// A way is how a table's rows are written.
type way int

const (
	undecided way = iota
	copied        // by a COPY into the table itself, as if all were new
	upserted      // by an INSERT … ON CONFLICT DO UPDATE from the staging table
	merged        // by a MERGE from the staging table
)

// A tablePlan is how one table's rows are written. [attempt.decide] completes it; after that it is read-only.
type tablePlan struct {
	way      way
	batch    *fold.Batch
	rows     []*fold.Row
	about    int       // how many rows messages are about, written or not
	versions *versions // nil: the rows have none
	isNew    bool      // the rows are probably all new, and can be copied into the table
	only     bool      // no other table is written; otherwise deletes wait until all tables have their rows
	*shape
}

// mergeRows adds statements that write the parts' rows: upserts in the order of the parts, then deletes in reverse. For
// rows with versions, it first sends the script so far, to read what the database has; with assumeNew, only if they do
// not seem to be new.
func (a *attempt) mergeRows(ctx context.Context, assumeNew bool) error {
	a.lockTaken()
	needsRead := false
	for _, p := range a.parts {
		p.asked, p.repeated, p.plan = nil, nil, nil
		if p.isSet || len(p.writes) == 0 {
			continue
		}
		if err := p.planRows(assumeNew); err != nil {
			return err
		}
		needsRead = needsRead || p.asked != nil
	}
	if needsRead {
		r, err := a.send(ctx)
		for _, p := range a.parts {
			if err == nil && p.asked != nil {
				err = p.asked(r)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := a.decide(); err != nil {
		return err
	}
	a.writeParts()
	return nil
}

// planRows plans to write the rows, or adds statements that first read what the database has.
func (p *part) planRows(assumeNew bool) error {
	assumeNew = assumeNew && p.maySeemNew()
	switch {
	case !p.b.Versioned():
		p.plan = p.newPlan(p.b, p.writes)
	case assumeNew: // after a duplicate key the flush is resent
		if err := p.planNewer(p.t.versioned, make([]fold.Stored, len(p.writes))); err != nil {
			return err
		}
	}
	// If a row to delete is missing, nothing is written; but it may exist.
	if p.plan != nil && assumeNew && len(p.plan.rows) == len(p.writes) && p.plan.copyable() {
		p.plan.isNew = true
		return nil
	}
	switch {
	case p.b.Versioned():
		p.plan = nil
		p.askVersions()
	case p.mayRepeat():
		p.findRepeated()
	}
	return nil
}

// maySeemNew reports whether the table's rows may be assumed to be new. Without a key all are new; the guess is then
// that no other unique index has one of their values.
func (p *part) maySeemNew() bool {
	return p.t.news.fresh > 0 && !p.t.news.doubted() || !p.t.Exists || p.b.Table.Appends() && !p.t.news.doubted()
}

// newPlan plans to write rows of a batch.
func (p *part) newPlan(b *fold.Batch, rows []*fold.Row) *tablePlan {
	return &tablePlan{batch: b, rows: rows, about: len(p.writes), shape: p.newShape(b, rows)}
}

// newShape returns the shape of rows of a batch.
func (p *part) newShape(b *fold.Batch, rows []*fold.Row) *shape {
	return newShape(b, p.t.stageName(), p.after, rows, p.a.current)
}

// isCopied reports whether the rows are copied into the table itself.
func (p *part) isCopied() bool { return p.plan != nil && p.plan.way == copied }

// decide completes the plans, parents before children, because the rows of sets depend on how their parents' rows are
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
		p.plan.way = p.choose(cascading > 0)
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

// choose returns the way to write the rows. The rows of a parent that is deleted are looked up among staged rows.
func (p *part) choose(cascades bool) way {
	s := p.plan.shape
	if p.plan.isNew && !cascades {
		return copied
	}
	for _, not := range []bool{
		s.table.Appends(),      // there is nothing to conflict with
		!s.table.isOwn(),       // NOT NULL, CHECK, defaults and triggers see each row, as if it were new
		p.plan.versions != nil, // rows of which only the version is new are not locked
		s.acts.marked(),        // deletes, and rows that start from nothing
		len(s.resolved) > 0,    // a reference to a missing row is NULL, one that no message names stays
		slices.ContainsFunc(s.columns, func(c staged) bool { return c.null >= 0 }),           // NULL in some rows, no value in others
		slices.ContainsFunc(s.columns, func(c staged) bool { return c.merge != merge.Last }), // merge functions see what was staged
	} {
		if not {
			return merged
		}
	}
	return upserted
}

// isOwn reports whether weir made the table, and nobody altered it.
func (t *relation) isOwn() bool {
	return t.Made && !t.inherited && !slices.ContainsFunc(t.Columns, func(c schema.Column) bool {
		return !c.Own && c.Stamp == schema.NoStamp || c.Generated
	})
}

// writeParts adds statements that write the rows as planned.
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
		for _, ancestor := range a.cascading(p) {
			a.script.put(p.cascade(ancestor))
		}
		p.owns(from)
	}
	a.script.planned = true
}

// write adds statements that write the rows, except deletes that wait until all tables have their rows.
func (p *part) write() {
	s, plan := p.a.script, p.plan
	from := len(s.statements)
	g := &staging{shape: plan.shape, b: plan.batch, rows: plan.rows, plain: plan.way == copied, sent: p.tellSent}
	if !g.plain {
		if plan.versions != nil {
			g.keyed, g.states = true, plan.versions.states
		}
		p.stageRows(plan.shape, g)
	}
	if plan.versions != nil {
		p.keep(s)
	}
	switch {
	case g.plain:
		n := s.put(g.statement())
		s.statements[n].tally = inserted
	case len(plan.rows) > 0: // otherwise nothing is newer than what the database has
		s.put(plan.statements()...)
	}
	p.owns(from)
}

// stageRows adds statements that prepare the staging table for rows of a shape, and stage some.
func (p *part) stageRows(of *shape, g *staging) {
	var ready []string
	ready, p.stage = of.readyStage(p.stage, p.a.d.pooled)
	p.a.script.addAll(ready...)
	if len(g.rows) > 0 {
		p.a.script.put(g.statement())
	}
	p.stage.rows += len(g.rows)
}

// owns records that the script's statements from one on write rows of the part.
func (p *part) owns(from int) {
	for i := range p.a.script.statements[from:] {
		p.a.script.statements[from+i].part = p
	}
}

// tellSent reports progress: all rows of earlier parts, and this part's rows in proportion to the rows of its COPY,
// which omits rows that are not newer than the database's.
func (p *part) tellSent(rows, of int) {
	if p.a.piecewise {
		return // a piece may be resent
	}
	sent := len(p.rows) * rows / of
	for _, other := range p.a.parts {
		if other == p {
			break
		}
		sent += len(other.rows)
	}
	p.a.f.TellSent(sent)
}

// A guess predicts whether the rows of the next batch are all new. After each wrong guess, twice as many batches of new
// rows must come before the next one.
type guess struct {
	fresh int // consecutive batches with only new rows
	doubt int // how many of them are needed
}

const maxDoubt = 256

func (g *guess) doubted() bool { return g.fresh < g.doubt }

// wrote records whether all rows of a batch were new.
func (g *guess) wrote(allNew bool) {
	if g.fresh++; !allNew {
		g.fresh = 0
	}
}

// failed records that the guess was wrong.
func (g *guess) failed() { g.fresh, g.doubt = 0, min(max(2, 2*g.doubt), maxDoubt) }
