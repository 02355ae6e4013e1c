package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/testcheck"
)

// words is a form for people.
func words(f form) string {
	if name, ok := f["$ref"].(string); ok {
		return map[string]string{"when": "WHEN", "source": "SOURCE", "values": "value or list", "expire": "map, see below", "statements": "list of text, or map", "test": "map", "envelope": "name, or map, see [envelopes](envelopes.md)"}[strings.TrimPrefix(name, "#/$defs/")]
	}
	if forms, ok := f["anyOf"].([]form); ok {
		all := make([]string, len(forms))
		for i, one := range forms {
			all[i] = words(one)
		}
		return strings.Join(all, ", or ")
	}
	switch {
	case f["enum"] != nil:
		return "`" + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(f["enum"]), "[]")), "`, `") + "`"
	case f["pattern"] != nil:
		return "type"
	case f["type"] == "integer":
		return "whole number"
	case f["type"] == "boolean":
		return "`true`, `false`"
	case f["type"] == "array":
		return "list of " + words(f["items"].(form))
	case f["type"] == "object":
		return "map"
	case f["type"] != nil:
		return "text"
	}
	return "value"
}

// reference is a table of the keys of a map.
func reference[T any](keys []key[T]) string {
	var b strings.Builder
	b.WriteString("| key | what | form | default |\n|---|---|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, k.about, words(k.form), k.def)
	}
	return b.String()
}

// TestDocs_ReferenceIsCurrent compares the tables of the pages with the keys that the reader knows.
func TestDocs_ReferenceIsCurrent(t *testing.T) {
	current(t, "../../docs/mapping.md", map[string]string{"top": reference(mappingKeys), "table": reference(tableKeys), "source": reference(sourceKeys), "test": reference(testKeys),
		"expire": reference(expireKeys), "case": reference(caseKeys)})
	current(t, "../../docs/envelopes.md", map[string]string{"envelope": reference(envelopeKeys)})
}

// current compares the tables of a page with what they are to be.
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
			t.Errorf("%s: the keys of %q are not those of the reader: go test ./internal/config -run Docs -update", page, name)
		}
	}
	if *testcheck.Update {
		testcheck.NoError(t, os.WriteFile(page, []byte(got), 0o644))
	}
}
