package sinktest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A streamType is a type in the schema of a stream, with a value of it.
type streamType struct {
	name   string
	kind   typeKind
	schema string
	value  string
	text   string // of the value in a column of text
	texts  string // the same if times are texts; "": text
}

// A typeKind is a kind of columns that the types of a stream make.
type typeKind int

const (
	boolKind typeKind = iota
	numberKind
	textKind
	bytesKind
	dayKind
	instantKind
	uuidKind
	jsonKind
)

var streamTypes = []streamType{
	{"boolean", boolKind, `"type":"boolean"`, `true`, "true", ""},
	{"int32", numberKind, `"type":"int32"`, `5`, "5", ""},
	{"int64", numberKind, `"type":"int64"`, `9007199254740993`, "9007199254740993", ""},
	{"float", numberKind, `"type":"float"`, `0.25`, "0.25", ""},
	{"double", numberKind, `"type":"double"`, `1.5`, "1.5", ""},
	{"decimal", numberKind, `"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}`, `"MDk="`, "123.45", ""},
	{"string", textKind, `"type":"string"`, `"free"`, "free", ""},
	{"clock", textKind, `"type":"int64","name":"io.debezium.time.MicroTime"`, `48600000000`, "13:30:00", ""},
	{"bytes", bytesKind, `"type":"bytes"`, `"aGk="`, "6869", ""},
	{"bits", bytesKind, `"type":"bytes","name":"io.debezium.data.Bits"`, `"BQ=="`, "05", ""},
	{"date", dayKind, `"type":"int32","name":"io.debezium.time.Date"`, `20000`, "2024-10-04", ""},
	{"timestamp", instantKind, `"type":"int64","name":"io.debezium.time.MicroTimestamp"`, `1732800000500000`, "2024-11-28T13:20:00.5Z", "2024-11-28 13:20:00.5"},
	{"zoned", instantKind, `"type":"string","name":"io.debezium.time.ZonedTimestamp"`, `"2024-11-28T15:20:00+02:00"`, "2024-11-28T13:20:00Z", "2024-11-28 13:20:00"},
	{"uuid", uuidKind, `"type":"string","name":"io.debezium.data.Uuid"`, `"A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11"`, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", ""},
	{"json", jsonKind, `"type":"string","name":"io.debezium.data.Json"`, `"{\"a\":1}"`, `{"a":1}`, ""},
	{"array", jsonKind, `"type":"array","items":{"type":"int32"}`, `[1,2]`, `[1,2]`, ""},
}

// clash reports whether no column holds the values of both types as what they are.
func (s *streamType) clash(with *streamType) bool {
	unit := func(a, b *streamType) bool {
		return a.kind == numberKind && (b.kind == dayKind || b.kind == instantKind)
	}
	return (s.kind == bytesKind) != (with.kind == bytesKind) || unit(s, with) || unit(with, s)
}

// A typeChange is a column whose type changes.
type typeChange struct{ from, to *streamType }

func (c *typeChange) column() string { return c.from.name + "_to_" + c.to.name }

// shown returns SQL for the values of the column, in the form of want.
func (c *typeChange) shown(texts bool) string {
	switch same := c.from.kind == c.to.kind; {
	case same && c.from.kind == bytesKind && texts:
		return "lower(hex(" + c.column() + "))"
	case same && c.from.kind == bytesKind:
		return "encode(" + c.column() + ", 'hex')"
	case same && c.from.kind == instantKind && !texts:
		return `rtrim(rtrim(to_char(` + c.column() + ` AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z'`
	}
	return "CAST(" + c.column() + " AS TEXT)"
}

// want returns a value's text.
func (s *streamType) want(texts bool) string {
	if texts && s.texts != "" {
		return s.texts
	}
	return s.text
}

// change returns a message with the values of one type of each column.
func changeMessage(id int, columns []typeChange, of func(typeChange) *streamType) string {
	schema, row := `{"field":"id","type":"int32"}`, fmt.Sprintf(`"id":%d`, id)
	for _, c := range columns {
		schema += fmt.Sprintf(`,{"field":%q,%s}`, c.column(), of(c).schema)
		row += fmt.Sprintf(`,%q:%s`, c.column(), of(c).value)
	}
	return fmt.Sprintf(`{"schema":{"type":"struct","fields":[{"field":"after","type":"struct","fields":[%s]}]},"payload":{"after":{%s}}}`, schema, row)
}

// typeChangeTests: the schema of a stream changes the type of a column, from each type to each other one.
var typeChangeTests = []test{
	{"InOneBatch", func(t *testing.T, db Database) { changeTypes(t, db, func(r *Run) *Run { return r }) }},
	{"InOneRun", func(t *testing.T, db Database) {
		changeTypes(t, db, func(r *Run) *Run { r.Flush(); return r })
	}},
	{"OverARestart", func(t *testing.T, db Database) {
		changeTypes(t, db, func(r *Run) *Run {
			r.Flush()
			r.End()
			return changing(t, db)
		})
	}},
}

func changing(t *testing.T, db Database) *Run {
	return BeginNested(t, db, &mapping.Mapping{Tables: []mapping.Table{{Name: table, Key: []string{"id"}}}, Envelope: &envelope.Envelope{
		Unwrap: path("payload"), ConnectSchema: path("schema"), Row: []paths.Path{path("after")}}})
}

// changeTypes writes a value of each type into each column, and then one of the other type. between is what happens
// meanwhile. No value may differ afterwards, and where no type holds both, the run ends at the message.
func changeTypes(t *testing.T, db Database, between func(*Run) *Run) {
	d, _ := db.Driver()
	texts := d.Caps.TextTypes
	var all, held []typeChange
	for i := range streamTypes {
		for j := range streamTypes {
			if c := (typeChange{&streamTypes[i], &streamTypes[j]}); i != j {
				if all = append(all, c); !c.from.clash(c.to) {
					held = append(held, c)
				}
			}
		}
	}
	r := changing(t, db)
	r.Fold(changeMessage(1, all, func(c typeChange) *streamType { return c.from }))
	r = between(r)
	for _, c := range all {
		if !c.from.clash(c.to) {
			continue
		}
		err := r.add(changeMessage(2, []typeChange{c}, func(c typeChange) *streamType { return c.to }))
		if changed := (*mapping.TypeChangedError)(nil); !errors.As(err, &changed) || changed.Err.Column != c.column() {
			t.Errorf("%s: the run does not end: %v", c.column(), err)
		}
	}
	r.Flush(changeMessage(2, held, func(c typeChange) *streamType { return c.to }))
	if n := len(r.set.Rejects); n > 0 {
		t.Errorf("%d rejected: %+v", n, r.set.Rejects[0])
	}
	shown := make([]string, len(held))
	for i := range held {
		shown[i] = held[i].shown(texts)
	}
	rows := db.Query(t, "SELECT "+strings.Join(shown, ", ")+" FROM t ORDER BY id")
	for i, c := range held {
		for at, of := range []*streamType{c.from, c.to} {
			got := strings.NewReplacer(`": `, `":`, ", ", ",").Replace(show(rows[at][i])) // jsonb has spaces
			if c.from.kind == numberKind && c.to.kind == numberKind {
				got = strings.TrimSuffix(got, ".0")
			}
			if want := of.want(texts); got != want {
				t.Errorf("%s: the value of row %d is %q, want %q", c.column(), at+1, got, want)
			}
		}
	}
}
