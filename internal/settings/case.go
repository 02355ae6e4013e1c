package settings

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/mapping/paths"
)

// A Case is a test in a config file: a feed, and the rows that it should make.
type Case struct {
	Pos  paths.Pos
	Name string      `key:"name" filled:"yes" help:"name of the test"`
	Feed string      `key:"feed" help:"lines of the feed"`
	Want []WantTable `key:"want" help:"rows by table, in key order; other tables and columns are not compared"`
}

// A WantTable has all rows expected in a table. Columns that a row does not name are not compared.
type WantTable struct {
	Pos  paths.Pos
	Name string
	Rows [][]WantCell
}

// A WantCell is an expected value of a column.
type WantCell struct {
	Pos    paths.Pos
	Column string
	Value  []byte // raw JSON
}

func (r *reader) want(n *yaml.Node, where string) (tables []WantTable) {
	r.pairs(n, where, func(at *yaml.Node, name string, value *yaml.Node) {
		tables = append(tables, WantTable{pos(at), name, r.wantRows(value, join(where, name))})
	})
	return tables
}

func (r *reader) cases(n *yaml.Node, where string) (cases []Case) {
	for _, item := range r.items(n, where, "tests") {
		c := Case{Pos: pos(item)}
		given := r.readFields(item, where, &c)
		for _, name := range names(fieldsOf(reflect.TypeFor[Case]())) {
			if given[name] == nil && item.Kind == yaml.MappingNode {
				r.fault(c.Pos, where, "%s is missing", name)
			}
		}
		if slices.ContainsFunc(cases, func(o Case) bool { return o.Name == c.Name && c.Name != "" }) {
			r.fault(c.Pos, where, "two tests have the name %q", c.Name)
		}
		cases = append(cases, c)
	}
	return cases
}

func (r *reader) wantRows(n *yaml.Node, where string) [][]WantCell {
	if n.Kind != yaml.SequenceNode {
		r.fault(pos(n), where, "must be a list of rows, not %s", kindOf(n))
		return nil
	}
	rows := make([][]WantCell, len(n.Content))
	for i, item := range n.Content {
		r.pairs(resolved(item), where, func(at *yaml.Node, name string, value *yaml.Node) {
			rows[i] = append(rows[i], WantCell{pos(at), name, r.constant(value, join(where, name))})
		})
	}
	return rows
}
