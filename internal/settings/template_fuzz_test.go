package settings

import (
	"bytes"
	"github.com/weirsync/weir/internal/test/testcheck"
	"os"
	"path/filepath"
	"testing"
)

// Any --init is either rejected before weir connects, or makes one line, the same for each connection.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{`from {{.resume}}`, `{{env "HOME"}}`, `{{if .resume}}a{{else}}b{{end}}`, `{{.nonesuch}}`, `{{range 5}}x{{end}}`, `{{printf "%*d" 9 1}}`, `{{`, ``} {
		f.Add(seed, "17")
	}
	f.Fuzz(func(t *testing.T, text, resume string) {
		if len(text) > 0 && text[0] == '@' || bytes.Contains([]byte(text), []byte("file")) || len(text) > 200 {
			return // this would read files of the machine
		}
		e := &Env{Lookup: func(string) (string, bool) { return "value", true }}
		render, err := e.template(text)
		if err != nil {
			return
		}
		line, err := render(resume)
		if err != nil {
			return
		}
		again, _ := render(resume)
		if !bytes.HasSuffix(line, []byte("\n")) || !bytes.Equal(line, again) {
			t.Errorf("%q, then %q", line, again)
		}
	})
}

// TestTemplate_FilesAreReadAgain: a feed's secrets may be replaced during a run.
func TestTemplate_FilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("init", `login {{file "`+filepath.ToSlash(dir)+`/key"}}`)
	write("key", "one\n")
	render, err := (&Env{}).template("@" + filepath.Join(dir, "init"))
	testcheck.NoError(t, err)
	want := func(want string) {
		t.Helper()
		if got, err := render(""); string(got) != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	want("login one\n")
	write("key", "two\n")
	want("login two\n")
	write("init", "hello")
	want("hello\n")
}
