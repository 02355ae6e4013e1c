package foldtest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// This file has the model's merge functions.

// canMerge reports whether a function accepts a value in a column that the fold made.
func (v Value) canMerge(function string) bool {
	switch {
	case v.Kind == Null, function == "first", function == "last", function == "":
		return true
	case function == "sum":
		return v.Kind == Number && !huge(v.Text)
	case function == "patch":
		return v.Kind == JSON
	}
	return v.Kind != JSON && !(isNumber.MatchString(v.Text) && huge(v.Text))
}

// isNumber matches values that are compared as numbers.
var isNumber = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// merged returns the result of merging v into had, which is Null if there is no value.
func merged(function string, had, v Value) Value {
	switch {
	case function == "first" && had.Kind != Null:
		return had
	case v.Kind == Null:
		return v
	case function == "sum":
		return Value{Number, sum(had, v)}
	case function == "patch":
		return Value{JSON, parseObject(had.Text).patch(parseObject(v.Text)).String()}
	case had.Kind != Null && (function == "min" && Compare(v.Text, had.Text) >= 0 || function == "max" && Compare(v.Text, had.Text) <= 0):
		return had
	}
	return v
}

// sum returns the exact sum of two numbers.
func sum(a, b Value) string {
	total := new(big.Rat)
	for _, v := range []Value{a, b} {
		if n, ok := new(big.Rat).SetString(v.Text); ok { // NULL is not a number
			total.Add(total, n)
		}
	}
	digits, _ := total.FloatPrec()
	return total.FloatString(digits)
}

// An object is a JSON object, or any other text.
type object struct {
	names  []string // in order
	member map[string]object
	text   string // if it is not an object
}

func (o *object) set(name string, to object) {
	if _, has := o.member[name]; !has {
		o.names = append(o.names, name)
	}
	o.member[name] = to
}

func parseObject(text string) object {
	text = strings.TrimSpace(text)
	if !json.Valid([]byte(text)) || text[0] != '{' {
		return object{text: text}
	}
	o, d := object{member: map[string]object{}}, json.NewDecoder(strings.NewReader(text))
	_, _ = d.Token()
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value)
		o.set(name.(string), parseObject(string(value)))
	}
	return o
}

func (o object) patch(p object) object {
	if p.member == nil {
		return p
	}
	patched := object{member: map[string]object{}}
	for _, name := range o.names {
		if p.member[name].text != "null" {
			patched.set(name, o.member[name])
		}
	}
	for _, name := range p.names {
		if to := p.member[name]; to.text != "null" {
			patched.set(name, patched.member[name].patch(to))
		}
	}
	return patched
}

func (o object) String() string {
	if o.member == nil {
		return o.text
	}
	var all []string
	for _, name := range o.names {
		all = append(all, fmt.Sprintf("%q:%s", name, o.member[name]))
	}
	return "{" + strings.Join(all, ",") + "}"
}
