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

// Mark returns the mark that the database stores for a column that weir made.
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

// widen makes a column that weir made hold more kinds. Within the type's kinds only the size of integers is recorded,
// because nothing else affects later widening.
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

// A HeldError means that a column cannot be widened as a batch needs, because it is not weir's, or no longer.
type HeldError struct{ Table, Column, Why string }

func (e *HeldError) Error() string {
	return fmt.Sprintf("column %q of table %q can no longer be widened: %s", e.Column, e.Table, e.Why)
}

// A MissingError means that a column was dropped for which a batch has values.
type MissingError struct{ Column string }

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
		case w.Generated || !w.Stored() || !w.Own && at >= 0:
		case at < 0 && !w.New:
			if w.Stamp != NoStamp || named(i) {
				return nil, &MissingError{w.Name}
			}
		case at < 0 && w.Type == Any && !l.Untyped: // no value has decided its type yet
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

// Marks returns the marks of the table's columns as JSON. Hidden columns get none: they are not in the database,
// where a missing column that has a mark counts as dropped.
func (t *Table) Marks() string {
	marks := map[string]string{}
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Own && c.Stored() {
			marks[c.Name] = c.Mark()
		}
	}
	text, _ := json.Marshal(marks) // strings only, so no error
	return string(text)
}

// Own sets Own for the columns that are weir's: those with a mark for whose type weir would declare the column as it
// is, according to made. A marked column that others altered is theirs, and added to Altered. held returns why weir
// cannot widen a column, or "".
func (t *Table) Own(marks string, made func(c *Column, as Type) bool, held func(*Column) string) error {
	var known map[string]string
	if err := json.Unmarshal([]byte(marks), &known); err != nil {
		return fmt.Errorf("weir's record of the columns of table %q is damaged: %w", t.Name, err)
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
