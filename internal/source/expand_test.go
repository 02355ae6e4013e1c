package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/source"
)

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"b.jsonl", "a.jsonl", "[x].gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("sub.jsonl", 0o700); err != nil {
		t.Fatal(err)
	}
	f := func(args []string, want ...string) {
		t.Helper()
		got, err := source.Expand(args, false)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", args, got, err, want)
		}
	}
	f(nil, "-")
	f([]string{"-", "/dev/stdin", "a.jsonl"}, "-", "a.jsonl")
	f([]string{"tcp://localhost:80", "b.jsonl", "*.jsonl", "./a.jsonl", filepath.Join(dir, "b.jsonl")},
		"tcp://localhost:80", "b.jsonl", "a.jsonl")
	f([]string{"[x].gz"}, "[x].gz")

	// What is to be followed may come later, a glob's matches not.
	if got, err := source.Expand([]string{"later/x.jsonl"}, true); err != nil || !slices.Equal(got, []string{"later/x.jsonl"}) {
		t.Errorf("followed: %q, %v", got, err)
	}
	_, err := source.Expand([]string{"later*"}, true)
	if err == nil || !strings.Contains(err.Error(), "no file matches") {
		t.Errorf("%v, want %q", err, "no file matches")
	}

	fail := func(arg string, code int, part string) {
		t.Helper()
		_, err := source.Expand([]string{arg}, false)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
		var notFound *source.NotFoundError
		if errors.As(err, &notFound) != (code == 2) || notFound != nil && notFound.ExitCode() != code {
			t.Errorf("%s: %v (%T)", arg, err, err)
		}
	}
	fail("none.jsonl", 2, "none.jsonl: no such file")
	fail("*.csv", 2, "*.csv: no file matches")
	fail("sub*", 2, "no file matches")
	fail("sub.jsonl", 1, "is a directory")
	fail("tcp://nowhere", 1, "tcp://host:port")
	fail("http://x/y", 1, "unknown kind of source")
	fail("[", 1, "syntax error in pattern")
}
