package mapping

import (
	"fmt"
	"slices"
)

// Select returns the mapping with only those of its tables that are named. Tables that belong to
// each other are written together, and none without those that it refers to.
func (m *Mapping) Select(names []string) (*Mapping, error) {
	some := *m
	some.Unmatched, some.Tables = IgnoreUnmatched, nil
	wanted := func(name string) bool { return slices.Contains(names, name) }
	for i := range m.Tables {
		t := &m.Tables[i]
		if wanted(t.Name) {
			some.Tables = append(some.Tables, *t)
		}
		for _, other := range t.above() {
			if wanted(t.Name) && !wanted(other) || other == t.Of && wanted(other) && !wanted(t.Name) {
				return nil, fmt.Errorf("table %q is written with table %q: name both", t.Name, other)
			}
		}
	}
	return &some, nil
}
