package testcheck

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Update tells that tests write the files that they compare with.
var Update = flag.Bool("update", false, "write goldens, and the generated parts of docs")

// Golden reads a txtar archive of cases. It demands that each be what again makes of it: cases hold their results.
func Golden(t *testing.T, path string, again func(t *testing.T, name, text string) string) {
	t.Helper()
	a, err := txtar.ParseFile(path)
	NoError(t, err)
	for i := range a.Files {
		f := &a.Files[i]
		t.Run(f.Name, func(t *testing.T) {
			want := string(f.Data)
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
