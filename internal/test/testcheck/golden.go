package testcheck

import (
	"compress/gzip"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Update makes tests rewrite the files that they compare with.
var Update = flag.Bool("update", false, "write goldens, and the generated parts of docs")

// Golden reads a txtar archive of cases, and compares each with what again makes of it: cases contain their results.
func Golden(t *testing.T, path string, again func(t *testing.T, name, text string) string) {
	t.Helper()
	a, err := txtar.ParseFile(path)
	NoError(t, err)
	if len(a.Files) == 0 {
		t.Fatalf("%s has no cases", path)
	}
	for i := range a.Files {
		f := &a.Files[i]
		t.Run(f.Name, func(t *testing.T) {
			want := string(f.Data)
			if want == "" {
				t.Fatalf("%s, %s: the case is empty", path, f.Name)
			}
			got := again(t, f.Name, want)
			if f.Data = []byte(got); got != want && !*Update {
				t.Errorf("%s, %s: got\n%s\nwant\n%s", path, f.Name, got, want)
			}
		})
	}
	if *Update {
		NoError(t, os.WriteFile(path, txtar.Format(a), 0o644))
	}
}

// GoldenLines is [Golden] for cases that are lines: input, an arrow, and result.
func GoldenLines(t *testing.T, path string, becomes func(t *testing.T, name, given string) string) {
	t.Helper()
	Golden(t, path, func(t *testing.T, name, text string) (out string) {
		for line := range strings.Lines(text) {
			given, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " → ")
			out += given + " → " + becomes(t, name, given) + "\n"
		}
		return out
	})
}

// Same compares a text with a file.
func Same(t *testing.T, path, got string) {
	t.Helper()
	if *Update {
		NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	NoError(t, err)
	if got != string(want) {
		t.Errorf("%s differs; got\n%s", path, got)
	}
}

// Unzipped returns the text of a file.gz.
func Unzipped(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	NoError(t, err)
	text, err := io.ReadAll(z)
	NoError(t, err)
	return string(text)
}
