package mapping

import (
	"fmt"
	"strings"
	"testing"
)

func TestSchemaColumns(t *testing.T) {
	f := func(properties, want string) {
		t.Helper()
		columns, err := schemaColumns([]byte(`{"type":"object","required":["id"],"properties":{` + properties + `},"additionalProperties":false}`))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range columns {
			got = append(got, fmt.Sprintf("%s %s", c.Name, c.From[0].As))
			if steps := c.From[0].From.Steps; len(steps) != 1 || steps[0].Name != c.Name {
				t.Errorf("%q is of %v", c.Name, steps)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %s, want %s", properties, strings.Join(got, ", "), want)
		}
	}
	f(`"z":{"type":["null","integer"]},"a":{"type":"number"}`, "z integer, a numeric")
	f(`"a b.\"c\\":{"type":["boolean","null"]}`, `a b."c\ boolean`)
	f(`"a":{"type":["null","string"],"format":"date-time"},"b":{"type":"string","format":"date"},"c":{"type":"string","format":"uuid"},"d":{"type":"string","format":"time"}`,
		"a timestamp_utc, b date, c uuid, d text")
	f(`"a":{"type":["null","object"]},"b":{"type":"array","items":{"type":"integer"}},"c":{"type":["string","object","null"]}`, "a json, b json, c json")
	f(`"a":{"anyOf":[{"type":"string","format":"date-time"},{"type":["string","null"]}]}`, "a text")
	f(`"a":{"anyOf":[{"type":"string","format":"date-time"},{"type":"null"}]},"b":{"oneOf":[{"type":"integer"},{"type":"number"}]}`, "a timestamp_utc, b numeric")
	f(`"a":{"type":["integer","string"]},"b":{},"c":true,"d":{"type":"null"}`, "a auto, b auto, c auto, d ")
	f(`"a":{"type":"integer","minimum":0,"maximum":18446744073709551615},"b":{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}`, "a numeric, b integer")
	f(`"a":`+strings.Repeat(`{"anyOf":[`, 50)+`{"type":"integer"}`+strings.Repeat(`]}`, 50), "a auto")
	f("", "")
	if _, err := schemaColumns([]byte(`[]`)); err == nil {
		t.Error("took an array")
	}
}
