package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/fold"
)

// taken are some settings, and what they were set to.
type taken struct {
	t        testing.TB
	path     string
	settings []*Setting
	values   map[string][]string
}

func newTaken(t testing.TB) *taken {
	k := &taken{t: t, path: filepath.Join(t.TempDir(), "weir.yml"), values: map[string][]string{}}
	for _, name := range []string{"to", "null", "batch-rows", "prefetch", "key", "source"} {
		s := &Setting{Name: name, Value: func() string { return strings.Join(k.values[name], "+") }, Set: func(v string) error { k.values[name] = []string{v}; return nil }}
		if name == "key" || name == "source" {
			s.SetList = func(v []string) error { k.values[name] = append([]string{"list"}, v...); return nil }
		}
		k.settings = append(k.settings, s)
	}
	return k
}

// resolve takes the text as a config file.
func (k *taken) resolve(text string, environ ...string) error {
	if err := os.WriteFile(k.path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	clear(k.values)
	for _, s := range k.settings {
		s.Origin = ""
	}
	_, err := Resolve(k.settings, environ, k.path, databases, func() fold.Options { return fold.Options{Key: []string{"id"}} })
	return err
}

// Whatever a config file holds, it is taken or refused, and what it sets is in it.
func FuzzResolve(f *testing.F) {
	f.Add("batch_rows: 1000\nto: flights.db\n")
	f.Add("a: &x [*x]\n")
	f.Add("key: [carrier, flight]\nsource: {a: 1}\n")
	f.Add("? !!binary x\n: 1e999\n")
	f.Add("null: keep\n~: 1\nto: ~\nkey: [~]\n")
	f.Add("--- \nto: a\n...\n---\nto: b\n")
	f.Add("<<: {to: a}\nto: !!int \"7\"\n")
	k := newTaken(f)
	f.Fuzz(func(t *testing.T, text string) {
		if err := k.resolve(text); err != nil || !utf8.ValidString(text) || strings.ContainsAny(text, "\\'\"|>&\n\r\t\u0085\u2028\u2029") {
			return // scalars may be spelled otherwise than they are meant
		}
		for name, values := range k.values {
			for _, v := range values {
				if v != "list" && !strings.Contains(text, v) {
					t.Errorf("%s is %q after %q", name, v, text)
				}
			}
		}
	})
}

// A string in quotes is taken as it is, alone and in a list.
func FuzzResolve_Quoted(f *testing.F) {
	for _, s := range []string{"null", "~", "a,b.jsonl", "off", "007", "1e3", "", " x ", "#", "a: b", "ü\u2028"} {
		f.Add(s)
	}
	k := newTaken(f)
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return
		}
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.resolve("to: " + string(quoted) + "\nsource: [" + string(quoted) + ", x]\n"); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(k.values["to"], []string{s}) || !slices.Equal(k.values["source"], []string{"list", s, "x"}) {
			t.Errorf("%s was read as %q", quoted, k.values)
		}
	})
}
