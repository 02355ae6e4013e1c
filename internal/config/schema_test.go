package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/testcheck"
)

// validate judges a node by a JSON Schema, as far as ours go.
func validate(root, schema map[string]any, n *yaml.Node) error {
	n = resolved(n)
	if ref, ok := schema["$ref"].(string); ok {
		return validate(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), n)
	}
	if forms, ok := schema["anyOf"].([]any); ok {
		var last error
		for _, s := range forms {
			if last = validate(root, s.(map[string]any), n); last == nil {
				break
			}
		}
		if last != nil {
			return last
		}
	}
	kind := map[yaml.Kind]string{yaml.MappingNode: "object", yaml.SequenceNode: "array"}[n.Kind]
	if kind == "" {
		kind = map[string]string{"!!null": "null", "!!bool": "boolean", "!!int": "number", "!!float": "number"}[n.ShortTag()]
	}
	if kind == "" {
		kind = "string"
	}
	if want, ok := schema["type"]; ok {
		kinds, ok := want.([]any)
		if !ok {
			kinds = []any{want}
		}
		if !slices.Contains(kinds, any(kind)) && !(n.ShortTag() == "!!int" && slices.Contains(kinds, any("integer"))) {
			return fmt.Errorf("line %d: %s is not %v", n.Line, kind, want)
		}
	}
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, any(n.Value)) {
		return fmt.Errorf("line %d: %q is none of %v", n.Line, n.Value, words)
	}
	if p, ok := schema["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(n.Value) {
		return fmt.Errorf("line %d: %q does not match %s", n.Line, n.Value, p)
	}
	if least, ok := schema["minimum"].(float64); ok {
		if v, err := strconv.ParseFloat(n.Value, 64); err != nil || v < least {
			return fmt.Errorf("line %d: %s is below %v", n.Line, n.Value, least)
		}
	}
	if least, ok := schema["minItems"].(float64); ok && len(n.Content) < int(least) {
		return fmt.Errorf("line %d: too few items", n.Line)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		for _, item := range n.Content {
			if err := validate(root, items, item); err != nil {
				return err
			}
		}
	}
	if kind == "object" {
		return validateMap(root, schema, n)
	}
	return nil
}

func validateMap(root, schema map[string]any, n *yaml.Node) error {
	properties, _ := schema["properties"].(map[string]any)
	patterns, _ := schema["patternProperties"].(map[string]any)
	required, _ := schema["required"].([]any)
	if least, ok := schema["minProperties"].(float64); ok && len(n.Content)/2 < int(least) {
		return fmt.Errorf("line %d: too few keys", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if names, ok := schema["propertyNames"].(map[string]any); ok {
			if err := validate(root, names, n.Content[i]); err != nil {
				return err
			}
		}
		required = slices.DeleteFunc(slices.Clone(required), func(r any) bool { return r == name })
		value, ok := properties[name].(map[string]any)
		for p, s := range patterns {
			if !ok && regexp.MustCompile(p).MatchString(name) {
				value, ok = s.(map[string]any), true
			}
		}
		if !ok {
			if value, ok = schema["additionalProperties"].(map[string]any); !ok && schema["additionalProperties"] == false {
				return fmt.Errorf("line %d: unknown key %s", n.Line, name)
			}
		}
		if err := validate(root, value, n.Content[i+1]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(required) > 0 {
		return fmt.Errorf("line %d: %v are missing", n.Line, required)
	}
	return nil
}

// The schema takes what the reader takes, and refuses what it refuses by itself, without a
// look at other keys.
func TestSchema_IsTheReaders(t *testing.T) {
	settings := []*Setting{{Name: "null", Kind: "clear|keep"}, {Name: "key", SetList: func([]string) error { return nil }}, {Name: "source", SetList: func([]string) error { return nil }},
		{Name: "delete-when"}, {Name: "batch-rows", Kind: "int"}, {Name: "follow", Kind: "bool"}}
	for _, name := range []string{"to", "feed", "feed-events", "version-field", "job"} {
		settings = append(settings, &Setting{Name: name, Kind: "string"})
	}
	for _, s := range settings {
		s.Set = func(string) error { return nil }
	}
	text, err := Schema(settings, databases)
	testcheck.NoError(t, err)
	var schema map[string]any
	testcheck.NoError(t, json.Unmarshal(text, &schema))
	judge := func(text string) error {
		var doc yaml.Node
		testcheck.NoError(t, yaml.Unmarshal([]byte(text), &doc))
		return validate(schema, schema, doc.Content[0])
	}
	var taken, refused []string
	for _, name := range []string{"firestarter", "orders"} {
		text, err := os.ReadFile("../../contrib/" + name + ".yaml")
		testcheck.NoError(t, err)
		taken = append(taken, string(text))
	}
	for _, table := range []string{"", "{when: a=b}", "{when: [{a: 1}, {b: {not: null, present: true}}], delete-when: {c: [1, x, ~]}}", "{at: a.b, key: [a, 'b,c']}", "{key: 1}", "{id: x, type: 'numeric(12, 2)', rest: add, max_columns: 0}",
		"{columns: {id, a: as date, b: [x, {from: y, type: text, when: a=b}, {value: [1, {a: b}]}], c: {stamp: update}, d: {meta: line}, e: {value: null}}}", "{expire: {after: 7d, of: id, every: 1s}}", "{on_create: [x]}", "{on_create: {sqlite: [x], postgres: [y]}}",
		"{null: keep, fill_only: true}", "{version-field: $.v, version_scope: row}", "{each: xs, columns: {id: {meta: index}}}"} {
		taken = append(taken, "tables: {a: "+table+"}")
	}
	taken = append(taken, "null: keep\nbatch-rows: 7\nfollow: true\nkey: [a, b]\nsource: x", "to: ~", "tables: {p: {key: a}, a: {columns: {id, r: {from: x as text, references: p}}}}")
	for _, table := range []string{"[]", "x", "{what: 1}", "{when: x}", "{when: []}", "{when: {}}", "{when: {a: {}}}", "{when: {a: []}}", "{when: {a: {in: 1}}}", "{when: {a: {present: 1}}}", "{key: []}", "{key: {a: b}}", "{type: int}", "{rest: x}", "{null: x}", "{columns: {}}", "{columns: [a]}",
		"{columns: {id: []}}", "{columns: {id: {}}}", "{columns: {id, b: {form: x}}}", "{columns: {id, b: {stamp: x}}}", "{columns: {id, b: {meta: x}}}", "{columns: {id, b: [[x]]}}", "{expire: 48h}", "{expire: {of: id}}", "{on_create: x}", "{on_create: []}", "{on_create: {oracle: [x]}}", "{max_columns: -1}", "{max_columns: x}",
		"{fill_only: 1}", "{version_scope: x}", "{set: x, of: b}", "{parent: []}"} {
		refused = append(refused, "tables: {a: "+table+"}")
	}
	refused = append(refused, "tables: {}", "tables: []", "what: 1", "tests: []\ntables: {a: }", "tests: [{name: x}]\ntables: {a: }", "max_each: 0\ntables: {a: }", "unmatched: x\ntables: {a: }", "ignore: {}\ntables: {a: }", "key: {a: b}", "[]", "x")
	for _, text := range taken {
		if _, err := readText(t, text); err != nil && !strings.Contains(text, "batch-rows") {
			t.Errorf("%s\nthe reader refuses it: %v", text, err)
		}
		if err := judge(text); err != nil {
			t.Errorf("%s\nthe schema refuses it: %v", text, err)
		}
	}
	for _, text := range refused {
		if _, err := readText(t, text); err == nil {
			t.Errorf("%s\nthe reader takes it", text)
		}
		if err := judge(text); err == nil {
			t.Errorf("%s\nthe schema takes it", text)
		}
	}
}
