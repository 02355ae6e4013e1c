package sinktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// tryMapped begins a run whose messages are mapped to columns, the first of which is the key.
func tryMapped(t *testing.T, db Database, spec string) (*Run, error) {
	t.Helper()
	m := mapping.Table{Name: table, Columns: columns(spec)}
	m.Key = []string{m.Columns[0].Name}
	return Setup{Mapping: &mapping.Mapping{Tables: []mapping.Table{m}}}.tryBegin(t, db)
}

func mapped(t *testing.T, db Database, spec string) *Run {
	t.Helper()
	r, err := tryMapped(t, db, spec)
	testcheck.NoError(t, err)
	return r
}

// A declaredType is a column type that a mapping declares, with the results for values.
type declaredType struct {
	name     string
	decl     string // in Postgres
	as       string // what Postgres returns for it; "": its text
	values   []string
	postgres []string // results as text
	texts    []string // results if times, dates, UUIDs and JSON are texts; nil: the same
	bad      []string // values that any database rejects
}

var declaredTypes = []declaredType{
	{name: "text", decl: "text", values: []string{`"x"`, `1.50`, `true`, `{"a":"\""}`, `"007"`}, postgres: []string{"x", "1.50", "true", `{"a":"\""}`, "007"}},
	{name: "integer", decl: "bigint", values: []string{`7`, `"7"`, `440.0`, `-9223372036854775808`}, postgres: []string{"7", "7", "440", "-9223372036854775808"}, bad: []string{`440.7`, `"x"`, `9223372036854775808`}},
	{name: "real", decl: "double precision", values: []string{`0.5`, `"1.25"`, `1e300`, `"NaN"`, `"-infinity"`}, postgres: []string{"0.5", "1.25", "1e+300", "NaN", "-Infinity"}, texts: []string{"0.5", "1.25", "1.0e+300", "NaN", "-Infinity"}, bad: []string{`0.1234567890123456789`, `1e400`}},
	{name: "numeric", decl: "numeric", values: []string{`12345678901234567890.5`, `"0.1234567890123456789"`, `7`, `"Infinity"`}, postgres: []string{"12345678901234567890.5", "0.1234567890123456789", "7", "Infinity"}, bad: []string{`"x"`, `1e999999`}},
	{name: "numeric(12,2)", decl: "numeric(12,2)", values: []string{`12.34`, `"9999999999.99"`, `7`}, postgres: []string{"12.34", "9999999999.99", "7.00"}, texts: []string{"12.34", "9999999999.99", "7"}, bad: []string{`12.345`, `10000000000`}},
	{name: "boolean", decl: "boolean", values: []string{`true`, `0`, `"1"`, `"false"`}, postgres: []string{"true", "false", "true", "false"}, texts: []string{"1", "0", "1", "0"}, bad: []string{`2`, `"yes"`}},
	{name: "json", decl: "jsonb", values: []string{`{"a":[1]}`, `"x"`, `1.50`, `true`}, postgres: []string{`{"a": [1]}`, `"x"`, "1.50", "true"}, texts: []string{`{"a":[1]}`, `"x"`, "1.50", "true"}, bad: []string{`1e999999`}},
	{name: "timestamp", decl: "timestamp with time zone", as: "to_char(v AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
		values:   []string{`"2020-05-15T13:30:00+02:00"`, `1589549400.5`, `"-1"`, `"0001-01-01T00:00:00Z"`, `253402300799.999999`},
		postgres: []string{"2020-05-15 11:30:00.000000", "2020-05-15 13:30:00.500000", "1969-12-31 23:59:59.000000", "0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999"},
		texts:    []string{"2020-05-15 11:30:00", "2020-05-15 13:30:00.5", "1969-12-31 23:59:59", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"},
		bad:      []string{`"2020-05-15T13:30:00"`, `"tomorrow"`, `253402300800`}},
	{name: "timestamp_ns", decl: "timestamp with time zone", as: "to_char(v AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
		values: []string{`1589549400123456000`}, postgres: []string{"2020-05-15 13:30:00.123456"}},
	{name: "date", decl: "date", values: []string{`"2024-02-29"`, `"0001-01-01"`, `"infinity"`, `"-0043-03-15"`}, postgres: []string{"2024-02-29", "0001-01-01", "infinity", "0044-03-15 BC"},
		texts: []string{"2024-02-29", "0001-01-01", "infinity", "-0043-03-15"}, bad: []string{`"2023-02-29"`}},
	{name: "date_days", decl: "date", values: []string{`19782`, `"-1"`, `2147483647`}, postgres: []string{"2024-02-29", "1969-12-31", "infinity"}, bad: []string{`1.5`}},
	{name: "timestamp_us", decl: "timestamp with time zone", as: "(v AT TIME ZONE 'UTC')::text",
		values:   []string{`9223372036825200000`, `-9223372036832400000`, `-63547200000000001`, `-210866803200000000`},
		postgres: []string{"infinity", "-infinity", "0045-04-08 23:59:59.999999 BC", "4714-11-24 00:00:00 BC"},
		texts:    []string{"infinity", "-infinity", "-0044-04-08 23:59:59.999999", "-4713-11-24 00:00:00"}, bad: []string{`-210866803200000001`, `253402300800000000`}},
	{name: "time_us", decl: "text", values: []string{`-3020399000000`, `3020399500000`}, postgres: []string{"-838:59:59", "838:59:59.5"}},
	{name: "uuid", decl: "uuid", values: []string{`"{A0EEBC999C0B4EF8BB6D6BB9BD380A11}"`}, postgres: []string{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, bad: []string{`"x"`}},
	{name: "bytes", decl: "bytea", as: "encode(v, 'hex')", values: []string{`"AP8="`, `""`}, postgres: []string{"00ff", ""}, bad: []string{`"AP8"`}},
}

// typeTests: columns with a declared type.
var typeTests = []test{
	{"RoundTrip", func(t *testing.T, db Database) {
		d, _ := db.Driver()
		texts := d.Caps.TextTypes
		for _, typ := range declaredTypes {
			t.Run(typ.name, func(t *testing.T) {
				want, shown := typ.postgres, "CAST(v AS TEXT)"
				switch {
				case !texts:
					if typ.as != "" {
						shown = typ.as
					}
				case typ.texts != nil:
					want = typ.texts
				}
				if texts && typ.name == "bytes" {
					shown = "CASE WHEN v IS NOT NULL THEN lower(hex(v)) END"
				}
				var lines, rows []string
				for i, v := range typ.values {
					lines, rows = append(lines, fmt.Sprintf(`{"id":%d,"v":%s}`, i, v)), append(rows, fmt.Sprintf("%d|%s", i, want[i]))
				}
				lines, rows = append(lines, `{"id":98,"v":null}`, `{"id":99}`), append(rows, "98|NULL", "99|NULL")
				r := mapped(t, db, "id: as integer, v: as "+typ.name)
				r.Flush(`{"id":97}`) // the column exists from the start
				Expect(t, db, "SELECT v FROM t", "NULL")
				db.Exec(t, "DELETE FROM t")
				r.Flush(lines...)
				r.Flush(fmt.Sprintf(`{"id":0,"v":%s}`, typ.values[0]))
				Expect(t, db, "SELECT id, "+shown+" FROM t ORDER BY id", rows...)
				r.End()
				r = mapped(t, db, "id: as integer, v: as "+typ.name)
				if r.folders[0].Table().HasConstraints {
					t.Error("messages are kept, as if the database might refuse values")
				}
				Counts(t, r.Flush(lines...), 0, 0, int64(len(lines)), 0)
				for _, v := range typ.bad {
					r.Fold(`{"id":50,"v":` + v + `}`)
					if len(r.set.Rejects) != 1 || r.set.Rejects[0].Reason != feed.BadValue || !strings.Contains(r.set.Rejects[0].Detail, `table "t", column "v": v is `+v) {
						t.Errorf("%s: %+v", v, r.set.Rejects)
					}
					r.Reset()
				}
				Expect(t, db, "SELECT id, "+shown+" FROM t ORDER BY id", rows...)
				r.End()
				if !texts {
					Expect(t, db, "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'v'", typ.decl)
				}
				db.Exec(t, "DROP TABLE t")
			})
		}
	}},
	{"Keys", func(t *testing.T, db Database) {
		for _, typ := range []struct{ name, one, same, other string }{
			{"text", `1`, `"1"`, `"01"`},
			{"integer", `1`, `"1.0"`, `2`},
			{"numeric", `1.5`, `"1.50"`, `12345678901234567890123`},
			{"boolean", `true`, `"1"`, `0`},
			{"timestamp", `"2020-05-15T13:30:00Z"`, `1589549400.0`, `"2020-05-15T13:30:00.000001Z"`},
			{"date", `"2024-02-29"`, `"2024-02\u002d29"`, `"2024-03-01"`},
			{"uuid", `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, `"a0eebc999c0b4ef8bb6d6bb9bd380a11"`, `"a0eebc999c0b4ef8bb6d6bb9bd380a12"`},
		} {
			for range 2 { // the second run finds the table
				r := mapped(t, db, "id: as "+typ.name+", n: as integer")
				r.Flush(`{"id":`+typ.one+`,"n":1}`, `{"id":`+typ.other+`,"n":1}`)
				r.Flush(`{"id":`+typ.same+`,"n":2}`, `{"id":`+typ.same+`,"n":3}`)
				Expect(t, db, "SELECT count(*), sum(n) FROM t", "2|4")
				r.End()
			}
			db.Exec(t, "DROP TABLE t")
		}
	}},
	{"ColumnsThatExistKeepTheirTypes", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id integer PRIMARY KEY, at text, n numeric(4,1))")
		if _, err := tryMapped(t, db, "id: as integer, missing: as text"); err == nil || !strings.Contains(err.Error(), `table "t", column "missing": the table has no such column`) {
			t.Error(err)
		}
		if _, err := tryMapped(t, db, "id: as timestamp, at: as text"); err == nil || !strings.Contains(err.Error(), `which does not take a timestamp`) {
			t.Error(err)
		}
		r := mapped(t, db, "id: as integer, at: as timestamp, n: as numeric")
		r.Flush(`{"id":1,"at":1589549400,"n":0.5}`)
		d, _ := db.Driver()
		at := "2020-05-15T13:30:00Z"
		if d.Caps.TextTypes {
			at = "2020-05-15 13:30:00"
		}
		Expect(t, db, "SELECT id, at, CAST(n AS TEXT) FROM t", "1|"+at+"|0.5")
	}},
}
