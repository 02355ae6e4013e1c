package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/testcheck"
)

// TestDocs_CommandPagesAreCurrent compares docs/cli with what the commands say
// of themselves.
func TestDocs_CommandPagesAreCurrent(t *testing.T) {
	const dir = "../../docs/cli"
	made := t.TempDir()
	if *testcheck.Update {
		made = dir
	}
	root := (&env{}).root()
	root.DisableAutoGenTag = true
	writePages(t, root, made)
	pages, err := filepath.Glob(filepath.Join(made, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages were made: %v", err)
	}
	for _, page := range pages {
		want, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, filepath.Base(page))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/cli/%s is not what the command says (%v): go test ./internal/cli -run Docs -update", filepath.Base(page), err)
		}
	}
}

// writePages writes a page for a command and each below it, with the flags by group.
func writePages(t *testing.T, c *cobra.Command, dir string) {
	t.Helper()
	var b bytes.Buffer
	if err := doc.GenMarkdown(c, &b); err != nil {
		t.Fatal(err)
	}
	flags := c.NonInheritedFlags()
	page := strings.Replace(b.String(), flags.FlagUsages(), strings.TrimPrefix(flagUsages(flags, 0), "Flags:\n"), 1)
	if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "_")+".md"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			writePages(t, sub, dir)
		}
	}
}

// Each manual page has the sections that belong to its command, in the usual order.
func TestMan_Sections(t *testing.T) {
	dir := t.TempDir()
	if err := writeManual((&env{}).root(), dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"weir":         "NAME SYNOPSIS DESCRIPTION OPTIONS COMMANDS EXIT-STATUS SEE-ALSO",
		"weir-config":  "NAME SYNOPSIS DESCRIPTION OPTIONS OPTIONS-INHERITED-FROM-PARENT-COMMANDS COMMANDS SEE-ALSO",
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
		if name == "weir" && !strings.Contains(string(text), ".TP\n\\fBweir sync\\fP\nApply a feed to a table\n") {
			t.Errorf("weir has no entry of weir sync:\n%s", text)
		}
		if strings.Contains(string(text), "\nExit codes: ") {
			t.Errorf("%s has the exit codes in its description", name)
		}
	}
}

// The help of each flag says what its value is, and not how a program holds it.
func TestHelp_NamesTheValuesOfFlags(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(fl *pflag.Flag) {
			switch name, _ := pflag.UnquoteUsage(fl); name {
			case "string", "strings", "stringArray", "int", "ints", "float", "value":
				t.Errorf("%s --%s: the help calls its value %q", c.CommandPath(), fl.Name, name)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&env{}).root())
}
