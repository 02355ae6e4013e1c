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
