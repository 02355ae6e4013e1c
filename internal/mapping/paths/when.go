package paths

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A When is a condition: one of its parts must hold. nil always holds.
type When []All

// All is a list of tests that must all hold.
type All []Test

// A Test compares one value of a message, as text.
type Test struct {
	Pos     Pos `json:"-"` // position in the file
	Path    Path
	In      []Value // the allowed values; nil: only presence is tested
	Not     bool    // In has the forbidden values instead; an absent value passes
	Present Presence
}

// Presence says whether a value must be present. A null is present.
type Presence uint8

// Whether a value must be present.
const (
	AnyPresence Presence = iota
	MustBePresent
	MustBeAbsent
)

// A Value is a value that a test compares with.
type Value struct {
	Text string
	Null bool // JSON null, not a text
}

// A Pos is a position in the file that a mapping was read from; the zero value means none.
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

// ParseWhen parses a condition PATH=VALUE. The value null means JSON null.
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

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseWhen].
func (w *When) UnmarshalText(text []byte) (err error) {
	if *w, err = ParseWhen(string(text)); err != nil {
		err = fmt.Errorf("%q: %w", text, err)
	}
	return err
}

// Placed returns a copy of the condition whose paths have the places that find returns.
func (w When) Placed(find func(t *Test) Place) When {
	w = slices.Clone(w)
	for i := range w {
		w[i] = slices.Clone(w[i])
		for j := range w[i] {
			w[i][j].Path.place = find(&w[i][j])
		}
	}
	return w
}

// String returns the condition for messages.
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

// String returns the test for messages, such as type=a,b.
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
