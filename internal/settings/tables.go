package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping"
)

// tables makes the tables of the plan: the tables of the file, or the one that the settings name.
func (b *builder) tables(name string) {
	before, m := len(b.faults), b.Mapping
	if m == nil {
		b.faultIf(b.Table.Name != "" && !isTableName(name), "table", "--table: "+noTableName, name)
		m = b.oneTable(name)
	} else {
		for _, name := range []string{"columns", "envelope", "merge", "row", "when"} {
			b.faultIf(!b.Setting(name).v.IsZero(), name, "--"+name+" cannot be combined with the tables in %s; set it there", m.File)
		}
		b.faultIf(b.Table.Name != "", "table", "--table %s: %s names its tables; leave --table out", b.Table.Name, m.File)
	}
	if b.plan.Mapping = m; m.File != "" && len(b.faults) > before {
		return
	}
	b.faultIf(b.Table.ForeignKeys == IgnoreForeignKeys && slices.ContainsFunc(m.Tables, func(t mapping.Table) bool { return len(t.Dependencies()) > 0 }),
		"foreign-keys", "--foreign-keys off: child tables and references need them: leave it out")
	b.compile(m)
}

// compile makes the plan of the tables to write.
func (b *builder) compile(m *mapping.Mapping) {
	b.plan.Mapping = m
	written, err := b.selected(m)
	if err != nil {
		b.add(err)
		return
	}
	b.plan.Job.Plan, err = mapping.Compile(b.forDatabase(written), b.plan.To.Caps.Limits)
	for _, err := range unjoined(err) {
		b.add(cmp.Or(b.ofSetting(err), err))
	}
	b.faultIf(b.plan.Job.Plan.Star() != nil && b.Source.Restart == Rebuild, "restart", "--restart rebuild: the tables are unknown until the stream is read; drop them yourself, or name them in a config file")
	b.faultIf(b.Table.Tables != nil && b.Source.Job == "", "tables", "--tables needs its own --job: the job of %s is for all of its tables", m.File)
}

// forDatabase returns a mapping with only the statements of on_create that are for the database.
func (b *builder) forDatabase(m *mapping.Mapping) *mapping.Mapping {
	of := *m
	of.Tables = slices.Clone(m.Tables)
	for i := range of.Tables {
		t := &of.Tables[i]
		t.OnCreate = b.statements(t.OnCreate)
	}
	return &of
}

// everyForDatabase returns the SQL of every that is for the database.
func (b *builder) everyForDatabase() (every []mapping.PeriodicSQL) {
	for _, e := range b.Every {
		if e.Statements = b.statements(e.Statements); len(e.Statements) > 0 {
			every = append(every, e)
		}
	}
	return every
}

// statements returns the statements that are for the database.
func (b *builder) statements(all []mapping.Statement) []mapping.Statement {
	return slices.DeleteFunc(slices.Clone(all), func(s mapping.Statement) bool {
		return s.Database != "" && !strings.EqualFold(s.Database, b.plan.To.Name)
	})
}

// selected returns the mapping of the tables to write.
func (s *Spec) selected(all *mapping.Mapping) (*mapping.Mapping, error) {
	switch {
	case s.Table.Tables == nil:
		return all, nil
	case len(s.Table.Tables) == 0:
		return nil, errors.New("--tables names no table")
	case all.File == "":
		return nil, errors.New("--tables: names tables of a config file (--config), and there are none: --table names the one of a run without")
	}
	names := all.Names()
	for _, name := range s.Table.Tables {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--tables: %s has no table %q%s", all.File, name, cmp.Or(feed.DidYouMean(name, names), "; it has "+strings.Join(names, ", ")))
		}
	}
	if slices.Contains(names, mapping.Star) {
		return nil, fmt.Errorf("--tables: %s has a table %q, which is for all that have no name there", all.File, mapping.Star)
	}
	m, err := all.Select(s.Table.Tables)
	if err != nil {
		return nil, fmt.Errorf("--tables: %w", err)
	}
	return m, nil
}
