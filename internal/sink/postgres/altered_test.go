package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

func TestFlush_PermissionDenied(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.as(t, "nobody_much")
	db.Exec(t, "REVOKE CREATE ON SCHEMA public FROM nobody_much")
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	for _, step := range []struct{ want, grant string }{
		{"GRANT USAGE, CREATE ON SCHEMA public", "GRANT CREATE ON SCHEMA public TO nobody_much"},
		{`GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE t TO "nobody_much"`, "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE t TO nobody_much"},
	} {
		r := sinktest.Begin(t, db)
		_, err := r.TryFlush(`{"id":1,"a":"x"}`)
		if err == nil || !strings.Contains(err.Error(), step.want) {
			t.Errorf("without the right the flush ended with %v, want it to say %q", err, step.want)
		}
		r.End()
		db.Exec(t, step.grant)
	}
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	sinktest.Expect(t, db, "SELECT a FROM t", "x")
}

// TestOpen_PermissionDenied: one GRANT names all of weir's own tables.
func TestOpen_PermissionDenied(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1}`)
	r.End()
	db.as(t, "nobody_much")
	open := func() error {
		d, err := postgres.Open(t.Context(), db.weir, sink.Options{Level: sink.Full, Log: logtest.New(t)})
		if err == nil {
			d.Close()
		}
		return err
	}
	const grant = `GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE weir_checkpoints, weir_jobs, weir_meta, weir_reject_files, weir_rejects TO "nobody_much"`
	if err := open(); err == nil || !strings.Contains(err.Error(), grant) {
		t.Fatalf("without the right to read weir's tables: %v", err)
	}
	const look = `GRANT SELECT ON TABLE weir_checkpoints, weir_jobs, weir_meta, weir_reject_files, weir_rejects TO "nobody_much"`
	inspect := func() error {
		d, err := postgres.Inspect(t.Context(), db.weir, sink.Options{Log: logtest.New(t)})
		if err != nil {
			return err
		}
		defer d.Close()
		_, err = d.Status(t.Context())
		return err
	}
	if err := inspect(); err == nil || !strings.Contains(err.Error(), look) {
		t.Errorf("without the right to look at weir's tables: %v", err)
	}
	db.Exec(t, look)
	if err := inspect(); err != nil {
		t.Error(err)
	}
	db.Exec(t, grant)
	if err := open(); err != nil {
		t.Error(err)
	}
}

// TestRebuild_PermissionDenied: to empty a table takes one more right.
func TestRebuild_PermissionDenied(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1}`)
	r.End()
	db.as(t, "another")
	db.Exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO another")
	db.Exec(t, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO another")
	rebuild := func() error {
		r := sinktest.Begin(t, db)
		defer r.End()
		r.Fold(`{"id":2}`)
		f := r.Seal()
		f.Rebuild = true
		_, err := r.Send(f)
		return err
	}
	if err := rebuild(); err == nil || !strings.Contains(err.Error(), "and TRUNCATE for --rebuild") {
		t.Errorf("without the right to TRUNCATE the flush ended with %v", err)
	}
	db.Exec(t, "GRANT TRUNCATE ON t TO another")
	if err := rebuild(); err != nil {
		t.Error(err)
	}
	sinktest.Expect(t, db, "SELECT id FROM t", "2")
}

// TestFlush_NoRightToMakeTables: weir's own that an administrator has made are enough.
func TestFlush_NoRightToMakeTables(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE UNLOGGED TABLE t (id integer PRIMARY KEY, a text); CREATE UNLOGGED TABLE u (id integer PRIMARY KEY, a text)")
	r := sinktest.BeginTable(t, db, "u", "id")
	r.Flush(`{"id":1,"a":"x"}`)
	r.End()
	db.as(t, "nobody_much")
	db.Exec(t, "REVOKE CREATE ON SCHEMA public FROM nobody_much; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO nobody_much")
	sinktest.Begin(t, db).Flush(`{"id":1,"a":"x"}`)
	sinktest.Expect(t, db, "SELECT (SELECT a FROM t), (SELECT count(*) FROM weir_unlogged)", "x|2")
}

func TestTable_ChangedMeanwhile(t *testing.T) {
	for name, change := range map[string]string{
		"type":         "ALTER TABLE t ALTER COLUMN a TYPE varchar(100)",
		"to a number":  "ALTER TABLE t ALTER COLUMN n TYPE numeric",
		"new trigger":  "ALTER TABLE t ADD CHECK (n <> 7)",
		"other column": "ALTER TABLE t ADD COLUMN z text DEFAULT 'z'",
	} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text, n integer)")
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":1,"a":"x","n":1}`)
			r.Flush(`{"id":1,"a":"y","n":1}`)
			db.Exec(t, change)
			r.Flush(`{"id":1,"a":"z","n":2}`, `{"id":2,"a":"w"}`)
			sinktest.Expect(t, db, "SELECT id, a, n FROM t ORDER BY id", "1|z|2", "2|w|NULL")
		})
	}
}

// TestTable_ReplacedMeanwhile: what the run had written went with the other table.
func TestTable_ReplacedMeanwhile(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	db.Exec(t, "DROP TABLE t; CREATE TABLE t (id integer PRIMARY KEY, a text)")
	if _, err := r.TryFlush(`{"id":2,"a":"y"}`); !errors.As(err, new(sink.DroppedError)) {
		t.Errorf("nobody said that the table was replaced: %v", err)
	}
	sinktest.Expect(t, db, "SELECT (SELECT count(*) FROM t), (SELECT seq FROM weir_checkpoints)", "0|1")
}

// TestTable_Unlogged: a crash of the server empties an unlogged table, and not the
// checkpoint. The run that it meets ends, and so does the next one.
func TestTable_Unlogged(t *testing.T) {
	s := testpg.Start(t, "fsync=on")
	db := connect(t, s.Database(t))
	db.Exec(t, "CREATE UNLOGGED TABLE t (id integer PRIMARY KEY, a text)")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	r.Flush(`{"id":2,"a":"x"}`)
	r.End()
	id := func(r *sinktest.Run) string {
		known, err := sink.Table(t.Context(), r.Sink.Tables, "t", []string{"id"})
		if err != nil {
			t.Fatal(err)
		}
		return known.ID
	}
	r = sinktest.Begin(t, db)
	if got := id(r); got != r.Checkpoint().TableID {
		t.Errorf("the table is %q, the checkpoint's %q", got, r.Checkpoint().TableID)
	}
	s.Kill()
	s.Restart(t)
	db = connect(t, db.url)
	r.Fold(`{"id":3,"a":"x"}`)
	if _, err := sink.Retry(r.Sink, time.Minute, func(*sink.Error) {}).Flush(t.Context(), r.Seal()); !errors.As(err, new(sink.DroppedError)) {
		t.Errorf("nobody said that the table was emptied: %v", err)
	}
	r.End()
	r = sinktest.Begin(t, db)
	if got := id(r); got == r.Checkpoint().TableID {
		t.Errorf("the table that was emptied is %q as before", got)
	}
	sinktest.Expect(t, db, "SELECT count(*) FROM t", "0")
}

// TestTable_NarrowedMeanwhile: a value that a column took when it was read is refused by the
// type that the column now has, not rounded to it.
func TestTable_NarrowedMeanwhile(t *testing.T) {
	for name, change := range map[string][]func(*fold.Options){"plain": nil, "versions": kinds["versions"].change} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, x numeric, v integer CHECK (v > 0))")
			r := sinktest.Begin(t, db, change...)
			r.Flush(`{"id":1,"x":1,"v":1}`, `{"id":2,"x":1,"v":1}`)
			db.Exec(t, "BEGIN")
			db.Exec(t, "ALTER TABLE t ALTER COLUMN x TYPE integer")
			done := when(t, db, "wait_event_type = 'Lock'", func() { db.Exec(t, "COMMIT") }) // the flush waits to see what will be
			sinktest.Counts(t, r.Flush(`{"id":1,"x":2.6,"v":2}`, `{"id":2,"x":2e1,"v":2}`, `{"id":3,"x":2.6,"v":2}`), 0, 1, 0, 0)
			<-done
			sinktest.Expect(t, db, "SELECT id, x FROM t ORDER BY id", "1|1", "2|20")
			sinktest.Expect(t, db, "SELECT line, substring(reason FROM 'SQLSTATE (.....)') FROM weir_rejects ORDER BY line", "3|22P02", "5|22P02")
		})
	}
}

// TestTable_UnusedColumnDroppedMeanwhile: nobody misses a column that no message names.
func TestTable_UnusedColumnDroppedMeanwhile(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text, b text)")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	db.Exec(t, "ALTER TABLE t DROP COLUMN b")
	r.Flush(`{"id":1,"a":"y"}`)
	sinktest.Expect(t, db, "SELECT id, a FROM t", "1|y")
}
