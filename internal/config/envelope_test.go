package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestPresets: each is right, and what is printed of it is the same envelope.
func TestPresets(t *testing.T) {
	for _, name := range PresetNames() {
		want, err := Preset(name)
		testcheck.NoError(t, err)
		file, err := readText(t, "envelope: "+name+"\nversion: true\ntables: {a: }\n")
		testcheck.NoError(t, err)
		m := file.Mapping
		if !reflect.DeepEqual(m.Envelope, want) || m.Tables[0].Version.Base != mapping.MessageBase {
			t.Errorf("%s: %+v", name, m)
		}
		printed, err := Print(m)
		testcheck.NoError(t, err)
		again, err := readText(t, string(printed))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, printed)
		}
		twice, err := Print(again.Mapping)
		if err != nil || string(twice) != string(printed) || !strings.Contains(string(printed), "\nenvelope:\n"[1:]) {
			t.Errorf("%s: %v\n%s\n%s", name, err, printed, twice)
		}
		if a, b := m.Fingerprint(), again.Mapping.Fingerprint(); !reflect.DeepEqual(a, b) || a["envelope"] == "" {
			t.Errorf("%s: %v and %v", name, a, b)
		}
		if a, b := m.Tables[0].Fingerprint(), again.Mapping.Tables[0].Fingerprint(); !reflect.DeepEqual(a, b) {
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

func TestEnvelope_Faults(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, err := readText(t, text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s\nhas the faults\n%s\nwithout\n%s", text, got, w)
			}
		}
		if want == nil && err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	f("envelope: {row: after}\ntables: {a: }")
	f("envelope: {each: data, table: t}\ntables: {a: {from: [x, 'y*']}}")
	f("envelope: debezum\ntables: {a: }", `:1:11: envelope: no envelope has the name "debezum"; there are debezium, `, `did you mean "debezium"?`)
	f("envelope: debezium", "envelope needs tables")
	f("envelope: {rows: after}\ntables: {a: }", `envelope: unknown key "rows"; did you mean "row"?`)
	f("envelope: {old: before}\ntables: {a: }", "1:11: envelope: row is missing: the path of the row in a message")
	f("envelope: {row: after, each: data}\ntables: {a: }", "envelope: with each, the elements are the rows: leave row out")
	f("envelope: {row: ^.after}\ntables: {a: }", "envelope.row: ^.after: ^ is the parent of an element, and an envelope has none")
	f("envelope: {row: after, delete_when: {^.op: d}}\ntables: {a: }", "envelope.delete_when: ^.op: ^ is the parent")
	f("envelope: {row: after, write_when: {}}\ntables: {a: }", "envelope.write_when: ")
	f("envelope: {row: after, write_when: {^.op: c}}\ntables: {a: }", "envelope.write_when: ^.op: ^ is the parent")
	f("envelope: {row: after, version: [a as integer]}\ntables: {a: }", `envelope.version: "integer": a version is read as lsn, binlog, mongo_ts, timestamp, or as it is`)
	f("envelope: {row: after, omit: ['a*b']}\ntables: {a: }", "envelope.omit: * may be at the end of a name alone")
	f("envelope: {row: after}\nversion: true\ntables: {a: }", "2:10: version: needs an envelope with a version: version_field names the field of one")
	f("version: true\ntables: {a: }", "1:10: version: needs an envelope with a version")
	f("tables: {a: {from: x}}", "tables.a.from: needs an envelope with table, which says where a message has the name")
	f("envelope: debezium\ntables: {a: , b: {of: a, each: x, key: y, from: z}}", "tables.b.from: the rows are in those of a, which says from where these come")
	f("envelope: {row: after, old: before}\ntables: {a: {fill_only: true}}", "tables.a: fill_only never removes a row")
	f("envelope: {row: after}\ntables: {a: {fill_only: true}}")
	f("envelope: debezium\ntables: {'*': {rest: add}}")
	f("envelope: debezium\ntables: {'a*': {rest: add}}", `2:10: tables.a*: the name is that of one table in the database: give it one, and the pattern to from`)
	f("tables: {'*': {rest: add}}", "1:10: tables.*: is for all names of tables that no other takes, and needs an envelope with table")
	f("envelope: debezium\ntables: {'*': {from: x, expire: {after: 1h}, columns: {a: {references: b}}}, b: }", "tables.*.from: is for a table that has a name", "tables.*.expire: is for a table that has a name", "tables.*.columns.a: references is for a table that has a name")
	f("envelope: debezium\ntables: {'*': , b: {of: '*', each: x, key: y}, c: {columns: {id, d: {references: '*'}}}}", `tables.b.of: "*" stands for tables that have no name here`, `tables.c.columns.d: "*" stands for tables that have no name here`)
	f("envelope: debezium\ntables: {a: {fill_only: true}}", "tables.a: fill_only never removes a row, and the envelope has delete_when, truncate_when or old: leave fill_only out")
	f("envelope: debezium\ntables: {a: , b: {of: a, each: x, key: y, set: merge, version_field: v}}", "tables.b.version_field: the envelope has delete_when")
}
