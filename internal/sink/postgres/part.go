package postgres

import (
	"context"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// A part is what an attempt writes to one table.
type part struct {
	a *attempt
	b *fold.Batch
	t *table // as it is known

	rows   []*fold.Row // of the batch, sorted
	set    bool        // the rows are values of others
	ddl    []change    // what makes the table what the batch needs
	keys   []change    // what makes its foreign keys again that a table above has dropped
	writes []*fold.Row // those of the rows that the script writes
	merge  *merge      // nil where there are none
	newer  []*fold.Row // what is to be written of them
	direct bool        // the rows are copied into the table itself, as if all were new
	looks  bool        // what the database has of them is read first
	// repeated is what is found so of rows without versions; nil: nothing is looked for.
	repeated *repeated
	found    lookup
	took     int            // of those that are looked at: rows that go with the ones that they belong to
	newest   *fold.Resolver // which rows are newer than what the database has; nil where they have no versions
	// The statements that write them.
	from, to int
	tags     tags
	taken    []int // those that delete rows that go with the ones that they belong to
	emptied  int   // the one that removes all rows that the table has; 0: none does
	counts   sink.Counts

	// The table, once the flush is committed.
	after    relation
	stage    stage
	unmarked bool // it is unlogged, and gets its marker
}

// fit finds the statements that make the table what the batch needs.
func (p *part) fit() (err error) {
	p.ddl, p.after, p.stage, p.unmarked = nil, p.t.relation, p.t.stage, false
	p.t.next = &p.after
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
		// Behind a change that waits for a long reader, everybody else would queue: so it
		// waits only for a moment, and the flush is tried again.
		s.add("SET LOCAL lock_timeout = '2s'")
	}
	if p.t.Exists {
		d.sameColumns(s, &p.t.relation, len(p.ddl) > 0)
	}
	for _, c := range p.ddl {
		if n := s.add("%s", c.sql); c.failed != nil {
			s.onError(n, c.failed)
		}
	}
	if p.unmarked {
		d.markUnlogged(s, &p.after)
	}
	if p.b.Versioned() && p.b.Scope == fold.ColumnScope {
		d.readyVersions(s, &p.after)
	}
}

// plan decides how the rows are written.
func (p *part) plan(assumeNew bool) (err error) {
	above := p.follows()
	assumeNew = assumeNew && (p.t.news.seemsNew() || !p.t.Exists) && (above == nil || above.direct)
	p.newer, p.direct, p.looks, p.repeated = p.writes, false, false, nil
	switch {
	case !p.b.Versioned():
		p.merge = p.a.d.newMerge(p.b, p.t, p.after, p.writes)
	case assumeNew:
		if err := p.mergeNewer(p.versioned(), nil); err != nil {
			return err
		}
	}
	// A delete of a row that is missing leaves none to write; it may exist.
	p.direct = assumeNew && len(p.newer) == len(p.writes) && p.merge.direct()
	switch p.looks = !p.direct && (p.b.Versioned() || p.mayRepeat()); {
	case p.looks && p.b.Versioned():
		p.look()
	case p.looks:
		p.findRepeated()
	}
	return nil
}

// resolve reads what the database has of the rows of those parts that look for it, and makes
// their merges those of what is newer, or not there yet. The script so far is sent.
func (a *attempt) resolve(ctx context.Context) error {
	r, err := a.d.run(ctx, a.script)
	if err != nil {
		a.unlooked(pgError(err))
		return err
	}
	a.countEmptied(r)
	a.script = &script{}
	for _, p := range a.parts {
		if !p.looks || p.merge == nil {
			continue
		}
		if p.repeated != nil {
			p.dropRepeated()
			continue
		}
		if err := p.resolved(r); err != nil {
			return err
		}
	}
	return nil
}

// write adds what writes the rows; alone says that no other table's are written.
func (p *part) write(alone bool) {
	s := p.a.script
	p.from, p.merge.sent = s.n, p.tellSent
	if p.merge.plain = p.direct; !p.direct {
		var sql []string
		p.merge.separate, p.merge.missed = p.separates(), p.a.tries[errGone] > 0
		sql, p.stage = p.merge.prepare(len(p.newer))
		for _, q := range sql {
			s.add("%s", q)
		}
		p.merge.stage(s, p.newer)
	}
	if p.merge.versions != nil {
		p.merge.versions.keep(s, p.merge, p.a.f, p.newer)
	}
	if p.direct {
		p.tags = p.merge.copyAll(s, p.newer)
	} else {
		p.tags = p.merge.statements(s, p.newer, alone)
	}
	p.to = s.n
}

// tellSent tells how many rows of the flush were sent, rows of those that the COPY of the part has being among them. What
// is not newer than the database's is not copied.
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
	p.t.relation, p.t.stage, p.t.stage.used = p.after, p.stage, false
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
