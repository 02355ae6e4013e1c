package sinktest

import (
	"errors"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// rebuild makes a flush empty its tables first.
func rebuild(f *sink.Flush) { f.Rebuild = true }

// ledgerTests: what weir's own tables record about jobs, tables and rejects.
var ledgerTests = []test{
	{"CheckpointNamesItsTable", func(t *testing.T, db Database) {
		var id string
		for i, lines := range [][]string{{`{"id":1,"a":1}`}, {`{"id":1,"a":1,"b":1}`, `{"id":2,"a":"x"}`}, nil} { // also after it has grown
			r := Begin(t, db)
			if got := r.known(0).ID; got != idIn(r.cp()) || (got == "") != (i == 0) || i > 1 && got != id {
				t.Errorf("run %d: the table was %q, is %q, and the checkpoint's is %q", i, id, got, r.cp().TableID)
			} else {
				id = got
			}
			r.Flush(lines...)
			r.End()
		}
		db.Exec(t, "DROP TABLE t")
		r := BeginJob(t, db, "another")
		if r.Flush(`{"id":1,"a":1}`); r.known(0).ID == id {
			t.Errorf("the table that was recreated is %q as before", id)
		}
	}},
	{"DroppedColumnIsNoticed", func(t *testing.T, db Database) {
		first, second := Begin(t, db), BeginJob(t, db, "second")
		first.Flush(`{"id":1,"a":1,"b":1}`)
		second.Flush(`{"id":2,"a":2}`)
		db.Exec(t, "ALTER TABLE t DROP COLUMN b")
		if _, err := second.TryFlush(`{"id":3,"a":3}`); !errors.As(err, new(sink.DroppedError)) {
			t.Errorf("a column was dropped under the run: %v", err)
		}
		first.End()
		second.End()
		first = Begin(t, db)
		if id := first.known(0).ID; id == idIn(first.cp()) {
			t.Errorf("the table without its column is %q as before", id)
		}
		// A run that rereads adds the column again; other jobs' checkpoints do not match the table with it.
		first.Flush(`{"id":1,"a":1,"b":1}`)
		first.End()
		first, second = Begin(t, db), BeginJob(t, db, "second")
		if id := first.known(0).ID; id != idIn(first.cp()) || id == idIn(second.cp()) {
			t.Errorf("the table is %q, the checkpoint's %q, and the one of a job whose values are gone %q", id, first.cp().TableID, second.cp().TableID)
		}
	}},
	{"OldRejectsAreRemoved", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`old`)
		BeginJob(t, db, "other").Flush(`theirs`)
		r.FlushAs(func(f *sink.Flush) { f.DropRejects = time.Now().Add(-time.Hour) }, `new`)
		Expect(t, db, "SELECT raw FROM weir_rejects ORDER BY raw", "new", "old", "theirs")
		r.FlushAs(func(f *sink.Flush) { f.DropRejects = time.Now().Add(time.Hour) })
		Expect(t, db, "SELECT raw FROM weir_rejects", "theirs")
	}},
	{"RebuildUnderAnotherKey", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":1}`, `{"id":2,"a":1}`)
		r.End()
		r = Setup{Options: all(key("a"))}.open(t, db)
		testcheck.NoError(t, r.take())
		if err := r.read(); !errors.As(err, new(sink.KeyError)) {
			t.Fatalf("another key of a table that weir made: %v", err)
		}
		r.FlushAs(rebuild, `{"id":1,"a":1}`, `{"id":2,"a":1}`)
		Expect(t, db, "SELECT id, a FROM t", "2|1")
		r.Flush(`{"id":3,"a":1}`)
		Expect(t, db, "SELECT id, a FROM t", "3|1")
	}},
	{"RebuildWithoutAKey", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1}`)
		r.End()
		r = Setup{Options: all(noKey)}.open(t, db)
		testcheck.NoError(t, r.take())
		if err := r.read(); !errors.As(err, new(sink.KeyError)) {
			t.Fatalf("no key for a table that weir made with one: %v", err)
		}
		r.FlushAs(rebuild, `{"id":2}`, `{"id":2}`)
		Expect(t, db, "SELECT id FROM t", "2", "2")
		if _, err := sink.Table(t.Context(), r.Sink.Tables, table, nil); !errors.As(err, new(sink.NoKeyError)) {
			t.Errorf("the primary key of a table without one: %v", err)
		}
	}},
	{"RebuildRemovesTheJobsOtherCheckpoints", func(t *testing.T, db Database) {
		other := BeginTable(t, db, "u", "id")
		other.Flush(`{"id":1}`, `theirs`)
		r := Setup{Sources: lines{"a.jsonl", "b.jsonl"}}.Begin(t, db)
		r.Flush(`{"id":1}`)
		r.lanes = r.lanes[:1]
		r.FlushAs(rebuild, `{"id":2}`)
		Expect(t, db, "SELECT id, (SELECT id FROM u) FROM t", "2|1")
		Expect(t, db, "SELECT job, source, seq FROM weir_checkpoints ORDER BY seq", "feed > u|"+from+"|1", job+"|a.jsonl|2")
		Expect(t, db, "SELECT raw FROM weir_rejects", "theirs")
		r.Flush(`{"id":3}`)
	}},
	{"ForgetRemovesAllTablesOfAJob", func(t *testing.T, db Database) {
		r := Begin(t, db, byColumn)
		u := r.sibling("u", byColumn)
		other := BeginJob(t, db, "other", byColumn)
		other.Flush(`{"id":1,"v":1}`)
		u.Flush(`{"id":1,"v":1}`)
		r.lanes[0].Unnamed = true
		r.Flush(`{"id":2,"v":1}`)
		got, err := part[sink.Forgetter](r).Forget(t.Context(), job)
		if want := (sink.Forgotten{Found: true, Sources: 1, Versions: true}); err != nil || got != want {
			t.Errorf("forgotten: %+v, %v; want %+v", got, err, want)
		}
		Expect(t, db, "SELECT job, tbl FROM weir_jobs", "other|t")
		Expect(t, db, "SELECT job, source FROM weir_checkpoints", "other|"+from)
		Expect(t, db, "SELECT count(*), count(DISTINCT tbl) FROM weir_versions", "2|1")
		other.Flush(`{"id":2,"v":0}`)
	}},
}
