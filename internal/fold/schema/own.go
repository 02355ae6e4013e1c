package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file is about the columns that weir made, in its own tables and in others. The database stores a mark for each
// of them with the kinds of its values. So a column's type is the union of the types of all values, regardless of the
// batch, run or process that wrote them.

// smallIntegers is the mark of a column whose integers a double holds exactly: with reals they make a Real, which
// larger integers do not. All other marks are names of types.
const smallIntegers = "small integer"

// typedMark begins the mark of a column with a declared type.
const typedMark = "as "

// Mark returns the mark that the database stores for a column that weir made.
func (c *Column) Mark() string {
	mark := infer(c.seen).String()
	switch {
	case c.Typed && c.Precision > 0:
		return fmt.Sprintf("%s%s(%d,%d)", typedMark, mark, c.Precision, c.Scale)
	case c.Typed:
		return typedMark + mark
	case c.seen == smallInt:
		return smallIntegers
	}
	return mark
}

// readMark sets what [Column.Mark] tells. It returns false for anything else.
func (c *Column) readMark(mark string) bool {
	if mark == smallIntegers {
		c.widen(smallInt)
		return true
	}
	name, typed := strings.CutPrefix(mark, typedMark)
	name, digits, hasDigits := strings.Cut(name, "(")
	if hasDigits {
		if _, err := fmt.Sscanf(digits, "%d,%d)", &c.Precision, &c.Scale); err != nil {
			return false
		}
	}
	for t := Any; t <= Bytes; t++ {
		if t.String() == name && (holds[t] != 0 || t == Any) {
			c.Typed = typed
			c.widen(holds[t])
			return true
		}
	}
	return false
}

// widen makes a column that weir made hold more kinds. Within the type's kinds only the size of integers is recorded,
// because nothing else affects later widening.
func (c *Column) widen(s class) {
	c.seen |= s
	c.Type = infer(c.seen)
	if c.Key && !c.Typed && c.Type != Int && c.Type != Any {
		c.Type = Text
	}
	if c.seen&^smallInt != 0 {
		c.seen = holds[c.Type]
	}
}

// A HeldError means that a column cannot be widened as a batch needs, because it is not weir's, or no longer.
type HeldError struct{ Table, Column, Why string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("column %q of table %q can no longer be widened: %s", e.Column, e.Table, e.Why)
}

// A MissingError means that a column was dropped for which a batch has values.
type MissingError struct {
	Column string
	Made   bool // by weir, or the table's timestamps
}

func (e *MissingError) Error() string { return fmt.Sprintf("column %q is missing", e.Column) }

// An Alteration is a change that others made to a column that weir made.
type Alteration struct {
	Column string
	Was    Type
	Now    string // its type now; "" if it is missing
}

func (a Alteration) String() string {
	if a.Now == "" {
		return fmt.Sprintf("column %q was %s and is missing", a.Column, a.Was)
	}
	return fmt.Sprintf("column %q was %s and is %s", a.Column, a.Was, a.Now)
}

// A Growth is a column that a batch adds or widens.
type Growth struct {
	At   int  // index of the column in the table
	New  bool // the column is added
	From Type // its type before
}

// Grow adds and widens columns of t, a table of the database, until it holds what want holds, and returns the
// changes. Added columns come last. A missing column that is not new is an error if it is a timestamp column, or if
// named reports that some row sets it.
func (t *Table) Grow(l *Limits, want *Table, named func(column int) bool) (grown []Growth, err error) {
	for i := range want.Columns {
		w := &want.Columns[i]
		at := l.Find(t, w.Name, i)
		switch {
		case w.Generated || !w.Stored() || !w.Own && !w.Typed && at >= 0:
		case at < 0 && !w.New:
			if w.Stamp != NoStamp || named(i) {
				return nil, &MissingError{w.Name, w.Own || w.Typed || w.Stamp != NoStamp}
			}
		case at < 0 && w.Type == Any && !l.Untyped: // no value has decided its type yet
		case at < 0:
			grown = append(grown, Growth{At: len(t.Columns), New: true})
			t.Columns = append(t.Columns, *w)
		default:
			c := &t.Columns[at]
			before := *c
			switch {
			case c.Own || c.Typed:
				if err := c.hold(w); err != nil {
					return nil, &HeldError{want.Name, c.Name, err.Error()}
				}
				if c.Mark() != before.Mark() {
					grown = append(grown, Growth{At: at, From: before.Type})
				}
			case w.Own && w.seen&^holds[c.Type] != 0 && c.Type != Any:
				why := c.Held
				if why == "" {
					why = "it is " + c.Declared() + ", and not weir's"
				}
				return nil, &HeldError{Table: want.Name, Column: c.Name, Why: why}
			}
		}
	}
	return grown, nil
}

// Marks returns the marks of the table's columns as JSON. Hidden columns get none: they are not in the database,
// where a missing column that has a mark counts as dropped.
func (t *Table) Marks() string {
	marks := map[string]string{}
	for i := range t.Columns {
		if c := &t.Columns[i]; (c.Own || c.Typed) && c.Stored() {
			marks[c.Name] = c.Mark()
		}
	}
	text, _ := json.Marshal(marks) // strings only, so no error
	return string(text)
}

// Own sets Own or Typed for the columns that are weir's: those with a mark that weir would declare as they are,
// according to made. A marked column that others altered is theirs, and added to Altered unless its type was declared.
// held returns why weir cannot widen a column, or "".
func (t *Table) Own(marks string, made func(c, own *Column) bool, held func(*Column) string) error {
	var known map[string]string
	if err := json.Unmarshal([]byte(marks), &known); err != nil {
		return fmt.Errorf("weir's record of the columns of table %q is damaged: %w", t.Name, err)
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		own := Column{Key: c.Key}
		switch ok := own.readMark(known[c.Name]); {
		case !ok:
			continue
		case made(c, &own):
		case own.Typed:
			continue
		default:
			t.Altered = append(t.Altered, Alteration{c.Name, own.Type, c.Declared()})
			continue
		}
		switch c.Held = held(c); {
		case own.Typed:
			c.Typed, c.seen, c.Precision, c.Scale = true, own.seen, own.Precision, own.Scale
			if own.Type == Bytes {
				c.Type = Bytes
			}
		case c.Held == "":
			c.Own, c.Type, c.seen = true, own.Type, own.seen
		case c.Type == Real:
			c.Exact = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		gone := Column{}
		if gone.readMark(known[name]) && !slices.ContainsFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) }) {
			t.Altered = append(t.Altered, Alteration{Column: name, Was: gone.Type})
		}
	}
	return nil
}
