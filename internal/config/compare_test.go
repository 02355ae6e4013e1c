package config

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/testcheck"
)

func TestCase_Compare(t *testing.T) {
	f := func(columns, want string, rows string, faults ...string) {
		t.Helper()
		read, err := readText(t, "tables: {a: {key: [g, id], columns: {g, id, "+columns+"}}, b: {of: a, each: x, key: g, parent: {g: up}}}\ntests:\n- name: x\n  feed: ''\n  want: {"+want+"}\n")
		testcheck.NoError(t, err)
		differences, err := read.Cases[0].Compare(read.Mapping, func(table string) ([]string, error) {
			if rows == "" {
				return nil, nil
			}
			return strings.Split(rows, "|"), nil
		})
		testcheck.NoError(t, err)
		var got []string
		for _, d := range differences {
			_, text, _ := strings.Cut(d.Error(), "weir.yaml:")
			got = append(got, text)
		}
		if strings.Join(got, "\n") != strings.Join(faults, "\n") {
			t.Errorf("%s %s %s: %q, want %q", columns, want, rows, got, faults)
		}
	}
	f("v", "a: []", "")
	f("v", "a: []", `{"g":1,"id":1}`, `5:10: test "x": table a has 1 row, want 0 rows: {"g":1,"id":1}`)
	f("v", "a: [{v: 1}]", "", `5:10: test "x": table a has 0 rows, want 1 row: `)
	// Rows come in the order of the whole key; numbers by value.
	f("v", "a: [{v: 1}, {v: 2}, {v: 3}]", `{"g":10,"id":1,"v":3}|{"g":9,"id":2,"v":2}|{"g":9,"id":1,"v":1}`)
	f("v", "a: [{v: 1}, {v: 2}]", `{"g":"x","id":"b","v":2}|{"g":"x","id":"a","v":1}`)
	f("v", "b: [{v: 1}, {v: 2}]", `{"up":2,"id":1,"g":1,"v":2}|{"up":1,"id":1,"g":2,"v":1}`)
	// What a row does not name is not compared; null is NULL.
	f("v, w", "a: [{v: 1}]", `{"g":1,"id":1,"v":1,"w":2}`)
	f("v", "a: [{v: null}]", `{"g":1,"id":1}`)
	f("v", "a: [{v: null}]", `{"g":1,"id":1,"v":0}`, `5:15: test "x": table a, row 1: v is 0, want null`)
	f("v", "a: [{v: 0}]", `{"g":1,"id":1}`, `5:15: test "x": table a, row 1: v is null, want 0`)
	// Texts are read by the type of the column.
	f("v: as integer", "a: [{v: '7'}]", `{"g":1,"id":1,"v":7}`)
	f("v: as integer", "a: [{v: 7.0}]", `{"g":1,"id":1,"v":7}`)
	f("v: as integer", "a: [{v: 7.5}]", `{"g":1,"id":1,"v":7}`, `5:15: test "x": table a, row 1: v is 7, want 7.5`)
	f("v: as text", "a: [{v: 7}]", `{"g":1,"id":1,"v":"7"}`)
	f("v: as text", "a: [{v: '7.0'}]", `{"g":1,"id":1,"v":"7"}`, `5:15: test "x": table a, row 1: v is "7", want "7.0"`)
	f("v: as text", "a: [{v: 7.0}]", `{"g":1,"id":1,"v":"7"}`, `5:15: test "x": table a, row 1: v is "7", want 7.0`)
	f("v: as numeric", "a: [{v: 12.50}]", `{"g":1,"id":1,"v":12.5}`)
	f("v: as numeric", "a: [{v: 12.50}]", `{"g":1,"id":1,"v":"12.5"}`)
	f("v: as boolean", "a: [{v: true}]", `{"g":1,"id":1,"v":1}`)
	f("v: as boolean", "a: [{v: 'false'}]", `{"g":1,"id":1,"v":0}`)
	f("v: as boolean", "a: [{v: true}]", `{"g":1,"id":1,"v":0}`, `5:15: test "x": table a, row 1: v is 0, want true`)
	f("v: as timestamp", "a: [{v: 2020-05-15T15:30:00+02:00}]", `{"g":1,"id":1,"v":"2020-05-15 13:30:00"}`)
	f("v: as timestamp", "a: [{v: 1589549400}]", `{"g":1,"id":1,"v":"2020-05-15 13:30:00"}`)
	f("v: as timestamp", "a: [{v: '2020-05-15 13:30:00'}]", `{"g":1,"id":1,"v":"2020-05-15 13:30:00"}`)
	f("v: as timestamp_ms", "a: [{v: 1589549400000}]", `{"g":1,"id":1,"v":"2020-05-15 13:30:01"}`, `5:15: test "x": table a, row 1: v is "2020-05-15 13:30:01", want 1589549400000`)
	f("v: as date", "a: [{v: 2020-05-15}]", `{"g":1,"id":1,"v":"2020-05-15"}`)
	f("v", "a: [{v: true}]", `{"g":1,"id":1,"v":1}`)
	f("v", "a: [{v: 1.50}]", `{"g":1,"id":1,"v":1.5}`)
	f("v: as json", "a: [{v: {b: [1, x], a: 2}}]", `{"g":1,"id":1,"v":"{\"a\":2,\"b\":[1,\"x\"]}"}`)
	f("v: as json", "a: [{v: {b: 1}}]", `{"g":1,"id":1,"v":"{\"b\":2}"}`, `5:15: test "x": table a, row 1: v is "{\"b\":2}", want {"b":1}`)
}
