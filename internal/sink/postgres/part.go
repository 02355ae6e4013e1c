package postgres

import (
	"slices"

	"github.com/weirsync/weir/internal/fold"
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

// A tableChange is what makes a table what a batch needs, and the table then.
type tableChange struct {
	ddl      []statement
	keys     []statement // what makes its foreign keys again that a parent's change has dropped
	after    relation
	unmarked bool // it is unlogged, and gets its marker
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

// isCopied reports whether the rows are copied into the table itself.
func (p *part) isCopied() bool { return p.plan != nil && p.plan.way == copied }

// newPlan plans to write some rows of a batch.
func (p *part) newPlan(b *fold.Batch, rows []*fold.Row) *tablePlan {
	return &tablePlan{batch: b, rows: rows, about: len(p.writes), upsert: upsert{shape: p.newShape(b, rows), again: p.a.tries[errGone] > 0}}
}

// newShape returns the shape of some rows of a batch.
func (p *part) newShape(b *fold.Batch, rows []*fold.Row) *shape {
	return newShape(b, p.t.stageName(), p.after, rows, p.a.current)
}

// maySeemNew reports whether rows of the table may be taken for new.
func (p *part) maySeemNew() bool { return p.t.news.seemsNew() || !p.t.Exists }

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

// committed makes the table what the flush has made of it.
func (p *part) committed() {
	if job := storable(p.a.f.Job); !slices.Contains(p.after.Writers, job) {
		p.after.Writers = append(slices.Clip(p.after.Writers), job)
	}
	p.t.relation, p.t.stage = p.after, stage{types: p.t.stage.types}
	if p.a.d.pooled {
		p.t.stage = stage{}
	}
}

// A guess is whether the rows of the next batch seem to be all new. Each time that it is wrong, twice as many batches
// of new rows have to come before the next one.
type guess struct {
	fresh int // how many batches in succession had new rows alone
	doubt int // how many of them it takes
}

const maxDoubt = 256

func (g *guess) seemsNew() bool { return g.fresh > 0 && g.fresh >= g.doubt }

// wrote notes whether all rows of a batch were new.
func (g *guess) wrote(allNew bool) {
	if g.fresh++; !allNew {
		g.fresh = 0
	}
}

// failed notes that the guess was wrong.
func (g *guess) failed() { g.fresh, g.doubt = 0, min(max(2, 2*g.doubt), maxDoubt) }
