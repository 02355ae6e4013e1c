package schema

import "fmt"

// This file is about columns that weir made for values of a declared type: of a cast in a config file, or of the schema
// in a stream. Their marks say which type that was, so a change of it is noticed, in one run and over a restart.

// numeric are the kinds of numbers.
const numeric = smallInt | bigInt | reals | numbers

// A TypeError means that a column cannot hold the values of another declared type.
type TypeError struct{ Column, Why string }

func (e *TypeError) Error() string { return fmt.Sprintf("column %q %s", e.Column, e.Why) }

// Declare makes a column that weir made hold the values of a declared type too: of want, which weir would make for them.
// The column keeps its type, or is widened to one that holds both, in which no value changes. If there is none, the
// error is a [TypeError]. Columns that others made stay as they are. If the type of want is open, the values may be
// anything.
func (c *Column) Declare(want *Column) error {
	switch {
	case !c.Own && !c.Typed, c.Own && want.Own && c.seen != 0: // values widen it
		return nil
	case c.Typed && want.seen == 0: // values of several types
		if c.Undeclare(); c.Own {
			return nil
		}
		text := NewOf(c.Name, c.Key, Text)
		want = &text
	}
	return c.hold(want)
}

// Undeclare leaves a column's type to its values, because none is declared any more. No value alone is a time, a date, a
// UUID, bytes, or a string that is JSON: columns of these types stay.
func (c *Column) Undeclare() {
	if t := infer(c.seen); c.Typed && c.Precision == 0 && c.Held == "" && t < JSON && (!c.Key || t == Int || t == Text) {
		c.Own, c.Typed = true, false
		c.widen(0)
	}
}

// Renew makes the columns of weir's in a table that is going to be emptied new: the settings and values to come decide
// their types.
func (t *Table) Renew() {
	for i := range t.Columns {
		if c := &t.Columns[i]; (c.Own || c.Typed) && c.Held == "" {
			*c = New(c.Name, c.Key)
		}
	}
}

// Emptied forgets the types of a table that was emptied, in the columns of which want declares another type.
func (t *Table) Emptied(l *Limits, want *Table) {
	for i := range t.Columns {
		c, at := &t.Columns[i], l.Find(want, t.Columns[i].Name, i)
		if at < 0 || !c.Own && !c.Typed || c.Held != "" {
			continue
		}
		if w := &want.Columns[at]; w.seen != 0 && (c.Typed || w.Typed) && (infer(c.seen) != infer(w.seen) || c.Precision != w.Precision || c.Scale != w.Scale) {
			c.Own, c.Typed, c.Type, c.seen = true, false, Any, 0
		}
	}
}

// hold makes a column that weir made hold the values of another one.
func (c *Column) hold(want *Column) error {
	s := c.seen | want.seen
	switch {
	case want.seen == 0:
		return nil
	case c.seen == 0: // it has no values
		c.Decl, c.Type, c.seen, c.Own, c.Typed, c.Precision, c.Scale = "", want.Type, want.seen, want.Own, want.Typed, want.Precision, want.Scale
		return nil
	case s == c.seen && c.holdsDigits(want):
		if want.Typed && c.Own && c.Type == JSON { // of a declared type, also strings are JSON
			c.Own, c.Typed = false, true
		}
		return nil
	case c.clashes(want):
		return &TypeError{c.Name, fmt.Sprintf("has values of type %s, and no type holds both these and values of type %s", c.seen, want.seen)}
	case c.Held != "":
		return &TypeError{c.Name, fmt.Sprintf("cannot be widened from %s to hold values of type %s: %s", c.seen, want.seen, c.Held)}
	}
	if c.Typed {
		c.Decl, c.Precision, c.Scale, c.ValueRules = "", 0, 0, ValueRules{Collation: c.Collation, HoldsTime: c.HoldsTime}
	}
	c.Own, c.Typed = c.Own || want.Own, c.Typed && !want.Own
	c.widen(s)
	return nil
}

// String returns the type that the values have in a config file.
func (s class) String() string {
	switch t := infer(s); t {
	case Instant:
		return "timestamp"
	case Number:
		return "numeric"
	default:
		return t.String()
	}
}

// holdsDigits reports whether no number of another column has more digits than the column holds.
func (c *Column) holdsDigits(want *Column) bool {
	return c.Precision == 0 || want.Precision > 0 && want.Scale <= c.Scale && want.Precision-want.Scale <= c.Precision-c.Scale
}

// clashes reports whether no type holds the values of both columns as what they are. Bytes as text would be their
// notation in one database, and times between numbers would have no unit. In a key, each type has equal values of its
// own.
func (c *Column) clashes(want *Column) bool {
	s := c.seen | want.seen
	return s&byteStrings != 0 || s&strs == 0 && s&times != 0 && s&numeric != 0 ||
		c.Key && c.seen&strs == 0 && c.seen&(bools|times|uuids) != 0
}
