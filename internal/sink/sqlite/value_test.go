package sqlite_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// Values that affinities are known to change, and plain ones like them.
var awkward = []string{
	`null`, `true`, `false`, `0`, `1`, `-1`, `7`, `-0`, `-0.0`, `1.0`, `1e3`, `1E+2`, `10e-1`, `1.5`, `-0.25`, `0.1`, `1.50`, `1e400`, `-1e400`, `1e-400`,
	`5e-324`, `1e308`, `9007199254740993`, `9007199254740993.0`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `-9223372036854775809`,
	`18446744073709551616`, `123456789012345678901234567890`, `0.1234567890123456789`, `1e18`, `1e19`, `123456789.123456789123`,
	`""`, `" "`, `"a"`, `"A"`, `"7"`, `"-7"`, `"\u0037"`, `"007"`, `"\u0030\u0037"`, `"+7"`, `" 7"`, `"7 "`, `"7a"`, `"1.0"`, `"1.5"`, `"1.50"`, `".5"`, `"5."`, `"1e3"`, `"-0"`, `"0x10"`, `"1_000"`, `"Inf"`, `"-Infinity"`, `"NaN"`,
	`"9223372036854775807"`, `"9223372036854775808"`, `"1e400"`, `"0.1234567890123456789"`, `"true"`, `"null"`, `"2024-01-02"`, `"2024-01-02T03:04:05Z"`, `"20240102"`,
	`"Zürich"`, `"\u0000"`, `"a\u0000b"`, `"\ud83d\ude00"`, `"\ufffe"`, `{}`, `[]`, `[1, 2]`, `{"a": 1.0}`,
}

// TestFlush_ColumnsThatAreThereKeepOrReject tries every declared type with every value: the table then has the value,
// or the line was rejected.
func TestFlush_ColumnsThatAreThereKeepOrReject(t *testing.T) {
	for _, decl := range []string{"", "TEXT", "VARCHAR(20)", "CLOB", "INTEGER", "INT", "BIGINT", "BLOB", "REAL", "DOUBLE PRECISION", "FLOAT",
		"NUMERIC", "DECIMAL(10,2)", "BOOLEAN", "DATE", "DATETIME", "TIMESTAMP", "JSON", "STRING", "UUID", "POINT", "JSONB"} {
		t.Run("declared "+decl, func(t *testing.T) {
			f := tempFile(t, fmt.Sprintf("CREATE TABLE t (id INTEGER PRIMARY KEY, v %s)", decl))
			if rejected := syncValues(t, f, awkward, 1); len(awkward)-len(rejected) < 5 {
				t.Errorf("%d values of %d were rejected", len(rejected), len(awkward))
			} else {
				checkValues(t, f, decl, awkward, rejected)
			}
		})
	}
}

// TestFlush_ColumnsOfWeirsOwnKeepEverything: a table that weir creates rejects nothing, whatever came before.
func TestFlush_ColumnsOfWeirsOwnKeepEverything(t *testing.T) {
	for _, first := range []string{`null`, `1`, `1.5`, `true`, `"a"`, `{}`, `9223372036854775808`} {
		for _, size := range []int{1, 1000} {
			t.Run(fmt.Sprintf("after %s, %d a batch", first, size), func(t *testing.T) {
				f := tempFile(t)
				values := append([]string{first}, awkward...)
				for i := range syncValues(t, f, values, size) {
					t.Errorf("%s was rejected", values[i])
				}
				checkValues(t, f, "made by weir", values, nil)
			})
		}
	}
}

// bent describes how a cell (its type, its text, and its digits if it is real) differs from the original value, or
// returns "".
func bent(value, decl string, row []any) string {
	kind, text := row[0].(string), fmt.Sprint(row[1])
	switch value[0] {
	case 'n':
		if kind != "null" {
			return "null is NULL"
		}
		return ""
	case 't', 'f':
		if kind == "integer" && text == map[byte]string{'t': "1", 'f': "0"}[value[0]] || kind == "text" && text == value {
			return ""
		}
		return "true and false are 1 and 0, or the words"
	case '{', '[':
		if kind != "text" || text != value {
			return "an object or array is its text"
		}
		return ""
	case '"':
		var s string
		if err := json.Unmarshal([]byte(value), &s); err != nil {
			panic(err)
		}
		switch {
		case kind == "text" && text == s, kind == "integer" && text == s:
			return "" // an integer that prints like the string: the column asks for it
		case kind == "real" && nearest(decl):
			return wrongNumber(s, row, true)
		case kind != "text" && (strings.HasPrefix(decl, "NUMERIC") || strings.HasPrefix(decl, "DECIMAL")):
			return wrongNumber(s, row, false)
		}
		return "a string stays what it is"
	}
	if kind == "text" {
		if text == value {
			return ""
		}
		// A REAL column that became TEXT preserves the number, not its spelling.
		if a, ok := new(big.Rat).SetString(text); ok && decl == "made by weir" {
			if b, ok := new(big.Rat).SetString(value); ok && a.Cmp(b) == 0 && strings.HasPrefix(text, "-") == strings.HasPrefix(value, "-") {
				return ""
			}
		}
		return "a number as text has its digits"
	}
	return wrongNumber(value, row, nearest(decl))
}

// nearest reports whether a column stores the nearest double: docs/tables.md.
func nearest(decl string) bool {
	return strings.Contains(decl, "REAL") || strings.Contains(decl, "DOUB") || strings.Contains(decl, "FLOA")
}

func wrongNumber(value string, row []any, nearest bool) string {
	kind, text := row[0].(string), fmt.Sprint(row[1])
	switch kind {
	case "integer":
		a, _ := new(big.Rat).SetString(text)
		if b, ok := new(big.Rat).SetString(value); ok && a.Cmp(b) == 0 {
			return ""
		}
		return "another number"
	case "real":
		got, err := strconv.ParseFloat(fmt.Sprint(row[2]), 64)
		want, werr := strconv.ParseFloat(value, 64)
		if err != nil || werr != nil || got != want {
			return fmt.Sprintf("another number: %v, %v", got, want)
		}
		shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(got, 'g', -1, 64))
		if exact, _ := new(big.Rat).SetString(value); !nearest && exact.Cmp(shortest) != 0 {
			return "digits are lost"
		}
		return ""
	}
	return "no number any more"
}

// checkValues checks that each value is in its row, unless it was rejected.
func checkValues(t *testing.T, f *file, decl string, values []string, rejected map[int]bool) {
	t.Helper()
	rows := map[int][]any{}
	for _, row := range f.Query(t, "SELECT id, typeof(v), CAST(CAST(v AS TEXT) AS BLOB), CASE typeof(v) WHEN 'real' THEN printf('%!.17g', v) END FROM t") {
		rows[int(row[0].(int64))] = row[1:]
	}
	for i, v := range values {
		switch row := rows[i]; {
		case rejected[i] != (row == nil):
			t.Errorf("%s %s: rejected %v, the row is %v", decl, v, rejected[i], row)
		case row != nil:
			if why := bent(v, decl, row); why != "" {
				t.Errorf("%s %s became %v: %s", decl, v, row, why)
			}
		}
	}
}

// syncValues writes value i to column v of row i, in batches of size, and returns which were rejected.
func syncValues(t *testing.T, f *file, values []string, size int) map[int]bool {
	t.Helper()
	r := sinktest.Begin(t, f)
	defer r.End()
	lines := make([]string, len(values))
	for i, v := range values {
		lines[i] = fmt.Sprintf(`{"id":%d,"v":%s}`, i, v)
	}
	for some := range slices.Chunk(lines, size) {
		r.Flush(some...)
	}
	rejected := map[int]bool{}
	for _, row := range f.Query(t, "SELECT line - 1 FROM weir_rejects") {
		rejected[int(row[0].(int64))] = true
	}
	return rejected
}

// TestFlush_DefaultsInEverySpelling: after a late delete a row has the same values as a newly inserted one.
func TestFlush_DefaultsInEverySpelling(t *testing.T) {
	defaults := []string{"word", "Wörd_1$", `"in "" quotes"`, "'it''s'", "5", "-5", "1.5", "true", "FALSE", "NULL", "(NULL)", "(1 + 1)", "(abs(-3))", "CURRENT_DATE", "x'00ff'", "'null'", "nullable"}
	ddl, line, columns := "", "", ""
	for i, d := range defaults {
		for _, decl := range []string{"", "TEXT", "INTEGER"} {
			c := fmt.Sprintf("c%d%s", i, decl)
			ddl += ", " + c + " " + decl + " DEFAULT " + d
			line += `,"` + c + `":7`
			columns += " || ' ' || quote(" + c + ")"
		}
	}
	f := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER"+ddl+")")
	r := sinktest.Begin(t, f, func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope })
	for _, l := range []string{`{"id":1,"v":9}`, `{"id":2,"v":9}`, `{"id":2,"v":4` + line + `}`, `{"id":2,"v":4,"op":"delete"}`} {
		r.Flush(l)
	}
	sinktest.Expect(t, f, "SELECT count(DISTINCT ''"+columns+"), count(*) FROM t", "1|2")
	if t.Failed() {
		sinktest.Expect(t, f, "SELECT ''"+columns+" FROM t")
	}
}

// TestFlush_StrictTables: what a STRICT table's types refuse is rejected, by SQLite or before.
func TestFlush_StrictTables(t *testing.T) {
	for _, decl := range []string{"INT", "INTEGER", "REAL", "TEXT", "BLOB", "ANY"} {
		f := tempFile(t, fmt.Sprintf("CREATE TABLE t (id INTEGER PRIMARY KEY, v %s) STRICT", decl))
		checkValues(t, f, decl, awkward, syncValues(t, f, awkward, 1))
	}
}

// TestFlush_KeysAreEqualWhereTheDatabaseSaysSo: the fold's rows are the table's, whatever the key column's type and
// collation.
func TestFlush_KeysAreEqualWhereTheDatabaseSaysSo(t *testing.T) {
	keys := []string{`1`, `"1"`, `1.0`, `"01"`, `" 1"`, `"1 "`, `"a"`, `"A"`, `"\u0061"`, `"a "`, `"ä"`, `"Ä"`, `9223372036854775807`, `"9223372036854775807"`, `1e2`, `100`, `"1e2"`, `true`, `1.5`, `"1.5"`, `-0`, `0`,
		`-0.0`, `1e16`, `10000000000000000`, `9007199254740992`, `9007199254740993`, `9007199254740993.0`, `9007199254740994.0`, `9007199254740994`,
		`-9223372036854775808`, `-9.223372036854776e18`, `18446744073709551616`, `"18446744073709551616"`, `1.8446744073709551616e19`, `1.8446744073709552e19`}
	lines := make([]string, len(keys))
	for n, k := range keys {
		lines[n] = fmt.Sprintf(`{"id":%s,"n":%d}`, k, n)
	}
	for _, decl := range []string{"", "TEXT", "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM", "INTEGER", "REAL", "NUMERIC", "BLOB"} {
		for _, unique := range []string{
			"CREATE TABLE t (id %s NOT NULL PRIMARY KEY, n, first)",
			"CREATE TABLE t (id %s NOT NULL, n, first, PRIMARY KEY (id COLLATE BINARY))",
			"CREATE TABLE t (id %s NOT NULL, n, first, UNIQUE (id COLLATE NOCASE))",
			"CREATE TABLE t (id %s NOT NULL PRIMARY KEY, n, first, UNIQUE (id COLLATE NOCASE))",
		} {
			create := fmt.Sprintf(unique, decl)
			t.Run(create, func(t *testing.T) {
				// Row by row only the database decides; in one batch the fold does.
				var tables [2]string
				for i, size := range []int{1, len(keys)} {
					f := tempFile(t, create)
					r := sinktest.Begin(t, f)
					for some := range slices.Chunk(lines, size) {
						r.Flush(some...)
					}
					tables[i] = fmt.Sprint(f.Query(t, "SELECT n FROM t ORDER BY n"))
				}
				if tables[0] != tables[1] {
					t.Errorf("the last messages of the rows are\n %s where each is a batch,\n %s where all are one", tables[0], tables[1])
				}
			})
		}
	}
}

// TestFlush_KeysThatAnotherIndexCallsEqual: of two indexes with different collations, one decides which keys are equal;
// what the other one refuses is rejected.
func TestFlush_KeysThatAnotherIndexCallsEqual(t *testing.T) {
	f := tempFile(t, "CREATE TABLE t (id TEXT, n, UNIQUE (id COLLATE NOCASE), UNIQUE (id COLLATE RTRIM))")
	r := sinktest.Begin(t, f)
	r.Flush(`{"id":"a","n":1}`)
	r.Flush(`{"id":"a ","n":2}`, `{"id":"A","n":3}`)
	sinktest.Expect(t, f, "SELECT id, (SELECT count(*) FROM weir_rejects) FROM t", "a|1")
}
