package foldtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A Model applies a mapping to a feed in its simplest form, message by message.
type Model struct {
	mapping   *mapping.Mapping
	textTypes bool // the database has no types for times
	tables    map[string]*Table
}

// Outcome is what happens to a message.
type Outcome string

// What happens to a message.
const (
	Accepted Outcome = "accepted"
	Ignored  Outcome = "ignored"
	NoTable  Outcome = "no table"
)

// The fields that the model adds to the fields of the table.
const (
	opField, versionField, setField, keyField = "\x01op", "\x01version", "\x01set ", "\x01key "
)

// KeyColumn returns the model's name for a key column that a child table does not have.
func KeyColumn(table, column string) string { return keyField + table + " " + column }

// isOfModel reports whether a column exists only in the model.
func isOfModel(column string) bool { return strings.HasPrefix(column, "\x01") }

// NewModel returns a model with empty tables for a mapping.
func NewModel(m *mapping.Mapping, textTypes bool) *Model {
	model := &Model{mapping: m, textTypes: textTypes, tables: map[string]*Table{}}
	for i := range m.Tables {
		t := &m.Tables[i]
		r := Rules{Key: model.key(t), KeepNull: t.Null == "keep", FillOnly: t.FillOnly, DeleteField: opField, DeleteValue: "delete", MaxColumns: 1000}
		if !model.isSet(t) {
			r.Merge = map[string]string{}
			for column, function := range t.Merge {
				r.Merge[column] = function.String()
			}
		}
		if of := model.versioned(t); of != nil {
			r.Version, r.RowScope = versionField, of.Scope == "row"
		}
		model.tables[t.Name] = NewTable(r, Limits{})
	}
	return model
}

func (m *Model) table(name string) *mapping.Table {
	i := slices.IndexFunc(m.mapping.Tables, func(t mapping.Table) bool { return t.Name == name })
	return &m.mapping.Tables[i]
}

// isSet reports whether the rows of a table are one value of their parent.
func (m *Model) isSet(t *mapping.Table) bool { return t.Of != "" && t.Set != mapping.MergeSet }

// Key returns the columns of a table's key.
func (m *Model) Key(table string) []string { return m.key(m.table(table)) }

// key returns the columns of a table's key, starting with the parent's key.
func (m *Model) key(t *mapping.Table) []string { return append(m.parentKey(t), t.Key...) }

// parentKey returns the columns of the parent's key. If the parent has a generated key, they exist only in the model.
func (m *Model) parentKey(t *mapping.Table) (key []string) {
	if t.Of == "" {
		return nil
	}
	parent := m.table(t.Of)
	for _, k := range m.key(parent) {
		if to, renamed := t.Parent[k]; renamed {
			k = to
		}
		if parent.ID != "" && !isOfModel(k) {
			k = KeyColumn(parent.Name, k)
		}
		key = append(key, k)
	}
	return key
}

// ParentsFirst returns the tables with parents before their children.
func (m *Model) ParentsFirst() []mapping.Table {
	depth := func(t mapping.Table) (n int) {
		for ; t.Of != ""; n++ {
			t = *m.table(t.Of)
		}
		return n
	}
	return slices.SortedStableFunc(slices.Values(m.mapping.Tables), func(x, y mapping.Table) int { return cmp.Compare(depth(x), depth(y)) })
}

// Owner returns the nearest ancestor of a table with a generated key, and the column for that key; "" for none.
func (m *Model) Owner(table string) (owner, column string) {
	t := m.table(table)
	if t.Of == "" {
		return "", ""
	}
	parent := m.table(t.Of)
	if owner, column = parent.Name, parent.ID; column == "" {
		owner, column = m.Owner(parent.Name)
	}
	if to, renamed := t.Parent[column]; renamed {
		column = to
	}
	return owner, column
}

// A modelRow is what a message changes in one row.
type modelRow struct {
	table   *mapping.Table
	fields  map[string]raw
	deletes bool                      // the message deletes the row
	refers  map[string]mapping.Source // columns that refer to rows of other tables

	elements []modelRow // the rows of its sets
}

// Apply applies a message. An error is the reason for rejecting it.
func (m *Model) Apply(message string, line, offset int64) (Outcome, error) {
	all := raw(strings.TrimSpace(message))
	v := &view{message: all, unit: all, row: all, line: line, offset: offset}
	if m.mapping.Ignore != nil && v.holds(m.mapping.Ignore) {
		return Ignored, nil
	}
	var rows []modelRow
	taken := false
	for i := range m.mapping.Tables {
		t := &m.mapping.Tables[i]
		switch {
		case t.Of != "":
		case t.Each.Base != paths.NoBase:
			some, err := m.elements(t, v, nil, &rows)
			if err != nil {
				return Accepted, err
			}
			taken = taken || some
		case v.holds(t.When):
			taken = true
			if err := m.row(t, *v, nil, &rows); err != nil {
				return Accepted, err
			}
		}
	}
	if !taken {
		return NoTable, nil
	}
	return Accepted, m.write(rows)
}

// write writes all rows to their tables, or none.
func (m *Model) write(rows []modelRow) error {
	before := map[string]*Table{}
	for name, t := range m.tables {
		before[name] = t.copy()
	}
	slices.SortStableFunc(rows, func(x, y modelRow) int { return len(x.refers) - len(y.refers) }) // referenced rows may be among those without references
	for _, r := range rows {
		if r.deletes {
			r.fields[opField] = `"delete"`
		}
		err := m.refer(r)
		var line []byte
		if err == nil {
			line, err = json.Marshal(r.fields)
		}
		if err == nil {
			err = m.tables[r.table.Name].Apply(line)
		}
		if err != nil {
			m.tables = before
			return fmt.Errorf("table %s: %w", r.table.Name, err)
		}
		if r.deletes {
			var key []string
			for _, k := range m.key(r.table) {
				key = append(key, r.fields[k].value().Text)
			}
			m.deleteChildren(r.table, key)
		}
	}
	if err := m.violated(); err != nil {
		m.tables = before
		return err
	}
	return nil
}

// row adds the changes of a message or element to a row, and the changes of its elements.
func (m *Model) row(t *mapping.Table, v view, parent map[string]raw, rows *[]modelRow) error {
	deleted := t.DeleteWhen != nil && !m.isSet(t) && v.holds(t.DeleteWhen)
	r := modelRow{table: t, fields: map[string]raw{}, refers: map[string]mapping.Source{}, deletes: deleted}
	if len(t.Row.Steps) > 0 {
		if v.row = v.get(t.Row.Path, v.unit); v.row == "" || v.row.isNull() {
			return nil
		} else if _, ok := v.row.members(); !ok {
			return errors.New("at is no object")
		}
	}
	maps.Copy(r.fields, parent)
	if of := m.versioned(t); of == t {
		delete(r.fields, versionField)
		if x := v.get(t.Version, v.unit); x != "" {
			r.fields[versionField] = x
		}
	}
	for _, c := range t.Columns {
		if deleted && !slices.Contains(t.Key, c.Name) {
			continue
		}
		if err := m.column(t, &v, c, r.fields); err != nil {
			return err
		}
		if c.From[0].References != "" {
			r.refers[c.Name] = c.From[0]
		}
	}
	if err := m.rest(t, v, r.fields, deleted); err != nil {
		return err
	}
	for _, k := range t.Key {
		if x := r.fields[k]; x == "" || x.isNull() || x[0] == '{' || x[0] == '[' {
			return fmt.Errorf("the key %s is %s", k, x)
		}
	}
	at := len(*rows)
	*rows = append(*rows, r)
	for i := range m.mapping.Tables {
		child := &m.mapping.Tables[i]
		if child.Of != t.Name || deleted {
			continue
		}
		key := map[string]raw{}
		for i, k := range m.parentKey(child) {
			key[k] = r.fields[m.key(t)[i]]
		}
		if !m.isSet(child) {
			if x := r.fields[versionField]; x != "" {
				key[versionField] = x
			}
			if _, err := m.elements(child, &v, key, rows); err != nil {
				return err
			}
			continue
		}
		switch x := v.get(child.Each, v.row); {
		case x.isNull():
			(*rows)[at].fields[setField+child.Name] = x
		case x != "":
			var all []modelRow
			if _, err := m.elements(child, &v, key, &all); err != nil {
				return err
			}
			(*rows)[at].fields[setField+child.Name] = asSet(child, all)
			(*rows)[at].elements = append((*rows)[at].elements, all...)
		}
	}
	return nil
}

// asSet returns rows as one value, which includes the values of their own sets.
func asSet(t *mapping.Table, rows []modelRow) raw {
	set := []map[string]raw{}
	for _, r := range rows {
		set = append(set, r.fields)
	}
	text, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return raw(text)
}

func (m *Model) column(t *mapping.Table, v *view, c mapping.Column, fields map[string]raw) error {
	for _, s := range c.From {
		if s.When != nil && !v.holds(s.When) {
			continue
		}
		var x raw
		switch {
		case s.Value != nil:
			x = raw(s.Value)
		case s.Meta != mapping.NoMeta:
			x = v.meta(s.Meta)
		default:
			if x = v.get(s.From, v.row); x == "" {
				continue
			}
		}
		x, ok := castTo(x, m.typeOf(t, &s), m.textTypes)
		if !ok {
			return fmt.Errorf("column %s does not take the value", c.Name)
		}
		fields[c.Name] = x
		return nil
	}
	return nil
}

func (m *Model) rest(t *mapping.Table, v view, fields map[string]raw, deletes bool) error {
	members, ok := v.row.members()
	if !ok || t.Columns != nil && (deletes || t.UnknownFields != "add" && t.UnknownFields != "reject") {
		return nil
	}
	used := map[string]bool{}
	use := func(p paths.Path) {
		if p.Base == paths.DefaultBase && len(p.Steps) > 0 {
			used[p.Steps[0].Name] = true
		}
	}
	for _, c := range t.Columns {
		used[c.Name] = true
		for _, s := range c.From {
			use(s.From)
		}
	}
	if len(t.Row.Steps) == 0 && t.Columns != nil {
		for _, w := range []paths.When{t.When, t.DeleteWhen} {
			for _, all := range w {
				for _, test := range all {
					use(test.Path)
				}
			}
		}
	}
	for _, k := range m.parentKey(t) {
		used[k] = true
	}
	_, owner := m.Owner(t.Name)
	used[owner], used[t.ID] = true, true
	for _, child := range m.mapping.Tables {
		if child.Of == t.Name {
			use(child.Each)
		}
	}
	for name, x := range members {
		switch {
		case name == "", strings.ContainsRune(name, 0):
			return fmt.Errorf("a field is called %q", name)
		case used[name]:
		case t.UnknownFields == "reject" && t.Columns != nil:
			return fmt.Errorf("no column takes %s", name)
		default:
			fields[name] = raw(x)
		}
	}
	return nil
}

// elements adds the changes of a table's elements.
func (m *Model) elements(t *mapping.Table, v *view, parent map[string]raw, rows *[]modelRow) (some bool, err error) {
	all := v.get(t.Each, v.row)
	if all == "" || all.isNull() {
		return false, nil
	}
	type element struct {
		name  string
		value raw
	}
	var found []element
	takesKeys := slices.ContainsFunc(t.Columns, func(c mapping.Column) bool {
		return slices.ContainsFunc(c.From, func(s mapping.Source) bool { return s.Meta == mapping.KeyMeta })
	})
	if list, ok := all.elements(); ok {
		for _, x := range list {
			found = append(found, element{value: raw(x)})
		}
	} else if all[0] != '{' || !takesKeys {
		return false, errors.New("no array")
	} else {
		d := json.NewDecoder(bytes.NewReader([]byte(all)))
		_, _ = d.Token()
		for d.More() {
			name, _ := d.Token()
			var x json.RawMessage
			_ = d.Decode(&x)
			found = slices.DeleteFunc(found, func(e element) bool { return e.name == name.(string) })
			found = append(found, element{name.(string), raw(x)})
		}
	}
	if most := m.mapping.MaxEach; most > 0 && len(found) > most {
		return false, errors.New("too many elements")
	}
	for i, e := range found {
		x := view{message: v.message, unit: e.value, row: e.value, parent: v, index: i, name: e.name, line: v.line, offset: v.offset}
		if !x.holds(t.When) {
			continue
		}
		some = true
		if err := m.row(t, x, parent, rows); err != nil {
			return some, err
		}
	}
	return some, nil
}

// Rows returns the rows of a table, each as NAME=VALUE in name order, without NULLs.
func (m *Model) Rows(table string) []string {
	out := []string{}
	for _, cells := range m.rows(m.table(table)) {
		out = append(out, Show(cells, m.key(m.table(table))))
	}
	slices.Sort(out)
	return out
}

// Cells returns the rows of a table by key.
func (m *Model) Cells(table string) map[string]map[string]Value { return m.rows(m.table(table)) }

// Born returns a number for each row of a table that distinguishes it from earlier and later rows with its key.
func (m *Model) Born(table string) map[string]int { return m.tables[table].born() }

// rows returns the rows of a table by key.
func (m *Model) rows(t *mapping.Table) map[string]map[string]Value {
	if !m.isSet(t) {
		return m.tables[t.Name].Rows()
	}
	rows := map[string]map[string]Value{}
	for _, parent := range m.rows(m.table(t.Of)) {
		for _, x := range m.set(t, parent) {
			var key []string
			for _, k := range m.key(t) {
				key = append(key, x[k].Text)
			}
			rows[Key(key...)] = x
		}
	}
	return rows
}

// set returns the rows in a parent's set.
func (m *Model) set(t *mapping.Table, parent map[string]Value) (rows []map[string]Value) {
	text, ok := parent[setField+t.Name]
	if !ok || text.Kind == Null {
		return nil
	}
	var all []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text.Text), &all); err != nil {
		panic(err)
	}
	for _, fields := range all {
		row := map[string]Value{}
		for name, x := range fields {
			row[name] = MustParse(string(x))
		}
		rows = append(rows, row)
	}
	return rows
}

// Show returns a row in the form of [Model.Rows]. Values of the key are compared as text.
func Show(cells map[string]Value, key []string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		v := cells[name]
		switch {
		case slices.Contains(key, name):
			out = append(out, name+"="+v.Text)
		case v.Kind != Null && !isOfModel(name):
			text, _ := v.Kind.plain(v.Text)
			out = append(out, fmt.Sprintf("%s=%d %s", name, v.Kind, text))
		}
	}
	return strings.Join(out, ", ")
}
