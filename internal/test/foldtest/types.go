package foldtest

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The types of columns that the fold makes. A column that has only been null has no type.
const (
	BoolType   = "bool"
	IntType    = "int"    // integers of 64 bits
	RealType   = "real"   // doubles that print as the decimal text in the feed
	NumberType = "number" // all numbers
	JSONType   = "json"
	TextType   = "text"
)

// accepts are the classes of values that each type accepts. A column's type is the first one that accepts all its
// classes.
var accepts = []struct {
	kind    string
	classes []string
}{
	{BoolType, []string{"bool"}},
	{IntType, []string{"small", "big"}},
	{RealType, []string{"small", "real", "special"}},
	{NumberType, []string{"small", "big", "real", "number", "special"}},
	{JSONType, []string{"json"}},
	{TextType, []string{"bool", "small", "big", "real", "number", "special", "json", "text"}},
}

var (
	wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)
	anExponent  = regexp.MustCompile(`[0-9][eE]\+?(-?[0-9]+)`)
)

// huge reports whether a number exceeds a database's decimals.
func huge(text string) bool {
	for _, m := range anExponent.FindAllStringSubmatch(text, -1) {
		if e, err := strconv.Atoi(m[1]); err != nil || e > 120000 || e < -16000 {
			return true
		}
	}
	return false
}

func (v Value) class() string {
	switch {
	case v.Kind == Null:
		return ""
	case v.Kind == Bool:
		return "bool"
	case v.Kind == String && slices.Contains([]string{"NaN", "Infinity", "-Infinity"}, v.Text):
		return "special"
	case v.Kind == String, huge(v.Text):
		return "text"
	case v.Kind == JSON:
		return "json"
	}
	if wholeNumber.MatchString(v.Text) && v.Text != "-0" {
		n, err := strconv.ParseInt(v.Text, 10, 64)
		switch {
		case err != nil:
			return "number"
		case n > 1<<53 || n < -1<<53:
			return "big"
		}
		return "small"
	}
	if v.isDouble() {
		return "real"
	}
	return "number"
}

// isDouble reports whether a number is the decimal that its double is printed as.
func (v Value) isDouble() bool {
	f, err := strconv.ParseFloat(v.Text, 64)
	want, _ := Decimal(v.Text)
	have, _ := Decimal(strconv.FormatFloat(f, 'g', -1, 64))
	return v.Kind == Number && err == nil && have == want && !math.IsInf(f, 0)
}

// A madeColumn describes a column that the fold made.
type madeColumn struct {
	classes []string
	held    bool // its type must not change
}

// kind returns the type that accepts all of the classes.
func (m *madeColumn) kind(key bool) string {
	if len(m.classes) == 0 {
		return ""
	}
	for _, t := range accepts {
		if key && t.kind != IntType && t.kind != TextType {
			continue
		}
		if !slices.ContainsFunc(m.classes, func(c string) bool { return !slices.Contains(t.classes, c) }) {
			return t.kind
		}
	}
	return TextType
}

// made returns the description of a column that the fold made, or nil.
func (t *Table) made(name string) *madeColumn {
	if !t.Made && !t.brought[name] {
		return nil
	}
	m := t.columns[name]
	if m == nil {
		m = &madeColumn{}
		t.columns[name] = m
	}
	return m
}

// Type returns the type of a column that the fold made; "" for others, and for columns without a type.
func (t *Table) Type(name string) string {
	if m := t.made(name); m != nil {
		return m.kind(slices.Contains(t.Key, name))
	}
	return ""
}

// Hold prevents the columns with a type from being widened.
func (t *Table) Hold() {
	for _, c := range t.Columns {
		if m := t.made(c.Name); m != nil && t.Type(c.Name) != "" {
			m.held = true
		}
	}
}

// widen widens the columns for the values of a message, unless one of them is held.
func (t *Table) widen(named map[string]Value) error {
	grown := map[*madeColumn][]string{}
	for name, v := range named {
		m, class, key := t.made(name), v.class(), slices.Contains(t.Key, name)
		if v.Kind == Number && class != "text" && t.function(name) == "sum" {
			class = "number" // the size of a sum depends on the row
		}
		if m == nil || class == "" || key && t.Type(name) == IntType && canonical64(v) {
			continue
		}
		after := &madeColumn{classes: append(slices.Clone(m.classes), class)}
		if is := m.kind(key); m.held && after.kind(key) != is && !fits(is, class) && !(is == RealType && v.isDouble()) {
			return errors.New("what hangs on the column holds its type")
		}
		if !slices.Contains(m.classes, class) {
			grown[m] = after.classes
		}
	}
	for m, classes := range grown {
		if !m.held {
			m.classes = classes
		}
	}
	return nil
}

func fits(kind, class string) bool {
	for _, x := range accepts {
		if x.kind == kind {
			return slices.Contains(x.classes, class)
		}
	}
	return false
}

// canonical64 reports whether a string is an integer of 64 bits in its simplest spelling: in an integer key it is the
// same as the integer.
func canonical64(v Value) bool {
	n, err := strconv.ParseInt(v.Text, 10, 64)
	return v.Kind == String && err == nil && strings.TrimSpace(strconv.FormatInt(n, 10)) == v.Text
}
