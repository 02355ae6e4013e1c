package sqlite_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// The values that affinities are known to bend, and their plain neighbours.
var awkward = []string{
	`null`, `true`, `false`, `0`, `1`, `-1`, `7`, `-0`, `-0.0`, `1.0`, `1e3`, `1E+2`, `10e-1`, `1.5`, `-0.25`, `0.1`, `1.50`, `1e400`, `-1e400`, `1e-400`,
	`5e-324`, `1e308`, `9007199254740993`, `9007199254740993.0`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `-9223372036854775809`,
	`18446744073709551616`, `123456789012345678901234567890`, `0.1234567890123456789`, `1e18`, `1e19`, `123456789.123456789123`,
	`""`, `" "`, `"a"`, `"A"`, `"7"`, `"-7"`, `"\u0037"`, `"007"`, `"\u0030\u0037"`, `"+7"`, `" 7"`, `"7 "`, `"7a"`, `"1.0"`, `"1.5"`, `"1.50"`, `".5"`, `"5."`, `"1e3"`, `"-0"`, `"0x10"`, `"1_000"`, `"Inf"`, `"-Infinity"`, `"NaN"`,
	`"9223372036854775807"`, `"9223372036854775808"`, `"1e400"`, `"0.1234567890123456789"`, `"true"`, `"null"`, `"2024-01-02"`, `"2024-01-02T03:04:05Z"`, `"20240102"`,
	`"Zürich"`, `"\u0000"`, `"a\u0000b"`, `"\ud83d\ude00"`, `"\ufffe"`, `{}`, `[]`, `[1, 2]`, `{"a": 1.0}`,
}

// TestFlush_ColumnsThatAreThereKeepOrReject holds every declared type against
// every value: what is in the table afterwards is the value, or the line was
// rejected.
func TestFlush_ColumnsThatAreThereKeepOrReject(t *testing.T) {
	for _, decl := range []string{"", "TEXT", "VARCHAR(20)", "CLOB", "INTEGER", "INT", "BIGINT", "BLOB", "REAL", "DOUBLE PRECISION", "FLOAT",
		"NUMERIC", "DECIMAL(10,2)", "BOOLEAN", "DATE", "DATETIME", "TIMESTAMP", "JSON", "STRING", "UUID", "POINT", "JSONB"} {
		t.Run("declared "+decl, func(t *testing.T) {
			f := newFile(t, filepath.Join(t.TempDir(), "t.db"))
			f.Exec(t, fmt.Sprintf("CREATE TABLE t (id INTEGER PRIMARY KEY, v %s)", decl))
			rejected := syncValues(t, f, awkward)
			kept := 0
			for i, v := range awkward {
				row := f.Query(t, fmt.Sprintf("SELECT typeof(v), CAST(CAST(v AS TEXT) AS BLOB), CASE typeof(v) WHEN 'real' THEN printf('%%!.17g', v) END FROM t WHERE id = %d", i))
				switch {
				case rejected[i] && len(row) > 0:
					t.Errorf("%s was rejected and is there: %v", v, row[0])
				case rejected[i]:
				case len(row) == 0:
					t.Errorf("%s is neither there nor rejected", v)
				default:
					kept++
					if why := bent(v, decl, row[0]); why != "" {
						t.Errorf("%s became %v: %s", v, row[0], why)
					}
				}
			}
			if kept < 5 {
				t.Errorf("only %d values were taken", kept)
			}
		})
	}
}

// TestFlush_ColumnsOfWeirsOwnKeepEverything: in a table that weir makes nothing
// is rejected, whatever came before.
func TestFlush_ColumnsOfWeirsOwnKeepEverything(t *testing.T) {
	for _, first := range []string{`null`, `1`, `1.5`, `true`, `"a"`, `{}`, `9223372036854775808`} {
		for _, size := range []int{1, 1000} {
			t.Run(fmt.Sprintf("after %s, %d a batch", first, size), func(t *testing.T) {
				f := newFile(t, filepath.Join(t.TempDir(), "t.db"))
				values := append([]string{first}, awkward...)
				for i := range syncValuesBy(t, f, values, size) {
					t.Errorf("%s was rejected", values[i])
				}
				for i, v := range values {
					row := f.Query(t, fmt.Sprintf("SELECT typeof(v), CAST(CAST(v AS TEXT) AS BLOB), CASE typeof(v) WHEN 'real' THEN printf('%%!.17g', v) END FROM t WHERE id = %d", i))[0]
					if why := bent(v, "made by weir", row); why != "" {
						t.Errorf("%s became %v: %s", v, row, why)
					}
				}
			})
		}
	}
}

// bent tells how a cell (its type, its text, and its digits where it is real)
// differs from the value that went in, or "".
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
			return "" // an integer that prints as the string: the column asks for it
		case kind == "real" && nearest(decl):
			return wrongNumber(s, row, true)
		}
		return "a string stays what it is"
	}
	if kind == "text" {
		if text == value {
			return ""
		}
		// A REAL column that became TEXT keeps the number, not its spelling.
		if a, ok := new(big.Rat).SetString(text); ok && decl == "made by weir" {
			if b, ok := new(big.Rat).SetString(value); ok && a.Cmp(b) == 0 && strings.HasPrefix(text, "-") == strings.HasPrefix(value, "-") {
				return ""
			}
		}
		return "a number as text has its digits"
	}
	return wrongNumber(value, row, nearest(decl))
}

// nearest reports whether a column takes the nearest double: docs/tables.md.
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

// syncValues writes value i as column v of row i, each in a batch of its own, and
// returns which were rejected.
func syncValues(t *testing.T, f *file, values []string) map[int]bool {
	t.Helper()
	return syncValuesBy(t, f, values, 1)
}

func syncValuesBy(t *testing.T, f *file, values []string, size int) map[int]bool {
	t.Helper()
	d := open(t, f.path, sqlite.Options{Synchronous: sink.Off})
	table, err := sink.Table(t.Context(), d.Tables, "t", []string{"id"})
	if err != nil {
		t.Fatal(err)
	}
	folder := fold.NewFolder(&feed.Names{}, table, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 10, Limits: d.Caps().Limits, Log: logtest.New(t)})
	var batch fold.Batch
	rejected := map[int]bool{}
	seq := int64(0)
	for i, v := range values {
		err := folder.Fold(&batch, fmt.Appendf(nil, `{"id":%d,"v":%s}`, i, v), fold.Place{Line: int64(i)})
		if _, bad := err.(*feed.Error); bad {
			rejected[i] = true
		} else if err != nil {
			t.Fatal(err)
		}
		if (i+1)%size != 0 && i+1 < len(values) {
			continue
		}
		seq++
		folder.Seal(&batch)
		res, err := d.Flush(t.Context(), &sink.Flush{Batches: []*fold.Batch{&batch}, Job: "j", Lanes: lanesAt("s", seq), Run: "r"})
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		for _, r := range res.Refused {
			rejected[int(r.Line)] = true
		}
		batch.Reset()
	}
	return rejected
}

// TestFlush_StrictTables: what a STRICT table's types refuse is rejected, in its
// words or before.
// TestFlush_DefaultsInEverySpelling: what a late delete took is what a row that was just
// inserted has.
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
	f := newFile(t, filepath.Join(t.TempDir(), "t.db"))
	f.Exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER"+ddl+")")
	r := sinktest.Begin(t, f, func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope })
	for _, l := range []string{`{"id":1,"v":9}`, `{"id":2,"v":9}`, `{"id":2,"v":4` + line + `}`, `{"id":2,"v":4,"op":"delete"}`} {
		r.Flush(l)
	}
	sinktest.Expect(t, f, "SELECT count(DISTINCT ''"+columns+"), count(*) FROM t", "1|2")
	if t.Failed() {
		sinktest.Expect(t, f, "SELECT ''"+columns+" FROM t")
	}
}

func TestFlush_StrictTables(t *testing.T) {
	for _, decl := range []string{"INT", "INTEGER", "REAL", "TEXT", "BLOB", "ANY"} {
		f := newFile(t, filepath.Join(t.TempDir(), "t.db"))
		f.Exec(t, fmt.Sprintf("CREATE TABLE t (id INTEGER PRIMARY KEY, v %s) STRICT", decl))
		rejected := syncValues(t, f, awkward)
		for i, v := range awkward {
			row := f.Query(t, fmt.Sprintf("SELECT typeof(v), CAST(CAST(v AS TEXT) AS BLOB), CASE typeof(v) WHEN 'real' THEN printf('%%!.17g', v) END FROM t WHERE id = %d", i))
			if rejected[i] != (len(row) == 0) {
				t.Errorf("%s %s: rejected %v, rows %v", decl, v, rejected[i], row)
			} else if len(row) > 0 {
				if why := bent(v, decl, row[0]); why != "" {
					t.Errorf("%s %s became %v: %s", decl, v, row[0], why)
				}
			}
		}
	}
}

// TestFlush_KeysAreEqualWhereTheDatabaseSaysSo: the fold's rows are the table's,
// whatever the key column's type and collation.
func TestFlush_KeysAreEqualWhereTheDatabaseSaysSo(t *testing.T) {
	keys := []string{`1`, `"1"`, `1.0`, `"01"`, `" 1"`, `"1 "`, `"a"`, `"A"`, `"\u0061"`, `"a "`, `"ä"`, `"Ä"`, `9223372036854775807`, `"9223372036854775807"`, `1e2`, `100`, `"1e2"`, `true`, `1.5`, `"1.5"`, `-0`, `0`,
		`-0.0`, `1e16`, `10000000000000000`, `9007199254740992`, `9007199254740993`, `9007199254740993.0`, `9007199254740994.0`, `9007199254740994`,
		`-9223372036854775808`, `-9.223372036854776e18`, `18446744073709551616`, `"18446744073709551616"`, `1.8446744073709551616e19`, `1.8446744073709552e19`}
	for _, decl := range []string{"", "TEXT", "TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM", "INTEGER", "REAL", "NUMERIC", "BLOB"} {
		for _, unique := range []string{
			"CREATE TABLE t (id %s NOT NULL PRIMARY KEY, n, first)",
			"CREATE TABLE t (id %s NOT NULL, n, first, PRIMARY KEY (id COLLATE BINARY))",
			"CREATE TABLE t (id %s NOT NULL, n, first, UNIQUE (id COLLATE NOCASE))",
			"CREATE TABLE t (id %s NOT NULL PRIMARY KEY, n, first, UNIQUE (id COLLATE NOCASE))",
		} {
			create := fmt.Sprintf(unique, decl)
			t.Run(create, func(t *testing.T) {
				// Row by row the database alone decides; in one batch the fold does.
				var tables [2]string
				for i, size := range []int{1, len(keys)} {
					f := newFile(t, filepath.Join(t.TempDir(), "t.db"))
					f.Exec(t, create)
					d := open(t, f.path, sqlite.Options{Synchronous: sink.Off})
					table, err := sink.Table(t.Context(), d.Tables, "t", []string{"id"})
					if err != nil {
						t.Fatal(err)
					}
					folder := fold.NewFolder(&feed.Names{}, table, fold.Options{Key: []string{"id"}, Columns: fold.IgnoreColumns, Limits: d.Caps().Limits, Log: logtest.New(t)})
					var batch fold.Batch
					for n, k := range keys {
						line := fmt.Appendf(nil, `{"id":%s,"n":%d}`, k, n)
						if err := folder.Fold(&batch, line, fold.Place{}); err != nil {
							if _, bad := err.(*feed.Error); !bad {
								t.Fatal(err)
							}
						}
						if (n+1)%size == 0 {
							folder.Seal(&batch)
							if _, err := d.Flush(t.Context(), &sink.Flush{Batches: []*fold.Batch{&batch}, Job: "j", Lanes: lanesAt("s", int64((n+1)/size)), Run: "r"}); err != nil {
								t.Fatal(err)
							}
							batch.Reset()
						}
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

// TestFlush_KeysThatAnotherIndexCallsEqual: of two indexes with collations of their own
// one tells which keys are equal, and what the other one refuses is rejected.
func TestFlush_KeysThatAnotherIndexCallsEqual(t *testing.T) {
	f := newFile(t, filepath.Join(t.TempDir(), "t.db"))
	f.Exec(t, "CREATE TABLE t (id TEXT, n, UNIQUE (id COLLATE NOCASE), UNIQUE (id COLLATE RTRIM))")
	r := sinktest.Begin(t, f)
	r.Flush(`{"id":"a","n":1}`)
	r.Flush(`{"id":"a ","n":2}`, `{"id":"A","n":3}`)
	sinktest.Expect(t, f, "SELECT id, (SELECT count(*) FROM weir_rejects) FROM t", "a|1")
}
