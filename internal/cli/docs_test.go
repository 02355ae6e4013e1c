package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write the generated pages of docs/cli")

// TestDocs_CommandPagesAreCurrent compares docs/cli with what the commands say
// of themselves.
func TestDocs_CommandPagesAreCurrent(t *testing.T) {
	const dir = "../../docs/cli"
	made := t.TempDir()
	if *update {
		made = dir
	}
	root := (&world{}).root()
	root.DisableAutoGenTag = true
	if err := doc.GenMarkdownTree(root, made); err != nil {
		t.Fatal(err)
	}
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
