package mapping_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// parse reads a mapping as a config file has it.
func parse(t testing.TB, text string) *mapping.Mapping {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	testcheck.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	f, err := config.Resolve(nil, nil, file, []string{"sqlite", "postgres"}, func() fold.Options {
		return fold.Options{Key: []string{"id"}, Null: fold.ClearNull, Scope: fold.ColumnScope, MaxColumns: 500}
	})
	testcheck.NoError(t, err)
	return f.Mapping
}

// TestMap maps the feeds in testdata: what comes of each line is below it.
func TestMap(t *testing.T) {
	for _, theme := range []string{"rows", "elements", "streams"} {
		testcheck.Golden(t, "testdata/"+theme+".txtar", func(t *testing.T, _, text string) string {
			file, feed, _ := strings.Cut(text, "\n>")
			m := newMapper(t, parse(t, file), schema.Limits{FoldCase: true, Untyped: true, TextTypes: true, NoSchemas: true})
			for line := range strings.Lines(">" + feed) {
				if prefix, message, ok := strings.Cut(line, " "); strings.HasPrefix(prefix, ">") && ok {
					file += "\n" + strings.TrimSuffix(line, "\n") + m.becomes(strings.TrimSuffix(message, "\n"), prefix == ">tombstone")
				}
			}
			return file + "\n"
		})
	}
}

// TestMap_DeletesNeedAt: with --record a delete without the object that has its key is rejected; other messages
// without it make no row.
func TestMap_DeletesNeedAt(t *testing.T) {
	n := config.Narrowing{Record: "a.row"}
	spec, err := n.Overlay(nil, "t", fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "d"})
	testcheck.NoError(t, err)
	m := newMapper(t, spec, schema.Limits{})
	for line, want := range map[string]string{`{"op":"d","a":{"row":null}}`: "\nerror: table \"t\": a.row is null in a message that deletes its row, ", `{"op":"d","id":1}`: "\nerror: table \"t\": a.row is absent in a message that ",
		`{"op":"u","a":{"row":null}}`: "\nno row", `{"id":1}`: "\nno row", `{"op":"d","a":{"row":{"id":7}}}`: "\ndelete t id=7"} {
		if got := m.becomes(line, false); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// A mapper maps lines, one after the other.
type mapper struct {
	*mapping.Plan
	t       testing.TB
	names   *feed.Names
	scan    *feed.Scanner
	scratch *mapping.Scratch
	lines   int64
}

func newMapper(t testing.TB, m *mapping.Mapping, limits schema.Limits) *mapper {
	t.Helper()
	names := &feed.Names{}
	plan, err := mapping.Compile(m, names, limits)
	testcheck.NoError(t, err)
	out := &mapper{plan, t, names, feed.NewScanner(names), plan.NewScratch(), 0}
	out.scratch.Source = "feed.jsonl"
	return out
}

// becomes returns a line for each row that a line of the feed makes, with the rows of its sets below it.
func (m *mapper) becomes(text string, tombstone bool) (out string) {
	var l feed.Line
	if l.Scan(m.scan, nil, []byte(text)); l.Err != nil && !l.Null {
		m.t.Fatal(l.Err)
	}
	l.Deletes = tombstone
	at := fold.Place{Line: m.lines + 1, Offset: 100 * m.lines}
	m.lines++
	rows, fate, err := m.Map(&l, at, m.scratch)
	if n, ok := err.(*mapping.NewTable); ok && !n.Truncates {
		out = fmt.Sprintf("\nnew table %s, key %s", n.Name, n.Key)
		if n.Key == nil {
			n.Key = []string{"id"}
		}
		if _, err = m.scratch.Add(n, n.Key); err == nil {
			rows, fate, err = m.Map(&l, at, m.scratch)
		} else {
			m.scratch.Drop()
		}
	}
	if _, bad := err.(*feed.Error); err != nil && !bad {
		return out + "\nends: " + err.Error()
	}
	path, value := m.scratch.Discriminator()
	switch {
	case err != nil:
		return out + "\nerror: " + err.Error()
	case fate == mapping.Warned:
		return out + "\nwarning: " + m.scratch.Warning()
	case fate != mapping.Taken:
		return out + map[mapping.Fate]string{mapping.Ignored: "\nignored", mapping.Announced: fmt.Sprintf("\nannounced, resume at %q", m.scratch.Resume()), mapping.NoTable: "\nno table takes " + path + "=" + value}[fate]
	case len(rows) == 0:
		return out + "\nno row"
	}
	for i := range rows {
		out += m.show(&rows[i], "\n")
	}
	return out
}

var ops = map[fold.Op]string{fold.Upsert: "", fold.Delete: "delete ", fold.Replace: "replace ", fold.Ensure: "ensure ", fold.Truncate: "truncate "}

// show prints a row, with the rows of its sets below it.
func (m *mapper) show(r *mapping.Row, indent string) string {
	out, sets := indent+ops[r.Op]+m.Table(r.Table).Name, ""
	var names []string
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.Name >= 0 {
			names = append(names, m.names.Name(f.Name))
		} else {
			names = append(names, string(r.Unnumbered[^f.Name]))
		}
		if !mapping.Hidden(names[i]) {
			out += fmt.Sprintf(" %s=%s", names[i], f.Value)
		}
	}
	if r.Version.Value != nil {
		out += " version " + string(r.Version.Value)
	}
	var key [][]byte
	for _, k := range m.Options(r.Table).Key {
		if i := slices.Index(names, k); i >= 0 {
			key = append(key, r.Fields[i].Value)
		}
	}
	explode := m.Exploder(func(table int, c *fold.Change) string { return fmt.Sprintf("%q", c.Fields) })
	for child := range m.Tables() {
		i := slices.Index(names, cmp.Or(m.SetColumn(child), "no name"))
		if parent, _ := m.Parent(child); parent != r.Table || i < 0 {
			continue
		}
		sets += indent + "  " + m.Table(child).Name + " are:"
		testcheck.NoError(m.t, explode(child, key, r.Fields[i].Value, func(r *mapping.Row) error {
			sets += m.show(r, indent+"  ")
			return nil
		}))
	}
	return out + sets
}
