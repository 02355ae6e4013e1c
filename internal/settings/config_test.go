package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
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
		if _, err := k.resolve(text); err != nil || strings.Join(k.values["to"], "") != strings.TrimPrefix(text, "\ufeffto: ") {
			t.Errorf("%q: %v, %q", text, err, k.values)
		}
	}
}

// result describes what a file sets, or its faults.
func (k *taken) result(file string) (out string) {
	if _, err := k.resolve(file); err != nil {
		for fault := range strings.SplitSeq(err.Error(), "\n") {
			_, fault, _ = strings.Cut(fault, "weir.yaml:")
			out += "! " + fault + "\n"
		}
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(k.values)) {
		if v := k.values[name]; k.lists[name] {
			out += fmt.Sprintf("= %s is the list %q\n", name, v)
		} else {
			out += fmt.Sprintf("= %s is %q\n", name, v[0])
		}
	}
	return cmp.Or(out, "= nothing is set\n")
}

// taken records settings and their values.
type taken struct {
	t      testing.TB
	path   string
	values map[string][]string
	lists  map[string]bool // settings whose value was a list
}

// keys are the keys of known settings.
var keys = []string{"to", "null", "batch_rows", "synchronous", "key", "source", "version_field", "delete_when", "feed", "feed_events", "table", "fill_only"}

func newTaken(t testing.TB) *taken {
	return &taken{t: t, path: filepath.Join(t.TempDir(), "weir.yaml"), values: map[string][]string{}, lists: map[string]bool{}}
}

// resolve reads a config file.
func (k *taken) resolve(text string) (File, error) {
	testcheck.NoError(k.t, os.WriteFile(k.path, []byte(text), 0o600))
	clear(k.values)
	clear(k.lists)
	var refused []error
	f, err := Read(k.path, keys, databases, func(entries []Entry) mapping.Table {
		for _, e := range entries {
			if e.When {
				continue
			}
			texts, isList, err := e.Texts()
			if isList && err == nil && e.Name != "key" && e.Name != "source" {
				err = errors.New("must be a single value, not a list")
			}
			if k.values[e.Name], k.lists[e.Name] = texts, isList; err != nil {
				refused = append(refused, &Fault{k.path, e.Pos, e.Name, err.Error()})
			}
		}
		o, value := top(), func(name string) string { return strings.Join(k.values[name], ",") }
		if v := value("key"); v != "" {
			o.Key = strings.Split(v, ",")
		}
		o.Null, o.FillOnly = fold.Null(cmp.Or(value("null"), string(o.Null))), value("fill_only") == "true"
		o.Version, _ = paths.ParsePath(value("version_field"))
		o.DeleteWhen, _ = paths.ParseWhen(value("delete_when"))
		return o
	})
	return f, errors.Join(append(refused, err)...)
}

// top returns what tables inherit by default.
func top() mapping.Table {
	return mapping.Table{Key: []string{"id"}, Rules: fold.Rules{Null: fold.ClearNull, BadValues: fold.RejectBad, Scope: fold.ColumnScope, MaxColumns: 500}}
}

// databases are the kinds that a file may name.
var databases = []string{"sqlite", "postgres"}

// readText reads a file. Only a few settings are known.
func readText(t testing.TB, text string) (File, error) {
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
		if _, err := k.resolve(text); err != nil || !utf8.ValidString(text) || strings.ContainsAny(text, "\\'\"|>&\n\r\t\u0085\u2028\u2029") {
			return // scalars may be spelled in other ways
		}
		for name, values := range k.values {
			for _, v := range values {
				if !strings.Contains(text, v) {
					t.Errorf("%s is %q after %q", name, v, text)
				}
			}
		}
	})
}

// A quoted string keeps its text, alone and in a list.
func FuzzResolve_Quoted(f *testing.F) {
	for _, s := range []string{"null", "~", "a,b.jsonl", "off", "007", "1e3", "", " x ", "#", "a: b", "ü\u2028"} {
		f.Add(s)
	}
	k := newTaken(f)
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
			return
		}
		k.t = t
		quoted, err := json.Marshal(s)
		testcheck.NoError(t, err)
		_, err = k.resolve("to: " + string(quoted) + "\nsource: [" + string(quoted) + ", x]\n")
		testcheck.NoError(t, err)
		if !slices.Equal(k.values["to"], []string{s}) || !slices.Equal(k.values["source"], []string{s, "x"}) {
			t.Errorf("%s was read as %q", quoted, k.values)
		}
	})
}
