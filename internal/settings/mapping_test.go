package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestPrint prints the files in testdata/printed.txtar.
func TestPrint(t *testing.T) {
	testcheck.Golden(t, "testdata/printed.txtar", func(t *testing.T, _, text string) string {
		file, _, _ := strings.Cut(text, "\n# is printed as\n")
		read, err := readText(t, file)
		testcheck.NoError(t, err)
		return strings.TrimSuffix(file, "\n") + "\n# is printed as\n" + comments.ReplaceAllString(read.print(t), "")
	})
}

// comments are the settings that are not set.
var comments = regexp.MustCompile(`(?m)^#.*\n`)

// rules returns a mapping without its file and positions, as text.
func rules(t *testing.T, of mapping.Mapping) string {
	t.Helper()
	of.File = ""
	text, err := json.MarshalIndent(of, "", " ")
	testcheck.NoError(t, err)
	return string(text)
}

// print returns what is printed, without the origins, and that there are secrets.
func (s *Spec) print(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	testcheck.NoError(t, s.Print(&b))
	return origins.ReplaceAllString(strings.ReplaceAll(b.String(), Hidden, `""`), "")
}

var origins = regexp.MustCompile(`(?m) * # (flag|environment|file|default).*$|^# file .*\n`)

// printed checks that what is printed is read as the same settings, and printed again as the same text.
func printed(t *testing.T, s *Spec) {
	t.Helper()
	text := s.print(t)
	again, err := readText(t, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if s.Mapping != nil {
		if got, want := rules(t, *again.Mapping), rules(t, *s.Mapping); got != want {
			t.Errorf("%s\nis read as\n%s\nwant\n%s", text, got, want)
		}
	}
	for i, one := range s.settings {
		if other := again.settings[i]; one.InFile() && one.shown(one.String()) == one.String() && (other.String() != one.String() || other.IsSet() != one.IsSet()) {
			t.Errorf("%s\n%s is read as %s, %t, want %s, %t", text, one.Name, other, other.IsSet(), one, one.IsSet())
		}
	}
	if twice := again.print(t); twice != text {
		t.Errorf("%s\nis printed again as\n%s", text, twice)
	}
}

// FuzzRead reads files: each fault has a position, and a valid mapping can be printed and read again.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"firehose/firestarter", "orders/orders"} {
		text, err := os.ReadFile("../../examples/" + name + ".yaml")
		testcheck.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("null: keep\nignore: [{a: ~}, {b: {not: [x, null]}}]\ntables: {a: {key: [\"x,y\", z]}, b: {of: a, each: $.b[0], set: merge, key: i, columns: {i: {meta: index}, v: {value: {a: [on, 1.50, ~]}}}}}\n")
	f.Add("tables:\n  ~: {each: \"\\\"a b\\\".c\", on_create: {sqlite: [a, b]}, parent: {x: y}, of: \"null\", key: k}\n  \"null\": {id: x, key: [\"~\"], unknown_fields: add}\n")
	f.Add("tables: {t: {columns: {id, a: [a, b.a], c: [{value: null, when: x=1}, c]}}}")
	f.Add("tables: {a: &x {columns: {id: &y [as integer, *y]}}, b: *x}\n")
	f.Add("tables: {a: {columns: {id, b: {value: \"\\x7f\\u2028\"}}}}\ntests: [{name: x, feed: |\n  {}\n, want: {a: [{id: 1}]}}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := readText(t, text)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if _, place, ok := strings.Cut(line, "weir.yaml:"); ok && !placed.MatchString(place) {
					t.Errorf("a fault without a place: %s", line)
				}
			}
			var fault *mapping.Fault
			if !errors.As(err, &fault) {
				t.Errorf("%v is not a Fault", err)
			}
			return
		}
		printed(t, read)
	})
}

var placed = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*: `)

// TestCase_Compare runs the cases in testdata/compared.txtar.
func TestCase_Compare(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/compared.txtar", func(t *testing.T, _, given string) string {
		words := strings.Split(given, " | ")
		read, err := readText(t, "tables: {a: {key: [g, id], columns: {g, id, "+words[0]+"}}, b: {of: a, each: x, key: g, parent: {g: up}}}\ntests:\n- name: x\n  feed: ''\n  want: {"+words[1]+"}\n")
		testcheck.NoError(t, err)
		differences, err := read.Cases[0].Compare(read.Mapping, func(string) ([]string, error) {
			return slices.DeleteFunc(strings.Split(words[2], " & "), func(row string) bool { return row == "" }), nil
		})
		testcheck.NoError(t, err)
		var got []string
		for _, d := range differences {
			_, text, _ := strings.Cut(d.Error(), "weir.yaml:")
			got = append(got, text)
		}
		return cmp.Or(strings.Join(got, " & "), "nothing")
	})
}

// TestPresets: each preset is valid, and printing it gives the same envelope.
func TestPresets(t *testing.T) {
	for _, name := range PresetNames() {
		want, err := Preset(name)
		testcheck.NoError(t, err)
		versions := fmt.Sprintf("version: %t\n", len(want.Version) > 0)
		file, err := readText(t, "envelope: "+name+"\n"+versions+"tables: {a: }\n")
		testcheck.NoError(t, err)
		m := file.Mapping
		if !reflect.DeepEqual(m.Envelope, want) || len(want.Version) > 0 && m.Tables[0].Version.Base != paths.MessageBase && m.Tables[0].Version.Base != paths.VersionBase {
			t.Errorf("%s: %+v", name, m)
		}
		printed := file.print(t)
		again, err := readText(t, printed)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, printed)
		}
		if twice := again.print(t); twice != printed || !strings.Contains(printed, "\nenvelope:\n") {
			t.Errorf("%s:\n%s\n%s", name, printed, twice)
		}
		if a, b := m.Fingerprint(), again.Mapping.Fingerprint(); a["envelope"] != name+" "+b["envelope"] || b["envelope"] == "" {
			t.Errorf("%s: %v and %v", name, a, b)
		}
		fingerprint := func(m *mapping.Mapping) map[string]string {
			p, err := mapping.Compile(m, schema.Limits{})
			testcheck.NoError(t, err)
			return p.Tables[0].Fingerprint()
		}
		if a, b := fingerprint(m), fingerprint(again.Mapping); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %v and %v", name, a, b)
		}
	}
	if _, err := Preset("debezum"); err == nil || !strings.Contains(err.Error(), `did you mean "debezium"?`) {
		t.Error(err)
	}
	if !slices.Contains(PresetNames(), "debezium") {
		t.Error(PresetNames())
	}
}
