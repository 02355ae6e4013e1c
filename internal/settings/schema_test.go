package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// A jsonSchema is a JSON Schema with the keywords that ours uses.
type jsonSchema struct {
	Ref                            string                 `json:"$ref"`
	Defs                           map[string]*jsonSchema `json:"$defs"`
	AnyOf                          []*jsonSchema
	Type                           any // a string, or several
	Enum                           []string
	Pattern                        string
	Minimum, Maximum               *float64
	ExclusiveMinimum               *float64
	MinLength                      int
	MinItems, MinProperties        int
	UniqueItems                    bool
	Items, Contains, PropertyNames *jsonSchema
	Properties                     map[string]*jsonSchema
	Required                       []string
	AdditionalProperties           json.RawMessage // false, or a schema
}

// takes reports whether the schema accepts a node.
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
		s.Enum != nil && (kind != "string" || !slices.Contains(s.Enum, n.Value)),
		kind == "string" && (len(n.Value) < s.MinLength || !regexp.MustCompile(s.Pattern).MatchString(n.Value)),
		kind == "number" && err == nil && (s.Minimum != nil && number < *s.Minimum || s.Maximum != nil && number > *s.Maximum || s.ExclusiveMinimum != nil && number <= *s.ExclusiveMinimum),
		kind == "array" && (len(n.Content) < s.MinItems || s.UniqueItems && hasEqual(n.Content)),
		kind == "object" && len(n.Content)/2 < s.MinProperties,
		s.Contains != nil && !slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return s.Contains.takes(root, item) }),
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

// hasEqual reports whether two scalars of a list are equal.
func hasEqual(items []*yaml.Node) bool {
	return slices.ContainsFunc(items, func(a *yaml.Node) bool {
		return slices.ContainsFunc(items, func(b *yaml.Node) bool {
			x, errX := strconv.ParseFloat(a.Value, 64)
			y, errY := strconv.ParseFloat(b.Value, 64)
			numbers := a.ShortTag() != "!!str" && b.ShortTag() != "!!str" && errX == nil && errY == nil
			return a != b && a.Kind == yaml.ScalarNode && (a.ShortTag() == b.ShortTag() && (isNull(a) || a.Value == b.Value) || numbers && x == y)
		})
	})
}

// takesMember reports whether the schema accepts a key of a map and its value.
func (s *jsonSchema) takesMember(root *jsonSchema, key, value *yaml.Node) bool {
	of := s.Properties[key.Value]
	if of == nil && string(s.AdditionalProperties) == "false" || s.PropertyNames != nil && !s.PropertyNames.takes(root, key) {
		return false
	}
	if of == nil && s.AdditionalProperties != nil {
		_ = json.Unmarshal(s.AdditionalProperties, &of) // it is a schema
	}
	return of == nil || of.takes(root, value)
}

// schemaJudge returns a function that reports whether a schema accepts the text of a file.
func schemaJudge(t *testing.T, text []byte) func(file string) bool {
	t.Helper()
	var schema jsonSchema
	testcheck.NoError(t, json.Unmarshal(text, &schema))
	return func(file string) bool {
		var doc yaml.Node
		testcheck.NoError(t, yaml.Unmarshal([]byte(file), &doc))
		return schema.takes(&schema, doc.Content[0])
	}
}

// mapTypes are the maps of a file whose keys are known, by name in the docs.
var mapTypes = map[string]reflect.Type{"top": reflect.TypeFor[mappingDraft](), "table": reflect.TypeFor[mapping.Table](), "source": reflect.TypeFor[sourceMap](), "test": reflect.TypeFor[testMap](),
	"case": reflect.TypeFor[Case](), "envelope": reflect.TypeFor[envelope.Envelope]()}

// The schema accepts what the reader accepts, and rejects values that the reader rejects regardless of other keys.
func TestSchema_IsTheReaders(t *testing.T) {
	env := around()
	env.Drivers = append(env.Drivers, sink.Driver{Name: "Postgres"})
	text, err := New(env).Schema()
	testcheck.NoError(t, err)
	judge := schemaJudge(t, text)
	by := func(text string) string {
		_, err := readText(t, text)
		return map[[2]bool]string{{true, true}: "taken by both", {true, false}: "taken by the reader alone", {false, true}: "taken by the schema alone", {}: "refused by both"}[[2]bool{err == nil, judge(text)}]
	}
	for _, name := range []string{"firehose/firestarter", "orders/orders"} {
		text, err := os.ReadFile("../../examples/" + name + ".yaml")
		testcheck.NoError(t, err)
		if got := by(string(text)); got != "taken by both" {
			t.Errorf("%s is %s", name, got)
		}
	}
	testcheck.GoldenLines(t, "testdata/schema.txtar", func(t *testing.T, kind, text string) string {
		if kind == "tables" {
			text = "tables: {a: " + text + "}"
		}
		return by(strings.ReplaceAll(text, `\n`, "\n"))
	})
}

// TestDocs_ReferenceIsCurrent compares the reference tables in the docs with the reader's keys.
func TestDocs_ReferenceIsCurrent(t *testing.T) {
	pages := map[string]map[string]string{"../../docs/mapping.md": {}, "../../docs/envelopes.md": {}}
	for name, of := range mapTypes {
		var b strings.Builder
		b.WriteString("| key | what |\n|---|---|\n")
		for _, f := range fieldsOf(of) {
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.name, f.description())
		}
		page := "../../docs/mapping.md"
		if name == "envelope" {
			page = "../../docs/envelopes.md"
		}
		pages[page][name] = b.String()
	}
	for page, tables := range pages {
		current(t, page, tables)
	}
}

// TestDocs_ChangedSettings: the docs name the rules that a checkpoint stores, and those that need an empty table.
func TestDocs_ChangedSettings(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating.md")
	testcheck.NoError(t, err)
	_, page, _ := strings.Cut(string(text), "## Changed settings")
	stored, page, _ := strings.Cut(page, "equivalents in a config file")
	_, page, _ = strings.Cut(page, "would stay (another")
	rebuild, _, _ := strings.Cut(page, ")")
	for _, one := range New(around()).Settings() {
		for list, want := range map[string]bool{
			stored:  one.group == "Fold" && one.Name != "tombstones" || slices.Contains([]string{"max-line", "record-fields", "tombstones-by-key"}, one.Name),
			rebuild: one.group == "Fold" && mapping.RebuildOnly(one.name),
		} {
			if strings.Contains(list, "`--"+one.Name+"`") != want {
				t.Errorf("%s: %t is right in %s", one.Name, want, list)
			}
		}
	}
}

// current compares the tables of a page with the expected ones.
func current(t *testing.T, page string, tables map[string]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	testcheck.NoError(t, err)
	got := string(text)
	for name, want := range tables {
		begin, end := "<!-- keys: "+name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(got, begin)
		old, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no %s", page, begin)
		}
		if got = before + begin + want + end + after; old != want && !*testcheck.Update {
			t.Errorf("%s: the keys of %q differ from the reader's: go test ./internal/settings -run Docs -update", page, name)
		}
	}
	if *testcheck.Update {
		testcheck.NoError(t, os.WriteFile(page, []byte(got), 0o644))
	}
}
