package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/paths"
)

// column reads the sources of a column: one, none (the field with the column's name), or a list. One of the sources may
// name the column's merge function.
func (r *reader) column(n *yaml.Node, name, where string) (from []mapping.Source, function merge.Function) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = r.items(n, where, "sources")
	}
	given := false
	for _, item := range items {
		s := r.source(item, name, where)
		switch {
		case s.merge == "":
		case given && s.merge != function.String():
			r.fault(s.Pos, where, "a column has one merge function, and an earlier source says %s", function)
		default:
			given = true
			function, _ = merge.Parse(s.merge) // an unknown one was reported before
		}
		from = append(from, s.Source)
	}
	return from, function
}

// source reads a source of a column.
func (r *reader) source(n *yaml.Node, column, where string) (s sourceDraft) {
	switch {
	case isNull(n):
		s.From = paths.FieldPath(column)
	case n.Kind == yaml.MappingNode:
		s = r.sourceMap(n, column, where)
	default:
		if v, ok := r.text(n, where); ok {
			var err error
			if s.Source, err = mapping.ParseSource(v, column); err != nil {
				r.fault(pos(n), where, "%s", hinted(err))
			}
		}
	}
	s.Pos = pos(n)
	return s
}

// hinted adds the type that an unknown type may mean.
func hinted(err error) string {
	var unknown *cast.UnknownTypeError
	if !errors.As(err, &unknown) {
		return err.Error()
	}
	if known := otherNames[strings.ToLower(unknown.Name)]; known != "" {
		return fmt.Sprintf("%v; did you mean %q?", err, known)
	}
	names := make([]string, len(cast.TypeNames))
	for i, t := range cast.TypeNames {
		names[i] = string(t)
	}
	if hint := DidYouMean(unknown.Name, names); hint != "" {
		return err.Error() + hint
	}
	return fmt.Sprintf("%v: must be %s", err, Either(names))
}

// otherNames are the names that types have in other systems.
var otherNames = map[string]cast.TypeKind{
	"int": cast.Integer, "int4": cast.Integer, "int8": cast.Integer, "bigint": cast.Integer, "long": cast.Integer,
	"string": cast.Text, "str": cast.Text, "varchar": cast.Text, "char": cast.Text,
	"float": cast.Real, "float8": cast.Real, "double": cast.Real, "double precision": cast.Real,
	"decimal": cast.Numeric, "number": cast.Numeric, "bool": cast.Boolean, "jsonb": cast.JSON, "object": cast.JSON, "array": cast.JSON,
	"datetime": cast.Timestamp, "timestamptz": cast.Timestamp, "time": cast.Timestamp,
	"blob": cast.Bytes, "bytea": cast.Bytes, "binary": cast.Bytes, "base64": cast.Bytes,
}

// A sourceDraft is a source that is being read.
type sourceDraft struct {
	mapping.Source
	column string
	typed  bool   // from sets the type
	merge  string // the column's merge function; "": not given here
}

var sourceKeys = []key[sourceDraft]{
	{"from", "path of the value, or PATH as TYPE", "the field of the column's name", textForm, func(r *reader, s *sourceDraft, n *yaml.Node, where string) {
		if n.Kind == yaml.SequenceNode {
			r.fault(pos(n), where, "must be one path; for several sources, write a list instead of the map")
			return
		}
		if v, ok := r.text(n, where); ok {
			read, err := mapping.ParseSource(v, s.column)
			if err != nil {
				r.fault(pos(n), where, "%s", hinted(err))
			}
			s.From, s.typed = read.From, read.As.Kind != cast.DefaultType
			if s.typed {
				s.As = read.As
			}
		}
	}},
	{"type", "type that the value is read as", "the table's `type`", typeForm, func(r *reader, s *sourceDraft, n *yaml.Node, where string) {
		if as := r.columnType(n, where); !s.typed {
			s.As = as
		}
	}},
	{"when", "messages that use this source; in a child table, elements", "", ref("when"), func(r *reader, s *sourceDraft, n *yaml.Node, where string) { s.When = r.when(n, where) }},
	{"value", "constant that each message sets", "", anyForm, func(r *reader, s *sourceDraft, n *yaml.Node, where string) { s.Value = r.constant(n, where) }},
	{"stamp", "time of the flush: `insert` when the row is created, `update` also when it changes", "", enum(mapping.InsertStamp, mapping.UpdateStamp), func(r *reader, s *sourceDraft, n *yaml.Node, where string) {
		s.Stamp = choice(r, n, where, mapping.InsertStamp, mapping.UpdateStamp)
	}},
	{"meta", "`index` (from 0) or `key` of an element; `line`, `offset` or `source` of the message", "", enum(metas...), func(r *reader, s *sourceDraft, n *yaml.Node, where string) { s.Meta = choice(r, n, where, metas...) }},
	{"merge", "how a value changes the column: `last` overwrites it, `first` keeps it, `sum` adds, `min` and `max` keep the smallest or largest, `patch` merges objects", "last", enum(merge.Names()...), func(r *reader, s *sourceDraft, n *yaml.Node, where string) {
		s.merge = choice(r, n, where, merge.Names()...)
	}},
	{"references", "table of the file that the value is a foreign key to; a missing row is created with its key alone", "", nameForm, func(r *reader, s *sourceDraft, n *yaml.Node, where string) { s.References = r.name(n, where) }},
}

var metas = []mapping.Meta{mapping.IndexMeta, mapping.KeyMeta, mapping.LineMeta, mapping.OffsetMeta, mapping.SourceMeta}

// sourceMap reads a source that is written as a map.
func (r *reader) sourceMap(n *yaml.Node, column, where string) sourceDraft {
	s := sourceDraft{column: column}
	before := len(r.faults)
	given := readKeys(r, n, where, sourceKeys, &s)
	if len(r.faults) > before {
		return s
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
		for _, other := range keyNames(sourceKeys) {
			if given[other] != nil && other != k.name && !slices.Contains(k.with, other) {
				r.fault(pos(given[other]), where, "%s cannot be combined with %s", other, k.name)
			}
		}
		return s
	}
	switch {
	case len(given) == 0:
		r.fault(pos(n), where, "the source is empty: name one of %s", Either([]string{"from", "value", "stamp", "meta"}))
	case s.typed && given["type"] != nil:
		r.fault(pos(given["type"]), where, "the type is named twice, by from and by type")
	case given["references"] != nil && given["merge"] != nil:
		r.fault(pos(given["merge"]), where, "merge cannot be combined with references: the value is the key of a row")
	}
	if s.From.Base == paths.NoBase {
		s.From = paths.FieldPath(column)
	}
	return s
}

func (r *reader) path(n *yaml.Node, where string) paths.Path {
	v, ok := r.text(n, where)
	if !ok {
		return paths.Path{}
	}
	p, err := paths.ParsePath(v)
	if err != nil {
		r.fault(pos(n), where, "%v", err)
	}
	return p
}

func (r *reader) columnType(n *yaml.Node, where string) cast.Type {
	v, ok := r.text(n, where)
	if !ok {
		return cast.Type{}
	}
	t, err := cast.ParseType(v)
	if err != nil {
		r.fault(pos(n), where, "%s", hinted(err))
	}
	return t
}

// constant reads a value as JSON.
func (r *reader) constant(n *yaml.Node, where string) []byte {
	budget := maxConstant
	raw, err := appendJSON(nil, n, &budget)
	if err != nil {
		r.fault(pos(n), where, "%v", err)
	}
	return raw
}
