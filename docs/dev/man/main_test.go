package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/cli"
)

// TestManual_Sections: each page has the sections of its command, in the usual order.
func TestManual_Sections(t *testing.T) {
	dir := t.TempDir()
	if err := writeManual(cli.Commands(), dir, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`(?m)^\.SH .*$`)
	for page, want := range map[string]string{
		"weir":         "NAME SYNOPSIS DESCRIPTION OPTIONS COMMANDS EXIT STATUS SEE ALSO",
		"weir-config":  "NAME SYNOPSIS DESCRIPTION OPTIONS OPTIONS INHERITED FROM PARENT COMMANDS COMMANDS SEE ALSO",
		"weir-sync":    "NAME SYNOPSIS DESCRIPTION OPTIONS OPTIONS INHERITED FROM PARENT COMMANDS EXIT STATUS ENVIRONMENT FILES EXAMPLES SEE ALSO",
		"weir-forget":  "NAME SYNOPSIS DESCRIPTION OPTIONS OPTIONS INHERITED FROM PARENT COMMANDS EXIT STATUS ENVIRONMENT FILES EXAMPLES SEE ALSO",
		"weir-version": "NAME SYNOPSIS DESCRIPTION OPTIONS OPTIONS INHERITED FROM PARENT COMMANDS SEE ALSO",
	} {
		text, err := os.ReadFile(filepath.Join(dir, page+".1"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range title.FindAllString(string(text), -1) {
			got = append(got, strings.TrimPrefix(s, ".SH "))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s has the sections %s, want %s", page, s, want)
		}
		if strings.Contains(string(text), "\nExit codes: ") || !strings.Contains(string(text), `"weir 1.2.3"`) {
			t.Errorf("%s has a paragraph of exit codes, or lacks the version", page)
		}
	}
	if pages, err := filepath.Glob(filepath.Join(dir, "*.1")); err != nil || slices.Contains(pages, filepath.Join(dir, "weir-completion.1")) || len(pages) < 10 {
		t.Errorf("the pages are %v, %v", pages, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "weir.1"))
	if err != nil || !strings.Contains(string(text), "\n.TP\n\\fBweir sync\\fP\nApply a feed to a table\n") {
		t.Errorf("weir.1 does not list weir sync: %v", err)
	}
}
