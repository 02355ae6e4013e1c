package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/testcheck"
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

// result is what a file sets, or what is wrong with it.
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

func TestResolve_RefusesVariablesThatAreNoSettings(t *testing.T) {
	k := newTaken(t)
	f := func(variable, want string) {
		t.Helper()
		_, err := k.resolve("", "HOME=/", variable)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", variable, err, want)
		}
	}
	f("WEIR_TO=x", "")
	f("WEIR_SYNCHRONOUS=off", "")
	f("WEIR_BATCH_ROW=7", `unknown setting "WEIR_BATCH_ROW"; did you mean "WEIR_BATCH_ROWS"?`)
	f("WEIR_BACTH_ROWS=7", `did you mean "WEIR_BATCH_ROWS"?`)
	f("WEIR_SYNCRHONOUS=7", `did you mean "WEIR_SYNCHRONOUS"?`)
	f("WEIR_batch_rows=7", `unknown setting "WEIR_batch_rows"`)
	f("WEIR_PASSWORD=secret", `unknown setting "WEIR_PASSWORD"`)
	// A cluster's, for a service weir or weir-metrics.
	for _, v := range []string{"WEIR_SERVICE_HOST=10.0.0.1", "WEIR_SERVICE_PORT=80", "WEIR_SERVICE_PORT_HTTP=80", "WEIR_PORT=tcp://10.0.0.1:80", "WEIR_PORT_80_TCP=tcp://10.0.0.1:80",
		"WEIR_PORT_80_TCP_ADDR=10.0.0.1", "WEIR_METRICS_PORT_9461_TCP_PROTO=tcp"} {
		f(v, "")
	}
	if _, err := k.resolve("", "WEIR_PASSWORD=secret"); strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// taken are some settings, and what they were set to.
type taken struct {
	t        testing.TB
	path     string
	settings []*Setting
	values   map[string][]string
	lists    map[string]bool // settings that were set to a list
}

func newTaken(t testing.TB) *taken {
	k := &taken{t: t, path: filepath.Join(t.TempDir(), "weir.yaml"), values: map[string][]string{}, lists: map[string]bool{}}
	for _, name := range []string{"to", "null", "batch-rows", "synchronous", "key", "source", "version-field", "delete-when", "feed", "feed-events", "table", "fill-only"} {
		s := &Setting{Name: name, Value: func() string { return strings.Join(k.values[name], ",") }, Set: func(v string) error { k.values[name] = []string{v}; return nil }}
		if name == "key" || name == "source" {
			s.SetList = func(v []string) error { k.values[name], k.lists[name] = v, true; return nil }
		}
		k.settings = append(k.settings, s)
	}
	return k
}

// resolve takes the text as a config file.
func (k *taken) resolve(text string, environ ...string) (File, error) {
	testcheck.NoError(k.t, os.WriteFile(k.path, []byte(text), 0o600))
	clear(k.values)
	clear(k.lists)
	for _, s := range k.settings {
		s.Origin = ""
	}
	return Resolve(k.settings, environ, k.path, databases, func() fold.Options {
		o, value := top(), func(name string) string { return strings.Join(k.values[name], ",") }
		if v := value("key"); v != "" {
			o.Key = strings.Split(v, ",")
		}
		o.Null, o.Version, o.FillOnly = fold.Null(cmp.Or(value("null"), string(o.Null))), value("version-field"), value("fill-only") == "true"
		o.DeleteField, o.DeleteValue, _ = strings.Cut(value("delete-when"), "=")
		return o
	})
}

// top are the rules of a fold that no setting has changed.
func top() fold.Options {
	return fold.Options{Key: []string{"id"}, Null: fold.ClearNull, Scope: fold.ColumnScope, MaxColumns: 500}
}

// databases are those that a file may name.
var databases = []string{"sqlite", "postgres"}

// readText reads a file with that text, whose settings are few.
func readText(t testing.TB, text string) (File, error) {
	t.Helper()
	return newTaken(t).resolve(text)
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
		k.t = t
		if _, err := k.resolve(text); err != nil || !utf8.ValidString(text) || strings.ContainsAny(text, "\\'\"|>&\n\r\t\u0085\u2028\u2029") {
			return // scalars may be spelled otherwise than they are meant
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

func TestOverlay_MakesOneTable(t *testing.T) {
	f := func(n Narrowing, o fold.Options, want string) {
		t.Helper()
		m, err := n.Overlay(nil, "gates", o)
		testcheck.NoError(t, err)
		if m == nil {
			if want != "" {
				t.Errorf("%+v makes nothing", n)
			}
			return
		}
		text, err := Print(m)
		testcheck.NoError(t, err)
		if got := strings.ReplaceAll(string(text), "\n    ", "; "); got != "tables:\n  gates:; "+want+"\n" {
			t.Errorf("%+v makes\n%s", n, got)
		}
	}
	rules := func(change func(*fold.Options)) fold.Options {
		o := top()
		change(&o)
		return o
	}
	f(Narrowing{}, top(), "")
	f(Narrowing{Row: "after"}, top(), "row: after; key: id; max_columns: 500")
	f(Narrowing{Row: "payload.after"}, rules(func(o *fold.Options) {
		o.DeleteField, o.DeleteValue, o.Version, o.Null, o.Columns = "op", "d", "source.lsn", fold.KeepNull, fold.AddColumns
	}), "row: payload.after; key: id; delete_when: {op: d}; null: keep; version_field: source.lsn; version_scope: column; unknown_fields: add; max_columns: 500")
	f(Narrowing{When: []string{"type=a,b", "x.y=null", "z="}}, top(), `when: {type: [a, b], x.y: null, z: ""}; key: id; max_columns: 500`)
	f(Narrowing{Columns: []string{"gate", "a.b", "id"}}, rules(func(o *fold.Options) { o.Key = []string{"id", "nr"}; o.FillOnly = true }),
		`key: [id, nr]; fill_only: true; unknown_fields: ignore; columns:;   id: null;   nr: null;   gate: null;   a.b: null`)
}

func TestOverlay_ReportsAllFaults(t *testing.T) {
	f := func(n Narrowing, file *mapping.Mapping, o fold.Options, want ...string) {
		t.Helper()
		if _, err := n.Overlay(file, "gates", o); err == nil || err.Error() != strings.Join(want, "\n") {
			t.Errorf("%+v: %v\nwant %s", n, err, strings.Join(want, "\n"))
		}
	}
	all := Narrowing{Row: "a", When: []string{"a=b"}, Columns: []string{"c"}}
	f(all, &mapping.Mapping{File: "weir.yaml"}, top(), "--columns: is for one table, and weir.yaml has tables: say it there",
		"--row: is for one table, and weir.yaml has tables: say it there", "--when: is for one table, and weir.yaml has tables: say it there")
	o := top()
	o.Columns, o.DeleteField, o.Version = fold.AddColumns, "a..b", "^.v"
	f(Narrowing{Row: "a..b", When: []string{"x", "a=1", "a=2", "a==b"}, Columns: []string{"g", "g"}}, nil, o,
		`--row: path "a..b": a name is empty`, `--when: "x": must be FIELD=VALUE, such as op=delete`, "--when: a is named twice: a=A,B means one of them", `--when: "a==b": FIELD=VALUE has one equals sign, as in a=b`,
		"--columns: names all columns that are stored: leave --unknown-fields out", "--columns: g,g: the names must differ, and none may be empty", `--delete-when: path "a..b": a name is empty`, "--version-field: ^.v: ^ is the parent of an element, and a message has none")
	if m, err := (&Narrowing{}).Overlay(&mapping.Mapping{File: "weir.yaml"}, "", top()); err != nil || m.File != "weir.yaml" {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestValues has the texts in testdata/values.txtar.
func TestValues(t *testing.T) {
	if o := new(OptDuration); o.IsSet || o.String() != "" {
		t.Errorf("%+v is shown as %s", o, o)
	}
	testcheck.GoldenLines(t, "testdata/values.txtar", func(t *testing.T, kind, text string) (out string) {
		var size Size
		var duration Duration
		var optional OptDuration
		var err error
		switch text = strings.Trim(text, `"`); kind {
		case "size":
			err = size.Set(text)
			out = fmt.Sprintf("%d, shown as %s", size, size)
		case "duration":
			err = duration.Set(text)
			out = fmt.Sprintf("%v, shown as %s", time.Duration(duration), duration)
		default:
			err = optional.Set(text)
			out = fmt.Sprintf("%v, shown as %s, set %v", optional.Duration, &optional, optional.IsSet)
		}
		if err != nil {
			return "error: " + err.Error()
		}
		return out
	})
}
