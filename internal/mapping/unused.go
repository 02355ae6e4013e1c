package mapping

import (
	"slices"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// An UnusedFinder finds fields that a mapping does not use. It is slow, and not safe for concurrent use.
type UnusedFinder struct {
	mapper *Mapper
	scan   *feed.Scanner
	line   feed.Line
	fields []feed.Field
}

// NewUnusedFinder returns an UnusedFinder for a mapping, in a database with these limits. The mapping must compile.
func NewUnusedFinder(m *Mapping, limits schema.Limits) (*UnusedFinder, error) {
	plan, err := Compile(m, limits)
	if err != nil {
		return nil, err
	}
	return &UnusedFinder{mapper: plan.NewMapper(), scan: feed.NewScanner(plan.names)}, nil
}

// Fields returns the fields of a message, or of its last row in a change stream, that no column or path uses. It
// returns none if a table takes all fields, or if text is not a message with rows.
func (u *UnusedFinder) Fields(text []byte) (names []string) {
	if u.fields = u.line.Scan(u.scan, u.fields[:0], text); u.line.Err != nil {
		return nil
	}
	p := u.mapper.plan
	result, err := u.mapper.Map(&u.line, "", fold.Place{})
	if n, ok := err.(*NewTable); ok && !n.Truncates {
		key := n.Key
		if key == nil {
			key = p.stream.star.spec.Key
		}
		if u.mapper.Add(n, key, func(int) error { return nil }) != nil {
			return nil
		}
		result, err = u.mapper.Map(&u.line, "", fold.Place{})
	}
	rows := slices.DeleteFunc(result.Rows, func(r Row) bool { return r.Op >= fold.Ensure })
	takesAll := func(r Row) bool {
		t := p.Tables[r.Table]
		return t.byName() && !t.row.nested && !t.nest.isElement()
	}
	if err != nil || len(rows) == 0 || slices.ContainsFunc(rows, takesAll) {
		return nil
	}
	at, row := paths.Place{}, text
	if p.stream != nil {
		at.Tree = p.stream.RowTree()
		row = u.mapper.read.Get(at).Value
	}
	w := feed.Walk(row)
	for w.Next(); w.Next(); w.Raw() {
		if name := feed.AppendUnquoted(nil, w.Name); !p.trees.ReadsMember(at, name) {
			names = append(names, string(name))
		}
	}
	return names
}
