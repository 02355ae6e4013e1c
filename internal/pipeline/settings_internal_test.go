package pipeline

import (
	"slices"
	"testing"
)

// TestChanges_Envelope: a preset with another meaning is a changed setting, even under the same name.
func TestChanges_Envelope(t *testing.T) {
	f := func(was, is, want string) {
		t.Helper()
		words, rebuild, _ := changes(&settings{Keys: map[string]string{"envelope": was}}, &settings{Keys: map[string]string{"envelope": is}}, true)
		if !slices.Equal(words, []string{want}) || !rebuild {
			t.Errorf("%q: %v", words, rebuild)
		}
	}
	f("debezium sha256:1", "debezium sha256:2", "--envelope has changed")
	f("debezium sha256:1", "maxwell sha256:2", `--envelope was "debezium" and is "maxwell"`)
	f("", "maxwell sha256:2", `--envelope was not set and is "maxwell"`)
}

// TestChanges_Zero: a zero that a user can write is not told as a setting that is missing.
func TestChanges_Zero(t *testing.T) {
	of := func(keys map[string]string) *settings { return &settings{Tables: []tableSettings{{"t", keys}}} }
	words, _, _ := changes(of(map[string]string{"fill_only": "true", "max_columns": "500", "null": "keep"}), of(nil), false)
	if want := []string{`tables.t.fill_only was "true" and is not set`, `tables.t.max_columns was "500" and is "0"`, `tables.t.null was "keep" and is not set`}; !slices.Equal(words, want) {
		t.Errorf("%q", words)
	}
}
