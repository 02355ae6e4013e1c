package mapping

import (
	"slices"

	"github.com/weirsync/weir/internal/paths"
)

// An UnresolvedPath is a path of the mapping that has led nowhere so far, though there was an object or array
// in which it could have.
type UnresolvedPath struct {
	// By is what of a table names the path: at, each, when, delete_when, version_field or columns; of
	// the mapping it is ignore.
	By     string
	Table  string // "" of the mapping
	Column string // of columns
	Path   string
	Name   string // the last one of the path
	// Siblings are the names of other members there; nil where these are the message's.
	Siblings []string
}

// UnresolvedPaths returns what no message has had so far. What a table takes from the messages is not among
// it where it has taken none, and neither are the columns of keys: without these lines are rejected.
func (m *Mapper) UnresolvedPaths() (all []UnresolvedPath) {
	p := m.plan
	all = m.unresolvedTests(all, p.ignore, UnresolvedPath{By: "ignore"})
	for i := range p.tables {
		t := &p.tables[i]
		of := func(by string) UnresolvedPath { return UnresolvedPath{By: by, Table: t.spec.Name} }
		all = m.unresolvedTests(all, t.when, of("when"))
		if t.nest.isElement() {
			all = m.unresolvedPath(all, of("each"), t.nest.each)
		}
		if t.row.nested {
			all = m.unresolvedPath(all, of("row"), t.row.at)
		}
		if !m.rows.tables[i].hasRows {
			continue
		}
		all = m.unresolvedTests(all, t.deletes, of("delete_when"))
		if !t.row.version.IsNowhere() && t.spec.Version.Base != paths.NoBase {
			all = m.unresolvedPath(all, of("version_field"), t.row.version)
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
				all = m.unresolvedPath(all, column, places...)
			}
		}
	}
	return all
}

// unresolvedTests adds the paths of a condition.
func (m *Mapper) unresolvedTests(all []UnresolvedPath, c paths.Condition, as UnresolvedPath) []UnresolvedPath {
	for _, at := range c.Places() {
		all = m.unresolvedPath(all, as, at)
	}
	return all
}

// unresolvedPath adds the first of some paths where all of them have led nowhere.
func (m *Mapper) unresolvedPath(all []UnresolvedPath, as UnresolvedPath, places ...paths.Place) []UnresolvedPath {
	for i, at := range places {
		missing, ok := m.read.Unresolved(at, m.plan.names)
		if !ok {
			return all
		}
		if i == 0 {
			as.Path, as.Name, as.Siblings = m.plan.title(missing), m.plan.trees.Name(missing), m.read.Siblings(missing)
		}
	}
	if as.Path == "" || slices.ContainsFunc(all, func(u UnresolvedPath) bool { return u.Path == as.Path }) {
		return all
	}
	return append(all, as)
}
