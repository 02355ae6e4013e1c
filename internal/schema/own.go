package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// This file is about the columns that weir made, in its own tables and in those of
// others. What a column has to hold is kept in the database, in a mark for each column, so
// that its type is the union of the types of all values, whichever batch, run or process
// they came with.

// smallIntegers is the mark of whole numbers all of which a double holds: with reals they
// make a Real, and other whole numbers do not. All other marks are names of types.
const smallIntegers = "small integer"

// Mark is what a database keeps of what a column of weir's has to hold.
func (c *Column) Mark() string {
	if c.seen == smallInt {
		return smallIntegers
	}
	return infer(c.seen).String()
}

// markClass is the inverse of [Column.Mark].
func markClass(mark string) (class, bool) {
	if mark == smallIntegers {
		return smallInt, true
	}
	for t := Any; t <= JSON; t++ {
		if t.String() == mark {
			return holds[t], true
		}
	}
	return 0, false
}

// widen has a column of weir's hold more. Of what its type takes, only the size of whole
// numbers matters for what it becomes later.
func (c *Column) widen(s class) {
	c.seen |= s
	c.Type = infer(c.seen)
	if c.Key && c.Type != Int && c.Type != Any {
		c.Type = Text
	}
	if c.seen&^smallInt != 0 {
		c.seen = holds[c.Type]
	}
}

// A HeldError says that a column cannot become what a batch needs, because it is not, or no
// longer, weir's to widen.
type HeldError struct{ Table, Column, Why string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("column %q of table %q can no longer be widened: %s", e.Column, e.Table, e.Why)
}

// A MissingError says that a table lacks a column that a batch has values for, and that it
// had before.
type MissingError struct{ Column string }

func (e *MissingError) Error() string { return fmt.Sprintf("column %q is missing", e.Column) }

// An Alteration is what others made of a column that weir had made.
type Alteration struct {
	Column string
	Was    Type
	Now    string // its type; "": it is missing
}

func (a Alteration) String() string {
	if a.Now == "" {
		return fmt.Sprintf("column %q was %s and is missing", a.Column, a.Was)
	}
	return fmt.Sprintf("column %q was %s and is %s", a.Column, a.Was, a.Now)
}

// A Growth is a column that a batch adds or widens.
type Growth struct {
	At   int  // in the table's columns
	New  bool // it is added
	From Type // what it was
}

// Grow makes t, a table as a database of these limits has it, one that also takes what want
// takes, and returns the columns that became other ones. The new ones are at the end. A column that
// is missing is an error where it is a stamp, or named says that some row names it.
func (t *Table) Grow(l *Limits, want *Table, named func(column int) bool) (grown []Growth, err error) {
	for i := range want.Columns {
		w := &want.Columns[i]
		at := l.Find(t, w.Name, i)
		switch {
		case w.Generated || !w.Stored() || !w.Own && at >= 0:
		case at < 0 && !w.New:
			if w.Stamp != NoStamp || named(i) {
				return nil, &MissingError{w.Name}
			}
		case at < 0 && w.Type == Any && !l.Untyped: // it waits for a value to have a type
		case at < 0:
			grown = append(grown, Growth{At: len(t.Columns), New: true})
			t.Columns = append(t.Columns, *w)
		default:
			c := &t.Columns[at]
			before := *c
			switch {
			case c.Own:
				if c.widen(w.seen); c.seen != before.seen {
					grown = append(grown, Growth{At: at, From: before.Type})
				}
			case w.seen&^holds[c.Type] != 0 && c.Type != Any:
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

// Marks are the marks of a table's columns, as JSON. A hidden column gets no mark: it is not in the database, and a
// marked column that is missing there counts as dropped.
func (t *Table) Marks() string {
	marks := map[string]string{}
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Own && c.Stored() {
			marks[c.Name] = c.Mark()
		}
	}
	text, _ := json.Marshal(marks) // strings alone
	return string(text)
}

// Own finds the columns that are weir's: those that have a mark and, as made reports, the
// declaration that weir gives to the mark's type. One that was altered by others is
// theirs, and noted. held is why weir cannot widen a column, or "".
func (t *Table) Own(marks string, made func(c *Column, as Type) bool, held func(*Column) string) error {
	var known map[string]string
	if err := json.Unmarshal([]byte(marks), &known); err != nil {
		return fmt.Errorf("what weir keeps of the columns of table %q is damaged: %w", t.Name, err)
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		seen, ok := markClass(known[c.Name])
		if !ok {
			continue
		}
		own := Column{Key: c.Key}
		if own.widen(seen); !made(c, own.Type) {
			t.Altered = append(t.Altered, Alteration{c.Name, own.Type, c.Declared()})
			continue
		}
		if c.Held = held(c); c.Held == "" {
			c.Own, c.Type, c.seen = true, own.Type, own.seen
		} else if c.Type == Real {
			c.Exact = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		seen, ok := markClass(known[name])
		if ok && !slices.ContainsFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) }) {
			t.Altered = append(t.Altered, Alteration{Column: name, Was: infer(seen)})
		}
	}
	return nil
}
