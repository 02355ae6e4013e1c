package pipeline

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
)

// Map sets the job's mapping, for tables of a database with the given limits. whole is the mapping that m was selected
// from, which decides what happens to a message, or nil if m is complete. The error joins a [mapping.Fault] for each
// thing that the database cannot store.
func (c *Config) Map(m, whole *mapping.Mapping, limits schema.Limits) (err error) {
	names := &feed.Names{}
	if c.plan, err = mapping.Compile(m, names, limits); err != nil {
		return err
	}
	if whole != nil {
		if c.whole, err = mapping.Compile(whole, names, limits); err != nil {
			return err
		}
	}
	c.Tables, c.Star = make([]Table, c.plan.Tables()), nil
	for i := range c.Tables {
		c.Tables[i] = tableOf(c.plan, i)
	}
	if star, options := c.plan.Star(); star != nil {
		c.Star = &Table{Table: star, Name: star.Name, Key: star.Key, Fold: options}
	}
	return nil
}

// IsPlain reports whether each line is a row of the only table.
func (c *Config) IsPlain() bool { return c.plan.IsPlain() }

// tableOf returns a table of a plan.
func tableOf(p *mapping.Plan, i int) Table {
	t := p.Table(i)
	of := Table{Table: t, Name: p.TableName(i), Key: p.StoredKey(i), Fold: p.Options(i)}
	if t.KeyOpen { // an existing table may have no key
		of.Key = []string{}
	}
	return of
}

// A mapper maps lines by a plan.
type mapper struct {
	*mapping.Mapper
	*run
	plan   *mapping.Plan
	whole  *mapper             // of the mapping that this one was selected from; nil: this one is complete
	resume []byte              // resume value of the last line; nil: none
	lost   []mapping.LostValue // of the last line
	nulled []fold.Nulled       // of the last line
}

func (r *run) newMapper(plan, whole *mapping.Plan) *mapper {
	m := &mapper{Mapper: plan.NewMapper(), run: r, plan: plan}
	if whole != nil {
		m.whole = r.newMapper(whole, nil)
	}
	return m
}

// changes returns the changes that a line makes, in the order of the tables; none if the line is for no table. The line
// was scanned without an error, or is null in a stream. source is the name of its source. A [*feed.Error] rejects the
// line; any other error ends the run. table is the index of the table that rejects the line, or -1. The changes are
// valid until the next call.
func (m *mapper) changes(l *feed.Line, source string, at fold.Place) (_ []fold.TableChange, table int, err error) {
	if m.whole != nil {
		r, err := m.whole.MapAlone(l, source, at)
		_, truncates := err.(*mapping.NewTable) // a table whose key is not known yet
		if err == nil {
			m.notePassed(&r)
		}
		if m.resume = r.Resume; !truncates && (err != nil || len(r.Rows) == 0) {
			return nil, -1, err // the table may not be part of this run
		}
	}
	r, err := m.Map(l, source, at)
	m.resume, m.lost, m.nulled = r.Resume, r.Lost, r.Nulled
	switch {
	case err != nil:
		return nil, r.Table, err
	case m.whole == nil: // otherwise whole has counted it
		m.notePassed(&r)
	}
	return r.Rows, -1, nil
}

// same returns an error if a table is another name of one of the tables before it.
func (m *mapper) same(before []schema.Table, fullName string) error {
	at := slices.IndexFunc(before, func(t schema.Table) bool { return t.FullName == fullName })
	if at < 0 || fullName == "" { // it was not looked up in a database
		return nil
	}
	of := m.plan.Table(len(before))
	return &mapping.Fault{File: m.plan.Mapping().File, Pos: of.Pos, Text: fmt.Sprintf("%q and %q are one table of the database: make them one table here", m.plan.Table(at).Name, of.Name)}
}
