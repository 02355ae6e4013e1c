// Package merge has functions that merge a message's value into the column's value.
package merge

import (
	"fmt"
	"slices"
	"strings"
)

// A Function says how a column's values are merged.
type Function uint8

// The functions.
const (
	Last  Function = iota // the new value overwrites the old one
	First                 // the first value stays
	Sum                   // numbers are added
	Min                   // the smallest value stays
	Max                   // the largest value stays
	Patch                 // objects merge member by member, by RFC 7396
)

var names = []string{"last", "first", "sum", "min", "max", "patch"}

// Computes reports whether the function computes a value from the column's and the message's. [First] does not: it only
// decides whether the message's value is written.
func (f Function) Computes() bool { return f > First }

func (f Function) String() string { return names[f] }

// Names returns the names of all functions.
func Names() []string { return slices.Clone(names) }

// Parse returns the function with a name.
func Parse(name string) (Function, error) {
	i := slices.Index(names, name)
	if i < 0 {
		return Last, fmt.Errorf("there is no merge function %q: use one of %s", name, strings.Join(names, ", "))
	}
	return Function(i), nil
}

// MarshalText implements [encoding.TextMarshaler].
func (f Function) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] with [Parse].
func (f *Function) UnmarshalText(text []byte) (err error) {
	*f, err = Parse(string(text))
	return err
}
