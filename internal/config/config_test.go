package config

import (
	"strings"
	"testing"
)

func TestResolve_ReadsScalarsByTheirText(t *testing.T) {
	k := newTaken(t)
	f := func(text, name, want string) {
		t.Helper()
		if err := k.resolve(text); err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := strings.Join(k.values[name], "+"); got != want {
			t.Errorf("%q: %s is %q, want %q", text, name, got, want)
		}
	}
	f("null: keep", "null", "keep")
	f(`"null": keep`, "null", "keep")
	f("prefetch: off", "prefetch", "off")
	f("prefetch: On", "prefetch", "On")
	f("batch-rows: 7", "batch-rows", "7")
	f("batch_rows: 0100", "batch-rows", "0100")
	f("batch_rows: 1_000", "batch-rows", "1_000")
	f("to: 2024-01-01", "to", "2024-01-01")
	f("to: 1:30", "to", "1:30")
	f("to: 'null'", "to", "null")
	f("to: ''", "to", "")
	f("to: null\nnull: ~", "to", "")
	f("source: [a,b.jsonl]", "source", "list+a+b.jsonl")
	f(`source: ["a,b.jsonl"]`, "source", "list+a,b.jsonl")
	f("source:\n- 1\n- 'x y'\n", "source", "list+1+x y")
	f("source: []", "source", "list")
	f("source: a,b", "source", "a,b") // as the variable has it
	f("to: &x t.db\nkey: *x", "key", "t.db")
	f("key: &x [a, b]\nsource: *x", "source", "list+a+b")
	f("\ufeffto: t.db", "to", "t.db")
	f("---\nto: t.db\n...\n", "to", "t.db")
	f("to: |\n  a\n  b\n", "to", "a\nb\n")
	for _, nothing := range []string{"", "# nothing\n", "---\n", "~", "null\n", "{}"} {
		f(nothing, "to", "")
	}
}

func TestResolve_RefusesWithThePlace(t *testing.T) {
	k := newTaken(t)
	f := func(text string, want ...string) {
		t.Helper()
		err := k.resolve(text)
		if err == nil {
			t.Errorf("%q is taken: %q", text, k.values)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v\nwant %s", text, err, w)
			}
		}
	}
	f("to: a\n\nto: b\n", "weir.yml:3:1: to is already set in line 1")
	f("batch_rows: 1\nbatch-rows: 2\n", "weir.yml:2:1: batch_rows is already set in line 1")
	f("null: keep\n'null': keep\n", "weir.yml:2:1: null is already set in line 1")
	f("to: a\nbatch_row: 1\n", `weir.yml:2:1: unknown key "batch_row"; did you mean "batch_rows"?`)
	f("xy: 1\n", `weir.yml:1:1: unknown key "xy"`)
	f("<<: {to: a}\n", `:1:1: unknown key "<<"`)
	f("~: 1", `unknown key "~"`)
	f("to: a\nkey: [a, [b]]\nnull: {a: 1}\n", "weir.yml:2:6: key: item 2 is not a value", "weir.yml:3:7: null: must be a value or a list of values")
	f("key:\n- a\n-\n", "weir.yml:2:1: key: item 2 is not a value")
	f("to: [a]\n", "weir.yml:1:5: to: must be a single value, not a list")
	f("key: &x [*x]\n", "key: item 1 is not a value")
	f("to: !!binary aGk=\n", "weir.yml:1:5: to: must be a value or a list")
	f("to: !thing x\n", "weir.yml:1:5: to: must be a value or a list")
	f("? [a]\n: 1\n", "weir.yml:1:3: must be a name, not a list")
	f("- to\n", "weir.yml:1:1: must be settings")
	f("flights.db", "weir.yml:1:1: must be settings")
	f("to: a\n---\nto: b\n", "weir.yml:2:1: a second document begins")
	f("to: [", "weir.yml:1:1: yaml: ")
	f("to: a\n to: b\n", "weir.yml:2:1: yaml: ")
}

func TestResolve_RefusesVariablesThatAreNoSettings(t *testing.T) {
	k := newTaken(t)
	f := func(variable, want string) {
		t.Helper()
		err := k.resolve("", "HOME=/", variable)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", variable, err, want)
		}
	}
	f("WEIR_TO=x", "")
	f("WEIR_PREFETCH=off", "")
	f("WEIR_BATCH_ROW=7", `unknown setting "WEIR_BATCH_ROW"; did you mean "WEIR_BATCH_ROWS"?`)
	f("WEIR_BACTH_ROWS=7", `did you mean "WEIR_BATCH_ROWS"?`)
	f("WEIR_PREFECTH=7", `did you mean "WEIR_PREFETCH"?`)
	f("WEIR_batch_rows=7", `unknown setting "WEIR_batch_rows"`)
	f("WEIR_PASSWORD=secret", `unknown setting "WEIR_PASSWORD"`)
	// A cluster's, for a service weir or weir-metrics.
	for _, v := range []string{"WEIR_SERVICE_HOST=10.0.0.1", "WEIR_SERVICE_PORT=80", "WEIR_SERVICE_PORT_HTTP=80", "WEIR_PORT=tcp://10.0.0.1:80", "WEIR_PORT_80_TCP=tcp://10.0.0.1:80",
		"WEIR_PORT_80_TCP_ADDR=10.0.0.1", "WEIR_METRICS_PORT_9461_TCP_PROTO=tcp"} {
		f(v, "")
	}
	if err := k.resolve("", "WEIR_PASSWORD=secret"); strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
