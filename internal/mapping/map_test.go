package mapping_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// parse parses a mapping in the form of a config file.
func parse(t testing.TB, text string) *mapping.Mapping {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	testcheck.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return read(t, file)
}

// read reads the mapping of a config file.
func read(t testing.TB, file string) *mapping.Mapping {
	t.Helper()
	m, err := load(file)
	testcheck.NoError(t, err)
	return m
}

// load returns the mapping of a config file, or its faults.
func load(file string) (*mapping.Mapping, error) {
	s := settings.New(&settings.Env{Drivers: []sink.Driver{{Name: "SQLite"}, {Name: "Postgres"}}, FileOnly: true})
	s.File = file
	if _, err := s.Load(); err != nil {
		return nil, err
	}
	s.Mapping.File = "" // faults are compared without their places
	return s.Mapping, nil
}

// TestMap maps the feeds in testdata: the result of each line is below it.
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

// TestMap_DeletesNeedRow: with --row a delete without the object that has its key is rejected; other messages without
// it make no row.
func TestMap_DeletesNeedRow(t *testing.T) {
	of := parse(t, "tables: {t: {row: a.row, delete_when: op=d}}")
	of.Tables[0].DeletesNeedRow = true
	m := newMapper(t, of, schema.Limits{})
	for line, want := range map[string]string{`{"op":"d","a":{"row":null}}`: "\nerror: table \"t\": a.row is null in a message that deletes its row, ", `{"op":"d","id":1}`: "\nerror: table \"t\": a.row is absent in a message that ",
		`{"op":"u","a":{"row":null}}`: "\nno row", `{"id":1}`: "\nno row", `{"op":"d","a":{"row":{"id":7}}}`: "\ndelete t id=7"} {
		if got := m.becomes(line, false); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// A mapper maps lines, one after another.
type mapper struct {
	*mapping.Plan
	t     testing.TB
	names *feed.Names
	scan  *feed.Scanner
	*mapping.Mapper
	lines int64
}

func newMapper(t testing.TB, m *mapping.Mapping, limits schema.Limits) *mapper {
	t.Helper()
	plan, err := mapping.Compile(m, limits)
	testcheck.NoError(t, err)
	names := plan.Names()
	out := &mapper{plan, t, names, feed.NewScanner(names), plan.NewMapper(), 0}
	return out
}

// mapped returns the rows of a line.
func (m *mapper) mapped(t *testing.T, line string) ([]mapping.Row, error) {
	t.Helper()
	var l feed.Line
	l.Scan(m.scan, nil, []byte(line))
	if l.Err != nil {
		t.Fatal(line, l.Err)
	}
	r, err := m.Map(&l, "feed.jsonl", fold.Place{})
	return r.Rows, err
}

// becomes returns a line for each row that a line of the feed makes, followed by the rows of its sets.
func (m *mapper) becomes(text string, tombstone bool) (out string) {
	var l feed.Line
	if l.Scan(m.scan, nil, []byte(text)); l.Err != nil && !l.Null {
		m.t.Fatal(l.Err)
	}
	l.Deletes = tombstone
	at := fold.Place{Line: m.lines + 1, Offset: 100 * m.lines}
	m.lines++
	r, err := m.Map(&l, "feed.jsonl", at)
	if n, ok := err.(*mapping.NewTable); ok && !n.Truncates {
		out = fmt.Sprintf("\nnew table %s, key %s", n.Name, n.Key)
		if n.Key == nil {
			n.Key = []string{"id"}
		}
		if err = m.Add(n, n.Key, func(int) error { return nil }); err == nil {
			r, err = m.Map(&l, "feed.jsonl", at)
		}
	}
	if _, bad := err.(*feed.Error); err != nil && !bad {
		return out + "\nends: " + err.Error()
	}
	switch {
	case err != nil:
		return out + "\nerror: " + err.Error()
	case r.Fate == mapping.Warned:
		return out + "\nwarning: " + r.Warning
	case r.Fate != mapping.Mapped:
		return out + map[mapping.Fate]string{mapping.Ignored: "\nignored", mapping.Announced: fmt.Sprintf("\nannounced, resume at %q", r.Resume), mapping.NoTable: "\nno table takes " + r.Discriminator.Path + "=" + r.Discriminator.Value()}[r.Fate]
	case len(r.Rows) == 0:
		return out + "\nno row"
	}
	for i := range r.Rows {
		out += m.show(&r.Rows[i], "\n")
	}
	return out
}

var ops = map[fold.Op]string{fold.Upsert: "", fold.Delete: "delete ", fold.Replace: "replace ", fold.Ensure: "ensure ", fold.Truncate: "truncate "}

// show formats a row, followed by the rows of its sets.
func (m *mapper) show(r *mapping.Row, indent string) string {
	out, sets := indent+ops[r.Op]+m.Tables[r.Table].Name, ""
	var names []string
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.Name >= 0 {
			names = append(names, m.names.Name(f.Name))
		} else {
			names = append(names, string(r.Unnumbered[^f.Name]))
		}
		if !schema.IsHiddenName(names[i]) {
			out += fmt.Sprintf(" %s=%s", names[i], f.Value)
		}
	}
	if r.Version.Value != nil {
		out += " version " + string(r.Version.Value)
	}
	var key [][]byte
	for _, k := range m.Tables[r.Table].Options.Key {
		if i := slices.Index(names, k); i >= 0 {
			key = append(key, r.Fields[i].Value)
		}
	}
	explode := m.Exploder(func(table int, c *fold.Change) string { return fmt.Sprintf("%q", c.Fields) })
	for child := range m.Tables {
		n := m.Nested(child)
		i := slices.Index(names, cmp.Or(n.Column, "no name"))
		if n.Parent != r.Table || i < 0 {
			continue
		}
		sets += indent + "  " + m.Tables[child].Name + " are:"
		testcheck.NoError(m.t, explode(child, key, r.Fields[i].Value, func(r *mapping.Row) error {
			sets += m.show(r, indent+"  ")
			return nil
		}))
	}
	return out + sets
}

// TestCast converts the values in testdata/casts.txtar, for databases with types for times and for databases where
// they are text.
func TestCast(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/casts.txtar", func(t *testing.T, typ, value string) string {
		return besides(cast(t, typ, value, false), cast(t, typ, value, true))
	})
}

// besides returns the result for Postgres, and for SQLite if that differs.
func besides(postgres, sqlite string) string {
	if sqlite != postgres {
		return postgres + " → " + sqlite
	}
	return postgres
}

// cast converts a value to a type. It returns JSON, or the reason why the type cannot hold the value.
func cast(t *testing.T, typ, value string, textTypes bool) string {
	m := newMapper(t, parse(t, "tables: {t: {columns: {id: {value: 1}, v: \"as "+typ+"\"}}}"), schema.Limits{TextTypes: textTypes})
	rows, err := m.mapped(t, `{"v":`+value+`}`)
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), ": it ")
		return "it " + why
	}
	f := rows[0].Fields[1]
	if k := feed.KindOf(f.Value); k != f.Kind {
		t.Errorf("%s as %s: %s is %s and called %s", value, typ, f.Value, k, f.Kind)
	}
	return string(f.Value)
}

// TestConnect runs the cases in testdata/connect.txtar.
func TestConnect(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/connect.txtar", func(t *testing.T, _, given string) string {
		words := append(strings.Split(given, " | "), "", "")
		if !strings.HasPrefix(given, "{") {
			words[0] = message("id int64 1", words[0])
		}
		return besides(typed(t, words[1], exists(words[2]), false, words[0]), typed(t, words[1], exists(words[2]), true, words[0]))
	})
}

// exists returns a table whose column v has a type: "" for a missing table, "integer" for a column that others made,
// or "integer made" or "integer new".
func exists(v string) (t schema.Table) {
	typ, made, _ := strings.Cut(v, " ")
	if t.Name = "t"; typ == "" {
		return t
	}
	c := schema.Column{Name: "v"}
	for c.Type.String() != typ {
		c.Type++
	}
	if made != "" {
		c = schema.NewOf("v", false, c.Type)
		c.New = made == "new"
	}
	t.Exists, t.Made, t.Key = true, made != "", []int{0}
	t.Columns = []schema.Column{{Name: "id", Type: schema.Int, Key: true}, c}
	return t
}

// typed maps a line with Connect's schemas to a table t with the columns of a config file, in a database that has the
// table. It returns the values and the declared columns.
func typed(t *testing.T, columns string, have schema.Table, textTypes bool, line string) string {
	t.Helper()
	m := newMapper(t, parse(t, "envelope: {unwrap: payload, connect_schema: schema, row: after}\ntables: {t: {"+columns+"}}"), schema.Limits{TextTypes: textTypes})
	_, err := m.Fit(0, &have)
	testcheck.NoError(t, err)
	rows, err := m.mapped(t, line)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, f := range rows[0].Fields {
		out = append(out, fmt.Sprintf("%s=%s", m.names.Name(f.Name), f.Value))
	}
	if rows[0].Declared == nil {
		return strings.Join(out, " ")
	}
	for _, name := range slices.Sorted(maps.Keys(rows[0].Declared.Columns)) {
		out = append(out, fmt.Sprintf("%s:%s", name, rows[0].Declared.Columns[name].Type))
	}
	return strings.Join(out, " ")
}

// message returns a line whose row has fields, given as name, schema and value.
func message(fields ...string) string {
	var schemas, values []string
	for _, f := range fields {
		name, rest, _ := strings.Cut(f, " ")
		s, v, _ := strings.Cut(rest, " ")
		s, isArray := strings.CutPrefix(s, "[]")
		typ, logical, _ := strings.Cut(s, "/")
		logical, scale, _ := strings.Cut(logical, "/")
		of := fmt.Sprintf(`"type":%q,"name":%q,"parameters":{"scale":%q}`, typ, logical, scale)
		if isArray {
			of = `"type":"array","items":{` + of + `}`
		}
		schemas = append(schemas, fmt.Sprintf(`{%s,"field":%q}`, of, name))
		values = append(values, fmt.Sprintf("%q:%s", name, v))
	}
	return fmt.Sprintf(`{"schema":{"type":"struct","fields":[{"type":"struct","fields":[%s],"field":"after"}]},"payload":{"after":{%s}}}`, strings.Join(schemas, ","), strings.Join(values, ","))
}
