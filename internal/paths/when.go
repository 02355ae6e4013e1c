package paths

import (
	"errors"
	"fmt"
	"strings"
)

// A When is a condition: one of its parts must hold. nil holds always.
type When []All

// All is a condition of tests that must all hold.
type All []Test

// A Test compares one value of a message, as text.
type Test struct {
	Pos     Pos `json:"-"` // where it is in the file
	Path    Path
	In      []Value // the allowed values; nil: only presence is tested
	Not     bool    // In has the forbidden values instead; an absent value passes
	Present Presence
}

// Presence is what a test asks of a value's presence; a null is present.
type Presence uint8

// What it asks.
const (
	AnyPresence Presence = iota
	MustBePresent
	MustBeAbsent
)

// A Value is one that a test compares with.
type Value struct {
	Text string
	Null bool // JSON's null, and not a text
}

// A Pos is a place in the file that a mapping was read from; the zero one is none.
type Pos struct{ Line, Column int } // from 1

// CutCondition splits a condition FIELD=VALUE.
func CutCondition(text string) (field, value string, err error) {
	field, value, ok := strings.Cut(text, "=")
	right := strings.TrimRight(field, " ") + "=" + strings.TrimLeft(strings.TrimPrefix(value, "="), " ")
	switch {
	case !ok || field == "":
		err = errors.New("must be FIELD=VALUE, such as op=delete")
	case strings.HasPrefix(value, "="):
		err = fmt.Errorf("FIELD=VALUE has one equals sign, as in %s", right)
	case strings.HasSuffix(field, " ") && strings.HasPrefix(value, " "):
		err = fmt.Errorf("FIELD=VALUE has no spaces around the equals sign, as in %s", right)
	}
	return field, value, err
}

// ParseWhen reads a condition PATH=VALUE. The value null is JSON's.
func ParseWhen(text string) (When, error) {
	field, value, err := CutCondition(text)
	if err != nil {
		return nil, err
	}
	path, err := ParsePath(field)
	if err != nil {
		return nil, err
	}
	v := Value{Text: value}
	if value == "null" {
		v = Value{Null: true}
	}
	return When{{{Path: path, In: []Value{v}}}}, nil
}

// String is the condition for people.
func (w When) String() string {
	var parts []string
	for _, all := range w {
		var tests []string
		for i := range all {
			tests = append(tests, all[i].String())
		}
		parts = append(parts, strings.Join(tests, ", "))
	}
	return strings.Join(parts, " or ")
}

// String is the test for people: type=a,b.
func (t *Test) String() string {
	path, sign := t.Path.String(), "="
	var parts []string
	if t.Present != AnyPresence {
		parts = append(parts, path+map[Presence]string{MustBePresent: " present", MustBeAbsent: " absent"}[t.Present])
	}
	if t.In != nil {
		var values []string
		for _, v := range t.In {
			if v.Null {
				v.Text = "null"
			}
			values = append(values, v.Text)
		}
		if t.Not {
			sign = "!="
		}
		parts = append(parts, path+sign+strings.Join(values, ","))
	}
	return strings.Join(parts, ", ")
}
