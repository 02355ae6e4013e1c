package settings

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/envelope"
)

// Schema returns the JSON Schema of a config file.
func (s *Spec) Schema() ([]byte, error) {
	top, databases := form{}, s.env.databases()
	for _, one := range s.settings {
		if one.InFile() {
			f := orNull(one.form)
			_, f["description"] = pflag.UnquoteUsage(&pflag.Flag{Usage: one.help, Value: one})
			top[one.name] = f
		}
	}
	maps.Copy(top, properties(fieldsOf(reflect.TypeFor[mappingDraft]())))
	schema, ofCase := object(top), fieldsOf(reflect.TypeFor[Case]())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "The config file of weir"
	schema["type"] = []string{"object", "null"}
	schema["$defs"] = form{
		"envelope":   anyOf(enum(append(PresetNames(), "")...), object(properties(fieldsOf(reflect.TypeFor[envelope.Envelope]())))),
		"table":      orNull(object(properties(fieldsOf(reflect.TypeFor[mapping.Table]())))),
		"column":     anyOf(ref("source"), form{"type": "array", "minItems": 1, "items": ref("source")}),
		"source":     anyOf(textForm, form{"type": "null"}, required(object(properties(fieldsOf(reflect.TypeFor[sourceMap]()))))),
		"when":       anyOf(conditionForm, ref("tests"), listOf(ref("tests"))),
		"tests":      form{"type": "object", "minProperties": 1, "propertyNames": form{"minLength": 1}, "additionalProperties": anyOf(ref("values"), required(object(properties(fieldsOf(reflect.TypeFor[testMap]())))))},
		"values":     anyOf(valueForm, listOf(valueForm)),
		"statements": anyOf(nameForm, listOf(nameForm), form{"type": "object", "propertyNames": enum(databases...), "minProperties": 1, "additionalProperties": anyOf(nameForm, listOf(nameForm))}),
		"test":       required(object(properties(ofCase, names(ofCase)...)), names(ofCase)...),
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(schema)
	return b.Bytes(), err
}

var valueForm = form{"type": []string{"string", "number", "boolean", "null"}}

// functionPattern matches one or several COLUMN=FUNCTION.
var functionPattern = "^.+=(" + strings.Join(merge.Names(), "|") + ")$"

// orNull allows null, which means that the key is absent.
func orNull(f form) form { return anyOf(f, form{"type": "null"}) }

// properties returns the forms of keys. Required keys must not be null.
func properties(fields []field, needed ...string) form {
	all := form{}
	for _, k := range fields {
		f := maps.Clone(k.form)
		if !(k.tag.Get("null") != "") && !slices.Contains(needed, k.name) {
			f = orNull(k.form)
		}
		f["description"] = k.description()
		all[k.name] = f
	}
	return all
}

// object is the form of a map with no other keys.
func object(properties form) form {
	return form{"type": "object", "properties": properties, "additionalProperties": false}
}

func required(f form, names ...string) form {
	f["minProperties"] = max(len(names), 1)
	if names != nil {
		f["required"] = names
	}
	return f
}
