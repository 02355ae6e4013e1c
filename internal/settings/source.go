package settings

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

func (r *reader) columns(n *yaml.Node, where string) (columns []mapping.Column) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.fault(pos(n), where, "no column is named: leave columns out to take all fields")
	}
	r.pairs(n, where, func(at *yaml.Node, name string, value *yaml.Node) {
		if name == "" {
			r.fault(pos(at), where, "the name of a column is empty")
		}
		from, function := r.column(value, name, join(where, name))
		columns = append(columns, mapping.Column{Pos: pos(at), Name: name, From: from, Merge: function})
	})
	return columns
}

// column reads the sources of a column: one, none (the field with the column's name), or a list. One of the sources may
// name the column's merge function.
func (r *reader) column(n *yaml.Node, name, where string) (from []mapping.Source, function merge.Function) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = r.items(n, where, "sources")
	}
	given := false
	for _, item := range items {
		s, merges, names := r.source(item, name, where)
		switch {
		case !names:
		case given && merges != function:
			r.fault(s.Pos, where, "a column has one merge function, and an earlier source says %s", function)
		default:
			given, function = true, merges
		}
		from = append(from, s)
	}
	return from, function
}

// source reads a source of a column. named reports whether it names a merge function.
func (r *reader) source(n *yaml.Node, column, where string) (s mapping.Source, function merge.Function, named bool) {
	var of sourceMap
	var given map[string]*yaml.Node
	before := len(r.faults)
	switch {
	case isNull(n):
	case n.Kind == yaml.MappingNode:
		of, given = r.sourceMap(n, where)
	default:
		of.From = r.from(n, where)
	}
	if len(r.faults) == before && of.Value == nil && of.Stamp == schema.NoStamp && of.Meta == mapping.NoMeta {
		s = of.From.Source(column)
	}
	s.Pos, s.When, s.Value, s.Stamp, s.Meta, s.References = pos(n), of.When, of.Value, of.Stamp, of.Meta, of.References
	s.As = cmp.Or(s.As, of.Type)
	return s, of.Merge, given["merge"] != nil
}

// from reads a path and its type.
func (r *reader) from(n *yaml.Node, where string) (t mapping.TypedPath) {
	if n.Kind == yaml.SequenceNode {
		r.fault(pos(n), where, "must be one path; for several sources, write a list instead of the map")
	} else if text, ok := r.text(n, where); ok {
		if err := t.UnmarshalText([]byte(text)); err != nil {
			r.fault(pos(n), where, "%v", err)
		}
	}
	return t
}

// A sourceMap is a source that is written as a map.
type sourceMap struct {
	From       mapping.TypedPath `key:"from" help:"path of the value, or PATH as TYPE" default:"the field of the column's name"`
	Type       cast.Type         `key:"type" help:"type that the value is read as" default:"the table's ‘type’"`
	Value      constant          `key:"value" null:"yes" help:"constant that each message sets"`
	When       paths.When        `key:"when" help:"messages that use this source; in a child table, elements"`
	Stamp      schema.Stamp      `key:"stamp" words:"insert update" help:"time of the flush: ‘insert’ when the row is created, ‘update’ also when it changes"`
	Meta       mapping.Meta      `key:"meta" words:"index key line offset source" help:"‘index’ (from 0) or ‘key’ of an element; ‘line’, ‘offset’ or ‘source’ of the message"`
	Merge      merge.Function    `key:"merge" help:"how a value changes the column: ‘last’ overwrites it, ‘first’ keeps it, ‘sum’ adds, ‘min’ and ‘max’ keep the smallest or largest, ‘patch’ merges objects" default:"last"`
	References string            `key:"references" filled:"yes" help:"table of the file that the value is a foreign key to; a missing row is created with its key alone"`
}

// sourceMap reads a source that is written as a map.
func (r *reader) sourceMap(n *yaml.Node, where string) (s sourceMap, given map[string]*yaml.Node) {
	before := len(r.faults)
	if given = r.readFields(n, where, &s); len(r.faults) > before {
		return s, given
	}
	// kinds are the kinds of sources, and the keys allowed with each.
	kinds := []struct {
		name string
		with []string
	}{{"value", []string{"when", "merge"}}, {"stamp", nil}, {"meta", []string{"when", "merge"}}}
	for _, k := range kinds {
		if given[k.name] == nil {
			continue
		}
		for other, at := range given {
			if other != k.name && !slices.Contains(k.with, other) {
				r.fault(pos(at), where, "%s cannot be combined with %s", other, k.name)
			}
		}
		return s, given
	}
	switch {
	case len(given) == 0:
		r.fault(pos(n), where, "the source is empty: name one of %s", Either([]string{"from", "value", "stamp", "meta"}))
	case s.From.As.Kind != cast.DefaultType && given["type"] != nil:
		r.fault(pos(given["type"]), where, "the type is named twice, by from and by type")
	case given["references"] != nil && given["merge"] != nil:
		r.fault(pos(given["merge"]), where, "merge cannot be combined with references: the value is the key of a row")
	}
	return s, given
}

// constant reads a value as JSON.
func (r *reader) constant(n *yaml.Node, where string) constant {
	budget := maxConstant
	raw, err := appendJSON(nil, n, &budget)
	if err != nil {
		r.fault(pos(n), where, "%v", err)
	}
	return raw
}
