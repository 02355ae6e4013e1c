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
			f := one.form()
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
		"envelope":   oneOf(enum(append(PresetNames(), "")...), object(properties(fieldsOf(reflect.TypeFor[envelope.Envelope]())))),
		"table":      orNull(object(properties(fieldsOf(reflect.TypeFor[tableDraft]())))),
		"column":     oneOf(ref("source"), form{"type": "array", "minItems": 1, "items": ref("source")}),
		"source":     oneOf(textForm, form{"type": "null"}, required(object(properties(fieldsOf(reflect.TypeFor[sourceMap]()))))),
		"when":       oneOf(conditionForm, ref("tests"), listOf(ref("tests"))),
		"tests":      form{"type": "object", "minProperties": 1, "propertyNames": form{"minLength": 1}, "additionalProperties": oneOf(ref("values"), required(object(properties(fieldsOf(reflect.TypeFor[testMap]())))))},
		"values":     oneOf(valueForm, unique(listOf(valueForm))),
		"statements": oneOf(nameForm, listOf(nameForm), form{"type": "object", "propertyNames": enum(databases...), "minProperties": 1, "additionalProperties": oneOf(nameForm, listOf(nameForm))}),
		"on_delete":  oneOf(enum(onDeleteWords...), required(object(properties(fieldsOf(reflect.TypeFor[mapping.OnDelete]()), "mark")), "mark")),
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

// form returns the form of the setting's value.
func (s *Setting) form() form {
	var f form
	switch key := s.name; {
	case key == "key":
		f = oneOf(nameForm, unique(listOf(nameForm)))
	case key == "columns":
		f = oneOf(textForm, unique(form{"type": "array", "items": nameForm}))
	case key == "merge":
		f = oneOf(form{"type": "string", "pattern": functionPattern}, enum(""), form{"type": "array", "items": form{"type": "string", "pattern": functionPattern}})
	case key == "when":
		f = oneOf(conditionForm, form{"type": "array", "items": conditionForm})
	case key == "delete_when":
		f = oneOf(ref("when"), enum(""))
	case strings.HasSuffix(key, "_when"):
		f = oneOf(conditionForm, enum(""))
	case s.v.Kind() == reflect.Slice:
		f = oneOf(textForm, form{"type": "array", "items": textForm})
	default:
		f = maps.Clone(s.codec.form)
	}
	return orNull(f)
}

// orNull allows null, which means that the key is absent.
func orNull(f form) form { return oneOf(f, form{"type": "null"}) }

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

// object is the form of a map with no other keys. A name may have - instead of _.
func object(properties form) form {
	f := form{"type": "object", "properties": properties, "additionalProperties": false}
	dashed := form{}
	for name, value := range properties {
		if with := strings.ReplaceAll(name, "_", "-"); with != name {
			dashed["^"+with+"$"] = value
		}
	}
	if len(dashed) > 0 {
		f["patternProperties"] = dashed
	}
	return f
}

// required requires a map to have keys.
func required(f form, names ...string) form {
	f["minProperties"] = max(len(names), 1)
	if names != nil {
		f["required"] = names
	}
	return f
}
