package mapping

import (
	"slices"

	"github.com/weirsync/weir/internal/paths"
)

// An Unmet is a path of the mapping that has led nowhere so far, though there was an object or array
// in which it could have.
type Unmet struct {
	// By is what of a table names the path: at, each, when, delete_when, version_field or columns; of
	// the mapping it is ignore.
	By     string
	Table  string // "" of the mapping
	Column string // of columns
	Path   string
	Name   string // the last one of the path
	// Beside are the names of other members there; nil where these are the message's.
	Beside []string
}

// Unmet returns what no message has had so far. What a table takes from the messages is not among
// it where it has taken none, and neither are the columns of keys: without these lines are rejected.
func (m *Mapper) Unmet() (all []Unmet) {
	p := m.plan
	all = m.unmetTests(all, p.ignore, Unmet{By: "ignore"})
	for i := range p.tables {
		t := &p.tables[i]
		of := func(by string) Unmet { return Unmet{By: by, Table: t.spec.Name} }
		all = m.unmetTests(all, t.when, of("when"))
		if t.nest.each != nil {
			all = m.unmetPath(all, of("each"), *t.nest.each)
		}
		if t.row.nested {
			all = m.unmetPath(all, of("row"), t.row.at)
		}
		if !m.rows.tables[i].took {
			continue
		}
		all = m.unmetTests(all, t.deletes, of("delete_when"))
		if t.row.version != nil && t.spec.Version.Base != paths.NoBase {
			all = m.unmetPath(all, of("version_field"), *t.row.version)
		}
		if t.described {
			continue
		}
		for j := range t.columns {
			c := &t.columns[j]
			var places []paths.Place
			for k := range c.sources {
				if c.sources[k].kind == aPath {
					places = append(places, c.sources[k].at)
				}
			}
			if c.key < 0 && len(places) == len(c.sources) {
				column := of("columns")
				column.Column = c.spec.Name
				all = m.unmetPath(all, column, places...)
			}
		}
	}
	return all
}

// unmetTests adds the paths of a condition.
func (m *Mapper) unmetTests(all []Unmet, c paths.Condition, as Unmet) []Unmet {
	for _, at := range c.Places() {
		all = m.unmetPath(all, as, at)
	}
	return all
}

// unmetPath adds the first of some paths where all of them have led nowhere.
func (m *Mapper) unmetPath(all []Unmet, as Unmet, places ...paths.Place) []Unmet {
	for i, at := range places {
		missing, ok := m.read.Unmet(at, m.plan.names)
		if !ok {
			return all
		}
		if i == 0 {
			as.Path, as.Name, as.Beside = m.plan.title(missing), m.plan.trees.Name(missing), m.read.Beside(missing)
		}
	}
	if as.Path == "" || slices.ContainsFunc(all, func(u Unmet) bool { return u.Path == as.Path }) {
		return all
	}
	return append(all, as)
}
