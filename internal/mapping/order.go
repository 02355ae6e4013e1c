package mapping

import (
	"fmt"
	"slices"
)

// Select returns the mapping with only the named tables. A parent and its child tables are written together, and a
// table only with the tables that it refers to. The whole mapping still decides what happens to a message.
func (m *Mapping) Select(names []string) (*Mapping, error) {
	some := *m
	some.whole, some.Unmatched, some.Tables = m, IgnoreUnmatched, nil
	wanted := func(name string) bool { return slices.Contains(names, name) }
	for i := range m.Tables {
		t := &m.Tables[i]
		if wanted(t.Name) {
			some.Tables = append(some.Tables, *t)
		}
		for _, other := range t.Dependencies() {
			if wanted(t.Name) && !wanted(other) || other == t.Of && wanted(other) && !wanted(t.Name) {
				return nil, fmt.Errorf("table %q is written with table %q: name both", t.Name, other)
			}
		}
	}
	return &some, nil
}

// Table returns the table with a name, or nil.
func (m *Mapping) Table(name string) *Table {
	if i := slices.IndexFunc(m.Tables, func(t Table) bool { return t.Name == name }); i >= 0 {
		return &m.Tables[i]
	}
	return nil
}

// Names returns the names of the tables.
func (m *Mapping) Names() []string {
	names := make([]string, len(m.Tables))
	for i := range m.Tables {
		names[i] = m.Tables[i].Name
	}
	return names
}

// order returns the indices of the tables, each after its parent and its foreign-key targets, otherwise in file order.
// If that is impossible, cycle are names of tables each of which must come after the next one, and the last of which is
// the first.
func (m *Mapping) order() (order []int, cycle []string) {
	placed := map[string]bool{}
	waits := func(above string) bool { return !placed[above] && m.Table(above) != nil }
	for len(order) < len(m.Tables) {
		next := slices.IndexFunc(m.Tables, func(t Table) bool { return !placed[t.Name] && !slices.ContainsFunc(t.Dependencies(), waits) })
		if next < 0 {
			next = slices.IndexFunc(m.Tables, func(t Table) bool { return !placed[t.Name] })
		}
		if name := m.Tables[next].Name; cycle == nil && slices.ContainsFunc(m.Tables[next].Dependencies(), waits) {
			for !slices.Contains(cycle, name) {
				cycle = append(cycle, name)
				above := m.Table(name).Dependencies()
				name = above[slices.IndexFunc(above, waits)]
			}
			cycle = append(cycle[slices.Index(cycle, name):], name)
		}
		placed[m.Tables[next].Name] = true
		order = append(order, next)
	}
	return order, cycle
}

// DefaultKey is the key if neither the mapping nor the database has one.
const DefaultKey = "id"

// Dependencies returns the parent and the foreign-key targets of a table.
func (t *Table) Dependencies() (names []string) {
	if t.Of != "" {
		names = append(names, t.Of)
	}
	for i := range t.Columns {
		for _, s := range t.Columns[i].From {
			if s.References != "" {
				names = append(names, s.References)
			}
		}
	}
	return names
}
