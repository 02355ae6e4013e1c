package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestDocs_CommandPagesAreCurrent compares docs/cli with the help of the commands.
func TestDocs_CommandPagesAreCurrent(t *testing.T) {
	const dir = "../../docs/cli"
	made := t.TempDir()
	if *testcheck.Update {
		made = dir
	}
	root := newEnv().root()
	root.DisableAutoGenTag = true
	writePages(t, root, made)
	pages, err := filepath.Glob(filepath.Join(made, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages were made: %v", err)
	}
	for _, page := range pages {
		want, err := os.ReadFile(page)
		testcheck.NoError(t, err)
		if got, err := os.ReadFile(filepath.Join(dir, filepath.Base(page))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/cli/%s is not what the command says (%v): go test ./internal/cli -run Docs -update", filepath.Base(page), err)
		}
	}
}

// writePages writes the pages of a command and its subcommands, with the flags by group.
func writePages(t *testing.T, c *cobra.Command, dir string) {
	t.Helper()
	var b bytes.Buffer
	testcheck.NoError(t, doc.GenMarkdown(c, &b))
	flags := c.NonInheritedFlags()
	page := strings.Replace(b.String(), flags.FlagUsages(), strings.TrimPrefix(flagUsages(flags, 0), "Flags:\n"), 1)
	testcheck.NoError(t, os.WriteFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "_")+".md"), []byte(page), 0o644))
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			writePages(t, sub, dir)
		}
	}
}
