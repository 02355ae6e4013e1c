package sqlite_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

func byKey(fields string) func(*fold.Options) {
	return func(o *fold.Options) { o.Key = strings.Split(fields, ",") }
}

func versioned(scope fold.Scope) func(*fold.Options) {
	return func(o *fold.Options) {
		if scope != "" {
			o.Version, o.Scope = "v", scope
		}
	}
}

// TestFlush_EveryValueOverEveryOther: whatever a column holds, it then has the last message's value, as in a new row; a
// value that is already there is not written again.
func TestFlush_EveryValueOverEveryOther(t *testing.T) {
	for _, decl := range []string{"", "TEXT COLLATE NOCASE", "INTEGER", "REAL", "NUMERIC"} {
		t.Run("declared "+decl, func(t *testing.T) {
			f := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, v "+decl+")")
			r := sinktest.Begin(t, f)
			var first, second []string
			for i, a := range awkward {
				for j, b := range awkward {
					first = append(first, fmt.Sprintf(`{"id":%d,"v":%s}`, 100*i+j, a))
					second = append(second, fmt.Sprintf(`{"id":%d,"v":%s}`, 100*i+j, b))
				}
			}
			r.Flush(first...)
			f.Exec(t, "CREATE TABLE was AS SELECT * FROM t")
			f.Exec(t, "ALTER TABLE was ADD COLUMN same")
			// A value that the column rejects is in no row.
			wrong := `SELECT t.id, quote(t.v), quote(n.v) FROM t LEFT JOIN was n ON n.id = t.id % 100 * 101
				LEFT JOIN was o ON o.id = t.id WHERE t.v COLLATE BINARY IS NOT CASE WHEN n.id IS NULL THEN o.v ELSE n.v END
				OR (typeof(t.v) IN ('text', 'blob', 'null')) <> (typeof(CASE WHEN n.id IS NULL THEN o.v ELSE n.v END) IN ('text', 'blob', 'null'))`
			differ := f.Query(t, `SELECT count(*) FROM was o JOIN was n ON n.id = o.id % 100 * 101 WHERE o.v COLLATE BINARY IS NOT n.v`)[0][0]
			got := r.Flush(second...).Total()
			for _, row := range f.Query(t, wrong) {
				t.Errorf("row %d has %s, not %s", row...)
			}
			if got.Updated != differ {
				t.Errorf("%d rows were updated, of which %d have another value", got.Updated, differ)
			}
			sinktest.Counts(t, r.Flush(second...), 0, 0, got.Inserted+got.Updated+got.Unchanged, 0)
		})
	}
}

// TestFlush_ARowidThatIsNoKey: a message may set it, and otherwise it is unchanged.
func TestFlush_ARowidThatIsNoKey(t *testing.T) {
	f := tempFile(t, "CREATE TABLE t (n INTEGER PRIMARY KEY, id TEXT UNIQUE, v INTEGER)")
	r := sinktest.Begin(t, f)
	sinktest.Counts(t, r.Flush(`{"id":"a","n":5,"v":1}`, `{"id":"b","v":1}`), 2, 0, 0, 0)
	sinktest.Counts(t, r.Flush(`{"id":"a","v":2}`, `{"id":"b","v":1}`), 0, 1, 1, 0)
	sinktest.Counts(t, r.Flush(`{"id":"a","n":9}`, `{"id":"c","v":3}`), 1, 1, 0, 0)
	sinktest.Expect(t, f, "SELECT id, n, v FROM t ORDER BY id", "a|9|2", "b|6|1", "c|10|3")
}

// TestFlush_OnlyTheKeyFindsARow: a row is not mistaken for another with the same rowid, whether the rowid is part of
// the key or not; the message is rejected, and the run continues.
func TestFlush_OnlyTheKeyFindsARow(t *testing.T) {
	for name, test := range map[string]struct{ ddl, key string }{
		"part of the key":     {"n INTEGER PRIMARY KEY, id TEXT, v INTEGER, UNIQUE (id, n))", "id,n"},
		"no part of the key":  {"n INTEGER PRIMARY KEY, id TEXT UNIQUE, v INTEGER)", "id"},
		"part, without rowid": {"n INTEGER PRIMARY KEY, id TEXT, v INTEGER, UNIQUE (id, n)) WITHOUT ROWID", "id,n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := tempFile(t, "CREATE TABLE t ("+test.ddl)
			r := sinktest.Setup{Constrained: true, Options: func(_ string, o *fold.Options) { byKey(test.key)(o) }}.Begin(t, f)
			sinktest.Counts(t, r.Flush(`{"id":"a","n":5,"v":1}`, `{"id":"b","n":6,"v":1}`), 2, 0, 0, 0)
			res := r.Flush(`{"id":"a","n":5,"v":2}`, `{"id":"c","n":6,"v":3}`, `{"id":"d","n":7,"v":4}`)
			if sinktest.Counts(t, res, 1, 1, 0, 0); len(res.Refused) != 1 {
				t.Errorf("rejected: %v", res.Refused)
			}
			sinktest.Expect(t, f, "SELECT id, n, v FROM t ORDER BY id", "a|5|2", "b|6|1", "d|7|4")
		})
	}
}

// TestFlush_AReplacedRowIsNotLost: a row that replaces a deleted one has the rowid of another row.
func TestFlush_AReplacedRowIsNotLost(t *testing.T) {
	f := tempFile(t, "CREATE TABLE t (n INTEGER PRIMARY KEY, id TEXT UNIQUE, v INTEGER)")
	r := sinktest.Setup{Constrained: true}.Begin(t, f)
	r.Flush(`{"id":"a","n":1}`, `{"id":"b","n":2}`)
	if res := r.Flush(`{"id":"a","op":"delete"}`, `{"id":"a","n":2}`, `{"id":"c","n":3}`); len(res.Refused) != 1 {
		t.Errorf("rejected: %v", res.Refused)
	}
	sinktest.Expect(t, f, "SELECT id, n FROM t ORDER BY id", "b|2", "c|3")
}

// TestFlush_MostColumns: a table with as many columns as SQLite allows.
func TestFlush_MostColumns(t *testing.T) {
	decls, values := []string{"id INTEGER PRIMARY KEY"}, ""
	for i := range 1999 {
		decls = append(decls, fmt.Sprintf("c%d INTEGER", i))
		values += fmt.Sprintf(`,"c%d":%d`, i, i)
	}
	f := tempFile(t, "CREATE TABLE t ("+strings.Join(decls, ", ")+")")
	r := sinktest.Begin(t, f)
	sinktest.Counts(t, r.Flush(`{"id":1`+values+`}`), 1, 0, 0, 0)
	sinktest.Counts(t, r.Flush(`{"id":1`+values+`}`), 0, 0, 1, 0)
	sinktest.Counts(t, r.Flush(`{"id":1,"c1998":7}`), 0, 1, 0, 0)
	sinktest.Counts(t, r.Flush(`{"id":1,"c0":0,"c1998":null}`), 0, 1, 0, 0)
	sinktest.Expect(t, f, "SELECT c0, c1997, c1998 FROM t", "0|1997|NULL")
}

// TestFlush_ManyRows: rows that one statement inserts or looks up, among rows in other states, deletes, long values,
// and rows changed by hand, have the same results, states and counts as rows written a few at a time.
func TestFlush_ManyRows(t *testing.T) {
	for name, scope := range map[string]fold.Scope{"plain": "", "sums": "", "versions of columns": fold.ColumnScope, "versions of rows": fold.RowScope} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, uint64(len(name))))
			const all = `{"id":-1,"v":1,"a":"x","b":"x","c":"x"}`
			files := []*file{tempFile(t), tempFile(t)}
			stamps := func(l *schema.Limits, t *schema.Table) error {
				return errors.Join(l.AddStamp(t, "made", schema.InsertStamp), l.AddStamp(t, "moved", schema.UpdateStamp))
			}
			setup := sinktest.Setup{Fit: stamps, Options: func(_ string, o *fold.Options) {
				if versioned(scope)(o); name == "sums" {
					o.Merge = map[string]merge.Function{"v": merge.Sum, "a": merge.Max, "b": merge.Min}
				}
			}}
			together, apart := setup.Begin(t, files[0]), setup.Begin(t, files[1])
			together.Flush(all)
			apart.Flush(all)
			var last []string
			for round := range 10 {
				at := time.Unix(int64(round), 0)
				together.At(at)
				apart.At(at)
				var lines []string
				from, step, rows := rnd.IntN(600), 1+rnd.IntN(4), []int{200, 2000}[rnd.IntN(2)]
				chance := []int{0, 10, 300}[rnd.IntN(3)] // of an unusual message
				for id := from; id < from+rows; id += step {
					rest := fmt.Sprintf(`,%q:"x%d"`, []string{"a", "b", "c"}[rnd.IntN(3)], rnd.IntN(3))
					switch {
					case rnd.IntN(1000) < chance:
						rest = `,"op":"delete"`
					case rnd.IntN(1000) < chance:
						rest = `,"a":null`
					case rnd.IntN(1000) < chance:
						rest = `,"a":"` + strings.Repeat("long", 2000) + `"`
					}
					lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%d%s}`, id, rnd.IntN(30), rest))
				}
				if rnd.IntN(4) == 0 {
					lines = last // nothing in them is newer
				}
				last = lines
				var alone sink.Counts
				for few := range slices.Chunk(lines, 10) {
					c := apart.Flush(few...).Total()
					alone = sink.Counts{Inserted: alone.Inserted + c.Inserted, Updated: alone.Updated + c.Updated, Deleted: alone.Deleted + c.Deleted, Unchanged: alone.Unchanged + c.Unchanged}
				}
				if c := together.Flush(lines...).Total(); c != alone {
					t.Errorf("%+v together, %+v few at a time", c, alone)
				}
				query := "SELECT id, quote(v), quote(a), quote(b), quote(c), made, moved, NULL FROM t"
				if scope == fold.ColumnScope {
					query += " UNION ALL SELECT CAST(key AS text), hex(state), gone IS NULL, NULL, NULL, NULL, NULL, 's' FROM weir_versions"
				}
				sinktest.Expect(t, files[0], query+" ORDER BY 1, 8", sinktest.Rows(t, files[1], query+" ORDER BY 1, 8")...)
				if t.Failed() {
					return
				}
				sql := fmt.Sprintf([]string{"DELETE FROM t WHERE id %% 7 = %d", "UPDATE t SET a = 'theirs' WHERE id %% 13 = %d",
					"INSERT INTO t (id, b) SELECT max(id) + 1 + %d, 'theirs' FROM t"}[rnd.IntN(3)], rnd.IntN(7))
				files[0].Exec(t, sql)
				files[1].Exec(t, sql)
			}
		})
	}
}

// TestFlush_ASumTooLargeAmongManyNewRows: rows that one statement would insert have sums that fit their columns, or are
// rejected.
func TestFlush_ASumTooLargeAmongManyNewRows(t *testing.T) {
	f := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
	r := sinktest.Begin(t, f, func(o *fold.Options) { o.Merge = map[string]merge.Function{"n": merge.Sum} })
	for id := range 320 {
		for range 2 {
			r.Fold(fmt.Sprintf(`{"id":%d,"n":%d}`, id, []int{1, math.MaxInt64}[id/319]))
		}
	}
	if res := r.Flush(); len(res.Refused) != 1 {
		t.Errorf("rejected: %v", res.Refused)
	}
	sinktest.Expect(t, f, "SELECT n, typeof(n), count(*) FROM t GROUP BY n ORDER BY n", "2|integer|319", "9223372036854775807|integer|1")
}

// TestFlush_WideRowsInTurn: if rows of a wide table use a few sets of columns, their statements are prepared once; of
// many sets only some statements are kept.
func TestFlush_WideRowsInTurn(t *testing.T) {
	const columns, few, many = 1000, 15, 60
	f := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, c"+strings.Join(numbers(columns), ", c")+")", "CREATE INDEX i ON t (c999)")
	r := sinktest.Begin(t, f)
	kept := func(ways int) (statements, bytes int) {
		for id := range 2 * ways {
			r.Fold(fmt.Sprintf(`{"id":%d,"c%s":1}`, 1000*ways+id, strings.Join(numbers(columns)[id%ways:], `":1,"c`)))
		}
		r.Flush()
		return r.Sink.(*sqlite.DB).Kept()
	}
	if n, bytes := kept(few); n < few || bytes < sqlite.MaxSQL {
		t.Errorf("%d statements of %d bytes are kept, want %d", n, bytes, few)
	}
	if n, bytes := kept(many); n > few+1 || bytes > 2*sqlite.MaxSQL {
		t.Errorf("%d statements of %d bytes are kept", n, bytes)
	}
	sinktest.Expect(t, f, "SELECT count(*), sum(c0), sum(c999) FROM t", "150|4|150")
}

func numbers(n int) (texts []string) {
	for i := range n {
		texts = append(texts, strconv.Itoa(i))
	}
	return texts
}

// TestFlush_LongValuesOfRemovedRows: rows that were removed by hand get the long values of older messages one by one:
// together they would take much memory.
func TestFlush_LongValuesOfRemovedRows(t *testing.T) {
	const rows, size = 300, 20 << 10
	f := tempFile(t)
	r := sinktest.Begin(t, f, versioned(fold.ColumnScope))
	var newer, older []string
	for id := range rows {
		newer = append(newer, fmt.Sprintf(`{"id":%d,"v":9,"a":"new"}`, id))
		older = append(older, fmt.Sprintf(`{"id":%d,"v":3,"a":"%0*d"}`, id, size, id))
	}
	r.Flush(newer...)
	f.Exec(t, "DELETE FROM t")
	sinktest.Counts(t, r.Flush(older...), rows, 0, 0, 0)
	sinktest.Expect(t, f, "SELECT count(*), min(length(a)), sum(a) = 44850 FROM t", fmt.Sprint(rows, "|", size, "|1"))
	if n := r.Sink.(*sqlite.DB).BoundMemory(); n > 4*size {
		t.Errorf("%d bytes of memory for values that are bound", n)
	}
}
