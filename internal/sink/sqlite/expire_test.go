package sqlite_test

import (
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestExpire_SlowRowsTakeSeveralSteps: with a foreign key without an index, SQLite scans a table for each old row. The
// feed proceeds between the steps.
func TestExpire_SlowRowsTakeSeveralSteps(t *testing.T) {
	for _, index := range []string{"CREATE INDEX other ON t (n)", "CREATE INDEX by_at ON t (at)"} {
		db := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP, n INTEGER)", "INSERT INTO t WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 900) SELECT i, '2020-05-15 00:00:00', 0 FROM g")
		db.Exec(t, "CREATE TABLE theirs (id INTEGER REFERENCES t (id))")
		db.Exec(t, "INSERT INTO theirs WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 30000) SELECT 2 + i % 200 FROM g")
		db.Exec(t, index)
		r := sinktest.Begin(t, db)
		e := &sink.Expiry{Table: "t", Key: []string{"id"}, Of: []string{"at"}, Before: time.Now()}
		first, err := r.Sink.(sink.Expirer).Expire(t.Context(), e)
		if err != nil || first.Done || first.Removed == 0 || first.Removed == 700 {
			t.Errorf("%s: the first step did %+v, %v", index, first, err)
		}
		if all := r.Expire(e); first.Removed+all.Removed != 700 || first.Kept+all.Kept != 200 {
			t.Errorf("%s: %+v, and then %+v", index, first, all)
		}
	}
}

// TestExpire_RowsThatATriggerKeeps: an index that finds them again does not keep the expiry running forever.
func TestExpire_RowsThatATriggerKeeps(t *testing.T) {
	db := tempFile(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP)", "INSERT INTO t WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 1001) SELECT i, '2020-05-15 00:00:00' FROM g")
	db.Exec(t, "CREATE INDEX by_at ON t (at)")
	db.Exec(t, "CREATE TRIGGER keeps BEFORE DELETE ON t WHEN old.id < 1001 BEGIN SELECT RAISE(IGNORE); END")
	r := sinktest.Begin(t, db)
	e := &sink.Expiry{Table: "t", Key: []string{"id"}, Of: []string{"at"}, Before: time.Now()}
	if all := r.Expire(e); all.Removed != 1 || all.Kept != 0 {
		t.Errorf("%+v", all)
	}
}
