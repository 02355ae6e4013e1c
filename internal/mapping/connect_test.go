package mapping_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// typed maps a line of a table t, which has columns as a config file names them and is in the database as it is
// found, of an envelope with Connect's schemas, and returns its values and the columns that it declares.
func typed(t *testing.T, columns string, have schema.Table, textTypes bool, line string) string {
	t.Helper()
	m := newMapper(t, parse(t, "envelope: {unwrap: payload, connect_schema: schema, row: after}\ntables: {t: {"+columns+"}}"), schema.Limits{TextTypes: textTypes})
	have.Name = "t"
	testcheck.NoError(t, m.Fit(0, &have))
	var l feed.Line
	if l.Scan(m.scan, nil, []byte(line)); l.Err != nil {
		t.Fatal(l.Err)
	}
	rows, _, err := m.Map(&l, fold.Place{}, m.scratch)
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, f := range rows[0].Fields {
		out = append(out, fmt.Sprintf("%s=%s", m.names.Name(f.Name), f.Value))
	}
	for _, name := range slices.Sorted(maps.Keys(rows[0].Declared)) {
		out = append(out, fmt.Sprintf("%s:%s", name, rows[0].Declared[name].Type))
	}
	return strings.Join(out, " ")
}

// message is a line whose row has fields, by their schemas and values.
func message(fields ...string) string {
	var schemas, values []string
	for _, f := range fields {
		name, rest, _ := strings.Cut(f, " ")
		s, v, _ := strings.Cut(rest, " ")
		typ, logical, _ := strings.Cut(s, "/")
		logical, scale, _ := strings.Cut(logical, "/")
		schemas = append(schemas, fmt.Sprintf(`{"type":%q,"name":%q,"parameters":{"scale":%q},"field":%q}`, typ, logical, scale, name))
		values = append(values, fmt.Sprintf("%q:%s", name, v))
	}
	return fmt.Sprintf(`{"schema":{"type":"struct","fields":[{"type":"struct","fields":[%s],"field":"after"}]},"payload":{"after":{%s}}}`, strings.Join(schemas, ","), strings.Join(values, ","))
}

// TestConnect_Types: the fields of a row have the types of their schema, and so have the columns that weir makes.
func TestConnect_Types(t *testing.T) {
	f := func(field, instant, text string) {
		t.Helper()
		for textTypes, want := range map[bool]string{false: instant, true: text} {
			if got := typed(t, "", schema.Table{}, textTypes, message("id int64 1", field)); got != want {
				t.Errorf("%s: %s, want %s", field, got, want)
			}
		}
	}
	same := func(field, want string) { t.Helper(); f(field, want, want) }
	same("v int32 5", "id=1 v=5 id:integer v:integer")
	same("v string null", "id=1 v=null id:integer v:text")
	same("v float 0.3", "id=1 v=0.3 id:integer v:real")
	same("v double 4.9E-324", "id=1 v=5e-324 id:integer v:real")
	same(`v double "NaN"`, `id=1 v="NaN" id:integer v:real`)
	same("v array [1]", "id=1 v=[1] id:integer v:json")
	same("v boolean true", "id=1 v=true id:integer v:boolean")
	same(`v bytes "AP8="`, `id=1 v="\\x00ff" id:integer v:bytes`)
	same(`v bytes/org.apache.kafka.connect.data.Decimal/2 "HL6ZGhQ="`, "id=1 v=1234567890.12 id:integer v:number")
	same(`v bytes/org.apache.kafka.connect.data.Decimal/2 1.50`, "id=1 v=1.50 id:integer v:number")
	same(`v struct/io.debezium.data.VariableScaleDecimal {"scale":1,"value":"AQ=="}`, "id=1 v=0.1 id:integer v:number")
	same("v int64/io.debezium.time.MicroTime 1", `id=1 v="00:00:00.000001" id:integer v:text`)
	f("v int32/io.debezium.time.Date 19782", `id=1 v="2024-02-29" id:integer v:date`, `id=1 v="2024-02-29" id:integer v:text`)
	f("v int64/org.apache.kafka.connect.data.Timestamp 1", `id=1 v="1970-01-01T00:00:00.001Z" id:integer v:time`, `id=1 v="1970-01-01 00:00:00.001" id:integer v:text`)
	f(`v string/io.debezium.data.Json "{\"a\":1}"`, `id=1 v={"a":1} id:integer v:json`, `id=1 v="{\"a\":1}" id:integer v:text`)
	same("v int64/io.debezium.time.MicroDuration 7", "id=1 v=7 id:integer v:integer")
	same("v odd/unknown 7", "id=1 v=7 id:integer")
	same("v int32/io.debezium.time.Date 1e9", `table "t": the field "v" is 1e9: it is not in the years 1 to 9999`)
}

// TestConnect_Mapped: what the mapping says of a column counts before the schema, and so does the type of a
// column that exists.
func TestConnect_Mapped(t *testing.T) {
	f := func(cols string, have schema.Type, want string) {
		t.Helper()
		exists := schema.Table{}
		if have != schema.Any {
			exists = schema.Table{Exists: true, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}, {Name: "v", Type: have}}, Key: []int{0}}
		}
		if got := typed(t, cols, exists, false, message("id int64 1", "v int64/io.debezium.time.Timestamp 1000")); got != want {
			t.Errorf("%s in %s: %s, want %s", cols, have, got, want)
		}
	}
	f("columns: {id, v}", schema.Any, `id=1 v="1970-01-01T00:00:01Z" id:integer v:time`)
	f("columns: {id, at: v}", schema.Any, `id=1 at="1970-01-01T00:00:01Z" at:time id:integer v:time`)
	f("columns: {id, v: v as integer}", schema.Any, "id=1 v=1000 id:integer")
	f("columns: {id, v: id}", schema.Any, "id=1 v=1 id:integer v:integer")
	f("columns: {id, v: {value: 7}}", schema.Any, "id=1 v=7 id:integer")
	f("", schema.Instant, `id=1 v="1970-01-01T00:00:01Z" id:integer v:time`)
	f("", schema.Text, `id=1 v="1970-01-01T00:00:01Z" id:integer v:time`)
	f("", schema.Int, "id=1 v=1000 id:integer")
	f("", schema.JSON, "id=1 v=1000 id:integer")
}

// TestConnect_Widens: a column that weir has made, and that is widened to other numbers, has their values as the
// schema says, also in a later run.
func TestConnect_Widens(t *testing.T) {
	f := func(field string, have schema.Column, want string) {
		t.Helper()
		exists := schema.Table{Exists: true, Made: true, Columns: []schema.Column{{Name: "id", Type: schema.Int, Key: true}, have}, Key: []int{0}}
		if got := typed(t, "", exists, false, message("id int64 1", field)); !strings.HasPrefix(got+" ", "id=1 "+want+" ") {
			t.Errorf("%s in %s: %s, want %s", field, have.Type, got, want)
		}
	}
	own := schema.NewOf("v", false, schema.Int)
	for _, own.New = range []bool{true, false} { // before it is committed, and behind
		f(`v bytes/org.apache.kafka.connect.data.Decimal/2 "MDk="`, own, "v=123.45")
		f("v double 1.0E3", own, "v=1000")
		f(`v string/io.debezium.time.ZonedTimestamp "2020-05-15T13:30:00.50Z"`, own, `v="2020-05-15T13:30:00.5Z"`)
		f("v int64/io.debezium.time.Timestamp 1000", own, "v=1000")
	}
	f(`v bytes/org.apache.kafka.connect.data.Decimal/2 "MDk="`, schema.Column{Name: "v", Type: schema.Int}, `v="MDk="`)
}

// TestConnect_Unwrap: a line without a schema that has other fields than the message is a message itself.
func TestConnect_Unwrap(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		if got := typed(t, "", schema.Table{}, false, line); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	f(`{"payload":{"after":{"id":1}}}`, "id=1")
	f(`{"schema":{"fields":7},"payload":{"after":{"id":1}}}`, "id=1")
	f(`{"schema":{"fields":[]},"payload":{"after":{"id":1}},"after":{"id":2}}`, "id=2")
	f(`{"schema":{"type":"struct"},"payload":{"after":{"id":1}},"after":{"id":2}}`, "id=1") // as --record-fields adds fields
}
