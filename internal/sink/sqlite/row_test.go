package sqlite_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// flushes write lines to a table.
type flushes struct {
	t       *testing.T
	db      *sqlite.DB
	folder  *fold.Folder
	names   feed.Names
	seq     int64
	rejects int // by the database, in a flush from now on
}

// newFlushes writes to a table t of a new file.
func newFlushes(t *testing.T, ddl ...string) (*flushes, *file) {
	t.Helper()
	db := newFile(t, filepath.Join(t.TempDir(), "t.db"))
	for _, sql := range ddl {
		db.Exec(t, sql)
	}
	return &flushes{t: t, db: open(t, db.path, sqlite.Options{Synchronous: sink.Off})}, db
}

// write flushes messages, and returns what that did to the table.
func (r *flushes) write(key string, lines ...string) sink.Counts {
	r.t.Helper()
	res, err := r.flush(key, lines...)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(res.Refused) != r.rejects {
		r.t.Errorf("rejected: %v", res.Refused)
	}
	return res.Total()
}

func (r *flushes) flush(key string, lines ...string) (sink.Result, error) {
	r.t.Helper()
	table, err := sink.Table(r.t.Context(), r.db.Tables, "t", strings.Split(key, ","))
	if err != nil {
		r.t.Fatal(err)
	}
	table.HasConstraints = table.HasConstraints || r.rejects > 0
	if r.folder == nil || r.rejects > 0 {
		r.folder = fold.NewFolder(&r.names, table, fold.Options{Key: strings.Split(key, ","), Columns: fold.AddColumns, MaxColumns: 2000, Limits: r.db.Caps().Limits, Log: logtest.New(r.t)})
	}
	var batch fold.Batch
	for i, line := range lines {
		if err := r.folder.Fold(&batch, []byte(line), fold.Place{Line: int64(i)}); err != nil {
			if _, bad := err.(*feed.Error); !bad {
				r.t.Fatal(err)
			}
		}
	}
	r.folder.Seal(&batch)
	res, err := r.db.Flush(r.t.Context(), &sink.Flush{Batches: []*fold.Batch{&batch}, Job: "j", Lanes: lanesAt("s", r.seq+1), Run: "r"})
	if err == nil {
		r.seq++
	}
	return res, err
}

// expect fails the test where a flush did something else.
func (r *flushes) expect(got sink.Counts, inserted, updated, unchanged int64) {
	r.t.Helper()
	if want := (sink.Counts{Inserted: inserted, Updated: updated, Unchanged: unchanged}); got != want {
		r.t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestFlush_EveryValueOverEveryOther: whatever a column holds, the value of the last message is in it
// as it would be in a new row, and what is there already is not written again.
func TestFlush_EveryValueOverEveryOther(t *testing.T) {
	for _, decl := range []string{"", "TEXT COLLATE NOCASE", "INTEGER", "REAL", "NUMERIC"} {
		t.Run("declared "+decl, func(t *testing.T) {
			r, db := newFlushes(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v "+decl+")")
			var first, second []string
			for i, a := range awkward {
				for j, b := range awkward {
					first = append(first, fmt.Sprintf(`{"id":%d,"v":%s}`, 100*i+j, a))
					second = append(second, fmt.Sprintf(`{"id":%d,"v":%s}`, 100*i+j, b))
				}
			}
			r.write("id", first...)
			db.Exec(t, "CREATE TABLE was AS SELECT * FROM t")
			db.Exec(t, "ALTER TABLE was ADD COLUMN same")
			// A value that the column rejects is in no row.
			wrong := fmt.Sprintf(`SELECT t.id, quote(t.v), quote(n.v) FROM t LEFT JOIN was n ON n.id = t.id %% 100 * 101
				LEFT JOIN was o ON o.id = t.id WHERE t.v COLLATE BINARY IS NOT CASE WHEN n.id IS NULL THEN o.v ELSE n.v END
				OR (typeof(t.v) IN ('text', 'blob', 'null')) <> (typeof(CASE WHEN n.id IS NULL THEN o.v ELSE n.v END) IN ('text', 'blob', 'null'))`)
			differ := `SELECT count(*) FROM was o JOIN was n ON n.id = o.id % 100 * 101 WHERE o.v COLLATE BINARY IS NOT n.v`
			rows := db.Query(t, "SELECT count(*), ("+differ+") FROM t")[0]
			got := r.write("id", second...)
			for _, row := range db.Query(t, wrong) {
				t.Errorf("row %d has %s, not %s", row...)
			}
			if got.Updated != rows[1] {
				t.Errorf("%d rows were updated, of which %d have another value", got.Updated, rows[1])
			}
			again := r.write("id", second...)
			r.expect(again, 0, 0, got.Inserted+got.Updated+got.Unchanged)
		})
	}
}

// TestFlush_CountsByKey: rows are counted as they are whatever finds them, and whatever their keys are.
func TestFlush_CountsByKey(t *testing.T) {
	for name, test := range map[string]struct{ ddl, key, old, spelled, new string }{
		"rowid":         {"id INTEGER PRIMARY KEY, a, b)", "id", "-9223372036854775808", `"-9223372036854775808"`, "0"},
		"rowid, 0":      {"id INTEGER PRIMARY KEY, a, b)", "id", "0", `"0"`, "-9223372036854775808"},
		"without rowid": {"id INTEGER PRIMARY KEY, a, b) WITHOUT ROWID", "id", "7", `"7"`, "8"},
		"text":          {"id TEXT PRIMARY KEY, a, b)", "id", `"x"`, `"x"`, `"X"`},
		"affinity":      {"id NUMERIC PRIMARY KEY, a, b)", "id", `7`, `"7"`, `"x"`},
		"NOCASE":        {"id TEXT COLLATE NOCASE PRIMARY KEY, a, b)", "id", `"x"`, `"X"`, `"x "`},
		"RTRIM":         {"id TEXT PRIMARY KEY COLLATE RTRIM, a, b)", "id", `"x"`, `"x  "`, `"X"`},
		"two indexes":   {"id TEXT PRIMARY KEY, a, b, UNIQUE (id COLLATE NOCASE))", "id", `"x"`, `"X"`, `"y"`},
		"two more":      {"id TEXT COLLATE NOCASE PRIMARY KEY, a, b, UNIQUE (id COLLATE BINARY))", "id", `"x"`, `"X"`, `"y"`},
		"replacing":     {"id TEXT PRIMARY KEY ON CONFLICT REPLACE, a, b)", "id", `"x"`, `"x"`, `"y"`},
		"beside":        {"n INTEGER PRIMARY KEY, id TEXT UNIQUE, a, b)", "id", `"x"`, `"x"`, `"y"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, db := newFlushes(t, "CREATE TABLE t ("+test.ddl)
			line := func(id, rest string) string { return `{"id":` + id + rest + `}` }
			r.expect(r.write(test.key, line(test.old, `,"a":1,"b":2`)), 1, 0, 0)
			r.expect(r.write(test.key, line(test.spelled, `,"a":1`)), 0, 0, 1)
			r.expect(r.write(test.key, line(test.spelled, `,"b":3`), line(test.new, `,"a":5`)), 1, 1, 0)
			r.expect(r.write(test.key, line(test.old, `,"a":4,"b":3`), line(test.new, "")), 0, 1, 1)
			if got := fmt.Sprint(db.Query(t, "SELECT a, b FROM t ORDER BY a")); got != "[[4 3] [5 <nil>]]" {
				t.Error(got)
			}
		})
	}
}

// TestFlush_ARowidThatIsNoKey: a message may name it, and it stays where none does.
func TestFlush_ARowidThatIsNoKey(t *testing.T) {
	r, db := newFlushes(t, "CREATE TABLE t (n INTEGER PRIMARY KEY, id TEXT UNIQUE, v INTEGER)")
	r.expect(r.write("id", `{"id":"a","n":5,"v":1}`, `{"id":"b","v":1}`), 2, 0, 0)
	r.expect(r.write("id", `{"id":"a","v":2}`, `{"id":"b","v":1}`), 0, 1, 1)
	r.expect(r.write("id", `{"id":"a","n":9}`, `{"id":"c","v":3}`), 1, 1, 0)
	if got := fmt.Sprint(db.Query(t, "SELECT id, n, v FROM t ORDER BY id")); got != "[[a 9 2] [b 6 1] [c 10 3]]" {
		t.Error(got)
	}
}

// TestFlush_OnlyTheKeyFindsARow: a row is not taken for another that has the same rowid, be this a part of
// the key or none; and the message is rejected, not the run ended.
func TestFlush_OnlyTheKeyFindsARow(t *testing.T) {
	for name, test := range map[string]struct{ ddl, key string }{
		"part of the key":     {"n INTEGER PRIMARY KEY, id TEXT, v INTEGER, UNIQUE (id, n))", "id,n"},
		"no part of the key":  {"n INTEGER PRIMARY KEY, id TEXT UNIQUE, v INTEGER)", "id"},
		"part, without rowid": {"n INTEGER PRIMARY KEY, id TEXT, v INTEGER, UNIQUE (id, n)) WITHOUT ROWID", "id,n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, db := newFlushes(t, "CREATE TABLE t ("+test.ddl)
			r.expect(r.write(test.key, `{"id":"a","n":5,"v":1}`, `{"id":"b","n":6,"v":1}`), 2, 0, 0)
			r.rejects = 1
			r.expect(r.write(test.key, `{"id":"a","n":5,"v":2}`, `{"id":"c","n":6,"v":3}`, `{"id":"d","n":7,"v":4}`), 1, 1, 0)
			if got := fmt.Sprint(db.Query(t, "SELECT id, n, v FROM t ORDER BY id")); got != "[[a 5 2] [b 6 1] [d 7 4]]" {
				t.Error(got)
			}
		})
	}
}

// TestFlush_MostColumns: a table of as many columns as SQLite has.
func TestFlush_MostColumns(t *testing.T) {
	decls, values := []string{"id INTEGER PRIMARY KEY"}, ""
	for i := range 1999 {
		decls = append(decls, fmt.Sprintf("c%d INTEGER", i))
		values += fmt.Sprintf(`,"c%d":%d`, i, i)
	}
	r, db := newFlushes(t, "CREATE TABLE t ("+strings.Join(decls, ", ")+")")
	r.expect(r.write("id", `{"id":1`+values+`}`), 1, 0, 0)
	r.expect(r.write("id", `{"id":1`+values+`}`), 0, 0, 1)
	r.expect(r.write("id", `{"id":1,"c1998":7}`), 0, 1, 0)
	r.expect(r.write("id", `{"id":1,"c0":0,"c1998":null}`), 0, 1, 0)
	if got := fmt.Sprint(db.Query(t, "SELECT c0, c1997, c1998 FROM t")); got != "[[0 1997 <nil>]]" {
		t.Error(got)
	}
}
