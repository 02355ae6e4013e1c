package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/testcheck"
)

// top are the rules of a fold that no setting has changed.
func top() fold.Options {
	return fold.Options{Key: []string{"id"}, Null: fold.ClearNull, Scope: fold.ColumnScope, MaxColumns: 500}
}

// databases are those that a file may name.
var databases = []string{"sqlite", "postgres"}

// readText reads a file with that text, whose settings are few.
func readText(t testing.TB, text string) (File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	testcheck.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	o := top()
	one := func(name string, into *string) *Setting {
		return &Setting{Name: name, Set: func(v string) error { *into = v; return nil }, Value: func() string { return *into }}
	}
	var null, version, other, deleteWhen string
	settings := []*Setting{one("null", &null), one("version-field", &version), one("delete-when", &deleteWhen), one("to", &other), one("feed", &other), one("feed-events", &other), one("table", &other),
		{Name: "source", Set: func(string) error { return nil }, SetList: func([]string) error { return nil }},
		{Name: "key", Set: func(v string) error { o.Key = strings.Split(v, ","); return nil }, SetList: func(v []string) error { o.Key = v; return nil }},
		{Name: "fill-only", Set: func(v string) error { o.FillOnly = v == "true"; return nil }}}
	return Resolve(settings, nil, path, databases, func() fold.Options {
		if null != "" {
			o.Null = fold.Null(null)
		}
		o.Version = version
		o.DeleteField, o.DeleteValue, _ = strings.Cut(deleteWhen, "=")
		return o
	})
}

// Each fault has its place, and the rest of the file is read.
func TestResolve_FaultsOfTables(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, err := readText(t, text)
		var got []string
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				_, line, _ = strings.Cut(line, "weir.yaml:")
				got = append(got, line)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s\nhas the faults\n%s\nwant\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	f("tables: {a: }")
	f("tables: {a: {columns: {id}}}")
	f("tables: {}", "1:9: tables: no table is named")
	f("tables: [a]", "1:9: tables: must be keys with values, not a list")
	f("ignore: a=b\ntests: []", "1:1: ignore needs tables: it is about a mapping", "2:1: tests needs tables: it is about a mapping", "2:8: tests: the list is empty")
	f("table: x\ntables: {a: }", "1:8: table: is for a file without tables")
	f("tabels: {a: }", `1:1: unknown key "tabels"; did you mean "tables"?`)
	f("tables:\n  flights:\n    colums: {id}\n    when: x", `3:5: tables.flights: unknown key "colums"; did you mean "columns"?`, `4:11: tables.flights.when: "x": must be FIELD=VALUE, such as op=delete`)
	f("tables: {a: {origin: x, envelope: y}}", `1:14: tables.a: unknown key "origin"`, `1:25: tables.a: unknown key "envelope"`)
	f("tables:\n  a: {key: id}\n  a: {key: id}", "3:3: tables: a is already set in line 2")
	f("tables:\n  a: {max-columns: 1, max_columns: 2}", "2:23: tables.a: max_columns is already set in line 2")
	f("tables: {.a: , 'a..b': , '': }", `1:10: tables: ".a" is not the name of a table: NAME or SCHEMA.NAME`, `1:16: tables: "a..b" is not the name of a table: NAME or SCHEMA.NAME`, `1:26: tables: "" is not the name of a table: NAME or SCHEMA.NAME`)
	f("unmatched: rejct\nmax_each: 0\nmax_tables: 1\ntables: {a: , b: }", `1:12: unmatched: "rejct" must be ignore, reject or fail; did you mean "reject"?`, `2:11: max_each: "0" must be a whole number, at least 1`, "4:15: tables: 2 tables, and max_tables is 1")
	f("max_each: 010\ntables: {a: {max_columns: -1, fill_only: yes, set: x}}", `1:11: max_each: "010" must be a whole number, at least 1`, `2:27: tables.a.max_columns: "-1" must be a whole number, at least 0`, `2:42: tables.a.fill_only: "yes" is neither true nor false`, `2:52: tables.a.set: "x" must be replace or merge`, `2:52: tables.a.set: is for child tables, which have of and each`)

	// Keys.
	f("tables: {a: {columns: {no}}}", `1:10: tables.a: key is missing, and the table has no column "id"`)
	f("key: nr\ntables: {a: {columns: {nr}}, b: {key: [nr, x], columns: {nr}}}", `2:39: tables.b.key: no column "x" among the table's columns`)
	f("tables: {a: {key: [x, x], columns: {x}}, b: {key: 'x,y'}, c: {key: []}, d: {key: ''}}", `1:23: tables.a.key: "x" is named twice`, `1:51: tables.b.key: a list has brackets: [x, y]`, "1:68: tables.c.key: the list is empty", "1:82: tables.d.key: must not be empty")
	f("tables: {a: {key: 'x,y', columns: {'x,y': }}}", `1:19: tables.a.key: a list has brackets: [x, y]`)
	f("tables: {a: {key: ['x,y'], columns: {'x,y': }}}")
	f("tables: {a: {columns: {id: {stamp: insert}}}}", "1:24: tables.a.key: id is a stamp, which no message knows: it cannot identify a row")
	f("tables: {a: {id: id}}", `1:18: tables.a.id: "id" is a column of the mapping: the database generates id, so it needs a name of its own`)

	// Columns.
	f("tables: {a: {columns: {}}}", "1:23: tables.a.columns: no column is named: leave columns out to take all fields")
	f("tables: {a: {columns: {id, id: x}}}", "1:28: tables.a.columns: id is already set in line 1")
	f("tables: {a: {columns: {id, x: y as int, z: as numbr, u: as what}}}", `1:31: tables.a.columns.x: unknown type "int"; did you mean "integer"?`, `1:44: tables.a.columns.z: unknown type "numbr": must be auto, text, integer, real, numeric, numeric_base64, boolean, json, json_text, timestamp, timestamp_utc, timestamp_ms, timestamp_us, timestamp_ns, date, date_days, time_ms, time_us, time_ns, uuid or bytes`,
		`1:57: tables.a.columns.u: unknown type "what": must be auto, text, integer, real, numeric, numeric_base64, boolean, json, json_text, timestamp, timestamp_utc, timestamp_ms, timestamp_us, timestamp_ns, date, date_days, time_ms, time_us, time_ns, uuid or bytes`)
	f("tables: {a: {type: interger}}", `1:20: tables.a.type: unknown type "interger"; did you mean "integer"?`)
	f("tables: {a: {columns: {id, b: a..b, c: ^.x}}}", `1:31: tables.a.columns.b: path "a..b": a name is empty`, "1:40: tables.a.columns.c: ^.x: ^ is the parent of an element")
	f("tables: {a: {columns: {id, b: {}, c: []}}}", "1:31: tables.a.columns.b: the source is empty: name one of from, value, stamp or meta", "1:38: tables.a.columns.c: the list is empty")
	f("tables: {a: {columns: {id, b: {form: x}}}}", `1:32: tables.a.columns.b: unknown key "form"; did you mean "from"?`)
	f("tables: {a: {columns: {id, b: {from: [x, y]}}}}", "1:38: tables.a.columns.b.from: must be one path; a list of sources stands in place of the map")
	f("tables: {a: {columns: {id, b: {from: x as text, type: text}}}}", "1:55: tables.a.columns.b: the type is named twice, by from and by type")
	f("tables: {a: {columns: {id, b: {value: 1, from: x}, c: {stamp: insert, when: {d: 1}}, d: {meta: line, type: text}}}}", "1:48: tables.a.columns.b: from does not go with value",
		"1:77: tables.a.columns.c: when does not go with stamp", "1:108: tables.a.columns.d: type does not go with meta")
	f("tables: {a: {columns: {id, b: {stamp: now}, c: {meta: indx}, d: [{stamp: insert}, x]}}}", `1:39: tables.a.columns.b.stamp: "now" must be insert or update`,
		`1:55: tables.a.columns.c.meta: "indx" must be index, key, line, offset or source; did you mean "index"?`, "1:66: tables.a.columns.d: a column with a stamp has no other source")
	f("tables: {a: {columns: {id, b: {meta: index}}}}", "1:31: tables.a.columns.b: meta: index is of an element, and the table has no each")
	f("tables: {a: {columns: {id, b: [{value: 1}, x], c: [x, x as text]}}}", "1:44: tables.a.columns.b: never counts: a source before it always does", "1:55: tables.a.columns.c: never counts: a source before it always does")
	f("tables: {a: {columns: {id, b: !!binary aGk=, c: {value: &x [*x]}}}}", "1:31: tables.a.columns.b: must be a single value, not a value with the tag !!binary", "1:57: tables.a.columns.c.value: the value has more than 10000 parts")

	// Conditions.
	f("tables: {a: {when: []}, b: {when: {}}, c: {when: {x: []}}, d: {when: {x: {}}}, e: {when: {x: }}}", "1:20: tables.a.when: the list is empty", "1:35: tables.b.when: the condition is empty: leave it out if it always holds",
		"1:54: tables.c.when.x: the list is empty", "1:74: tables.d.when.x: the test is empty: a value, a list, {not: …} or {present: true}", "1:94: tables.e.when.x: the value is missing: null is JSON's null, {present: true} any value")
	f("tables: {a: {when: {x: {in: [1]}}, delete_when: {y: [a, a]}}}", `1:25: tables.a.when.x: unknown key "in"`, `1:57: tables.a.delete_when.y: "a" is named twice`)
	f("tables: {a: {when: {x: 1, '\"x\"': 2}}}", `1:27: tables.a.when: "x" is tested twice: put both into one test`)
	f("tables: {a: {when: {t: [p, q]}, columns: {id, b: {from: x, when: {t: [r, s]}}, c: {from: x, when: {$.t: {not: [q, p]}}}, d: {from: x, when: {t: q}}}}}",
		"1:50: tables.a.columns.b: no message meets this when and that of the table", "1:83: tables.a.columns.c: no message meets this when and that of the table")
	f("tables: {a: {when: [{t: p}, {u: {present: false}}], columns: {id, b: {when: {t: r, u: x}}, c: {when: {t: r}}}}}", "1:70: tables.a.columns.b: no message meets this when and that of the table")
	f("tables: {a: {at: o, when: {t: p}, columns: {id, b: {when: {t: q}}, c: {when: {$.t: q}}}}}", "1:52: tables.a.columns.b: no message meets this when and that of the table", "1:71: tables.a.columns.c: no message meets this when and that of the table")
	f("tables: {a: {when: {^.x: 1}, delete_when: ^.x=1, at: ^, version_field: ^.v}}", "1:21: tables.a.when: ^.x: ^ is the parent of an element", "1:43: tables.a.delete_when: ^.x: ^ is the parent of an element",
		"1:54: tables.a.at: ^: ^ is the parent of an element", "1:72: tables.a.version_field: ^.v: ^ is the parent of an element")

	// Children.
	f("tables:\n  a:\n  b: {of: c}", `3:3: tables.b: each is missing: the path of the array in c whose elements are the rows`, "3:3: tables.b: key is missing: the column that tells the elements of one array apart",
		`3:11: tables.b.of: no table "c" in this file`)
	f("tables:\n  order:\n  b: {of: orders, each: x, key: k}", `3:11: tables.b.of: no table "orders" in this file; did you mean "order"?`)
	f("tables:\n  a: {of: c, each: x, key: k}\n  b: {of: a, each: x, key: l}\n  c: {of: b, each: x, key: m}", "3:11: tables.b: of makes a cycle, and no table can be written first: a → c → b → a")
	f("tables: {a: {of: a, each: x, key: k}}", "1:18: tables.a: of makes a cycle, and no table can be written first: a → a")
	f("tables: {a: {columns: {id, b: {references: a}}}}", "1:31: tables.a: references makes a cycle, and no table can be written first: a → a")
	f("tables: {a: {columns: {id, b: {references: bs}, c: {references: d}, e: [x, {references: d}]}}, d: {key: [x, y]}}", `1:31: tables.a.columns.b: references "bs", which is no table of this file`,
		"1:52: tables.a.columns.c: references d, whose key has several columns: one column cannot name a row of it", "1:76: tables.a.columns.e: a column with references has one source")
	f("tables:\n  orders: \n  items: {of: orders, each: items, key: id}", "3:3: tables.items: the column \"id\" of orders, which children take over, has the name of a column of this table: parent: {id: order_id} renames it")
	f("tables:\n  orders: \n  items: {of: orders, each: items, key: id, parent: {id: order_id}}")
	f("tables:\n  orders: \n  items: {of: orders, each: items, key: k, parent: {no: x}}", `3:52: tables.items.parent: orders gives its children no column "no"`)
	f("tables:\n  orders: {key: [a, b]}\n  items: {of: orders, each: items, key: k, parent: {a: x, b: x}}", `3:52: tables.items.parent: two columns of orders get the name "x"`)
	f("tables:\n  o: {id: oid}\n  items: {of: o, each: i, key: [k, oid]}", "3:3: tables.items: the column \"oid\" of o, which children take over, has the name of a column of this table: parent: {oid: o_oid} renames it")
	f("tables: {a: {each: ., set: merge, parent: {x: y}}}", "1:20: tables.a.each: a message is no array: name the field that has it", "1:28: tables.a.set: is for child tables, which have of and each", "1:43: tables.a.parent: is for child tables, which have of and each")
	f("null: keep\ntables: {a: , b: {of: a, each: x, key: k, null: keep, delete_when: d=1}, c: {of: a, each: y, key: k, set: merge, null: keep}}", "2:49: tables.b.null: the array is the whole set of rows, so that null has no meaning: set: merge takes elements as updates",
		"2:68: tables.b.delete_when: the array is the whole set of rows, so that delete_when has no meaning: set: merge takes elements as updates")

	// Rules.
	f("fill_only: true\ntables: {a: {delete_when: x=1}, b: {version_field: v}, c: {fill_only: false, delete_when: x=1}}", "2:27: tables.a.delete_when: fill_only never removes a row: leave delete_when out", "2:52: tables.b.version_field: fill_only needs no version: leave one of version_field and fill_only out")
	f("tables: {a: {version_scope: row}, b: {version_scope: row, version_field: v}}", "1:29: tables.a.version_scope: name the field with version_field")
	f("delete_when: {op: d}\ntables: {a: }")
	f("delete_when: {op: d}", "1:14: delete_when: must be a value or a list of values")
	f("version_field: a..b\ndelete_when: a..b=1\ntables: {a: }", `1:16: version_field: path "a..b": a name is empty`, `2:14: delete_when: path "a..b": a name is empty`)

	// Expiry and SQL.
	f("tables: {a: {expire: {of: [x]}}, b: {expire: 48h}, c: {expire: {after: 48}}, d: {expire: {after: -1h, every: 0s}}}", "1:22: tables.a.expire: after is missing: the age of the rows that are removed", `1:46: tables.b.expire: must be keys with values, not "48h"`,
		`1:72: tables.c.expire.after: "48" is not a duration, such as 500ms, 48h or 7d`, `1:98: tables.d.expire.after: "-1h" is not a duration, such as 500ms, 48h or 7d`, `1:110: tables.d.expire.every: "0s" is not a duration, such as 500ms, 48h or 7d`)
	f("tables: {a: {type: text, expire: {after: 7d}, columns: {id}}, b: {expire: {after: 7d, of: [c, d, e, f]}, columns: {id, c: as date, d: as text, e: }}}", "1:34: tables.a.expire: no column is a timestamp or a stamp: name those that count with of",
		`1:75: tables.b.expire: column "d" is no timestamp`, `1:75: tables.b.expire: no column "f" among the table's columns`)
	f("tables: {a: {on_create: x}, b: {on_create: [a, '']}, c: {on_create: {postgrs: [x]}}, d: {on_create: {}}}", `1:25: tables.a.on_create: must be a list of SQL statements, not "x"`, "1:48: tables.b.on_create: must not be empty",
		`1:70: tables.c.on_create: "postgrs" must be sqlite or postgres; did you mean "postgres"?`, "1:101: tables.d.on_create: no database is named: sqlite or postgres")

	// Tests.
	f("tables: {a: {columns: {id}}}\ntests: [{name: x, feed: '', want: {a: [{ix: 1}], b: []}}, {name: x, want: {a: {}}}]", `2:41: tests: table a has no column "ix"; did you mean "id"?`, `2:50: tests: no table "b" in this file`,
		`2:59: tests: feed is missing`, `2:59: tests: two tests have the name "x"`, `2:79: tests.want.a: must be a list of rows, not a map`)
}

// What a table does not say is that of the top.
func TestResolve_DefaultsOfTables(t *testing.T) {
	f, err := readText(t, `
key: [nr]
null: keep
version_field: meta.at
delete_when: [{op: d}, {$.op: {present: true, not: null}}]
ignore: type=ping
unmatched: fail
tables:
  a:
  b: {key: k, null: clear, version_field: v, version_scope: row, delete_when: gone=true, max_columns: 7, type: text, rest: reject, each: xs}
  c: {of: a, each: cs, key: i, columns: {i: {meta: index}, v: [., x, {value: 0100}]}, set: merge}
  d: {columns: {nr: [{value: 0100, when: {a: 1}}, {value: {a: [on, 1.50, ~, "1", true]}}]}}
`)
	testcheck.NoError(t, err)
	m := f.Mapping
	a, b, c, d := m.Tables[0], m.Tables[1], m.Tables[2], m.Tables[3]
	if m.Unmatched != mapping.FailUnmatched || len(m.Ignore) != 1 || m.MaxEach != 100_000 || m.MaxTables != 100 {
		t.Errorf("%+v", m)
	}
	if strings.Join(a.Key, ",") != "nr" || a.Null != fold.KeepNull || a.Version.String() != "$.meta.at" || len(a.DeleteWhen) != 2 || a.MaxColumns != 500 || a.Rest != "" || a.Type.Kind != mapping.Auto || a.Scope != fold.ColumnScope {
		t.Errorf("%+v", a)
	}
	if got := a.DeleteWhen[1][0]; got.Present != mapping.MustBePresent || !got.Not || !got.In[0].Null {
		t.Errorf("%+v", got)
	}
	if strings.Join(b.Key, ",") != "k" || b.Null != fold.ClearNull || b.Version.String() != "v" || b.Scope != fold.RowScope || b.DeleteWhen[0][0].In[0].Text != "true" || b.MaxColumns != 7 || b.Type.Kind != mapping.Text || b.Rest != fold.RejectColumns {
		t.Errorf("%+v", b)
	}
	if strings.Join(c.Key, ",") != "i" || c.DeleteWhen != nil || c.Set != mapping.MergeSet || c.Rest != fold.IgnoreColumns || c.Version.Base != mapping.NoBase { // it has that of a
		t.Errorf("%+v", c)
	}
	if got := d.Columns[0].From; string(got[0].Value) != `"0100"` || string(got[1].Value) != `{"a":["on",1.50,null,"1",true]}` {
		t.Errorf("%s, %s", got[0].Value, got[1].Value)
	}
}

// printable leaves out what Print does not write: places, spellings, and rules that have no
// meaning for a table.
func printable(m *mapping.Mapping) string {
	text := fmt.Sprintf("%v %s %d %d\n", m.Ignore != nil, m.Unmatched, m.MaxEach, m.MaxTables)
	when := func(w mapping.When) {
		for _, all := range w {
			for _, t := range all {
				text += fmt.Sprintf("  %s %v %v %v;", t.Path, t.In, t.Not, t.Present)
			}
			text += " or\n"
		}
	}
	when(m.Ignore)
	for _, t := range m.Tables {
		if t.Of != "" && t.Set != mapping.MergeSet {
			t.Null, t.Version, t.FillOnly = "", mapping.Path{}, false
		}
		if t.Version.Base == mapping.NoBase {
			t.Scope = ""
		}
		if t.Columns != nil && t.Rest != fold.AddColumns {
			t.MaxColumns = 0
		}
		when(t.When)
		when(t.DeleteWhen)
		text += fmt.Sprintf("%q %s|%s|%q %s %v %q %q %s %s %v %s %v %s|%s %d\n", t.Name, t.At, t.Each, t.Of, t.Set, t.Parent, t.Key, t.ID, t.Type, t.Rest, t.OnCreate, t.Null, t.FillOnly, t.Version, t.Scope, t.MaxColumns)
		if e := t.Expire; e != nil {
			text += fmt.Sprintln(e.After, e.Of, e.Every)
		}
		for _, c := range t.Columns {
			for _, s := range c.From {
				text += fmt.Sprintf(" %q: %s|%s %s %s %s %s\n", c.Name, s.From, s.As, s.Value, s.Stamp, s.Meta, s.References)
				when(s.When)
			}
		}
	}
	return text
}

// printed tells that a mapping is read from what is printed of it.
func printed(t *testing.T, m *mapping.Mapping) {
	t.Helper()
	text, err := Print(m)
	testcheck.NoError(t, err)
	again, err := readText(t, string(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got, want := printable(again.Mapping), printable(m); got != want {
		t.Errorf("%s\nis read as\n%s\nwant\n%s", text, got, want)
	}
}

// FuzzRead reads files: each fault has a place, and what is read can be printed and read again.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"firestarter", "orders"} {
		text, err := os.ReadFile("../../contrib/" + name + ".yaml")
		testcheck.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("null: keep\nignore: [{a: ~}, {b: {not: [x, null]}}]\ntables: {a: {key: [\"x,y\", z]}, b: {of: a, each: $.b[0], set: merge, key: i, columns: {i: {meta: index}, v: {value: {a: [on, 1.50, ~]}}}}}\n")
	f.Add("tables:\n  ~: {each: \"\\\"a b\\\".c\", expire: {after: 36h, of: x}, on_create: {sqlite: [a, b]}, parent: {x: y}, of: \"null\", key: k}\n  \"null\": {id: x, key: [\"~\"], rest: add}\n")
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
			var fault *Fault
			if !errors.As(err, &fault) {
				t.Errorf("%v is no fault", err)
			}
			return
		}
		if read.Mapping != nil {
			printed(t, read.Mapping)
		}
	})
}

var placed = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*: `)
