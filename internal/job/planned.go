package job

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
)

// Map sets the job's mapping, for tables of a database with the given limits. whole is the mapping that m was selected
// from, which decides what happens to a message, or nil if m is complete. The error joins a [mapping.Fault] for each
// thing that the database cannot store.
func (c *Config) Map(m, whole *mapping.Mapping, limits schema.Limits) error {
	names := &feed.Names{}
	plan, err := mapping.Compile(m, names, limits)
	if err != nil {
		return err
	}
	all, err := mapping.Compile(whole, names, limits)
	if err != nil {
		return err
	}
	tableOf := func(i int) Table {
		t := plan.Table(i)
		key := plan.StoredKey(i)
		if t.KeyOpen { // an existing table may have no key
			key = []string{}
		}
		return plannedTable(m, t, Table{Name: t.Name, Key: key, KeyOpen: t.KeyOpen, Fold: plan.Options(i), Fit: func(_ *schema.Limits, have *schema.Table) error {
			for _, s := range t.OnCreate {
				have.OnCreate = append(have.OnCreate, s.SQL)
			}
			return plan.Fit(i, have)
		}})
	}
	c.Mapping.Names = names
	c.Mapping.New = func(of *feed.Names) (Mapper, error) {
		if of != names {
			return nil, errors.New("the plan of the mapping numbers the fields otherwise than the run")
		}
		p := &planned{plan: plan, mapper: plan.NewMapper(), tableOf: tableOf, unfit: map[string]unfitTable{}}
		p.mapLine = p.mapper.Map
		if all != nil {
			p.whole = &planned{plan: all, mapper: all.NewMapper()}
			p.whole.mapLine = p.whole.mapper.MapAlone
		}
		return p, nil
	}
	c.Mapping.Stream = m.Envelope != nil
	if m.File != "" {
		c.Mapping.Fingerprint = m.Fingerprint()
	}
	c.Tables = make([]Table, plan.Tables())
	for i := range c.Tables {
		c.Tables[i] = tableOf(i)
	}
	if star, options := plan.Star(); star != nil {
		t := plannedTable(m, star, Table{Name: star.Name, Fold: options})
		if !star.KeyByDefault {
			t.Key = star.Key
		}
		c.Mapping.Star = &t
	}
	return nil
}

// plannedTable adds the settings of a mapping to a table, for checkpoints.
func plannedTable(m *mapping.Mapping, of *mapping.Table, t Table) Table {
	t.Mapping = of.Fingerprint()
	if m.File == "" && m.Envelope != nil {
		t.Mapping["envelope"] = m.Envelope.Preset + " " + m.EnvelopeFingerprint()
	}
	return t
}

// planned maps lines by the plan of a mapping.
type planned struct {
	whole  *planned // of the mapping that this one was selected from; nil: this one is complete
	plan   *mapping.Plan
	mapper *mapping.Mapper
	// mapLine is the mapper's Map, or MapAlone for the whole mapping, of which some tables are not in this run.
	mapLine func(l *feed.Line, source string, at fold.Place) (mapping.Result, error)
	run     *run
	resume  []byte              // resume value of the last line; nil: none
	lost    []mapping.LostValue // of the last line
	nulled  []fold.Nulled       // of the last line
	tableOf func(table int) Table
	refused *feed.Error           // of the current line, if adding its table failed
	unfit   map[string]unfitTable // by name in the stream
}

// maxUnfit is how many unfit tables are remembered.
const maxUnfit = 1000

// Map implements [Mapper].
func (m *planned) Map(l *feed.Line, source string, at fold.Place) (_ []fold.TableChange, table int, err error) {
	if m.whole != nil {
		changes, _, err := m.whole.Map(l, source, at)
		_, truncates := err.(*mapping.NewTable) // a table whose key is not known yet
		if m.resume = m.whole.resume; !truncates && (err != nil || len(changes) == 0) {
			return nil, -1, err // the table may not be part of this run
		}
	}
	if refused := m.refused; refused != nil {
		m.refused = nil
		return nil, -1, refused
	}
	r, err := m.mapLine(l, source, at)
	m.resume, m.lost, m.nulled = r.Resume, r.Lost, r.Nulled
	switch {
	case err != nil:
		return nil, r.Table, err
	case m.whole == nil: // otherwise whole has counted it
		m.run.notePassed(&r)
	}
	return r.Rows, -1, nil
}

// add appends a table, or sets the key of one that had none, if check accepts it. A [*feed.Error] means that nothing
// was added and the mapper rejects the line: the table cannot have its settings, or the line is bad, so nothing
// confirms that this is the key. l may be nil.
func (m *planned) add(n *mapping.NewTable, key []string, l *feed.Line, check func(t *Table) error) (t Table, err error) {
	needed := *n
	i, err := m.mapper.Add(n, key)
	if err == nil {
		t = m.tableOf(i)
		if err = check(&t); err != nil {
			m.mapper.Drop(i)
		}
	}
	if errors.As(err, &m.refused) {
		if len(m.unfit) == maxUnfit {
			clear(m.unfit)
		}
		m.unfit[n.StreamName] = unfitTable{&needed, m.refused}
	} else if err == nil && l != nil {
		if _, bad := m.mapper.Map(l, "", fold.Place{}); errors.As(bad, &m.refused) {
			err = bad
			m.mapper.Drop(i)
		}
	}
	return t, err
}

// An unfitTable is a table of the stream that cannot have its settings.
type unfitTable struct {
	needed *mapping.NewTable
	why    *feed.Error
}

// rejectAgain reports whether a table was refused before, and rejects the current line with the same error. Asking the
// database takes milliseconds a line.
func (m *planned) rejectAgain(n *mapping.NewTable) bool {
	t, ok := m.unfit[n.StreamName]
	if ok = ok && reflect.DeepEqual(t.needed, n); ok {
		m.refused = t.why
	}
	return ok
}

// same returns an error if a table is another name of one of the tables before it.
func (m *planned) same(before []schema.Table, fullName string) error {
	at := slices.IndexFunc(before, func(t schema.Table) bool { return t.FullName == fullName })
	if at < 0 || fullName == "" { // it was not looked up in a database
		return nil
	}
	of := m.plan.Table(len(before))
	return &mapping.Fault{Pos: of.Pos, Text: fmt.Sprintf("%q and %q are one table of the database: make them one table here", m.plan.Table(at).Name, of.Name)}
}
