package mapping

import (
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/mapping/paths"
)

// Select returns the mapping with only the named tables. A parent and its child tables are written together, and a
// table only with the tables that it refers to.
func (m *Mapping) Select(names []string) (*Mapping, error) {
	some := *m
	some.Unmatched, some.Tables = IgnoreUnmatched, nil
	wanted := func(name string) bool { return slices.Contains(names, name) }
	for i := range m.Tables {
		t := &m.Tables[i]
		if wanted(t.Name) {
			some.Tables = append(some.Tables, *t)
		}
		for _, other := range t.dependencies() {
			if wanted(t.Name) && !wanted(other) || other == t.Of && wanted(other) && !wanted(t.Name) {
				return nil, fmt.Errorf("table %q is written with table %q: name both", t.Name, other)
			}
		}
	}
	return &some, nil
}

// order sorts the tables topologically: after their parents and foreign-key targets, otherwise in file order.
func (c *compiler) order() (order []int) {
	tables := c.mapping.Tables
	placed := map[string]bool{}
	waits := func(above string) bool {
		return !placed[above] && slices.ContainsFunc(tables, func(t Table) bool { return t.Name == above })
	}
	for len(order) < len(tables) {
		next := slices.IndexFunc(tables, func(t Table) bool { return !placed[t.Name] && !slices.ContainsFunc(t.dependencies(), waits) })
		if next < 0 {
			c.fault(paths.Pos{}, "parent and foreign-key references of the tables form a cycle")
			return nil
		}
		placed[tables[next].Name] = true
		order = append(order, next)
	}
	return order
}

// DefaultKey is the key if neither the mapping nor the database has one.
const DefaultKey = "id"

// UsesKeyOf reports whether rows of the table refer to rows of another one.
func (t *Table) UsesKeyOf(other string) bool { return slices.Contains(t.dependencies(), other) }

// dependencies returns the parent and the foreign-key targets of a table.
func (t *Table) dependencies() (names []string) {
	if t.Of != "" {
		names = append(names, t.Of)
	}
	for i := range t.Columns {
		for _, s := range t.Columns[i].From {
			if s.References != "" && s.References != t.Name {
				names = append(names, s.References)
			}
		}
	}
	return names
}
