package settings

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestResolve reads the files in testdata/files.txtar.
func TestResolve(t *testing.T) {
	testcheck.Golden(t, "testdata/files.txtar", func(t *testing.T, _, text string) (out string) {
		k := newTaken(t)
		for _, file := range strings.Split(strings.TrimSpace(text), "\n\n") {
			file, _, _ = strings.Cut(file, "\n= ")
			file, _, _ = strings.Cut(file, "\n! ")
			out += file + "\n" + k.result(file) + "\n"
		}
		return strings.TrimSuffix(out, "\n")
	})
	k := newTaken(t)
	for _, text := range []string{"", "\ufeffto: t.db"} {
		if s, err := k.resolve(text); err != nil || s.Table.To != strings.TrimPrefix(text, "\ufeffto: ") {
			t.Errorf("%q: %v, %q", text, err, s.Table.To)
		}
	}
}

// result describes what a file sets, or its faults.
func (k *taken) result(file string) (out string) {
	s, err := k.resolve(file)
	if err == nil && s.Mapping != nil {
		err = s.Validate()
	}
	if err != nil {
		for fault := range strings.SplitSeq(err.Error(), "\n") {
			_, fault, _ = strings.Cut(fault, "weir.yaml:")
			out += "! " + fault + "\n"
		}
		return out
	}
	for _, one := range s.settings {
		if one.from == byFile {
			out += fmt.Sprintf("= %s is %s\n", one.name, strconv.Quote(one.String()))
		}
	}
	return cmp.Or(out, "= nothing is set\n")
}

// taken reads config files.
type taken struct {
	t     testing.TB
	path  string
	flags []*Setting // of the command line
}

func newTaken(t testing.TB) *taken {
	return &taken{t: t, path: filepath.Join(t.TempDir(), "weir.yaml")}
}

// resolve reads a config file.
func (k *taken) resolve(text string) (*Spec, error) {
	testcheck.NoError(k.t, os.WriteFile(k.path, []byte(text), 0o600))
	env := around()
	env.Drivers, env.FileOnly = append(env.Drivers, sink.Driver{Name: "Postgres"}), true
	s := New(env)
	s.File = k.path
	for _, one := range k.flags {
		_ = s.Setting(one.Name).Set(one.text(one.v)) // Load returns the error
	}
	_, err := s.Load()
	return s, err
}

// readText reads a file.
func readText(t testing.TB, text string) (*Spec, error) {
	t.Helper()
	return newTaken(t).resolve(text)
}

// Any config file is accepted or rejected, and what it sets is part of it.
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
		k.t = t
		s, err := k.resolve(text)
		if err != nil || !utf8.ValidString(text) || strings.ContainsAny(text, "\\'\"|>&\n\r\t\u0085\u2028\u2029") {
			return // scalars may be spelled in other ways
		}
		for _, one := range s.settings {
			if one.from == byFile && one.v.Kind() == reflect.String && !strings.Contains(text, one.String()) {
				t.Errorf("%s is %q after %q", one.name, one, text)
			}
		}
	})
}
