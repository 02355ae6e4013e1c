package settings

import (
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// Narrowing are the settings that make a mapping of one table without a file.
type Narrowing struct {
	Envelope string   `key:"envelope" unset:"" help:"read a change data capture stream, all its tables or with --table one"`
	Row      string   `key:"row" help:"the row is the object at this ‘PATH’ of the message, such as payload.after, or in the string at 'PATH as json_text' (default the message)"`
	When     []string `key:"when" help:"apply only messages with ‘FIELD=VALUE’, or FIELD=A,B for one of several; repeated: all must hold"`
	Columns  []string `key:"columns" commas:"yes" help:"store only these ‘FIELDS’ and the key (default all)"`
}

// Every reports whether --envelope is one whose messages name their tables.
func (n *Narrowing) Every() bool {
	e, err := Preset(n.Envelope)
	return n.Envelope != "" && err == nil && e.Table != nil
}

// Overlay returns the mapping that the settings make for a table ([mapping.Star]: for each table in the stream). rules
// are what the table inherits. open means that messages may name the key. fault is called with what is wrong with a
// setting, by its name.
func (n *Narrowing) Overlay(table string, rules mapping.Table, open bool, fault func(name, format string, args ...any)) *mapping.Mapping {
	t, unknown := rules, rules.UnknownFields
	t.Name, t.KeyOpen, t.Type = table, open, cast.Type{Kind: cast.Auto}
	if t.Version.Base == paths.NoBase {
		t.Scope = ""
	}
	check := func(name string, p paths.Path, err error) {
		switch {
		case err != nil:
			fault(name, "--"+name+": %v", err)
		case p.Base == paths.ParentBase:
			fault(name, "--"+name+": %s: ^ is the parent of an element, and a message has none", p)
		}
	}
	m := &mapping.Mapping{Unmatched: mapping.IgnoreUnmatched, MaxEach: mapping.DefaultMaxEach, MaxTables: mapping.DefaultMaxTables}
	if n.Envelope != "" {
		e, err := Preset(n.Envelope)
		if err != nil {
			return m // a fault of the setting, reported already
		}
		if m.Envelope = e; table != mapping.Star {
			e.OneTable, t.From = true, []string{"*"}
		}
		if t.FillOnly && e.Removes() {
			fault("fill-only", "--fill-only: never removes a row, and the envelope %s has messages that do: leave one out", n.Envelope)
		}
	}
	if n.Row != "" {
		err := t.Row.UnmarshalText([]byte(n.Row))
		t.DeletesNeedRow = true
		check("row", t.Row.Path, err)
	}
	for _, text := range n.When {
		test, err := readWhen(text)
		if err != nil {
			fault("when", "--when: %q: %v", text, err)
			continue
		}
		if t.When == nil {
			t.When = paths.When{nil}
		}
		if slices.ContainsFunc(t.When[0], func(o paths.Test) bool { return o.Path.String() == test.Path.String() }) {
			fault("when", "--when: %s is named twice: %s=A,B means one of them", test.Path.Text, test.Path.Text)
		}
		t.When[0] = append(t.When[0], test)
	}
	if n.Columns != nil {
		t.UnknownFields = fold.IgnoreUnknown
		if unknown == fold.AddUnknown || unknown == fold.RejectUnknown {
			fault("columns", "--columns: names all columns that are stored: leave --unknown-fields out")
		}
		for i, f := range n.Columns {
			if i > 0 && strings.HasPrefix(f, " ") {
				fault("columns", "--columns: %q begins with a space: names are separated by commas alone", f)
			}
			if f == "" || slices.Contains(n.Columns[:i], f) {
				fault("columns", "--columns: %s: the names must differ, and none may be empty", strings.Join(n.Columns, ","))
				break
			}
		}
		key := t.Key
		if table == mapping.Star || open {
			key = nil // a message names it
		}
		for _, f := range slices.Concat(key, n.Columns) {
			if !slices.ContainsFunc(t.Columns, func(c mapping.Column) bool { return c.Name == f }) {
				t.Columns = append(t.Columns, mapping.Column{Name: f, From: []mapping.Source{{From: paths.FieldPath(f)}}})
			}
		}
	}
	if t.Version.Base != paths.NoBase {
		check("version-field", t.Version, nil)
	}
	m.Tables = []mapping.Table{t}
	return m
}

// readWhen parses FIELD=VALUE, or FIELD=A,B for one of several values.
func readWhen(text string) (paths.Test, error) {
	field, list, err := paths.CutCondition(text)
	if err != nil {
		return paths.Test{}, err
	}
	var test paths.Test
	for value := range strings.SplitSeq(list, ",") {
		when, err := paths.ParseWhen(field + "=" + value)
		if err != nil {
			return test, err
		}
		test.Path = when[0][0].Path
		test.In = append(test.In, when[0][0].In...)
	}
	return test, nil
}
