package postgres_test

import (
	"crypto/rand"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// TestFlush_RolledBackRowsAreNotReadAgain: rows that a rolled-back COPY left in the staging table are not reread for
// each following piece.
func TestFlush_RolledBackRowsAreNotReadAgain(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n >= 0), a text, staged bigint)")
	db.Exec(t, "CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 4711 THEN RAISE 'no'; END IF; NEW.staged = pg_relation_size('pg_temp.weir_stage_0'); RETURN NEW; END $$")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"n":1,"a":"x"}`)
	r.Flush(`{"id":1,"n":2,"a":"x"}`)
	db.Exec(t, "CREATE TRIGGER looks BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION looks()")
	var lines []string
	for n := range 5000 {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"n":%d,"a":"%0200d"}`, 10+n, n, n))
	}
	r.Flush(lines...)
	// The neighbours of the bad row were written from few pages.
	sinktest.Expect(t, db, "SELECT count(*), min(staged) <= 4 * 8192 FROM t", "5000|true")
}

// TestFlush_WidestTable: a table with the maximum number of columns accepts lines that have all of them in turn.
func TestFlush_WidestTable(t *testing.T) {
	db := connect(t, testpg.New(t))
	var columns []string
	for i := range 1599 {
		columns = append(columns, fmt.Sprintf("c%d smallint", i))
	}
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, "+strings.Join(columns, ", ")+")")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"c0":1}`)
	for from := 0; from < 1599; from += 123 {
		line := `{"id":1`
		for i := from; i < from+123; i++ {
			line += fmt.Sprintf(`,"c%d":2`, i)
		}
		r.Flush(line + "}")
	}
	sinktest.Expect(t, db, "SELECT c0, c800, c1598 FROM t", "2|2|2")
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
}

// TestRefused_FewOfMany: rows that only the database can reject cost a few tries each, however many other rows there
// are. Of two rows, the first in the feed gets a unique value.
func TestRefused_FewOfMany(t *testing.T) {
	for name, c := range map[string]struct {
		rows   int
		column string
		line   func(i, rows int, bad bool) string
	}{
		"a CHECK": {testcheck.Rounds(20_000, 1_000_000), "integer CHECK (n >= 0)", func(i, _ int, bad bool) string {
			return fmt.Sprintf(`{"id":%d,"n":%d}`, i, map[bool]int{true: -1}[bad])
		}},
		"a unique value": {20_000, "integer UNIQUE", func(i, rows int, bad bool) string { // the last one has the first key
			return fmt.Sprintf(`{"id":%d,"n":%d}`, rows-i, i-map[bool]int{true: rows / 5}[bad])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			db, p := throughProxy(t, testpg.New(t))
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n "+c.column+")")
			r := sinktest.Begin(t, db)
			var want []string
			for i := range c.rows {
				bad := i%(c.rows/3) == c.rows/4
				if bad {
					want = append(want, fmt.Sprint(i))
				}
				r.Fold(c.line(i, c.rows, bad))
			}
			p.Cut(nil)
			res, err := r.Sink.Flush(t.Context(), r.Seal())
			testcheck.NoError(t, err)
			sinktest.Counts(t, res, int64(c.rows-3), 0, 0, 0)
			sinktest.Expect(t, db, "SELECT line - 1 FROM weir_rejects ORDER BY line", want...)
			// Each level of halving takes two tries, one of which fails and is rolled back.
			if limit, n := 3*3*bits.Len(uint(c.rows))+30, p.Count().Answers; n > limit {
				t.Errorf("%d round trips for 3 rows of %d, more than %d", n, c.rows, limit)
			}
		})
	}
}

// TestRefused_TooLongForAnIndex: an index whose entries may be too long is a constraint, also of a table that weir
// created.
func TestRefused_TooLongForAnIndex(t *testing.T) {
	url := testpg.New(t)
	long := ""
	for range 400 {
		long += rand.Text() // incompressible
	}
	for index, refuses := range map[string]bool{
		"INDEX i ON t (a)":                     true,
		"INDEX i ON t (n) INCLUDE (a)":         true,
		"UNIQUE INDEX i ON t (id) INCLUDE (a)": true,
		"INDEX i ON t USING hash (a)":          false,
		"INDEX i ON t (n, b)":                  false,
	} {
		t.Run(index, func(t *testing.T) {
			db := connectEmpty(t, url)
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":1,"n":1,"b":true,"a":"x"}`)
			r.End()
			db.Exec(t, "CREATE "+index)
			r = sinktest.Begin(t, db)
			table, err := sink.Table(t.Context(), r.Sink.Tables, "t", []string{"id"})
			testcheck.NoError(t, err)
			if table.HasConstraints != refuses || !table.Made {
				t.Errorf("constraints: %t, made by weir: %t", table.HasConstraints, table.Made)
			}
			res := r.Flush(`{"id":2,"a":"x"}`, `{"id":3,"a":"`+long+`"}`, `{"id":4,"n":2,"a":"x"}`)
			if rejected := len(res.Refused) == 1; rejected != refuses {
				t.Errorf("%d messages were rejected", len(res.Refused))
			}
		})
	}
}

// TestRefused_TooBigForAPage: a table of many columns may reject a row for its size, starting with the message that
// gives the table so many columns.
func TestRefused_TooBigForAPage(t *testing.T) {
	db := connect(t, testpg.New(t))
	wide := func(id, fields int) string {
		line := fmt.Sprintf(`{"id":%d`, id)
		for i := range fields {
			line += fmt.Sprintf(`,"c%d":"%.40s"`, i, rand.Text()+rand.Text())
		}
		return line + "}"
	}
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	r.Feed(10, `{"id":2,"a":"x"}`, wide(3, 318), `{"id":4,"a":"x"}`, wide(4, 490), `{"id":5,"a":"x"}`)
	r.Feed(10, `{"id":2,"a":"y"}`, wide(2, 490), wide(5, 300))
	sinktest.Expect(t, db, "SELECT id, a, c0 IS NULL FROM t ORDER BY id", "1|x|true", "2|y|true", "3|NULL|false", "4|x|true", "5|x|false")
	sinktest.Expect(t, db, "SELECT line, reason LIKE '%(SQLSTATE 54000)' FROM weir_rejects ORDER BY line", "5|true", "8|true")
}
