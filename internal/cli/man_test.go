package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each manual page has the sections that belong to its command, in the usual order.
func TestMan_Sections(t *testing.T) {
	dir := t.TempDir()
	if err := writeManual((&env{}).root(), dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"weir":         "NAME SYNOPSIS DESCRIPTION OPTIONS EXIT-STATUS SEE-ALSO",
		"weir-sync":    "NAME SYNOPSIS DESCRIPTION OPTIONS OPTIONS-INHERITED-FROM-PARENT-COMMANDS EXIT-STATUS ENVIRONMENT FILES EXAMPLES SEE-ALSO",
		"weir-forget":  "NAME SYNOPSIS DESCRIPTION OPTIONS OPTIONS-INHERITED-FROM-PARENT-COMMANDS EXIT-STATUS ENVIRONMENT FILES EXAMPLES SEE-ALSO",
		"weir-version": "NAME SYNOPSIS DESCRIPTION OPTIONS OPTIONS-INHERITED-FROM-PARENT-COMMANDS SEE-ALSO",
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 10 {
		t.Fatal(len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, m := range regexp.MustCompile(`(?m)^\.SH (.*)$`).FindAllStringSubmatch(string(text), -1) {
			have = append(have, strings.ReplaceAll(m[1], " ", "-"))
		}
		name := strings.TrimSuffix(filepath.Base(page), ".1")
		if sections := want[name]; sections != "" && strings.Join(have, " ") != sections {
			t.Errorf("%s has %s, want %s", name, have, sections)
		}
		if strings.Contains(string(text), "\nExit codes: ") {
			t.Errorf("%s has the exit codes in its description", name)
		}
	}
}
