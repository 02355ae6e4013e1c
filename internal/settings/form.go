package settings

import (
	"strings"

	"github.com/weirsync/weir/internal/mapping/cast"
)

// A form is the JSON Schema of a value.
type form map[string]any

// Scalars are read as text, so a number or boolean is also a text.
var (
	anyForm      = form{}
	textForm     = form{"type": []string{"string", "number", "boolean"}}
	boolForm     = anyOf(form{"type": "boolean"}, enum("true", "false"))
	nameForm     = form{"type": textForm["type"], "minLength": 1}
	ageForm      = form{"type": "string", "pattern": durationPattern}
	durationForm = anyOf(ageForm, enum("0"), form{"type": "integer", "minimum": 0, "maximum": 0})
	sizeForm     = anyOf(form{"type": "number", "minimum": 0}, form{"type": "string", "pattern": sizePattern})
	rateForm     = anyOf(form{"type": "number", "exclusiveMinimum": 0}, form{"type": "string", "pattern": ratePattern})
	// conditionForm is PATH=VALUE.
	conditionForm = form{"type": "string", "pattern": "^[^=]+=([^=]|$)"}
	typeForm      = form{"type": "string", "pattern": typePattern()}
)

// Sizes, and rates per second, as settings parse them.
const (
	sizePattern = `^ *([0-9]+\.?[0-9]*|\.[0-9]+) *(?:([kKmMgGtT])([iI]?)([bB]?)|[bB])? *$`
	ratePattern = `^(\+?([0-9]*[1-9][0-9]*\.?[0-9]*|[0-9]*\.[0-9]*[1-9][0-9]*)([eE][+-]?[0-9]+)?(/[smh]?)?)?$`
)

// durationPattern matches what [ParseDuration] parses, without a sign.
const durationPattern = `^([0-9]+d0?|([0-9]+d)?\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`

// typePattern matches the types that [cast.ParseType] reads.
func typePattern() string {
	names := make([]string, len(cast.TypeNames))
	for i, t := range cast.TypeNames {
		if names[i] = string(t); t == cast.Numeric || t == cast.Base64Number {
			names[i] += `(\([0-9 ]+(,[0-9 ]+)?\))?`
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

func ref(name string) form { return form{"$ref": "#/$defs/" + name} }

// mapForm is a map with at least one member.
func mapForm(names, values form) form {
	f := form{"type": "object", "minProperties": 1, "additionalProperties": values}
	if len(names) > 0 {
		f["propertyNames"] = names
	}
	return f
}

func listOf(item form) form { return form{"type": "array", "minItems": 1, "items": item} }

func anyOf(forms ...form) form { return form{"anyOf": forms} }

// countForm is the form of an integer of at least least, perhaps quoted.
func countForm(least int) form {
	digits := "^(0|[1-9][0-9]*)$"
	if least > 0 {
		digits = "^[1-9][0-9]*$"
	}
	return anyOf(form{"type": "integer", "minimum": least}, form{"type": "string", "pattern": digits})
}

func enum[T ~string](words ...T) form { return form{"enum": words} }
