package cli_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testweir"
)

// The tables of testdata/debezium, whose types are in the messages, or here.
const (
	debeziumTables = "\ntables:\n  kinds: {rest: add}\n" + untypedTables
	untypedTables  = `  order_lines: {key: [order_id, line_no], rest: add}
  customers: {from: inventory.customers, rest: add}
  sales_customers: {from: sales.customers, key: code, rest: add}
  documents: {rest: add}
  documents_full: {rest: add}
  mails: {rest: add}
  rates: {key: [day, at, factor], rest: add}
`
	debeziumTyped = `
tables:
  kinds:
    columns: {id: as integer, price: 'as numeric_base64(12,2)', exact: 'as numeric_base64(38,10)', loose: as numeric_base64, cash: 'as numeric_base64(18,2)',
      ts: as timestamp_us, ts3: as timestamp_ms, tz: as timestamp, day: as date_days, at: as time_us, at3: as time_ms, uid: as uuid, doc: as json_text, raw: as bytes, bits: as bytes}
    rest: add
  order_lines: {key: [order_id, line_no], columns: {order_id: as integer, line_no: as integer, qty: 'as numeric_base64(6,2)'}, rest: add}
  customers: {from: inventory.customers, columns: {id: as integer, created: as timestamp, born: as date_days, credit: 'as numeric_base64(8,2)'}, rest: add}
  sales_customers: {from: sales.customers, key: code, rest: add}
  documents: {columns: {id: as uuid, meta: as json_text, blob: as bytes}, rest: add}
  documents_full: {columns: {id: as uuid, meta: as json_text, blob: as bytes}, rest: add}
  mails: {columns: {id: as integer, payload: as numeric_base64}, rest: add}
`
	debeziumEvents = "  events: {rest: add}\n"
	wal2jsonTables = "\ntables:\n" + untypedTables
)

// A debezium is a folder with the program and what Debezium wrote of the tables in testdata/debezium.
type debezium struct {
	*testweir.Folder
	form   string // of its messages
	tables []string
}

// TestDebezium_TablesAreEqual: what Debezium's engine (testdata/debezium) and wal2json (testdata/envelopes/wal2json)
// wrote of a Postgres database makes its tables, value by value, by runs that are killed, once more from the start, and with versions.
func TestDebezium_TablesAreEqual(t *testing.T) {
	t.Parallel()
	all := []string{"kinds", "order_lines", "customers", "sales_customers", "documents", "documents_full", "mails", "rates", "events"}
	rows := all[:len(all)-1] // ExtractNewRecordState drops truncations
	for _, c := range []struct {
		name, form, config string
		tables             []string
		run                func(*debezium)
	}{
		{"schemas", "precise.schemas", "envelope: debezium" + debeziumTables + debeziumEvents, all, (*debezium).twice},
		{"schemas, killed", "precise.schemas", "envelope: debezium" + debeziumTables + debeziumEvents, all, (*debezium).killed},
		{"schemas, small batches", "precise.schemas", "envelope: debezium\nbatch_rows: 6" + debeziumTables + debeziumEvents, all, (*debezium).once},
		{"schemas, versions", "precise.schemas", "envelope: debezium\nversion: true" + debeziumTables, rows, (*debezium).twice},
		{"strings", "strings.schemas", "envelope: debezium" + debeziumTables + debeziumEvents, all, (*debezium).once},
		{"doubles", "doubles.schemas", "envelope: debezium" + debeziumTables + debeziumEvents, all, (*debezium).once},
		{"flat with schemas", "precise.flat-schemas", "envelope: debezium-flat" + debeziumTables, rows, (*debezium).once},
		{"plain", "precise.plain", "envelope: debezium" + debeziumTyped + debeziumEvents, append(all[:7:7], "events"), (*debezium).once},
		{"every table", "precise.schemas", "envelope: debezium\ntables:\n  '*': {rest: add}\n  customers: {from: inventory.customers, rest: add}\n  events: {from: sales.events, rest: add}\n" +
			"  order_lines: {key: [order_id, line_no], rest: add}\n  sales_customers: {from: sales.customers, key: code, rest: add}\n  rates: {key: [day, at, factor], rest: add}\n", all, (*debezium).every},
		{"flat", "precise.flat", "envelope: debezium-flat" + debeziumTyped, all[:7], (*debezium).once},
		{"wal2json", "wal2json", "envelope: wal2json" + wal2jsonTables + debeziumEvents, all[1:], (*debezium).twice},
		{"wal2json, killed", "wal2json", "envelope: wal2json" + wal2jsonTables + debeziumEvents, all[1:], (*debezium).killed},
		{"wal2json, versions", "wal2json", "envelope: wal2json\nversion: true" + wal2jsonTables, all[1:8], (*debezium).twice},
	} {
		t.Run(c.name, func(t *testing.T) {
			intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
				t.Parallel()
				d := &debezium{Folder: testweir.New(t, to(t)), form: c.form, tables: c.tables}
				var lines []string
				if c.form == "wal2json" {
					lines = unzipped(t, "envelopes/wal2json/changes.jsonl.gz")
				} else {
					for _, r := range debeziumRecords(t, c.form) {
						lines = append(lines, r[2])
					}
				}
				d.Write("shop.jsonl", strings.Join(lines, "\n")+"\n")
				d.Write("shop.yaml", c.config)
				c.run(d)
				d.compare()
			})
		})
	}
}

// debeziumRecords are the records of a form: topic, key and value.
func debeziumRecords(t *testing.T, form string) (records [][]string) {
	for _, line := range unzipped(t, "debezium/"+form+".tsv.gz") {
		records = append(records, strings.SplitN(line, "\t", 3))
	}
	if len(records) < 200 {
		t.Fatalf("did not exercise: %d records", len(records))
	}
	return records
}

// unzipped are the lines of a file of testdata.
func unzipped(t testing.TB, name string) (lines []string) {
	t.Helper()
	f, err := os.Open("../../testdata/" + name)
	testcheck.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	testcheck.NoError(t, err)
	r := bufio.NewReader(z)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return lines
		}
		testcheck.NoError(t, err)
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
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
	d.sync("--from-start")
}

// every has views of the tables that '*' makes, by the names of the others.
func (d *debezium) every() {
	separator := "_"
	db := d.Open(d.To, "rwc")
	defer db.Close()
	if strings.Contains(d.To, "://") {
		separator = "."
		for _, name := range []string{"inventory", "sales"} {
			_, err := db.Exec("CREATE SCHEMA " + name)
			d.Check(err)
		}
	}
	d.sync()
	for _, name := range []string{"inventory.kinds", "inventory.documents", "inventory.documents_full", "sales.mails"} {
		space, table, _ := strings.Cut(name, ".")
		_, err := db.Exec(fmt.Sprintf("CREATE VIEW %s AS SELECT * FROM %s%s%s", table, space, separator, table))
		d.Check(err)
	}
}

func (d *debezium) killed() {
	for _, line := range []string{"60", "140"} {
		c := d.Start("sync", "shop.jsonl", "--config", "shop.yaml", "--to", d.To, "--max-rate", "150/s", "--batch-rows", "3")
		d.Becomes("1", "SELECT count(*) FROM weir_checkpoints WHERE line >= "+line)
		c.Kill()
	}
	if d.Ask("SELECT count(*) FROM weir_checkpoints WHERE line >= 249") == "1" {
		d.Error("did not exercise: the last run has nothing to do")
	}
	d.sync()
}

// compare demands that the tables are the source's.
func (d *debezium) compare() {
	d.Helper()
	want := map[string][]map[string]any{}
	for _, line := range unzipped(d, "debezium/tables.jsonl.gz") {
		var row struct {
			Table string
			Row   map[string]any
		}
		decode(d, line, &row)
		want[row.Table] = append(want[row.Table], row.Row)
	}
	for _, table := range d.tables {
		got := d.rows(table)
		if len(got) != len(want[table]) || len(got) < 2 {
			d.Errorf("%s has %d rows, want %d", table, len(got), len(want[table]))
			continue
		}
		for i, row := range want[table] {
			for name, value := range row {
				if is, has := got[i][name]; !has || !d.same(name, value, is) {
					d.Errorf("%s, row %d: %s is %.200s, want %.200v", table, i, name, is, value)
				}
			}
		}
	}
	if n := d.Ask("SELECT count(*) FROM weir_rejects"); n != "0" {
		d.Errorf("%s lines were rejected: %s", n, d.Ask("SELECT line, reason FROM weir_rejects"))
	}
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	r := json.NewDecoder(strings.NewReader(text))
	r.UseNumber()
	if err := r.Decode(into); err != nil {
		t.Fatal(text, err)
	}
}

// rows are those of a table in the order of its key, which is in its first columns. NULL is "NULL".
func (d *debezium) rows(table string) (rows []map[string]string) {
	db := d.Open(d.To, "ro")
	defer db.Close()
	c, err := db.Conn(context.Background())
	d.Check(err)
	defer c.Close()
	columns, order := "*", map[string]string{"order_lines": "t.order_id, t.line_no", "sales_customers": "t.code", "rates": "t.day, t.at, t.factor"}[table]
	if order == "" {
		order = "t.id"
	}
	if strings.Contains(d.To, "://") {
		_, err = c.ExecContext(context.Background(), "SET timezone = 'UTC'")
		d.Check(err)
		names := strings.Fields(d.Ask(fmt.Sprintf("SELECT attname FROM pg_attribute WHERE attrelid = '%s'::regclass AND attnum > 0 ORDER BY attnum", table)))
		for i, name := range names {
			names[i] = fmt.Sprintf("%q::text", name)
		}
		columns = strings.Join(names, ", ")
	}
	names, all, err := testweir.Cells(c, fmt.Sprintf("SELECT %s FROM %s t ORDER BY %s", columns, table, order))
	d.Check(err)
	for _, cells := range all {
		row := map[string]string{}
		for i, cell := range cells {
			switch x := cell.(type) {
			case nil:
				row[names[i]] = "NULL"
			case []byte:
				row[names[i]] = `\x` + hex.EncodeToString(x)
			default:
				row[names[i]] = fmt.Sprint(x)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// same reports whether a column has a value of the source, as Debezium's settings leave it.
func (d *debezium) same(column string, want any, got string) bool {
	switch {
	case want == nil || got == "NULL":
		return want == nil && got == "NULL"
	case d.form == "strings.schemas" && column == "took":
		return got == map[string]string{"93784500000.000000": "P0Y0M1DT2H3M4.5S", "-2629800000000": "P0Y-1M0DT0H0M0S"}[fmt.Sprint(want)]
	case d.form == "strings.schemas" && (column == "ts" || column == "at") && len(fmt.Sprint(want)) > len(".000")+3: // milliseconds
		text := fmt.Sprint(want)
		whole, fraction, _ := strings.Cut(text, ".")
		fraction = strings.TrimRight(fraction[:min(3, len(fraction))], "0")
		want = strings.TrimSuffix(whole+"."+fraction, ".")
	case (d.form == "doubles.schemas" || d.form == "wal2json") && (column == "raw" || column == "blob"):
		want = strings.TrimPrefix(fmt.Sprint(want), `\x`)
	}
	if elements, ok := want.([]any); ok && d.form == "wal2json" { // as Postgres writes an array
		want = strings.ReplaceAll("{"+strings.Trim(fmt.Sprint(elements), "[]")+"}", " ", ",")
		want = strings.ReplaceAll(fmt.Sprint(want), "<nil>", "NULL")
		return got == want
	}
	if slices.Contains([]string{"doc", "meta", "names", "counts", "parts"}, column) {
		var have any
		decode(d, got, &have)
		return reflect.DeepEqual(have, want)
	}
	switch w := want.(type) {
	case bool:
		return got == "true" && w || got == "false" && !w || got == "1" && w || got == "0" && !w
	case json.Number:
		x, ok := new(big.Rat).SetString(got)
		y, _ := new(big.Rat).SetString(string(w))
		if d.form == "doubles.schemas" || column == "d" { // Java's spelling of a double may have digits of its own
			f, err := strconv.ParseFloat(got, 64)
			g, _ := w.Float64()
			return err == nil && f == g
		}
		return ok && x.Cmp(y) == 0
	}
	return got == want || got == fmt.Sprint(want)+"+00"
}

// TestDebezium_Kafka: the same records in topics, with their keys and tombstones: all tables by a config
// file, and one by a flag from a compacted topic.
func TestDebezium_Kafka(t *testing.T) {
	t.Parallel()
	c := testkafka.Start(t)
	tables := map[string]string{"inventory.kinds": "kinds", "inventory.order_lines": "order_lines", "inventory.customers": "customers", "sales.customers": "sales_customers",
		"inventory.documents": "documents", "inventory.documents_full": "documents_full", "sales.mails": "mails", "sales.rates": "rates", "sales.events": "events"}
	var topics, names []string
	for of, name := range tables {
		topics, names = append(topics, "shop."+of), append(names, name)
	}
	topics = append(topics, "shop.transaction", "__debezium-heartbeat.shop", "shop.message")
	c.CreateTopics(1, map[string]string{"cleanup.policy": "compact"}, topics...)
	var records []*kgo.Record
	tombstones := 0
	for _, r := range debeziumRecords(t, "precise.schemas") {
		x := &kgo.Record{Topic: r[0]}
		if r[1] != "null" { // a truncation has no key
			x.Key = []byte(r[1])
		}
		if r[2] == "null" {
			tombstones++
		} else {
			x.Value = []byte(r[2])
		}
		records = append(records, x)
	}
	if tombstones < 5 {
		t.Errorf("did not exercise: %d tombstones", tombstones)
	}
	c.Send(c.Client(), records...)
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		t.Parallel()
		d := &debezium{Folder: testweir.New(t, to(t)), form: "precise.schemas", tables: names}
		source := "kafka://" + c.Addr() + "/"
		d.Write("shop.yaml", "envelope: debezium"+debeziumTables+debeziumEvents)
		d.run("sync", source+strings.Join(topics, ","), "--partitions", "0", "--until-end", "--config", "shop.yaml", "--to", d.To)
		d.compare()

		d.tables = []string{"kinds"}
		d.Check(os.RemoveAll(d.Path("t.db")))
		d.To = to(t)
		d.run("sync", source+"shop.inventory.kinds", "--partitions", "0", "--until-end", "--envelope", "debezium", "--table", "kinds", "--to", d.To)
		d.compare()
	})
}
