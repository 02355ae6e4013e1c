package settings

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A mappingDraft is a mapping that is being read or printed: the keys of a file that are not settings.
type mappingDraft struct {
	mapping.Mapping
	UseVersion bool                  `key:"version" help:"whether to use the envelope's version"`
	Tables     []mapping.Table       `key:"tables" help:"the tables: NAME or SCHEMA.NAME (in SQLite SCHEMA_NAME); ‘'*'’ stands for each other table of a change stream" default:"one table, see ‘table’"`
	Every      []mapping.PeriodicSQL `key:"every" help:"SQL to run between two batches, by period (‘{10m: SQL}’): see [remove old rows](tables.md#remove-old-rows)"`
	Cases      []Case                `key:"tests" help:"feeds and expected rows, see below"`

	given   map[string]*yaml.Node // top-level keys in the file
	entries []entry               // those of the mapping
}

// has reports whether a key of the file is one of the mapping.
func (m *mappingDraft) has(name string) bool {
	return slices.ContainsFunc(m.entries, func(e entry) bool { return e.name == name })
}

// NoKey is the key of a table without one: each message is its own row.
const NoKey = "none"

// renamed reads new names for columns.
func (r *reader) renamed(n *yaml.Node, where string) map[string]string {
	names := map[string]string{}
	r.pairs(n, where, func(_ *yaml.Node, name string, value *yaml.Node) {
		names[name] = r.name(value, join(where, name))
	})
	return names
}

// every reads SQL by period.
func (r *reader) every(n *yaml.Node, where string) (all []mapping.PeriodicSQL) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.fault(pos(n), where, "no period is named, such as 10m")
	}
	r.pairs(n, where, func(at *yaml.Node, name string, value *yaml.Node) {
		period, err := ParseDuration(name)
		if err != nil || period == 0 {
			r.fault(pos(at), where, "%q is not a duration, such as 500ms, 48h or 7d", name)
		}
		e := mapping.PeriodicSQL{Period: period, Statements: r.statements(value, join(where, name))}
		if slices.ContainsFunc(all, func(other mapping.PeriodicSQL) bool { return other.Period == e.Period && e.Period > 0 }) {
			r.fault(pos(at), where, "%s is already set: name all its statements in one list", name)
		}
		all = append(all, e)
	})
	return all
}

// statements reads SQL: a statement or a list, or these by database.
func (r *reader) statements(n *yaml.Node, where string) (all []mapping.Statement) {
	list := func(n *yaml.Node, where, database string) {
		items := []*yaml.Node{n}
		if n.Kind != yaml.ScalarNode {
			items = r.items(n, where, "SQL statements")
		}
		for _, item := range items {
			all = append(all, mapping.Statement{Database: database, SQL: r.name(item, where)})
		}
	}
	if n.Kind != yaml.MappingNode {
		list(n, where, "")
		return all
	}
	if len(n.Content) == 0 {
		r.fault(pos(n), where, "no database is named: %s", Either(r.databases))
	}
	r.pairs(n, where, func(at *yaml.Node, name string, value *yaml.Node) {
		if !slices.Contains(r.databases, name) {
			r.fault(pos(at), where, "%q must be %s%s", name, Either(r.databases), feed.DidYouMean(name, r.databases))
		}
		list(value, join(where, name), name)
	})
	return all
}

const noTableName = "%q is not the name of a table: NAME or SCHEMA.NAME"

func isTableName(name string) bool {
	return !strings.Contains("."+name+".", "..") || strings.Contains(name, `"`)
}

// tables reads the tables. They inherit from the top of the file.
func (r *reader) tables(n *yaml.Node, where string) (tables []mapping.Table) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		r.fault(pos(n), where, "no table is named")
	}
	r.pairs(n, where, func(at *yaml.Node, name string, value *yaml.Node) {
		t := mapping.Table{Pos: pos(at), Name: name, At: map[string]paths.Pos{}}
		if !isTableName(name) {
			r.fault(t.Pos, where, noTableName, name)
		}
		if !isNull(value) {
			for key, n := range r.readFields(value, join(where, name), &t) {
				t.At[key] = pos(n)
			}
		}
		tables = append(tables, t)
	})
	return tables
}

// takeFromTop sets the rules of a table that it does not name to those of the settings.
func (s *Spec) takeFromTop(t *mapping.Table) {
	of := reflect.ValueOf(t).Elem()
	for _, f := range fieldsOf(of.Type()) {
		top := f.tag.Get("top")
		switch {
		case top == "" || t.Has(f.name) || t.Of != "" && top != "all",
			f.name == "unknown_fields" && t.Columns != nil, f.name == "version_scope" && t.Version.Base == paths.NoBase && s.Fold.Scope == fold.ColumnScope:
			continue
		}
		one, into := s.key(f.name), of.FieldByIndex(f.index)
		if one.v.IsZero() && (!one.IsSet() || one.String() == "") {
			continue
		}
		into.Set(one.v)
		if p, ok := into.Addr().Interface().(*paths.Path); ok && t.At != nil && p.Base == paths.DefaultBase { // of the message, even in an element
			p.Base = paths.MessageBase
		}
	}
}

// inherit adds to a table what it takes from the top of the file, and defaults. version is the envelope's, if the file
// uses it.
func (s *Spec) inherit(t *mapping.Table, version paths.Path) {
	if t.Of == "" && !t.Has("version_field") {
		t.Version = version
	}
	s.takeFromTop(t)
	if t.Key == nil && t.Of == "" {
		t.Key, t.KeyByDefault = []string{mapping.DefaultKey}, true
	}
	if !t.Has("type") {
		t.Type = cast.Type{Kind: cast.Auto}
	}
	if !t.Has("set") && t.Of != "" {
		t.Set = mapping.ReplaceSet
	}
	if !t.Has("unknown_fields") && t.Columns != nil {
		t.UnknownFields = fold.IgnoreUnknown
	}
	for _, c := range t.Columns {
		if c.Merge != merge.Last {
			if t.Merge == nil {
				t.Merge = map[string]merge.Function{}
			}
			t.Merge[c.Name] = c.Merge
		}
	}
}
