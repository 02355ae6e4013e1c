package mapping_test

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

// reads returns a function that reads a value as a type, for a database with types of its own or
// one where they are texts. What it returns is JSON, or why the value has no such form.
func reads(t testing.TB, typ string, textTypes bool) func(value string) string {
	m := mapping.Mapping{Tables: []mapping.Table{{Name: "t", Key: []string{"id"}, Columns: columns("id: =1, v: as " + typ)}}}
	names := &feed.Names{}
	plan, err := mapping.Compile(&m, names, schema.Limits{TextTypes: textTypes})
	testcheck.NoError(t, err)
	scan, scratch := feed.NewScanner(names), plan.NewScratch()
	return func(value string) string {
		var l feed.Line
		if l.Scan(scan, nil, []byte(`{"v":`+value+`}`)); l.Err != nil {
			t.Fatal(value, l.Err)
		}
		rows, _, err := plan.Map(&l, fold.Place{}, scratch)
		if err != nil {
			_, why, _ := strings.Cut(err.Error(), ": it ")
			return "it " + why
		}
		f := rows[0].Fields[1]
		if k := feed.KindOf(f.Value); k != f.Kind {
			t.Errorf("%s as %s: %s is %s and called %s", value, typ, f.Value, k, f.Kind)
		}
		return string(f.Value)
	}
}

// TestCast: what each type takes, and as what. Digits that it cannot hold reject a value, zeros
// aside.
func TestCast(t *testing.T) {
	f := func(typ, value, want string) {
		t.Helper()
		if got := reads(t, typ, false)(value); got != want && !(want == "no" && strings.HasPrefix(got, "it ")) {
			t.Errorf("%s as %s: %s, want %s", value, typ, got, want)
		}
	}
	const big = "12345678901234567890"
	for _, typ := range mapping.TypeNames {
		f(string(typ), `null`, `null`)
	}
	f("text", `"a\u0041"`, `"a\u0041"`)
	f("text", `1.50`, `"1.50"`)
	f("text", `true`, `"true"`)
	f("text", "{\t\"a\":\"b\\n\\\\\"}", `"{\t\"a\":\"b\\n\\\\\"}"`)

	f("integer", `7`, `7`)
	f("integer", `"7"`, `7`)
	f("integer", `"\u0037"`, `7`)
	f("integer", `440.0`, `440`)
	f("integer", `"0412"`, `412`)
	f("integer", `"+7"`, `7`)
	f("integer", `-1.5e3`, `-1500`)
	f("integer", `-0`, `0`)
	f("integer", `-0.0e9999`, `0`)
	f("integer", `9223372036854775807`, `9223372036854775807`)
	f("integer", `-9223372036854775808.0`, `-9223372036854775808`)
	f("integer", `440.7`, "it has a fraction, which an integer has not")
	f("integer", `9223372036854775808`, "it has more than the 64 bits of an integer")
	f("integer", big+`0`, "it has more than the 64 bits of an integer")
	f("integer", `1e999999999999`, "no")
	for _, v := range []string{`""`, `" 7"`, `"7 "`, `"x"`, `"0x10"`, `"1_000"`, `"1."`, `".5"`, `"1e"`, `true`, `[7]`} {
		f("integer", v, "no")
	}

	f("real", `7`, `7`)
	f("real", `0.1`, `0.1`)
	f("real", `"1.50"`, `1.5`)
	f("real", `"007"`, `7`)
	f("real", `"1e300"`, `1e+300`)
	f("real", `0.1234567890123456789`, "it has more digits than a real holds (numeric holds them)")
	f("real", `9007199254740993`, "no")
	f("real", `1e400`, "it is past what a real holds")
	f("real", `"NaN"`, "no")
	f("real", `"Infinity"`, "no")
	f("real", `true`, "no")

	f("numeric", big+`.123456789012345678901234567890`, big+`.123456789012345678901234567890`)
	f("numeric", `"007.50"`, `7.50`)
	f("numeric", `"-00.5e-3"`, `-0.5e-3`)
	f("numeric", `1e200000`, "no")
	f("numeric(12,2)", `12.34`, `12.34`)
	f("numeric(12,2)", `12.340`, `12.340`)
	f("numeric(12,2)", `12.345`, "it has more than 2 digits after the point")
	f("numeric(12,2)", `9999999999.99`, `9999999999.99`)
	f("numeric(12,2)", `10000000000`, "it has more than 10 digits before the point")
	f("numeric(12,2)", `"1e9"`, `1e9`)
	f("numeric(3,3)", `0.999`, `0.999`)
	f("numeric(3,3)", `1`, "it has more than 0 digits before the point")
	f("numeric(3,3)", `0`, `0`)
	f("numeric(1)", `"x"`, "it is not a number")

	for _, v := range []string{`true`, `1`, `"1"`, `"true"`} {
		f("boolean", v, `true`)
	}
	for _, v := range []string{`false`, `0`, `"0"`, `"false"`} {
		f("boolean", v, `false`)
	}
	for _, v := range []string{`2`, `"True"`, `"t"`, `""`, `1.0`} {
		f("boolean", v, "it is not true, false, 1 or 0")
	}

	f("boolean", `{}`, "no")

	f("json", `{"a": [1]}`, `{"a": [1]}`)
	f("json", `"x"`, `"x"`)
	f("json", `1.50`, `1.50`)
	f("json", `1e200000`, "no")

	f("date", `"2024-02-29"`, `"2024-02-29"`)
	f("date", `"2024\u002d02-29"`, `"2024-02-29"`)
	for _, v := range []string{`"2023-02-29"`, `"2024-2-29"`, `"20240229"`, `"2024-02-29T00:00:00Z"`, `"0000-01-01"`, `19782`, `"2024-13-01"`, `"2024-00-01"`, `"2024-01-00"`} {
		f("date", v, "no")
	}
	f("date_days", `19782`, `"2024-02-29"`)
	f("date_days", `"-1"`, `"1969-12-31"`)
	f("date_days", `-719162`, `"0001-01-01"`)
	f("date_days", `2932896`, `"9999-12-31"`)
	f("date_days", `-719163`, wrongYear)
	f("date_days", `2932897`, wrongYear)
	f("date_days", `1.5`, "no")

	f("numeric_base64(12,2)", `"HL6ZGhQ="`, `1234567890.12`)
	f("numeric_base64(3,2)", `"/w=="`, `-0.01`)
	f("numeric_base64(3,2)", `"AA=="`, `0.00`)
	f("numeric_base64(3)", `"gA=="`, `-128`)
	f("numeric_base64(3,2)", `"A+g="`, "it has more than 1 digit before the point")
	f("numeric_base64(38,10)", `"CUmw9vACMxPESZBOzGdFFQ=="`, `1234567890123456789012345678.0123456789`)
	f("numeric_base64", `{"scale":20,"value":"EQfV61tbpNfG"}`, `3.14159265358979323846`)
	f("numeric_base64(3,1)", `{"value":"AQ==","scale":0}`, `1`)
	f("numeric_base64", `{"scale":-2,"value":"/w=="}`, `-100`)
	f("numeric_base64(12,2)", `1.50`, `1.50`)
	f("numeric_base64(12,2)", `1.505`, "it has more than 2 digits after the point")
	f("numeric_base64", `"AQ=="`, "it does not say how many of its digits follow the point, and numeric_base64(DIGITS,FRACTION) does")
	for _, v := range []string{`""`, `"A"`, `true`, `{"value":"AQ=="}`, `{"scale":1}`, `{"scale":"1","value":"AQ=="}`, `{"scale":1,"value":1}`, `{"scale":20000,"value":"AQ=="}`, `["AQ=="]`} {
		f("numeric_base64(3,2)", v, "no")
	}

	f("json_text", `"{\"a\": [1.50]}"`, `{"a": [1.50]}`)
	f("json_text", `" \"x\" "`, `"x"`)
	f("json_text", `"null"`, `null`)
	f("json_text", `{"a":1}`, `{"a":1}`)
	f("json_text", `"{"`, "it is no string with JSON")
	f("json_text", `7`, "it is no string with JSON")

	f("time_ms", `48600500`, `"13:30:00.5"`)
	f("time_us", `"1"`, `"00:00:00.000001"`)
	f("time_us", `86400000000`, `"24:00:00"`)
	f("time_us", `86400000001`, "it is not in a day")
	f("time_ns", `86399999999999`, `"23:59:59.999999999"`)
	f("time_ms", `-1`, "it is not in a day")
	f("time_ms", `0.5`, "no")
	f("time_ms", `"13:30"`, "no")

	f("uuid", `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`)
	f("uuid", `"{a0eebc999c0b4ef8bb6d6bb9bd380a11}"`, `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`)
	f("uuid", `"a0eebc999c0b4ef8bb6d6bb9bd380a1"`, "it is not a UUID")
	f("uuid", `7`, "it is not a UUID")

	f("bytes", `"AP8="`, `"\\x00ff"`)
	f("bytes", `""`, `"\\x"`)
	f("bytes", `"AP8"`, "it is not base64")
	f("bytes", `"AP9="`, "it is not base64")
	f("bytes", `7`, "it is not base64")
}

const wrongYear = "it is not in the years 1 to 9999"

// TestCast_Times: as RFC 3339 has them, or as a number since 1970, which may be a text. In
// Postgres six digits of a second are as many as there are; SQLite's texts have those that came.
func TestCast_Times(t *testing.T) {
	f := func(typ, value, instant, text string) {
		t.Helper()
		for textTypes, want := range map[bool]string{false: instant, true: text} {
			if got := reads(t, typ, textTypes)(value); got != want && !(want == "no" && strings.HasPrefix(got, "it ")) {
				t.Errorf("%s as %s: %s, want %s", value, typ, got, want)
			}
		}
	}
	f("timestamp", `"2020-05-15T13:30:00Z"`, `"2020-05-15T13:30:00Z"`, `"2020-05-15 13:30:00"`)
	f("timestamp", `"2020-05-15T13:30:00.500z"`, `"2020-05-15T13:30:00.5Z"`, `"2020-05-15 13:30:00.5"`)
	f("timestamp", `"2020-05-15 13:30:00.123456+02:00"`, `"2020-05-15T11:30:00.123456Z"`, `"2020-05-15 11:30:00.123456"`)
	f("timestamp", `"2020-05-15t00:10:00-00:30"`, `"2020-05-15T00:40:00Z"`, `"2020-05-15 00:40:00"`)
	f("timestamp", `"2020-05-15T13:30:00.1234567000Z"`, "it has more than 6 digits of a second", `"2020-05-15 13:30:00.1234567"`)
	f("timestamp", `"2020-05-15T13:30:00.123456000Z"`, `"2020-05-15T13:30:00.123456Z"`, `"2020-05-15 13:30:00.123456"`)
	f("timestamp", `"2020-05-15\u005413:30:00Z"`, `"2020-05-15T13:30:00Z"`, `"2020-05-15 13:30:00"`)
	f("timestamp", `"2020-05-15T13:30:00.5"`, "no", "no")
	f("timestamp", `"2020-05-15T13:30:00"`, "no", "no")
	f("timestamp", `"2020-05-15T13:30:00+0200"`, "no", "no")
	f("timestamp_utc", `"2020-05-15T13:30:00"`, `"2020-05-15T13:30:00Z"`, `"2020-05-15 13:30:00"`)
	f("timestamp_utc", `"2020-05-15 13:30:00.50"`, `"2020-05-15T13:30:00.5Z"`, `"2020-05-15 13:30:00.5"`)
	f("timestamp_utc", `"2020-05-15T13:30:00.500-0230"`, `"2020-05-15T16:00:00.5Z"`, `"2020-05-15 16:00:00.5"`)
	f("timestamp_utc", `"2020-05-15 13:30:00.5+02"`, `"2020-05-15T11:30:00.5Z"`, `"2020-05-15 11:30:00.5"`)
	f("timestamp_utc", `"2020-05-15T13:30:00+02:00"`, `"2020-05-15T11:30:00Z"`, `"2020-05-15 11:30:00"`)
	f("timestamp_utc", `1589549400`, `"2020-05-15T13:30:00Z"`, `"2020-05-15 13:30:00"`)
	for _, v := range []string{`"2020-05-15"`, `"2020-05-15T13:30"`, `"2020-05-15T13:30:00."`, `"2020-05-15T13:30:00+2"`, `"2020-05-15T13:30:00+02000"`, `"2020-05-15T13:30:000200"`} {
		f("timestamp_utc", v, "no", "no")
	}
	f("timestamp", `1589549400`, `"2020-05-15T13:30:00Z"`, `"2020-05-15 13:30:00"`)
	f("timestamp", `"1589549400"`, `"2020-05-15T13:30:00Z"`, `"2020-05-15 13:30:00"`)
	f("timestamp", `1.5895494005e9`, `"2020-05-15T13:30:00.5Z"`, `"2020-05-15 13:30:00.5"`)
	f("timestamp", `-0.25`, `"1969-12-31T23:59:59.75Z"`, `"1969-12-31 23:59:59.75"`)
	f("timestamp", `0.0000001`, "it has more than 6 digits of a second", `"1970-01-01 00:00:00.0000001"`)
	f("timestamp", `-0.000001`, `"1969-12-31T23:59:59.999999Z"`, `"1969-12-31 23:59:59.999999"`)
	f("timestamp", `-62135596800`, `"0001-01-01T00:00:00Z"`, `"0001-01-01 00:00:00"`)
	f("timestamp", `253402300799.999`, `"9999-12-31T23:59:59.999Z"`, `"9999-12-31 23:59:59.999"`)
	f("timestamp", `-62135596800.1`, wrongYear, wrongYear)
	f("timestamp", `253402300800`, wrongYear, wrongYear)
	f("timestamp", `1e13`, wrongYear, wrongYear)
	f("timestamp", `1e-99999`, "no", "no")
	f("timestamp", `0`, `"1970-01-01T00:00:00Z"`, `"1970-01-01 00:00:00"`)
	f("timestamp_ms", `1589549400123`, `"2020-05-15T13:30:00.123Z"`, `"2020-05-15 13:30:00.123"`)
	f("timestamp_ms", `"1589549400000"`, `"2020-05-15T13:30:00Z"`, `"2020-05-15 13:30:00"`)
	f("timestamp_ms", `0`, `"1970-01-01T00:00:00Z"`, `"1970-01-01 00:00:00"`)
	f("timestamp_ms", `-1`, `"1969-12-31T23:59:59.999Z"`, `"1969-12-31 23:59:59.999"`)
	f("timestamp_us", `1589549400123456`, `"2020-05-15T13:30:00.123456Z"`, `"2020-05-15 13:30:00.123456"`)
	f("timestamp_ns", `1589549400123456000`, `"2020-05-15T13:30:00.123456Z"`, `"2020-05-15 13:30:00.123456"`)
	f("timestamp_ns", `1589549400123456789`, "it has more than 6 digits of a second", `"2020-05-15 13:30:00.123456789"`)
	f("timestamp_ns", `5`, "no", `"1970-01-01 00:00:00.000000005"`)
	f("timestamp_ms", `"2020-05-15T13:30:00Z"`, "it is not a number", "it is not a number")
	f("timestamp", `"2016-12-31T23:59:60Z"`, "it is a leap second, which databases do not have", "it is a leap second, which databases do not have")
	f("timestamp", `"0001-01-01T00:30:00+01:00"`, wrongYear, wrongYear)
	for _, v := range []string{`"2020-05-15T13:30:00"`, `"2020-05-15 13:30Z"`, `"2020-05-15T13:30:00.Z"`, `"2020-02-30T13:30:00Z"`, `"2020-05-15T24:00:00Z"`, `"2020-05-15T13:30:00+2:00"`,
		`"2020-05-15T13:30:00+24:00"`, `"2020-05-15T13:30:00Z "`, `"15 May 2020"`, `""`, `true`, `{}`, `"2020-05-15T13:30:00.5"`, `"-020-05-15T13:30:00Z"`} {
		f("timestamp", v, "no", "no")
	}
}
