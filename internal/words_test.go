package internal_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// replaced has phrases that code and docs no longer use, and what to write. CONTRIBUTING.md says how we write.
var replaced = map[string]string{
	"go on":         "continue",
	"goes on":       "continues",
	"anew":          "again",
	"told by":       "recognized by",
	"went back":     "was restored to an earlier state",
	"of account":    "important",
	"of no account": "ignored",
	"such a one":    "what it is",
	"what has none": "what lacks it",
	"so that":       "so, to",
	"in place of":   "instead of",
	"at hand":       "read, known, present",
	"good until":    "valid until",
	"passes over":   "skips",
	"passed over":   "skipped",
	"tells that":    "shows",
	"where it can":  "if it can",

	"becomes of it":  "happens to it",
	"comes of it":    "results",
	"takes back":     "undoes",
	"is void":        "is invalid",
	"of equal names": "if a name occurs several times",
	"calls back":     "calls each",
	"comes to know":  "learns",
	"has gone by":    "has passed",
	"may be had":     "is available",
	"looks whether":  "checks whether",
}

// TestWords finds these phrases in code, comments, messages and docs.
func TestWords(t *testing.T) {
	phrases := slices.Collect(maps.Keys(replaced))
	phrase := regexp.MustCompile(`(?i)\b(` + strings.Join(phrases, "|") + `)\b`)
	read := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() != ".." && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if !slices.Contains([]string{".go", ".md", ".yml", ".yaml", ".html"}, filepath.Ext(path)) || d.Name() == "words_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		read++
		for n, line := range strings.Split(string(text), "\n") {
			for _, found := range phrase.FindAllString(line, -1) {
				t.Errorf("%s:%d: %q: write %q", path, n+1, found, replaced[strings.ToLower(found)])
			}
		}
		return nil
	})
	if err != nil || read < 500 {
		t.Errorf("did not exercise: %d files read, %v", read, err)
	}
}
