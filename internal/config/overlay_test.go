package config

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
)

func TestOverlay_MakesOneTable(t *testing.T) {
	f := func(n Narrowing, o fold.Options, want string) {
		t.Helper()
		m, err := n.Overlay(nil, "gates", o)
		if err != nil {
			t.Fatal(err)
		}
		if m == nil {
			if want != "" {
				t.Errorf("%+v makes nothing", n)
			}
			return
		}
		text, err := Print(m)
		if err != nil {
			t.Fatal(err)
		}
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
	f(Narrowing{Record: "after"}, top(), "at: after; key: id; max_columns: 500")
	f(Narrowing{Record: "payload.after"}, rules(func(o *fold.Options) {
		o.DeleteField, o.DeleteValue, o.Version, o.Null, o.Columns = "op", "d", "source.lsn", fold.KeepNull, fold.AddColumns
	}), "at: payload.after; key: id; delete_when: {op: d}; null: keep; version_field: source.lsn; version_scope: column; rest: add; max_columns: 500")
	f(Narrowing{Only: []string{"type=a,b", "x.y=null", "z="}}, top(), `when: {type: [a, b], x.y: null, z: ""}; key: id; max_columns: 500`)
	f(Narrowing{Fields: []string{"gate", "a.b", "id"}}, rules(func(o *fold.Options) { o.Key = []string{"id", "nr"}; o.FillOnly = true }),
		`key: [id, nr]; fill_only: true; rest: ignore; columns:;   id: null;   nr: null;   gate: null;   a.b: null`)
}

func TestOverlay_ReportsAllFaults(t *testing.T) {
	f := func(n Narrowing, file *mapping.Mapping, o fold.Options, want ...string) {
		t.Helper()
		if _, err := n.Overlay(file, "gates", o); err == nil || err.Error() != strings.Join(want, "\n") {
			t.Errorf("%+v: %v\nwant %s", n, err, strings.Join(want, "\n"))
		}
	}
	all := Narrowing{Record: "a", Only: []string{"a=b"}, Fields: []string{"c"}}
	f(all, &mapping.Mapping{File: "weir.yaml"}, top(), "--fields: is for one table, and weir.yaml has tables: say it there",
		"--only: is for one table, and weir.yaml has tables: say it there", "--record: is for one table, and weir.yaml has tables: say it there")
	o := top()
	o.Columns, o.DeleteField, o.Version = fold.AddColumns, "a..b", "^.v"
	f(Narrowing{Record: "a..b", Only: []string{"x", "a=1", "a=2", "a==b"}, Fields: []string{"g", "g"}}, nil, o,
		`--record: path "a..b": a name is empty`, `--only: "x": must be FIELD=VALUE, such as op=delete`, "--only: a is named twice: a=A,B means one of them", `--only: "a==b": FIELD=VALUE has one equals sign, as in a=b`,
		"--fields: names all columns that are stored: leave --new-columns out", "--fields: g,g: the names must differ, and none may be empty", `--delete-when: path "a..b": a name is empty`, "--version-field: ^.v: ^ is the parent of an element, and a message has none")
	if m, err := (&Narrowing{}).Overlay(&mapping.Mapping{File: "weir.yaml"}, "", top()); err != nil || m.File != "weir.yaml" {
		t.Errorf("%+v, %v", m, err)
	}
}
