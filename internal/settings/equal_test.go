package settings

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// values are tried for each key. Some are valid for it, others are not.
var values = []string{
	`x`, `""`, `a.b`, `a=b`, `a=sum`, `"a=min,b=max"`, `[a=first]`, `"a,b"`, `a..b`, `7d`, `1h30m`, `-1s`, `64MiB`, `5000/s`, `+1e3/s`, `0.5/`, `+1h`, `1d0`, `1d+2.h`, `1 MiB`, `.5gb`, `"7B "`, `[1, 1.0]`, `[1, 1]`, `{a: [1, 1.0]}`, `{a: [~, null]}`, `"discard"`, `":9461"`, `m.prom`, `0-3`, `offset=o`,
	`1`, `0`, `-1`, `1000`, `1.5`, `007`, `0x10`, `"1"`, `"0"`, `"-1"`, `"007"`, `"1000"`,
	`true`, `false`, `"true"`, `True`, `yes`, `~`, `"null"`,
	`[]`, `[a]`, `[a, b]`, `[a, a]`, `[a, A]`, `[""]`, `[1, true]`, `[~]`, `[[a]]`, `["a,b"]`, `["a=b"]`, `[{a: b}]`, `[{}]`,
	`{}`, `{a: b}`, `{a: [b, c]}`, `{a: [b, b]}`, `{a: []}`, `{a: {}}`, `{a: ~}`, `{a: {present: true}}`, `{a: {from: b}}`, `{sqlite: [b]}`, `{7d: b}`, `{7d: [b], 1h30m: {sqlite: b}}`, `{b: 7d}`, `{row: a}`, `{id: b}`,
	`[{name: n, feed: "", want: {}}]`, `text`, `"numeric(5,2)"`, `"numeric()"`, `forever`, `never`,
}

// surroundings are a map in which keys are tried, and the file around it. The key under test replaces the member of the
// same name.
type surroundings struct {
	keys    string // a regular expression
	members []string
	file    string // KEYS stands for the members
}

var places = map[string][]surroundings{
	"setting": {
		{"version_scope", []string{"version_field: v"}, "{KEYS}"},
		{"spool|spool_max|init|resume_field", []string{`source: "tcp://h:1"`}, "{KEYS}"},
		{"feed|feed_events", []string{"feed: firehose", "feed_events: position"}, "{KEYS}"},
		{"tls_ca|tls_server_name", []string{`source: "tls://h:1"`}, "{KEYS}"},
		{"tls_.*", []string{`source: "tls://h:1"`, "tls_cert: c.pem", "tls_key: c.pem"}, "{KEYS}"},
		{"group|group_.*|partitions|start|until_end|isolation|tombstones_by_key|record_fields|sasl", []string{`source: "kafka://b/t"`}, "{KEYS}"},
		{".*", nil, "{KEYS}"},
	},
	"top": {
		{"version", []string{"envelope: debezium", "tables: {t: {key: id}}"}, "{KEYS}"},
		{".*", []string{"tables: {a: {key: id}}"}, "{KEYS}"},
	},
	"table": {
		{"of|set|parent", []string{"of: x", "each: e", "key: k"}, "{tables: {x: {key: id}, t: {KEYS}}}"},
		{"from", nil, "{envelope: {row: r, table: n}, tables: {t: {KEYS}}}"},
		{"version_scope", []string{"version_field: v"}, "{tables: {t: {KEYS}}}"},
		{".*", nil, "{tables: {t: {KEYS}}}"},
	},
	"source":   {{".*", nil, "{tables: {x: {key: id}, t: {key: id, each: e, columns: {id: , c: {KEYS}}}}}"}},
	"envelope": {{"each", nil, "{envelope: {KEYS}, tables: {t: }}"}, {"connect_schema", []string{"unwrap: u", "row: r"}, "{envelope: {KEYS}, tables: {t: }}"}, {".*", []string{"row: r"}, "{envelope: {KEYS}, tables: {t: }}"}},
	"test":     {{".*", nil, "{ignore: {a: {KEYS}}, tables: {t: }}"}},
	"case":     {{".*", []string{"name: n", `feed: ""`, "want: {}"}, "{tests: [{KEYS}], tables: {a: }}"}},
}

// A difference is an intended difference between reader and schema.
type difference struct {
	keys   string // a regular expression for PLACE.KEY
	values string // one of values
	why    string
}

// differences lists all of them: values that only the schema accepts. docs/config.md documents them.
var differences = []difference{
	{".*", "007|0x10", "a schema has the number, not how it is written"},
	{".*", "True", "a schema has the boolean, not how it is written"},
	{".*", `a\.\.b|\["a,b"\]|1 MiB|\.5gb|"7B "`, "the grammar of a path"},
	{`setting\.(metrics_addr|metrics_file|partitions|record_fields|start)`, ".*", "a grammar of its own"},
	{`setting\.(buffer|spool_max|max_line)`, `"?[0-9.]+( ?[Bb] ?)?"?|\.5gb`, "the range of a size"},
	{".*", `\[1, 1\]|\[a, a\]|\{a: (\[b, b\]|\[~, null\])\}`, "a value that is named twice: to a schema 1 and 1.0 are one value, to the reader two"},
	{`setting\.(keep_(captures|rejects)|session_timeout)`, `"?0"?`, "a duration of nothing"},
	{`setting\.columns`, `""|\[\]`, "no field"},
	{`setting\.to`, `.*/`, "a folder"},
	{`setting\.envelope`, `\{.*\}`, "only with tables"},
	{`top\.envelope`, `""`, "only without tables"},
	{`top\.tables`, `\{a: \{from: b\}\}`, "from needs an envelope"},
	{`source\.references|table\.of`, ".*", "names a table of the file"},
	{`source\.(from|meta|stamp|type|when|merge)`, "~", "keys that are all null are no source"},
	{`table\.columns`, `\{.*`, "the key is one of the columns"},
	{`table\.parent`, `\{.*`, "names columns of the parent"},
	{`setting\.tls_(cert|key)`, `""|~`, "tls_cert and tls_key need each other"},
}

// TestSchema_EqualsReader: for each key and value, the schema accepts a file if and only if `weir config check` does.
func TestSchema_EqualsReader(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	newSpec := func() *Spec {
		return New(&Env{Drivers: []sink.Driver{sqlite.Driver}, FileOnly: true, Lookup: func(string) (string, bool) { return "x", true }})
	}
	schema, err := newSpec().Schema()
	testcheck.NoError(t, err)
	taken := schemaJudge(t, schema)
	path := filepath.Join(dir, "weir.yaml")
	read := func(text string) error {
		testcheck.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		s := newSpec()
		s.File = path
		_, _ = s.Load() // Validate returns its faults too
		err := s.Validate()
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			return errors.Join(slices.DeleteFunc(slices.Clone(joined.Unwrap()), func(err error) bool { return strings.Contains(err.Error(), "no such file") })...)
		}
		return err
	}
	keys := map[string]map[string][]string{}
	for name, of := range mapTypes {
		keys[name] = map[string][]string{}
		for _, f := range fieldsOf(of) {
			keys[name][f.name] = f.words
		}
	}
	keys["setting"] = map[string][]string{}
	for _, one := range newSpec().Settings() {
		if one.InFile() {
			keys["setting"][one.name] = one.Choices()
		}
	}
	used := map[difference]bool{}
	for _, place := range slices.Sorted(maps.Keys(keys)) {
		for _, key := range slices.Sorted(maps.Keys(keys[place])) {
			around := places[place][slices.IndexFunc(places[place], func(s surroundings) bool { return regexp.MustCompile("^(" + s.keys + ")$").MatchString(key) })]
			both := 0
			for _, value := range slices.Concat(values, keys[place][key]) {
				members := []string{key + ": " + value}
				for _, m := range around.members {
					if !strings.HasPrefix(m, key+":") {
						members = append(members, m)
					}
				}
				text := strings.ReplaceAll(around.file, "KEYS", strings.Join(members, ", "))
				err, bySchema := read(text), taken(text)
				if err == nil && bySchema {
					both++
				}
				if (err == nil) == bySchema {
					continue
				}
				i := slices.IndexFunc(differences, func(d difference) bool {
					return regexp.MustCompile("^("+d.keys+")$").MatchString(place+"."+key) && regexp.MustCompile("^("+d.values+")$").MatchString(value)
				})
				if i >= 0 && bySchema {
					used[differences[i]] = true
					continue
				}
				t.Errorf("%s.%s: %s: the schema takes it: %v, the reader says %v", place, key, value, bySchema, err)
			}
			if both == 0 {
				t.Errorf("%s.%s: no value is right", place, key)
			}
		}
	}
	for _, d := range differences {
		if !used[d] {
			t.Errorf("%s: %s is no difference any more", d.keys, d.values)
		}
	}
}
