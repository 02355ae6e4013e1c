package config

import (
	"cmp"
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

// A jsonSchema is a JSON Schema, as far as ours go.
type jsonSchema struct {
	Ref                           string                 `json:"$ref"`
	Defs                          map[string]*jsonSchema `json:"$defs"`
	AnyOf                         []*jsonSchema
	Type                          any // a text, or several
	Enum                          []string
	Pattern                       string
	Minimum                       *float64
	MinItems, MinProperties       int
	Items, PropertyNames          *jsonSchema
	Properties, PatternProperties map[string]*jsonSchema
	Required                      []string
	AdditionalProperties          json.RawMessage // false, or a schema
}

// takes judges a node.
func (s *jsonSchema) takes(root *jsonSchema, n *yaml.Node) bool {
	n = resolved(n)
	if s.Ref != "" {
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].takes(root, n)
	}
	kind := cmp.Or(map[string]string{"!!map": "object", "!!seq": "array", "!!null": "null", "!!bool": "boolean", "!!int": "number", "!!float": "number"}[n.ShortTag()], "string")
	types := strings.Fields(strings.Trim(fmt.Sprint(s.Type), "[]"))
	number, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case s.AnyOf != nil && !slices.ContainsFunc(s.AnyOf, func(one *jsonSchema) bool { return one.takes(root, n) }),
		s.Type != nil && !slices.Contains(types, kind) && !(n.ShortTag() == "!!int" && slices.Contains(types, "integer")),
		s.Enum != nil && !slices.Contains(s.Enum, n.Value), !regexp.MustCompile(s.Pattern).MatchString(n.Value),
		s.Minimum != nil && (err != nil || number < *s.Minimum), len(n.Content) < s.MinItems, kind == "object" && len(n.Content)/2 < s.MinProperties,
		s.Items != nil && slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return !s.Items.takes(root, item) }):
		return false
	}
	var names []string
	for i := 0; kind == "object" && i < len(n.Content); i += 2 {
		if names = append(names, n.Content[i].Value); !s.takesMember(root, n.Content[i], n.Content[i+1]) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Required, func(name string) bool { return !slices.Contains(names, name) })
}

// takesMember judges a key of a map and its value.
func (s *jsonSchema) takesMember(root *jsonSchema, key, value *yaml.Node) bool {
	of := s.Properties[key.Value]
	for p, other := range s.PatternProperties {
		if of == nil && regexp.MustCompile(p).MatchString(key.Value) {
			of = other
		}
	}
	if of == nil && string(s.AdditionalProperties) == "false" || s.PropertyNames != nil && !s.PropertyNames.takes(root, key) {
		return false
	}
	if of == nil && s.AdditionalProperties != nil {
		_ = json.Unmarshal(s.AdditionalProperties, &of) // it is a schema
	}
	return of == nil || of.takes(root, value)
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
	var schema jsonSchema
	testcheck.NoError(t, json.Unmarshal(text, &schema))
	judge := func(text string) bool {
		var doc yaml.Node
		testcheck.NoError(t, yaml.Unmarshal([]byte(text), &doc))
		return schema.takes(&schema, doc.Content[0])
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
		if !judge(text) {
			t.Errorf("%s\nthe schema refuses it", text)
		}
	}
	for _, text := range refused {
		if _, err := readText(t, text); err == nil {
			t.Errorf("%s\nthe reader takes it", text)
		}
		if judge(text) {
			t.Errorf("%s\nthe schema takes it", text)
		}
	}
}
