package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// EveryTable reports whether the run writes to each table that the messages of its envelope name.
func (s *Spec) EveryTable() bool {
	e, err := Preset(s.Fold.Envelope)
	return s.Mapping == nil && s.Table.Name == "" && err == nil && e.Table != nil
}

// oneTable returns the mapping that the settings make for a table ([mapping.Star]: for each table in the stream).
func (b *builder) oneTable(name string) *mapping.Mapping {
	f := &b.Fold
	m := &mapping.Mapping{}
	t := &mapping.Table{Name: name, Row: f.Row, DeletesNeedRow: f.Row.Base != paths.NoBase}
	if e, err := Preset(f.Envelope); f.Envelope != "" && err == nil { // else it is a fault of the setting
		if m.Envelope = e; name != mapping.Star {
			e.OneTable, t.From = true, []string{"*"}
		}
	}
	for _, test := range f.When {
		if t.When == nil {
			t.When = paths.When{nil}
		}
		same := func(o paths.Test) bool { return o.Path.String() == test.Path.String() }
		b.faultIf(slices.ContainsFunc(t.When[0], same), "when", "--when: %s is named twice: %s=A,B means one of them", test.Path.Text, test.Path.Text)
		t.When[0] = append(t.When[0], test.Test)
	}
	if f.Columns != nil {
		b.faultIf(f.UnknownFields == fold.AddUnknown || f.UnknownFields == fold.RejectUnknown, "columns", "--columns: names all columns that are stored: leave --unknown-fields out")
		b.faultIf(len(f.Columns) == 0, "columns", "--columns names no field: leave it out to store all")
		for _, field := range f.Columns {
			t.Columns = append(t.Columns, mapping.Column{Name: field, From: []mapping.Source{{From: paths.FieldPath(field)}}})
		}
	}
	for _, by := range f.Merge {
		b.faultIf(f.Columns != nil && !slices.Contains(f.Columns, by.column), "merge", "--merge: --columns leaves %q out%s", by.column, feed.DidYouMean(by.column, f.Columns))
		if by.function != merge.Last {
			if t.Merge == nil {
				t.Merge = map[string]merge.Function{}
			}
			t.Merge[by.column] = by.function
		}
	}
	b.inherit(t, paths.Path{})
	m.Tables = []mapping.Table{*t}
	return m
}

// ofSetting returns a fault of a mapping as the fault of the setting that made it so; nil if it is not of a setting.
func (s *Spec) ofSetting(err error) error {
	f, ok := errors.AsType[*mapping.Fault](err)
	if !ok || f.Setting == "" {
		return nil
	}
	name := flagName(f.Setting)
	text := asFlags.Replace(f.Text)
	if flag := "--" + name; !strings.Contains(text, flag) {
		text = flag + ": " + text
	}
	return s.fault(name, strings.ReplaceAll(text, "%", "%%"))
}

// asFlags names rules as flags.
var asFlags = strings.NewReplacer("a version (version_field, or version: true)", "--version-field", "fill_only", "--fill-only", "delete_when", "--delete-when", "version_field", "--version-field", "key: none", "--key none")

// oneOf is a test of the form FIELD=VALUE, or FIELD=A,B for one of several values.
type oneOf struct{ paths.Test }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (o *oneOf) UnmarshalText(text []byte) error {
	field, list, err := paths.CutCondition(string(text))
	for value := range strings.SplitSeq(list, ",") {
		var when paths.When
		if err == nil {
			when, err = paths.ParseWhen(field + "=" + value)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		o.Path, o.In = when[0][0].Path, append(o.In, when[0][0].In...)
	}
	return nil
}

// MarshalText returns the text that UnmarshalText parses.
func (o oneOf) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// merging is a merge function of a column: COLUMN=FUNCTION.
type merging struct {
	column   string
	function merge.Function
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *merging) UnmarshalText(text []byte) (err error) {
	at := strings.LastIndexByte(string(text), '=')
	if at < 1 {
		return fmt.Errorf("%q must be COLUMN=FUNCTION, such as hits=sum", text)
	}
	m.column = string(text[:at])
	name := string(text[at+1:])
	if m.function, err = merge.Parse(name); err != nil {
		return fmt.Errorf("%s: %w%s", text, err, feed.DidYouMean(name, merge.Names()))
	}
	return nil
}

// MarshalText returns the text that UnmarshalText parses.
func (m merging) MarshalText() ([]byte, error) {
	return []byte(m.column + "=" + m.function.String()), nil
}
