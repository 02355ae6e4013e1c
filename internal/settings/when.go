package settings

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/mapping/paths"
)

// when reads a condition: PATH=VALUE, a map of tests that must all hold, or a list of maps of which one must hold.
func (r *reader) when(n *yaml.Node, where string) paths.When {
	switch n.Kind {
	case yaml.MappingNode:
		return paths.When{r.all(n, where)}
	case yaml.SequenceNode:
		var when paths.When
		for _, item := range r.items(n, where, "conditions") {
			when = append(when, r.all(item, where))
		}
		return when
	}
	v, ok := r.text(n, where)
	if !ok {
		return nil
	}
	var when paths.When
	if err := when.UnmarshalText([]byte(v)); err != nil {
		r.fault(pos(n), where, "%v", err)
		return nil
	}
	when[0][0].Pos = pos(n)
	return when
}

func (r *reader) all(n *yaml.Node, where string) paths.All {
	var all paths.All
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.fault(pos(n), where, "the condition is empty: leave it out if it always holds")
	}
	r.pairs(n, where, func(at *yaml.Node, name string, value *yaml.Node) {
		t := r.test(value, join(where, name))
		t.Pos = pos(at)
		var err error
		if t.Path, err = paths.ParsePath(name); err != nil {
			r.fault(t.Pos, where, "%v", err)
			return
		}
		if slices.ContainsFunc(all, func(o paths.Test) bool { return o.Path.String() == t.Path.String() }) {
			r.fault(t.Pos, where, "%s is tested twice: put both into one test", name)
		}
		all = append(all, t)
	})
	return all
}

// A testMap is a test that is written as a map.
type testMap struct {
	Present paths.Presence `key:"present" help:"whether the path must lead to a value; null is one"`
	Not     []paths.Value  `key:"not" null:"yes" help:"value or values that it must not be; an absent field matches"`
}

// test reads a test of a value.
func (r *reader) test(n *yaml.Node, where string) (t paths.Test) {
	if n.Kind != yaml.MappingNode {
		t.In = r.values(n, where)
		return t
	}
	var of testMap
	if r.readFields(n, where, &of); len(n.Content) == 0 {
		r.fault(pos(n), where, "the test is empty: a value, a list, {not: …} or {present: true}")
	}
	return paths.Test{In: of.Not, Not: of.Not != nil, Present: of.Present}
}

func (r *reader) presence(n *yaml.Node, where string) paths.Presence {
	switch v, ok := r.text(n, where); {
	case v == "true":
		return paths.MustBePresent
	case ok && v != "false":
		r.fault(pos(n), where, "%q is neither true nor false", v)
	}
	return paths.MustBeAbsent
}

// values reads a value or a list of values.
func (r *reader) values(n *yaml.Node, where string) (values []paths.Value) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = r.items(n, where, "values")
	}
	for _, item := range nodes {
		v, ok := text(item)
		switch {
		case !ok:
			r.fault(pos(item), where, "must be a value, not %s", kindOf(item))
		case isNull(item) && v == "":
			r.fault(pos(item), where, "the value is missing: write null for JSON's null, or {present: true} for any value")
		default:
			value := paths.Value{Text: v}
			if isNull(item) {
				value = paths.Value{Null: true}
			}
			if slices.Contains(values, value) {
				r.fault(pos(item), where, "%s is named twice", kindOf(item))
			}
			values = append(values, value)
		}
	}
	return values
}
