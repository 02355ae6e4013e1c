package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link    = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// The code that docs/drivers.md shows is that of the files that it names.
func TestDocs_DriversShowsTheCode(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n// (\\S+)\n(.*?)```").FindAllStringSubmatch(read(t, "../../docs/drivers.md"), -1)
	if len(blocks) == 0 {
		t.Error("did not exercise: the page shows no code")
	}
	for _, b := range blocks {
		if file, code := b[1], b[2]; !strings.Contains(read(t, "../../"+file), code) {
			t.Errorf("%s does not have\n%s", file, code)
		}
	}
}

// Every link of a page leads to a page, and to a heading of it where it names one; the
// index has all pages.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	dev, err := filepath.Glob("../../docs/dev/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, dev...)
	index := read(t, "../../docs/README.md")
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md") {
		text := read(t, page)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor := page, m[2]
			if strings.Contains(m[1], "://") {
				continue
			}
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if anchor != "" && !hasHeading(read(t, target), anchor[1:]) {
				t.Errorf("%s: %s has no heading %s", page, target, anchor)
			}
		}
		if name, ok := strings.CutPrefix(page, "../../docs/"); ok && name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hasHeading reports whether a page has the heading that an anchor names.
func hasHeading(page, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		if strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(m[1], "")), " ", "-") == anchor {
			return true
		}
	}
	return false
}
