package spec

import (
	"bytes"
	"testing"
)

// Whatever --init says, it is refused before anything is connected to, or a connection
// begins with one line and the same each time.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{`from {{.resume}}`, `{{env "HOME"}}`, `{{if .resume}}a{{else}}b{{end}}`, `{{.nonesuch}}`, `{{range 5}}x{{end}}`, `{{printf "%*d" 9 1}}`, `{{`, ``} {
		f.Add(seed, "17")
	}
	f.Fuzz(func(t *testing.T, text, resume string) {
		if len(text) > 0 && text[0] == '@' || bytes.Contains([]byte(text), []byte("file")) || len(text) > 200 {
			return // that would read the machine's files
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
