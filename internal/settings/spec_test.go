package settings

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// around returns the environment for a test: the given variables, and nothing on stdin.
func around(variables ...string) *Env {
	return &Env{Drivers: []sink.Driver{sqlite.Driver}, Environ: variables, Stdin: strings.NewReader(""),
		Lookup: func(name string) (string, bool) {
			for _, v := range variables {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		}}
}

// TestLoad_Variables: unknown variables are warnings, except variables that a cluster sets for a service weir or
// weir-metrics.
func TestLoad_Variables(t *testing.T) {
	f := func(variable, want string) {
		t.Helper()
		warnings, err := New(around("HOME=/", variable)).Load()
		testcheck.NoError(t, err)
		if got := strings.Join(warnings, "\n"); got != want {
			t.Errorf("%s: %q, want %q", variable, got, want)
		}
		if strings.Contains(fmt.Sprint(warnings), "secret") {
			t.Error(warnings)
		}
	}
	f("WEIR_TO=x", "")
	f("WEIR_SYNCHRONOUS=off", "")
	f("WEIR_BATCH_ROW=7", `WEIR_BATCH_ROW is not a setting and is ignored; did you mean "WEIR_BATCH_ROWS"?`)
	f("WEIR_BACTH_ROWS=7", `WEIR_BACTH_ROWS is not a setting and is ignored; did you mean "WEIR_BATCH_ROWS"?`)
	f("WEIR_batch_rows=7", `WEIR_batch_rows is not a setting and is ignored`)
	f("WEIR_PASSWORD=secret", `WEIR_PASSWORD is not a setting and is ignored`)
	f("WEIR_HOME=/", `WEIR_HOME is not a setting and is ignored`)
	for _, v := range []string{"WEIR_SERVICE_HOST=10.0.0.1", "WEIR_SERVICE_PORT=80", "WEIR_SERVICE_PORT_HTTP=80", "WEIR_PORT=tcp://10.0.0.1:80", "WEIR_PORT_80_TCP=tcp://10.0.0.1:80",
		"WEIR_PORT_80_TCP_ADDR=10.0.0.1", "WEIR_METRICS_PORT_9461_TCP_PROTO=tcp"} {
		f(v, "")
	}
}

// nonsense has an invalid value for each setting; "": the setting accepts any text.
var nonsense = map[string]string{
	"source": "http://x", "follow": "t rue", "rotate-wait": "-1s", "compression": "zip", "max-rate": "fast", "job": "", "restart": "again", "accept-settings": "maybe", "max-line": "0",
	"to": "mysql://db", "table": "", "unknown-fields": "keep", "max-columns": "010", "foreign-keys": "on", "tables": "nosuch", "dry-run": "2",
	"key": "a,a", "delete-when": "op", "null": "never", "version-field": "", "version-scope": "table", "fill-only": "yes", "merge": "hits=plus", "envelope": "debezum", "row": "a..b",
	"when": "x", "columns": "a,a", "tombstones": "1:30", "batch-period": "5", "batch-rows": "0", "buffer": "1B", "synchronous": "maybe", "retry-for": "-1s",
	"feed": "radio", "feed-events": "", "init": "{{", "resume-field": "", "idle-timeout": "soon", "keepalive-when": "x", "stale-keepalives": "-1", "error-when": "x", "time-field": "",
	"tls-ca": "nosuch.pem", "tls-cert": "c", "tls-key": "k", "tls-server-name": "", "group": "g", "group-protocol": "new", "group-instance": "i", "session-timeout": "1s", "partitions": "abc", "start": "nonsense",
	"until-end": "no", "isolation": "snapshot", "tombstones-by-key": "k", "record-fields": "size=s", "sasl": "ldap", "spool": "s", "spool-max": "much", "capture": "c",
	"rejects": "some", "keep-rejects": "0s", "max-rejects": "0x10", "metrics-addr": "9461", "metrics-file": ".", "summary": "xml",
	"log-format": "xml", "quiet": "y", "verbose": "y", "config": "nosuch.yaml",
}

// TestValidate_Nonsense: an invalid value is a fault that names the setting as it was set, by flag, variable or key in
// a file.
func TestValidate_Nonsense(t *testing.T) {
	feed := filepath.Join(t.TempDir(), "feed.jsonl")
	testcheck.NoError(t, os.WriteFile(feed, []byte("{}\n"), 0o600))
	for _, one := range New(around()).Settings() {
		text, known := nonsense[one.Name]
		if !known {
			t.Errorf("%s has no nonsense here", one.Name)
		}
		if text == "" {
			continue
		}
		judge := func(s *Spec, want string) {
			t.Helper()
			if s.Table.To == "" {
				s.Table.To = "t.db"
			}
			_, _ = s.Load() // Plan returns the error
			args := []string{feed}
			if one.Name == "source" {
				args = nil
			}
			if _, err := s.Plan(args); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: %v, want %s", one.Name, text, err, want)
			}
		}
		if one.tag.Get("flag") == "" {
			s := New(around())
			f := pflag.NewFlagSet("weir", pflag.ContinueOnError)
			s.AddFlags(f)
			testcheck.NoError(t, f.Parse([]string{"--" + one.Name + "=" + text}))
			want := "--" + one.Name
			if one.Name == "config" {
				want = "the config file: open nosuch.yaml"
			}
			judge(s, want)
		}
		want := one.variable()
		switch one.Name {
		case "source":
			want = "http://x"
		case "config":
			want = "the config file: open nosuch.yaml"
		}
		judge(New(around(one.variable()+"="+text)), want)
		if one.Name == "tables" {
			continue // the file has it in another place
		}
		s := New(around())
		s.File = filepath.Join(t.TempDir(), "weir.yaml")
		quoted, err := json.Marshal(text)
		testcheck.NoError(t, err)
		testcheck.NoError(t, os.WriteFile(s.File, []byte(one.name+": "+string(quoted)+"\n"), 0o600))
		place := fmt.Sprintf("%s:1:%d: ", s.File, len(one.name)+3)
		switch {
		case one.elsewhere != "":
			place = s.File + ":1:1: " + one.name
		case one.Name != "source":
			place += one.name
		}
		judge(s, place)
		alone := around()
		alone.FileOnly = true
		checked := New(alone)
		checked.File = s.File
		_, _ = checked.Load() // Validate returns the error
		if err := checked.Validate(); needsSource[one.Name] && err != nil || !needsSource[one.Name] && (err == nil || !strings.Contains(err.Error(), place)) {
			t.Errorf("%s %q: the file alone: %v, want %s", one.Name, text, err, place)
		}
	}
}

// needsSource are the settings whose nonsense is only invalid for certain sources, which the file does not name.
var needsSource = map[string]bool{"group": true, "group-instance": true, "tombstones-by-key": true, "spool": true, "capture": true}

// TestRules checks the rules between settings in testdata/rules.txtar, for flags, variables, and a file.
func TestRules(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/rules.txtar", func(t *testing.T, by, given string) string {
		var variables []string
		s := New(around())
		switch by {
		case "flags":
			f := pflag.NewFlagSet("weir", pflag.ContinueOnError)
			s.AddFlags(f)
			testcheck.NoError(t, f.Parse(strings.Fields(given)))
		case "variables":
			variables = strings.Fields(given)
			s = New(around(variables...))
		case "file":
			s.File = filepath.Join(t.TempDir(), "weir.yaml")
			testcheck.NoError(t, os.WriteFile(s.File, []byte(strings.ReplaceAll(given, `\n`, "\n")), 0o600))
		}
		_, _ = s.Load() // Plan returns the error
		if s.Table.To == "" {
			s.Table.To = "t.db"
		}
		if s.Table.Name == "" {
			s.Table.Name = "t"
		}
		_, err := s.Plan(nil)
		if err == nil {
			return "right"
		}
		return strings.ReplaceAll(strings.ReplaceAll(err.Error(), filepath.Dir(s.File)+"/", ""), "\n", " & ")
	})
}

// flagged returns a spec that flags set.
func flagged(t *testing.T, args ...string) *Spec {
	t.Helper()
	s, f := New(around()), pflag.NewFlagSet("weir", pflag.ContinueOnError)
	s.AddFlags(f)
	testcheck.NoError(t, f.Parse(args))
	return s
}

// Flags make the same table as a config file with that table.
func TestFlags_MakeOneTable(t *testing.T) {
	f := func(file string, flags ...string) {
		t.Helper()
		read, err := readText(t, "tables: {gates: "+file+"}")
		testcheck.NoError(t, err)
		b := flagged(t, flags...).builder()
		m := b.oneTable("gates")
		testcheck.NoError(t, b.usage())
		m.Tables[0].DeletesNeedRow = false // a file may say where the key of a delete is
		if got, want := rules(t, *m), rules(t, *read.Mapping); got != want {
			t.Errorf("%s make\n%s\nand the file %s", flags, got, want)
		}
	}
	f("")
	f("{row: after}", "--row=after")
	f("{row: payload.after, delete_when: op=d, version_field: source.lsn, null: keep, unknown_fields: add}",
		"--row=payload.after", "--delete-when=op=d", "--version-field=source.lsn", "--null=keep", "--unknown-fields=add")
	f(`{when: {type: [a, b], x.y: null, z: ""}}`, "--when=type=a,b", "--when=x.y=null", "--when=z=")
	f("{key: [id, nr], fill_only: true, columns: {id, nr, gate, 'a.b': '\"a.b\"'}}", "--key=id,nr", "--fill-only", "--columns=id,nr,gate,a.b")
	f("{columns: {id, n: {merge: sum}}}", "--columns=id,n", "--merge=n=sum")
}

// TestValues checks the texts in testdata/values.txtar.
func TestValues(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/values.txtar", func(t *testing.T, kind, text string) string {
		var size Size
		var number int
		var d time.Duration
		var v *Value
		switch kind {
		case "size":
			v = NewValue(&size, "")
		case "whole number":
			v = NewValue(&number, "")
		case "duration":
			v = NewValue(&d, "")
		default:
			v = NewValue(&d, `word:"forever" unset:""`)
		}
		if err := v.Set(strings.Trim(text, `"`)); err != nil {
			return "error: " + err.Error()
		}
		return fmt.Sprintf("%d, %v, shown as %s", int64(size)+int64(number), d, v)
	})
}

// TestDestination_NamesTheVariable: an error in DATABASE_URL is not reported for --to.
func TestDestination_NamesTheVariable(t *testing.T) {
	if _, err := New(around("DATABASE_URL=mysql://db")).Destination(); err == nil || !strings.HasPrefix(err.Error(), "DATABASE_URL: weir does not write to mysql") {
		t.Error(err)
	}
}
