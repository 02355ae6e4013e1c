package job

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
)

// Map has the job make rows of messages by a mapping, in tables of a database with these limits.
// whole is the mapping that it was selected from, nil where it is all: it decides what becomes of
// a message. The error joins a [mapping.Fault] for each thing that cannot be kept there.
func (c *Config) Map(m, whole *mapping.Mapping, limits schema.Limits) error {
	plan, err := mapping.Compile(m, &feed.Names{}, limits)
	if err != nil {
		return err
	}
	// Each attempt compiles the mapping again for its tables, as they are then.
	c.NewMapper = func(names *feed.Names, limits schema.Limits) (Mapper, error) {
		if plan, err = mapping.Compile(m, names, limits); err != nil {
			return nil, err
		}
		p := &planned{plan: plan, scratch: plan.NewScratch(), noTable: map[string]int64{}}
		if whole != nil {
			all, err := mapping.Compile(whole, names, limits)
			if err != nil {
				return nil, err
			}
			p.whole = &planned{plan: all, scratch: all.NewScratch(), noTable: p.noTable}
		}
		return p, nil
	}
	c.Stream = m.Envelope != nil
	if m.File != "" {
		c.Mapping = m.Fingerprint()
	}
	c.Tables = make([]Table, plan.Tables())
	for i := range c.Tables {
		t := plan.Table(i)
		c.Tables[i] = Table{Name: t.Name, Key: plan.StoredKey(i), Fold: plan.Options(i), Mapping: t.Fingerprint(), Fit: func(_ *schema.Limits, have *schema.Table) error {
			for _, s := range t.OnCreate {
				have.OnCreate = append(have.OnCreate, s.SQL)
			}
			return plan.Fit(i, have)
		}}
		if m.File == "" && m.Envelope != nil {
			c.Tables[i].Mapping["envelope"] = m.Envelope.Preset + " " + m.Envelope.Fingerprint()
		}
		if e := t.Expire; e != nil {
			c.Tables[i].Expire = &Expire{After: e.After, Of: t.Aging(), Every: e.Every, Below: plan.Below(i), Owner: plan.Owner(i)}
		}
	}
	return nil
}

// planned maps lines by the plan of a mapping, and counts those that are for no table.
type planned struct {
	whole   *planned // of the mapping that this one was selected from; nil: this one is all
	plan    *mapping.Plan
	scratch *mapping.Scratch
	ignored int64
	noTable map[string]int64 // by what they have where the conditions of the tables look
}

// Beyond maxValues, all are otherValues.
const (
	maxValues   = 1000
	otherValues = "other values"
)

// Map implements [Mapper].
func (m *planned) Map(l *feed.Line, source string, at fold.Place) (_ []fold.TableChange, table int, err error) {
	if m.whole != nil {
		changes, _, err := m.whole.Map(l, source, at)
		if m.ignored = m.whole.ignored; err != nil || len(changes) == 0 {
			return nil, -1, err // the table may be none of this run
		}
	}
	m.scratch.Source = source
	changes, fate, err := m.plan.Map(l, at, m.scratch)
	switch {
	case err != nil:
		return nil, m.scratch.Table(), err
	case m.whole != nil: // which has counted it
	case fate == mapping.Ignored:
		m.ignored++
	case fate == mapping.NoTable:
		name := "all"
		if path, value := m.scratch.Discriminator(); path != "" {
			name = fmt.Sprintf("%s=%s", path, value)
		}
		if m.noTable[name] == 0 && len(m.noTable) >= maxValues {
			name = otherValues
		}
		m.noTable[name]++
	}
	return changes, -1, nil
}

// same reports that a table is one of those before it by another name.
func (m *planned) same(before []schema.Table, fullName string) error {
	at := slices.IndexFunc(before, func(t schema.Table) bool { return t.FullName == fullName })
	if at < 0 || fullName == "" { // it was not looked for in a database
		return nil
	}
	of := m.plan.Table(len(before))
	return &mapping.Fault{Pos: of.Pos, Text: fmt.Sprintf("%q and %q are one table of the database: make them one table here", m.plan.Table(at).Name, of.Name)}
}
