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
