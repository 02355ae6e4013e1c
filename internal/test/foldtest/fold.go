// Package foldtest is the fold of a feed in its simplest form, for tests: message by message into a map. It is slow
// and obvious, and shares no code with the program.
package foldtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Rules are the settings of a fold.
type Rules struct {
	Key                      []string
	KeepNull, FillOnly       bool
	NullBad                  bool              // a value that its column does not accept counts as null
	Merge                    map[string]string // merge functions by column; not with FillOnly
	DeleteField, DeleteValue string
	Version                  string // the field, "" for none
	RowScope                 bool
	Columns                  string // add, ignore or reject unknown fields; "" means add in a table that the fold made, else ignore
	MaxColumns               int
}

// DeleteWhen returns the condition of a delete, "" for none.
func (r *Rules) DeleteWhen() string {
	if r.DeleteField == "" {
		return ""
	}
	return r.DeleteField + "=" + r.DeleteValue
}

// Limits are the limits of a database.
type Limits struct {
	NoNUL    bool
	FoldCase bool // names that differ only in the case of ASCII letters are one
	MaxName  int  // bytes, 0 for none
	Reserved []string
}

// A Column is a column of a table that a user made.
type Column struct {
	Name      string
	Takes     func(Value) bool   // nil: accepts everything
	Same      func(Value) string // the form by which values of a key are compared; nil: the text
	Default   Value
	Generated bool
}

// A Table is a table that a feed is folded into.
type Table struct {
	Rules
	Limits
	Made    bool     // the fold made the table: columns are added for the feed's fields
	Columns []Column // in the order in which they were added
	// Violates checks a row against the database's constraints before it enters the table.
	Violates func(t *Table, key string, row map[string]Value) error

	rows    map[string]*row
	births  int
	added   int                    // number of columns that the feed added
	brought map[string]bool        // columns that the feed added
	columns map[string]*madeColumn // columns that the fold made
}

type row struct {
	cells    map[string]Value
	versions map[string]string
	live     string // the newest version of a message that sets columns; "" if the row does not exist
	tomb     string // the version of the newest delete
	born     int    // a unique number of the row's insert
}

// NewTable returns an empty table: a user's with these columns, or one that the fold makes if there are none.
func NewTable(r Rules, l Limits, columns ...Column) *Table {
	t := &Table{Rules: r, Limits: l, Made: len(columns) == 0, Columns: columns, rows: map[string]*row{}, brought: map[string]bool{}, columns: map[string]*madeColumn{}}
	if t.Made {
		for _, k := range r.Key {
			t.Columns = append(t.Columns, Column{Name: k})
		}
	}
	return t
}

// copy returns a copy of the table.
func (t *Table) copy() *Table {
	c := *t
	c.Columns, c.rows, c.brought, c.columns = slices.Clone(t.Columns), maps.Clone(t.rows), maps.Clone(t.brought), map[string]*madeColumn{}
	for name, of := range t.columns {
		m := *of
		c.columns[name] = &m
	}
	return &c
}

// Rows returns the rows by key, without columns that are NULL.
func (t *Table) Rows() map[string]map[string]Value {
	out := map[string]map[string]Value{}
	for k, r := range t.rows {
		if r.live == "" {
			continue
		}
		out[k] = map[string]Value{}
		for c, v := range r.cells {
			if v.Kind != Null {
				out[k][c] = v
			}
		}
	}
	return out
}

// born returns a number for each row that distinguishes it from earlier and later rows with its key.
func (t *Table) born() map[string]int {
	out := map[string]int{}
	for k, r := range t.rows {
		if r.live != "" {
			out[k] = r.born
		}
	}
	return out
}

// Has reports whether the table has a row.
func (t *Table) Has(key ...string) bool {
	r := t.rows[Key(key...)]
	return r != nil && r.live != ""
}

// Stub inserts a row with only a key, which is older than all messages. It keeps the version of deletes.
func (t *Table) Stub(key Value) {
	t.births++
	r := &row{cells: map[string]Value{}, versions: map[string]string{}, live: before, born: t.births}
	for _, c := range t.Columns {
		r.cells[c.Name] = c.Default
	}
	r.cells[t.Key[0]] = key
	if old := t.rows[Key(key.Text)]; old != nil {
		r.tomb = old.tomb
	}
	t.rows[Key(key.Text)] = r
}

// Empty removes all rows and keeps the columns.
func (t *Table) Empty() { t.rows = map[string]*row{} }

// Drop removes a column, like a user might.
func (t *Table) Drop(column string) {
	t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return c.Name == column })
	t.added--
	delete(t.columns, column)
	for _, r := range t.rows {
		delete(r.cells, column)
		delete(r.versions, column)
	}
}

// Column returns the column with a name, or nil.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name || t.FoldCase && sameName(t.Columns[i].Name, name) {
			return &t.Columns[i]
		}
	}
	return nil
}

// Key returns the key of a row from the texts of its parts.
func Key(parts ...string) string { return fmt.Sprintf("%q", parts) }

var errKey = errors.New("key")

// before is a version that is older than all others.
const before = "-1e999999"

// Apply applies a line. An error is the reason for rejecting it.
func (t *Table) Apply(line []byte) error {
	if len(bytes.Trim(line, " \t\r\n")) == 0 {
		return nil
	}
	all, err := Parse(line)
	if err != nil {
		return err
	}
	columns, added := slices.Clone(t.Columns), t.added
	deletes, err := t.apply(all)
	if err != nil || deletes { // then it adds no columns
		t.Columns, t.added = columns, added
	}
	return err
}

func (t *Table) apply(all []Field) (deletes bool, err error) {
	if err := t.discover(all); err != nil {
		return false, err
	}
	if all, err = t.spell(all); err != nil {
		return false, err
	}
	named := map[string]Value{}
	for _, f := range all { // the last value of a name counts
		named[f.Name] = f.Value
	}
	var parts []string
	for _, k := range t.Key {
		v, ok := named[k]
		if !ok || v.Kind == Null || v.Kind == JSON {
			return false, errKey
		}
		v = v.asKey()
		named[k] = v
		if c := t.Column(k); c.Takes != nil && !c.Takes(v) {
			return false, errKey
		} else if c.Same != nil {
			parts = append(parts, c.Same(v))
		} else {
			parts = append(parts, v.Text)
		}
	}
	version := before // without versions all are equal, and the later message wins
	if t.Version != "" {
		v := named[t.Version]
		if version = v.Text; v.Kind == Null || v.Kind == JSON || version == "" || len(version) > 256 {
			return false, errors.New("version")
		}
	}
	if v, ok := named[t.DeleteField]; ok && v.Kind != JSON {
		deletes = v.Kind != Null && v.Text == t.DeleteValue
	}
	for name, v := range named {
		c := t.Column(name)
		if c != nil && !deletes && t.nulls(name) && (t.NoNUL && v.hasNUL() || c.Takes != nil && v.Kind != Null && !c.Takes(v)) {
			v = Value{}
			named[name] = v
		}
		switch {
		case c == nil || c.Generated:
			delete(named, name)
		case t.NoNUL && v.hasNUL():
			return false, errors.New("NUL")
		case !deletes && !v.canMerge(t.function(name)):
			return false, fmt.Errorf("column %q merges by %s", name, t.function(name))
		case slices.Contains(t.Key, name):
		case deletes:
		case v.Kind == Null:
			if t.KeepNull || t.function(name) == "first" {
				delete(named, name)
			}
		case c.Takes != nil && !c.Takes(v):
			return false, fmt.Errorf("column %q does not take %s", name, v.Text)
		}
	}
	set := named
	if deletes {
		set = map[string]Value{}
		for _, k := range t.Key {
			set[k] = named[k]
		}
	}
	if err := t.widen(set); err != nil {
		return deletes, err
	}
	key := Key(parts...)
	if err := t.check(key, named, version, deletes); err != nil {
		return deletes, err
	}
	return deletes, nil
}

// nulls reports whether values that a column does not accept count as null.
func (t *Table) nulls(column string) bool {
	function := t.function(column)
	return t.NullBad && !slices.Contains(t.Key, column) && (function == "" || function == "first") && !(t.RowScope && column == t.Version)
}

// function returns the merge function of a column; "" keeps the last value.
func (t *Table) function(column string) string {
	if t.FillOnly {
		return "first"
	}
	for name, f := range t.Merge {
		if name == column || t.FoldCase && sameName(name, column) {
			return f
		}
	}
	return ""
}

// appliesAll reports whether a column applies all messages regardless of their versions.
func (t *Table) appliesAll(column string) bool {
	f := t.function(column)
	return f == "sum" || f == "min" || f == "max"
}

// spell gives fields the names of their columns. In a table that the fold made only the column's own name is one.
func (t *Table) spell(all []Field) ([]Field, error) {
	if !t.FoldCase {
		return all, nil
	}
	all = slices.Clone(all)
	spelled := map[string]string{} // by column
	for i, f := range all {
		c := t.Column(f.Name)
		if c == nil {
			continue
		}
		if before, ok := spelled[c.Name]; ok && before != f.Name || t.Made && c.Name != f.Name {
			return nil, fmt.Errorf("%q is one name with %q", f.Name, c.Name)
		}
		spelled[c.Name], all[i].Name = f.Name, c.Name
	}
	return all, nil
}

// sameName reports whether two names differ only in the case of ASCII letters.
func sameName(a, b string) bool {
	lower := func(r rune) rune {
		if r <= unicode.MaxASCII {
			return unicode.ToLower(r)
		}
		return r
	}
	return strings.Map(lower, a) == strings.Map(lower, b)
}

// discover finds or adds the columns of new fields.
func (t *Table) discover(all []Field) error {
	mode := t.Rules.Columns
	if mode == "" {
		mode = map[bool]string{true: "add", false: "ignore"}[t.Made]
	}
	fresh := map[string]bool{}
	for _, f := range all {
		if mode == "add" && t.Column(f.Name) == nil {
			fresh[f.Name] = true
		}
	}
	if t.MaxColumns > 0 && len(fresh) > t.MaxColumns {
		return errors.New("too many new fields")
	}
	for _, f := range all {
		switch {
		case f.Name == "" || strings.Contains(f.Name, "\x00"):
			return errors.New("name")
		case t.Column(f.Name) != nil || mode == "ignore":
		case mode == "reject":
			return errors.New("column")
		case t.MaxName > 0 && len(f.Name) > t.MaxName || slices.Contains(t.Reserved, f.Name):
			return errors.New("name")
		case t.added < t.MaxColumns:
			t.added++
			t.brought[f.Name] = true
			t.Columns = append(t.Columns, Column{Name: f.Name})
		}
	}
	return nil
}

func (v Value) hasNUL() bool {
	return v.Kind == String && strings.Contains(v.Text, "\x00") || v.Kind == JSON && strings.Contains(strings.ReplaceAll(v.Text, `\\`, ""), `\u0000`)
}

// check checks the row that a message makes against the constraints, and stores it.
func (t *Table) check(key string, named map[string]Value, version string, deletes bool) error {
	old := t.rows[key]
	if old == nil {
		old = &row{}
	}
	r := t.merge(old, named, version, deletes)
	if t.Violates != nil && r.live != "" && !deletes {
		if err := t.Violates(t, key, r.cells); err != nil {
			return err
		}
	}
	t.rows[key] = r
	return nil
}

// merge returns the row that a message makes from the old one.
func (t *Table) merge(old *row, named map[string]Value, version string, deletes bool) *row {
	r := &row{cells: map[string]Value{}, versions: map[string]string{}, live: old.live, tomb: old.tomb, born: old.born}
	for c, v := range old.cells {
		r.cells[c] = v
	}
	for c, v := range old.versions {
		r.versions[c] = v
	}
	older := func(than string) bool { return than != "" && Compare(version, than) < 0 }
	remembers := t.Version != "" && !t.RowScope
	outdated := t.RowScope && old.live != "" && older(old.cells[t.Version].Text)
	switch {
	case remembers && older(old.tomb), outdated && deletes:
		return r
	case deletes:
		if remembers {
			r.tomb = version
		}
		if remembers && old.live != "" && Compare(version, old.live) < 0 { // the row survives because of newer messages
			for c, v := range r.versions {
				if Compare(v, version) <= 0 {
					delete(r.versions, c)
					r.cells[c] = t.Column(c).Default
				}
			}
			return r
		}
		return &row{tomb: r.tomb}
	}
	if old.live == "" {
		t.births++
		r.born = t.births
		for _, c := range t.Columns {
			r.cells[c.Name] = c.Default
		}
		for _, k := range t.Key {
			r.cells[k] = named[k]
		}
	}
	if !older(old.live) {
		r.live = version
	}
	for c, v := range named {
		isOld := outdated || remembers && older(r.versions[c])
		if slices.Contains(t.Key, c) || isOld && !t.appliesAll(c) {
			continue
		}
		had := Value{} // the first message of a row sets its columns regardless of defaults
		if old.live != "" {
			had = old.cells[c]
		}
		if r.cells[c] = merged(t.function(c), had, v); !isOld {
			r.versions[c] = version
		}
	}
	return r
}
