package settings

import (
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/cast"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/paths"
)

// Narrowing are the settings that make a mapping of one table without a file.
type Narrowing struct {
	Envelope string   // the name of the messages' envelope
	Row      string   // path of the object that is the row
	When     []string // FIELD=VALUE, or FIELD=A,B; a message must meet all
	Columns  []string // fields that are stored, and the key
}

// Every reports whether --envelope is one whose messages name their tables.
func (n *Narrowing) Every() bool {
	e, err := Preset(n.Envelope)
	return n.Envelope != "" && err == nil && e.Table != nil
}

// Overlay returns the mapping of a run: the file's, or the mapping that the settings make for a table ([mapping.Star]:
// for each table in the stream), or nil if there is neither. o are the options of the fold. open means that messages
// may name the key. fault is called for each fault of a setting. name the key. fault is called with what is wrong with
// a setting, by its name.
func (n *Narrowing) Overlay(file *mapping.Mapping, table string, o fold.Options, open bool, fault func(name, format string, args ...any)) *mapping.Mapping {
	if file != nil {
		for _, one := range []struct {
			name  string
			given bool
		}{{"columns", n.Columns != nil}, {"envelope", n.Envelope != ""}, {"merge", len(o.Merge) > 0}, {"row", n.Row != ""}, {"when", n.When != nil}} {
			if one.given {
				fault(one.name, "--"+one.name+" cannot be combined with the tables in %s; set it there", file.File)
			}
		}
		return file
	}
	_, plainDelete := fieldName(o.DeleteField)
	_, plainVersion := fieldName(o.Version)
	if n.Envelope == "" && n.Row == "" && n.When == nil && n.Columns == nil && plainDelete && plainVersion {
		return nil
	}
	key, byDefault := o.Key, o.Key == nil
	if byDefault {
		key = []string{mapping.DefaultKey}
	}
	t := mapping.Table{Name: table, Key: key, KeyByDefault: byDefault, KeyOpen: open, Type: cast.Type{Kind: cast.Auto}, UnknownFields: o.UnknownFields,
		Rules: mapping.Rules{Null: o.Null, BadValues: o.BadValues, FillOnly: o.FillOnly, Merge: o.Merge, MaxColumns: o.MaxColumns}}
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
			return nil // a fault of the setting, reported already
		}
		if m.Envelope = e; table != mapping.Star {
			e.OneTable, t.From = true, []string{"*"}
		}
		if o.FillOnly && e.Removes() {
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
		if o.UnknownFields == fold.AddUnknown || o.UnknownFields == fold.RejectUnknown {
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
		if table == mapping.Star || open {
			key = nil // a message names it
		}
		for _, f := range slices.Concat(key, n.Columns) {
			if !slices.ContainsFunc(t.Columns, func(c mapping.Column) bool { return c.Name == f }) {
				t.Columns = append(t.Columns, mapping.Column{Name: f, From: []mapping.Source{{From: paths.FieldPath(f)}}})
			}
		}
	}
	if o.DeleteField != "" {
		var err error
		if t.DeleteWhen, err = paths.ParseWhen(o.DeleteField + "=" + o.DeleteValue); err != nil {
			fault("delete-when", "--delete-when: %v", err)
		}
	}
	if o.Version != "" {
		var err error
		t.Version, err = paths.ParsePath(o.Version)
		t.Scope = o.Scope
		check("version-field", t.Version, err)
	}
	m.Tables = []mapping.Table{t}
	return m
}

// fieldName returns the message field that a path names. ok is false for a path into a field. A text that is not a path
// is the name of a field.
func fieldName(text string) (name string, ok bool) {
	p, err := paths.ParsePath(text)
	switch {
	case text == "" || err != nil:
		return text, true
	case len(p.Steps) == 1 && p.Steps[0].Index < 0 && p.Base != paths.ParentBase:
		return p.Steps[0].Name, true
	}
	return "", false
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
