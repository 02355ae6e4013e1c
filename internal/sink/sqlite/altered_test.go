package sqlite_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestAltered: after others alter a table between two batches, the next batch does what the same statements do by hand,
// or the flush fails and says why. Some alterations make the run read the batch again for the table as it now is.
func TestAltered(t *testing.T) {
	const columns = "(id INTEGER NOT NULL, a TEXT, b TEXT)"
	for _, test := range []struct {
		name     string
		alter    string // of the table {t}
		fails    string // the error, if the flush fails
		rejected int    // messages
		rows     string // what to compare; by default id, a, b
	}{
		{name: "nothing"},
		{name: "a column with a default", alter: "ALTER TABLE {t} ADD COLUMN c TEXT DEFAULT 'none'", rows: "id, a, b, c"},
		{name: "a column with a default that is not null", alter: "ALTER TABLE {t} ADD COLUMN c INTEGER NOT NULL DEFAULT 7", rows: "id, a, b, c"},
		{name: "a generated column", alter: "ALTER TABLE {t} ADD COLUMN c TEXT AS (a || b)", rows: "id, a, b, c"},
		{name: "a column of the feed", alter: "ALTER TABLE {t} ADD COLUMN later TEXT", rows: "id, a, b, later"},
		{name: "a column with a check", alter: "ALTER TABLE {t} ADD COLUMN c TEXT CHECK (b <> 'new')", rejected: 60},
		{name: "a column is dropped", alter: "ALTER TABLE {t} DROP COLUMN a", rows: "id, b"},
		{name: "a column is renamed", alter: "ALTER TABLE {t} RENAME COLUMN a TO aa", rows: "id, aa, b"},
		{name: "an index", alter: "CREATE INDEX {t}_b ON {t} (b)"},
		{name: "a unique index", alter: "CREATE UNIQUE INDEX {t}_b ON {t} (b) WHERE b = 'new'", rejected: 59},
		{name: "the key's index is dropped", alter: "DROP INDEX {t}_key", fails: "CREATE UNIQUE INDEX"},
		{name: "the key's index is replaced", alter: "DROP INDEX {t}_key; CREATE UNIQUE INDEX {t}_other ON {t} (id COLLATE NOCASE)"},
		{name: "the key's index is replaced by one of more columns", alter: "DROP INDEX {t}_key; CREATE UNIQUE INDEX {t}_other ON {t} (id, a)", fails: "CREATE UNIQUE INDEX"},
		{name: "a trigger", alter: "CREATE TRIGGER {t}_i AFTER INSERT ON {t} BEGIN UPDATE {t} SET a = 'inserted' WHERE id = NEW.id; END"},
		{name: "a trigger that raises", alter: "CREATE TRIGGER {t}_i BEFORE UPDATE ON {t} WHEN NEW.b = 'new' BEGIN SELECT RAISE(ABORT, 'no'); END", rejected: 30},
		{name: "the table is renamed", alter: "ALTER TABLE {t} RENAME TO {t}_old", fails: "dropped"},
		{name: "the table is dropped", alter: "DROP TABLE {t}", fails: "dropped"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := tempFile(t)
			both := func(sql string) {
				for _, name := range []string{"t", "hand"} {
					f.Exec(t, strings.ReplaceAll(sql, "{t}", name))
				}
			}
			both("CREATE TABLE {t} " + columns + "; CREATE UNIQUE INDEX {t}_key ON {t} (id)")
			r := sinktest.Begin(t, f, func(o *fold.Options) { o.UnknownFields = fold.IgnoreUnknown })
			var first, second, byHand []string // lines, and statements
			existing := "INSERT INTO hand VALUES (-1, 'x', 'x')"
			for id := range 60 {
				if id < 30 {
					first = append(first, fmt.Sprintf(`{"id":%d,"a":"x","b":"old %d"}`, id, id))
					existing += fmt.Sprintf(", (%d, 'x', 'old %d')", id, id)
				}
				second = append(second, fmt.Sprintf(`{"id":%d,"b":"new","later":"%d"}`, id, id))
			}
			r.Flush(append(first, `{"id":-1,"a":"x","b":"x"}`)...)
			f.Exec(t, existing)
			both(test.alter)
			later := strings.Contains(test.alter, "later")
			for id := range 60 {
				sql := fmt.Sprintf("INSERT OR IGNORE INTO hand (id, b) VALUES (%d, 'new')", id)
				if id < 30 {
					sql = fmt.Sprintf("UPDATE OR IGNORE hand SET b = 'new' WHERE id = %d", id)
				}
				if byHand = append(byHand, sql); later {
					byHand = append(byHand, fmt.Sprintf("UPDATE hand SET later = '%d' WHERE id = %d", id, id))
				}
			}
			before := r.Checkpoint()
			res, err := r.TryFlush(second...)
			if errors.As(err, new(sink.ChangedError)) || errors.As(err, new(sink.UnloggedError)) {
				r.Reread(before)
				res, err = r.TryFlush(second...)
			}
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("the flush: %v", err)
				}
				return
			}
			testcheck.NoError(t, err)
			if len(res.Refused) != test.rejected {
				t.Errorf("%d messages are rejected", len(res.Refused))
			}
			if test.rejected < 60 && !strings.Contains(test.alter, "RAISE") {
				f.Exec(t, "BEGIN;"+strings.Join(byHand, ";")+"; COMMIT")
			} else if test.rejected == 30 {
				f.Exec(t, "BEGIN;"+strings.Join(byHand[30:], ";")+"; COMMIT")
			}
			rows := "SELECT id, a, b FROM "
			if test.rows != "" {
				rows = "SELECT " + test.rows + " FROM "
			}
			sinktest.Expect(t, f, rows+"t ORDER BY id", sinktest.Rows(t, f, rows+"hand ORDER BY id")...)
			if !slices.Equal(sinktest.Rows(t, f, "SELECT count(*) FROM t"), sinktest.Rows(t, f, "SELECT count(DISTINCT id) FROM t")) {
				t.Error("a key is there twice")
			}
		})
	}
}
