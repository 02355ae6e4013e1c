package mapping

import (
	"maps"
	"slices"

	"github.com/weirsync/weir/internal/mapping/paths"
)

// An UnresolvedPath is a path of the mapping that found nothing so far, although its parent existed.
type UnresolvedPath struct {
	// By is the setting with the path: of a table when, each, row, delete_when, version_field, merge or columns; of the
	// mapping ignore.
	By     string
	Table  string // "" for a path of the mapping
	Column string // if By is columns
	Path   string
	Name   string // last name of the path
	// Siblings are the names of the other members of its parent; nil if the parent is the message.
	Siblings []string
}

// UnresolvedPaths returns the paths that no message has had so far. It skips most paths of tables that have had no
// rows, and the columns of keys, because lines without these are rejected.
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
			at := t.row.at
			if t.spec.Row.InText {
				at = t.row.text
			}
			all = m.unresolvedPath(all, of("row"), at)
		}
		if !m.rows.tables[i].hasRows {
			continue
		}
		all = m.unresolvedTests(all, t.deletes, of("delete_when"))
		if !t.row.version.IsNowhere() && t.spec.Version.Base != paths.NoBase {
			all = m.unresolvedPath(all, of("version_field"), t.row.version)
		}
		if t.isLine() {
			for _, column := range slices.Sorted(maps.Keys(t.spec.Merge)) {
				if !p.names.HasSeen(column) {
					all = append(all, UnresolvedPath{By: "merge", Table: t.spec.Name, Path: column, Name: column})
				}
			}
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

// unresolvedTests appends the unresolved paths of a condition.
func (m *Mapper) unresolvedTests(all []UnresolvedPath, c paths.Condition, as UnresolvedPath) []UnresolvedPath {
	for _, at := range c.Places() {
		all = m.unresolvedPath(all, as, at)
	}
	return all
}

// unresolvedPath appends the first of some alternative paths if none of them found anything.
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
