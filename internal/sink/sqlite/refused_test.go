package sqlite_test

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestFlush_TriggerIgnores: a row that a trigger makes SQLite ignore is not counted as written.
func TestFlush_TriggerIgnores(t *testing.T) {
	f := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
	for _, on := range []string{"INSERT", "UPDATE", "DELETE"} {
		row := "NEW"
		if on == "DELETE" {
			row = "OLD"
		}
		f.Exec(t, "CREATE TRIGGER ignores_"+on+" BEFORE "+on+" ON t WHEN "+row+".id > 9 BEGIN SELECT RAISE(IGNORE); END")
	}
	r := sinktest.Begin(t, f)
	sinktest.Counts(t, r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"a":"x"}`, `{"id":10,"a":"x"}`), 2, 0, 1, 0)
	f.Exec(t, "INSERT INTO t VALUES (3, 'x')")
	f.Exec(t, "UPDATE t SET id = 11 WHERE id = 3")
	sinktest.Expect(t, f, "SELECT id FROM t", "1", "2", "3")
	f.Exec(t, "DROP TRIGGER ignores_INSERT")
	f.Exec(t, "INSERT INTO t VALUES (10, 'x'), (11, 'x')")
	sinktest.Counts(t, r.Flush(`{"id":1,"a":"y"}`, `{"id":2,"op":"delete"}`, `{"id":10,"a":"y"}`, `{"id":11,"op":"delete"}`), 0, 1, 2, 1)
	sinktest.Expect(t, f, "SELECT id, a FROM t ORDER BY id", "1|y", "3|x", "10|x", "11|x")
}

// TestRefused_Functions: a function that fails for a row's values rejects the row.
func TestRefused_Functions(t *testing.T) {
	f := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, n INTEGER)", "CREATE INDEX parts ON t (json_extract(a, '$.x'))", "CREATE TRIGGER overflows AFTER INSERT ON t BEGIN SELECT abs(NEW.n); END")
	r := sinktest.Begin(t, f)
	res := r.Flush(`{"id":1,"a":"{}","n":1}`, `{"id":2,"a":"no json"}`, `{"id":3,"n":-9223372036854775808}`, `{"id":4}`)
	if len(res.Refused) != 2 || !strings.Contains(res.Refused[0].Detail, "JSON") || !strings.Contains(res.Refused[1].Detail, "overflow") {
		t.Errorf("rejected: %v", res.Refused)
	}
	sinktest.Expect(t, f, "SELECT id FROM t ORDER BY id", "1", "4")
}

// TestRefused_ReasonNamesTheColumn: the reason of a value that the database rejects says which column it is about.
func TestRefused_ReasonNamesTheColumn(t *testing.T) {
	f := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'x', b INTEGER CHECK (b > 0), c TEXT UNIQUE,"+
		" d TEXT, e ANY, CONSTRAINT d_is_short CHECK (length(d) < 3)) STRICT", "CREATE UNIQUE INDEX by_e ON t (lower(e))")
	r := sinktest.Begin(t, f)
	r.Flush(`{"id":1,"c":"taken","d":"d","e":"e"}`)
	for line, want := range map[string]string{
		`{"id":2,"a":null}`:            "NOT NULL constraint failed: t.a",
		`{"id":2,"b":-1}`:              "CHECK constraint failed: b > 0",
		`{"id":2,"b":"x"}`:             `column "b"`,
		`{"id":2,"c":"taken"}`:         "UNIQUE constraint failed: t.c",
		`{"id":2,"d":"long"}`:          "CHECK constraint failed: d_is_short",
		`{"id":2,"e":"E"}`:             "UNIQUE constraint failed: index 'by_e'",
		`{"id":9223372036854775808}`:   `column "id"`,
		`{"id":2,"a":{"json":"text"}}`: "",
	} {
		r.Flush(line)
		reasons := sinktest.Rows(t, f, "SELECT reason FROM weir_rejects")
		if want == "" && len(reasons) > 0 || want != "" && (len(reasons) != 1 || !strings.Contains(reasons[0], want)) {
			t.Errorf("%s is rejected because of %q, want %q", line, reasons, want)
		}
		f.Exec(t, "DELETE FROM weir_rejects")
		f.Exec(t, "DELETE FROM t WHERE id > 1")
	}
}
