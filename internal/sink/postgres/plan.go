package postgres

import (
	"context"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A part is what an attempt writes to one table.
type part struct {
	a *attempt
	b *fold.Batch
	t *table // as it is known

	rows  []*fold.Row // of the batch, sorted
	isSet bool        // its rows are the elements of a set in a parent's row
	tableChange
	writes   []*fold.Row    // what the script writes of them
	lookup   *lookup        // what is read of the table first; nil: nothing is
	resolver *fold.Resolver // which rows are newer than what the database has; nil if they have no versions
	plan     *tablePlan     // nil: no row is written
	counts   sink.Counts    // what the statements did, as far as that is known
}

// A way is how the rows of a table are written.
type way int

const (
	undecided way = iota
	copied        // into the table itself, as if all were new
	merged        // by a MERGE of the staging table
	separate      // by separate statements from the staging table
)

// A tablePlan is how the rows of one table are written. [attempt.decide] completes it; from then on it is only read.
type tablePlan struct {
	way      way
	batch    *fold.Batch
	rows     []*fold.Row
	about    int       // how many rows messages are about, written or not
	versions *versions // nil: the rows have none
	isNew    bool      // the rows seem to be all new, and can be copied into the table
	upsert
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

// planRows plans to write the rows, or adds what reads first what the database has of them.
func (p *part) planRows(assumeNew bool) error {
	above := p.follows()
	assumeNew = assumeNew && p.maySeemNew() && (above == nil || above.plan != nil && above.plan.isNew)
	switch {
	case !p.b.Versioned():
		p.plan = p.newPlan(p.b, p.writes)
	case assumeNew: // a duplicate key has the flush sent again
		p.resolver = p.newResolver(p.t.names)
		if err := p.planNewer(p.t.names, p.storedRows()); err != nil {
			return err
		}
	}
	// A delete of a row that is missing leaves none to write; it may exist.
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

// maySeemNew reports whether rows of the table may be taken for new. Without a key all are, and the guess is that no other
// unique index of the table has a value of theirs.
func (p *part) maySeemNew() bool {
	return p.t.news.seemsNew() || !p.t.Exists || p.b.Table.Appends() && !p.t.news.doubted()
}

// newPlan plans to write some rows of a batch.
func (p *part) newPlan(b *fold.Batch, rows []*fold.Row) *tablePlan {
	return &tablePlan{batch: b, rows: rows, about: len(p.writes), upsert: upsert{shape: p.newShape(b, rows), again: p.a.tries[errGone] > 0}}
}

// newShape returns the shape of some rows of a batch.
func (p *part) newShape(b *fold.Batch, rows []*fold.Row) *shape {
	return newShape(b, p.t.stageName(), p.after, rows, p.a.current)
}

// isCopied reports whether the rows are copied into the table itself.
func (p *part) isCopied() bool { return p.plan != nil && p.plan.way == copied }

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

// separates reports whether separate statements take the place of a MERGE: for tables that have no key, or have rules or
// row-level security, or for which the server refuses one; for servers whose MERGE is wrong or cannot be counted; and
// for a flush whose MERGE found each time that another session had just inserted a row of its own: these
// statements wait for it.
func (p *part) separates() bool {
	d := p.a.d
	return p.b.Table.Appends() || !d.counts || d.mergeMisses() || p.t.unmergeable || p.after.policed || p.a.tries[errTaken] == causes[errTaken].limit
}

// mergeMisses reports whether the server is one before 15.5 or 16.1: there a MERGE that has waited for an
// UPDATE of another session may take the row for missing, and so pass by the delete of it.
func (c *client) mergeMisses() bool { return c.version < 150005 || c.version == 160000 }

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

// write adds what writes the rows, but for deletes that wait until all tables have their rows.
func (p *part) write() {
	s, plan := p.a.script, p.plan
	from := len(s.statements)
	g := &staging{shape: plan.shape, b: plan.batch, rows: plan.rows, plain: plan.way == copied, sent: p.tellSent}
	if !g.plain {
		if plan.versions != nil {
			g.keyed, g.versions = true, plan.versions.rows
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
	case len(plan.rows) > 0: // else nothing is newer than what the database has
		s.put(plan.statements(plan.way)...)
	}
	p.owns(from)
}

// stageRows adds what makes the staging table ready for rows of a shape, and stages some.
func (p *part) stageRows(of *shape, g *staging) {
	var ready []string
	ready, p.t.stage = of.readyStage(p.t.stage, p.a.d.pooled)
	p.a.script.addAll(ready...)
	if len(g.rows) > 0 {
		p.a.script.put(g.statement())
	}
	p.t.stage.rows += len(g.rows)
}

// owns notes that the statements of the script from one on write rows of the part.
func (p *part) owns(from int) {
	for i := range p.a.script.statements[from:] {
		p.a.script.statements[from+i].part = p
	}
}

// tellSent reports progress: all rows of the parts before, and this one's in proportion to the rows of its COPY, which
// leaves out what is not newer than the database's.
func (p *part) tellSent(rows, of int) {
	if p.a.piecewise {
		return // a piece may be sent again
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

// A guess is whether the rows of the next batch seem to be all new. Each time that it is wrong, twice as many batches
// of new rows have to come before the next one.
type guess struct {
	fresh int // how many batches in succession had new rows alone
	doubt int // how many of them it takes
}

const maxDoubt = 256

func (g *guess) seemsNew() bool { return g.fresh > 0 && !g.doubted() }

func (g *guess) doubted() bool { return g.fresh < g.doubt }

// wrote notes whether all rows of a batch were new.
func (g *guess) wrote(allNew bool) {
	if g.fresh++; !allNew {
		g.fresh = 0
	}
}

// failed notes that the guess was wrong.
func (g *guess) failed() { g.fresh, g.doubt = 0, min(max(2, 2*g.doubt), maxDoubt) }
