package cli_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

// debeziumConfig returns a config file of testdata/debezium, with settings before its tables.
func debeziumConfig(t testing.TB, settings, tables string) string {
	return settings + "\n" + read(t, "../../testdata/debezium/"+tables+".yaml")
}

const debeziumEvents = "  events: {unknown_fields: add}\n"

// A debezium is a folder with the program and Debezium's messages about the tables in testdata/debezium.
type debezium struct {
	*testweir.Folder
	form   string // form of the messages
	tables []string
}

// TestDebezium_TablesAreEqual: the messages that Debezium's engine (testdata/debezium) and wal2json
// (testdata/envelopes/wal2json) wrote about a Postgres database make the same tables, value by value, also
// when the feed is reread, and with versions.
func TestDebezium_TablesAreEqual(t *testing.T) {
	t.Parallel()
	all := []string{"kinds", "order_lines", "customers", "sales_customers", "documents", "documents_full", "mails", "rates", "events"}
	rows := all[:len(all)-1] // ExtractNewRecordState drops truncations
	for _, c := range []struct {
		name, form, settings, config string
		tables                       []string
		run                          func(*debezium)
	}{
		{"schemas", "precise.schemas", "envelope: debezium", "in_messages", all, (*debezium).twice},
		{"schemas, small batches", "precise.schemas", "envelope: debezium\nbatch_rows: 6", "in_messages", all, (*debezium).once},
		{"schemas, versions", "precise.schemas", "envelope: debezium\nversion: true", "in_messages", rows, (*debezium).twice},
		{"strings", "strings.schemas", "envelope: debezium", "in_messages", all, (*debezium).once},
		{"doubles", "doubles.schemas", "envelope: debezium", "in_messages", all, (*debezium).once},
		{"flat with schemas", "precise.flat-schemas", "envelope: debezium-flat", "in_messages", rows, (*debezium).once},
		{"plain", "precise.plain", "envelope: debezium", "typed", append(all[:7:7], "events"), (*debezium).once},
		{"every table", "precise.schemas", "envelope: debezium", "every", all, (*debezium).every},
		{"flat", "precise.flat", "envelope: debezium-flat", "typed", all[:7], (*debezium).once},
		{"wal2json", "wal2json", "envelope: wal2json", "wal2json", all[1:], (*debezium).twice},
		{"wal2json, versions", "wal2json", "envelope: wal2json\nversion: true", "wal2json", all[1:8], (*debezium).twice},
	} {
		t.Run(c.name, func(t *testing.T) {
			intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
				t.Parallel()
				d := &debezium{Folder: testweir.New(t, to(t)), form: c.form, tables: c.tables}
				name, lines := "debezium/"+c.form+".tsv.gz", []string{}
				if c.form == "wal2json" {
					name = "envelopes/wal2json/changes.jsonl.gz"
				}
				for _, line := range unzipped(t, name) {
					lines = append(lines, line[strings.LastIndex(line, "\t")+1:])
				}
				if len(lines) < 200 {
					t.Errorf("did not exercise: %d records", len(lines))
				}
				d.Write("shop.jsonl", strings.Join(lines, "\n")+"\n")
				config := debeziumConfig(t, c.settings, c.config)
				if slices.Contains(c.tables, "events") && c.config != "every" {
					config += debeziumEvents
				}
				d.Write("shop.yaml", config)
				c.run(d)
				d.compare()
			})
		})
	}
}

// unzipped returns the lines of a compressed test file.
func unzipped(t testing.TB, name string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(testcheck.Unzipped(t, "../../testdata/"+name), "\n"), "\n")
}

// sync reads the file.
func (d *debezium) sync(more ...string) {
	d.Helper()
	d.run(append([]string{"sync", "shop.jsonl", "--config", "shop.yaml", "--to", d.To}, more...)...)
}

// run runs the program to its end.
func (d *debezium) run(args ...string) {
	d.Helper()
	if c := d.Start(args...); c.Wait() != 0 {
		d.Errorf("%s\n%s", c.Exit(0), d.Ask("SELECT line, reason FROM weir_rejects"))
	}
}

func (d *debezium) once() { d.sync() }

func (d *debezium) twice() {
	d.sync()
	d.compare()
	d.sync("--restart=reread")
}

// every moves the tables made by '*' to where compare expects them.
func (d *debezium) every() {
	move := "ALTER TABLE %s_%s RENAME TO %[2]s"
	if strings.Contains(d.To, "://") {
		move = "ALTER TABLE %s.%s SET SCHEMA public"
		d.Exec("CREATE SCHEMA inventory", "CREATE SCHEMA sales")
	}
	d.sync()
	for _, table := range [][2]string{{"inventory", "kinds"}, {"inventory", "documents"}, {"inventory", "documents_full"}, {"sales", "mails"}} {
		d.Exec(fmt.Sprintf(move, table[0], table[1]))
	}
}

// compare checks that the tables equal the source's, using weir verify with the rows as messages.
func (d *debezium) compare() {
	d.Helper()
	var want strings.Builder
	for _, line := range unzipped(d, "debezium/tables.jsonl.gz") {
		var row struct {
			Table string
			Row   map[string]json.RawMessage
		}
		d.Check(json.Unmarshal([]byte(line), &row))
		if !slices.Contains(d.tables, row.Table) {
			continue
		}
		for column, value := range row.Row {
			row.Row[column] = d.as(column, value)
		}
		text, err := json.Marshal(map[string]any{"op": "r", "after": row.Row, "source": map[string]string{"schema": "s", "table": row.Table}})
		d.Check(err)
		fmt.Fprintf(&want, "%s\n", text)
	}
	more := map[string]string{"order_lines": ", key: [order_id, line_no]", "sales_customers": ", key: code", "rates": ", key: [day, at, factor]",
		"kinds": ", columns: {id, bits: as bytes, raw: as bytes, doc: as json_text}", "documents": ", columns: {id, blob: as bytes, meta: as json_text}"}
	switch d.form {
	case "doubles.schemas":
		more["kinds"], more["documents"] = ", columns: {id, bits: as bytes, doc: as json_text}", ", columns: {id, meta: as json_text}"
	case "wal2json":
		more["documents"] = ""
	}
	more["documents_full"] = more["documents"]
	if strings.Contains(d.To, "://") && d.form != "wal2json" {
		more["rates"] += ", columns: {day, at: as timestamp, factor}"
	}
	config := "envelope: debezium\ntables:\n"
	for _, table := range d.tables {
		config += "  " + table + ": {unknown_fields: add" + more[table] + "}\n"
	}
	d.Write("want.jsonl", want.String())
	d.Write("want.yaml", config)
	d.Env = []string{"PGTZ=UTC"}
	run := d.Start("verify", "want.jsonl", "--config", "want.yaml", "--to", d.To, "--show", "30")
	if code := run.Wait(); code != 0 || strings.Count(run.Out(), " match ") != len(d.tables) {
		d.Errorf("exit %d\n%.2000s\n%.2000s", code, run.Out(), run.Log())
	}
	d.Has("0", "SELECT count(*) FROM weir_rejects")
}

// as returns a value of the source as the form's messages have it, if the form loses some of it.
func (d *debezium) as(column string, value json.RawMessage) json.RawMessage {
	text := string(value)
	_ = json.Unmarshal(value, &text) // other values than strings are complete
	is := func(forms, columns string) bool {
		return text != "null" && slices.Contains(strings.Fields(forms), d.form) && slices.Contains(strings.Fields(columns), column)
	}
	switch {
	case is("wal2json", "created") || is("wal2json", "at") && strings.Contains(text, " "):
		text += "+00"
	case column == "at" && strings.Contains(text, " ") && strings.Contains(d.To, "://"): // in a key, text includes the time zone
		text = strings.Replace(text, " ", "T", 1) + "Z"
	case is("strings.schemas", "took"):
		text = map[string]string{"93784500000.000000": "P0Y0M1DT2H3M4.5S", "-2629800000000": "P0Y-1M0DT0H0M0S"}[text]
	case is("strings.schemas", "ts at"): // milliseconds
		if whole, fraction, ok := strings.Cut(text, "."); ok {
			text = strings.TrimSuffix(whole+"."+strings.TrimRight(fraction[:min(3, len(fraction))], "0"), ".")
		}
	case is("strings.schemas", "factor"): // in a key, a string keeps its zeros
	case is("doubles.schemas", "factor"):
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	case is("doubles.schemas wal2json", "raw blob"):
		text = strings.TrimPrefix(text, `\x`)
	case is("wal2json", "names counts parts"): // Postgres array syntax
		text = strings.NewReplacer("[", "{", "]", "}", `"`, "", "null", "NULL").Replace(text)
	case strings.HasPrefix(text, `\x`) && slices.Contains([]string{"raw", "bits", "blob"}, column):
		raw, err := hex.DecodeString(text[2:])
		d.Check(err)
		text = base64.StdEncoding.EncodeToString(raw)
	case is("precise.plain precise.flat", "d") && text == "5e-324": // as Java writes it
		return json.RawMessage("4.9E-324")
	case (column == "doc" || column == "meta") && string(value) != "null":
		text = string(value)
	default:
		return value
	}
	value, err := json.Marshal(text)
	d.Check(err)
	return value
}
