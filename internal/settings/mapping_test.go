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

	"github.com/weirsync/weir/internal/fold"
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
		printed, err := read.Print()
		testcheck.NoError(t, err)
		return strings.TrimSuffix(file, "\n") + "\n# is printed as\n" + string(printed)
	})
}

// printable returns a mapping without what Print does not write: positions, spellings, and rules without effect.
func printable(t *testing.T, of mapping.Mapping) string {
	t.Helper()
	of.File, of.Tables = "", slices.Clone(of.Tables)
	for i := range of.Tables {
		t := &of.Tables[i]
		if t.Of != "" && t.Set != mapping.MergeSet {
			t.Null, t.Version, t.FillOnly = "", paths.Path{}, false
		}
		if t.Version.Base == paths.NoBase {
			t.Scope = ""
		}
		if t.Columns != nil && t.UnknownFields != fold.AddUnknown {
			t.MaxColumns = 0
		}
	}
	text, err := json.MarshalIndent(of, "", " ")
	testcheck.NoError(t, err)
	return string(text)
}

// printed checks that what is printed is read as the same mapping, and printed again as the same text.
func printed(t *testing.T, s *Spec) {
	t.Helper()
	text, err := s.Print()
	testcheck.NoError(t, err)
	again, err := readText(t, string(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if s.Mapping != nil {
		if got, want := printable(t, *again.Mapping), printable(t, *s.Mapping); got != want {
			t.Errorf("%s\nis read as\n%s\nwant\n%s", text, got, want)
		}
	}
	twice, err := again.Print()
	if testcheck.NoError(t, err); string(twice) != string(text) {
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
		if !reflect.DeepEqual(m.Envelope, want) || len(want.Version) > 0 && m.Tables[0].Version.Base != paths.MessageBase && !m.Tables[0].Version.IsEnvelopeVersion() {
			t.Errorf("%s: %+v", name, m)
		}
		printed, err := file.Print()
		testcheck.NoError(t, err)
		again, err := readText(t, string(printed))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, printed)
		}
		twice, err := again.Print()
		if err != nil || string(twice) != string(printed) || !strings.Contains(string(printed), "\nenvelope:\n"[1:]) {
			t.Errorf("%s: %v\n%s\n%s", name, err, printed, twice)
		}
		if a, b := m.Fingerprint(), again.Mapping.Fingerprint(); a["envelope"] != name+" "+b["envelope"] || b["envelope"] == "" {
			t.Errorf("%s: %v and %v", name, a, b)
		}
		if a, b := m.Tables[0].Fingerprint(nil), again.Mapping.Tables[0].Fingerprint(nil); !reflect.DeepEqual(a, b) {
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
