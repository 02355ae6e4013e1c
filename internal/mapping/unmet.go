package mapping

import (
	"maps"
	"slices"
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
func (s *Scratch) Unmet() (all []Unmet) {
	p := s.plan
	all = s.unmetTests(all, p.ignore, Unmet{By: "ignore"})
	for i := range p.tables {
		t := &p.tables[i]
		of := func(by string) Unmet { return Unmet{By: by, Table: t.spec.Name} }
		all = s.unmetTests(all, t.when, of("when"))
		if t.each != nil {
			all = s.unmetPath(all, of("each"), *t.each)
		}
		if t.hasAt {
			all = s.unmetPath(all, of("row"), t.row)
		}
		if !s.took[i] {
			continue
		}
		all = s.unmetTests(all, t.deletes, of("delete_when"))
		if t.version != nil && t.spec.Version.Base != NoBase && !t.spec.Version.IsEnvelopeVersion() {
			all = s.unmetPath(all, of("version_field"), *t.version)
		}
		if t.described {
			continue
		}
		for j := range t.columns {
			c := &t.columns[j]
			paths := []place{}
			for k := range c.sources {
				if c.sources[k].kind == aPath {
					paths = append(paths, c.sources[k].at)
				}
			}
			if c.key < 0 && len(paths) == len(c.sources) {
				column := of("columns")
				column.Column = c.spec.Name
				all = s.unmetPath(all, column, paths...)
			}
		}
	}
	return all
}

// unmetTests adds the paths of a condition.
func (s *Scratch) unmetTests(all []Unmet, c condition, as Unmet) []Unmet {
	for _, tests := range c {
		for i := range tests {
			if tests[i].present != MustBeAbsent {
				all = s.unmetPath(all, as, tests[i].at)
			}
		}
	}
	return all
}

// unmetPath adds the first of some paths where all of them have led nowhere.
func (s *Scratch) unmetPath(all []Unmet, as Unmet, paths ...place) []Unmet {
	for i, at := range paths {
		missing, ok := s.unmet(at)
		if !ok {
			return all
		}
		if i == 0 {
			as.Path, as.Name = s.plan.title(missing), s.frames[missing.tree].tree.nodes[missing.node].step.Name
			as.Beside = s.beside(missing)
		}
	}
	if as.Path == "" || slices.ContainsFunc(all, func(u Unmet) bool { return u.Path == as.Path }) {
		return all
	}
	return append(all, as)
}

// unmet finds the first step of a path where nothing was ever found.
func (s *Scratch) unmet(at place) (missing place, ok bool) {
	f := &s.frames[at.tree]
	for n := at.node; n > 0; n = f.tree.nodes[n].parent {
		node := &f.tree.nodes[n]
		if at.tree == 0 && node.parent == 0 && node.step.Index < 0 {
			if !s.plan.names.HasMet(node.step.Name) && !f.met[n] { // which is so where the message is in an envelope
				missing, ok = place{at.tree, n}, true
			}
		} else if f.walked[node.parent] && !f.met[n] {
			missing, ok = place{at.tree, n}, true
		}
	}
	return missing, ok
}

// beside are the members that stand where a path leads nowhere.
func (s *Scratch) beside(at place) []string {
	f := &s.frames[at.tree]
	parent := f.tree.nodes[at.node].parent
	if at.tree == 0 && parent == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(f.others[parent]))
}
