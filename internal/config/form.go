package config

import (
	"strings"

	"github.com/weirsync/weir/internal/cast"
)

// A form is the JSON Schema of a value.
type form map[string]any

// Scalars are taken by their text, so that a number or a boolean is a text as well.
var (
	anyForm   = form{}
	textForm  = form{"type": []string{"string", "number", "boolean"}}
	boolForm  = form{"type": "boolean"}
	namesForm = oneOf(textForm, listOf(textForm))
	typeForm  = form{"type": "string", "pattern": typePattern()}
)

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

func listOf(item form) form { return form{"type": "array", "minItems": 1, "items": item} }

func oneOf(forms ...form) form { return form{"anyOf": forms} }

func countForm(least int) form { return form{"type": "integer", "minimum": least} }

func enum[T ~string](words ...T) form { return form{"enum": words} }
