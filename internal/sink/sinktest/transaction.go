package sinktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

var errStop = errors.New("stop here")

// transactionTests: rows, rejects and checkpoint stand or fall together.
var transactionTests = []test{
	{"CheckpointIsWhatTheNextRunGets", func(t *testing.T, db Database) {
		r := Begin(t, db)
		if r.cp != (sink.Checkpoint{}) {
			t.Errorf("a new job has the checkpoint %+v", r.cp)
		}
		r.Fold(`{"id":1,"a":"x"}`, `bad`)
		f := r.Seal()
		f.Checkpoint.Mark, f.Checkpoint.Rejects = `{"m":1}`, "rejects so far"
		want := f.Checkpoint
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		r.End()
		s := db.Open(t)
		defer s.Close()
		got, err := s.Claim(t.Context(), job, from)
		if ago := time.Since(got.Committed); ago < -time.Minute || ago > time.Minute {
			t.Errorf("the last commit was at %v", got.Committed)
		}
		want.Table, want.TableID = table, got.TableID
		if got.Committed = want.Committed; err != nil || got != want {
			t.Errorf("the next run gets %+v, %v; want %+v", got, err, want)
		}
		// Another source of the job begins at its own start, but counts on.
		got, err = s.Claim(t.Context(), job, "other.jsonl")
		if err != nil || got.Seq != want.Seq || got.Line != 0 || got.Offset != 0 || got.Mark != "" {
			t.Errorf("another source of the job gets %+v, %v", got, err)
		}
		if got, err := s.Claim(t.Context(), "other job", from); err != nil || got != (sink.Checkpoint{}) {
			t.Errorf("another job gets %+v, %v", got, err)
		}
	}},
	{"ErrorBeforeCommitLeavesNothing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Fold(`{"id":1,"a":"y"}`, `{"id":2,"a":"z","new":1}`, `bad`)
		f := r.Seal()
		f.BeforeCommit = func([]fold.Reject, *sink.Checkpoint) error { return errStop }
		if _, err := r.Sink.Flush(t.Context(), f); !errors.Is(err, errStop) {
			t.Fatalf("the flush ended with %v", err)
		}
		Expect(t, db, "SELECT * FROM t", "1|x")
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
		Expect(t, db, "SELECT seq FROM weir_jobs", "1")
		Expect(t, db, "SELECT line FROM weir_checkpoints", "1")
		// The same flush may be sent again.
		f.BeforeCommit = nil
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		Expect(t, db, "SELECT id, a, new FROM t ORDER BY id", "1|y|NULL", "2|z|1")
		Expect(t, db, "SELECT line FROM weir_rejects", "4")
	}},
	{"ErrorInTheFirstFlushMakesNoTable", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Fold(`{"id":1,"a":"x"}`)
		f := r.Seal()
		f.BeforeCommit = func([]fold.Reject, *sink.Checkpoint) error { return errStop }
		if _, err := r.Sink.Flush(t.Context(), f); !errors.Is(err, errStop) {
			t.Fatalf("the flush ended with %v", err)
		}
		if got, err := r.Sink.Table(t.Context(), table, []string{"id"}); err != nil || got.Exists {
			t.Errorf("the table is there: %v, %v", got.Exists, err)
		}
		f.BeforeCommit = nil
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		r.Flush(`{"id":1,"a":12}`, `{"id":2,"b":1.5}`)
		Expect(t, db, "SELECT id, a, b FROM t ORDER BY id", "1|12|NULL", "2|NULL|1.5")
	}},
	{"ErrorWhileWideningLeavesTheColumn", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":1}`)
		r.Fold(`{"id":2,"a":"text"}`)
		f := r.Seal()
		f.BeforeCommit = func([]fold.Reject, *sink.Checkpoint) error { return errStop }
		if _, err := r.Sink.Flush(t.Context(), f); !errors.Is(err, errStop) {
			t.Fatalf("the flush ended with %v", err)
		}
		Expect(t, db, "SELECT id, a + 1 FROM t", "1|2")
		f.BeforeCommit = nil
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|1", "2|text")
	}},
	{"BeforeCommitSeesAllRejectsAndSetsTheCheckpoint", func(t *testing.T, db Database) {
		db.Exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0))")
		r := Begin(t, db)
		r.Fold(`{"id":1,"n":-1}`, `bad`, `{"id":2,"n":"x"}`, `{"id":3,"n":3}`)
		f := r.Seal()
		var seen []int64
		f.BeforeCommit = func(rejects []fold.Reject, cp *sink.Checkpoint) error {
			seen = seen[:0]
			for _, r := range rejects {
				seen = append(seen, r.Line)
			}
			cp.Rejects = "set"
			return nil
		}
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(seen); !slices.Equal(seen, []int64{1, 2, 3}) {
			t.Errorf("BeforeCommit was told of the rejected lines %v, want 1, 2 and 3", seen)
		}
		r.End()
		if r = Begin(t, db); r.cp.Rejects != "set" {
			t.Errorf("the checkpoint has %q", r.cp.Rejects)
		}
	}},
	{"RejectsAreKeptOnlyWhereAsked", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.keep = false
		r.Flush(`bad`, `{"id":1}`)
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
		r.keep = true
		r.Flush("\xff\xfe not text", `{"id":2,`)
		Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "3", "4")
	}},
	{"RejectsComeBackAsTheyWere", func(t *testing.T, db Database) {
		r := Begin(t, db)
		bad := []string{`\.`, `\N`, "a\ttab", `it's a \ and a "`, `\x41`, "%s %d", "\r"}
		r.Flush(bad...)
		Expect(t, db, "SELECT raw FROM weir_rejects ORDER BY line", bad...)
	}},
	{"LargeRejectsAreNotHeldAgain", func(t *testing.T, db Database) {
		const lines, size = 200, 60_000
		r := Begin(t, db)
		bad := strings.Repeat("\xff'\\", size/3) // what is longest as SQL
		for range lines {
			r.Fold(bad)
		}
		f := r.Seal()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 6*lines*size {
			t.Errorf("a flush of %d bytes of rejects allocates %d bytes", lines*size, took)
		}
		Expect(t, db, "SELECT count(*) FROM weir_rejects", strconv.Itoa(lines))
	}},
	{"FlushWithoutRowsMovesTheCheckpoint", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.cp.Line, r.cp.Offset = 5, 50 // blank lines
		r.Flush()
		r.End()
		if r = Begin(t, db); r.cp.Line != 5 || r.cp.Offset != 50 || r.cp.Seq != 1 {
			t.Errorf("the next run gets %+v", r.cp)
		}
	}},
	{"CancelledFlushLeavesNothing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Fold(`{"id":1,"a":"y"}`)
		f := r.Seal()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Sink.Flush(ctx, f); err == nil {
			t.Skip("the driver writes small batches whatever the context says")
		}
		Expect(t, db, "SELECT id, a FROM t", "1|x")
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		Expect(t, db, "SELECT id, a FROM t", "1|y")
	}},
	{"JobWithoutANameHasNoCheckpoint", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.job = ""
		if _, err := r.Sink.Claim(t.Context(), "", "-"); err != nil {
			t.Fatal(err)
		}
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":2,"a":"x"}`)
		r.End()
		r = Begin(t, db)
		r.job, r.cp = "", sink.Checkpoint{}
		r.Flush(`{"id":3,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM t", "3")
		Expect(t, db, "SELECT count(*) FROM weir_checkpoints", "0")
	}},
}

// fenceTests: each flush demands its predecessor.
var fenceTests = []test{
	{"SameFlushTwiceHappensOnce", func(t *testing.T, db Database) {
		db.Exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0), a TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"a":"x"}`, `{"id":3,"a":"x"}`)
		r.Fold(`{"id":1,"a":"y"}`, `{"id":2,"op":"delete"}`, `{"id":3,"a":"x"}`, `{"id":4,"a":"z"}`, `bad`, `{"id":5,"n":-1}`)
		f := r.Seal()
		first, err := r.Sink.Flush(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		Counts(t, first, 1, 1, 1, 1)
		calls := 0
		f.BeforeCommit = func([]fold.Reject, *sink.Checkpoint) error { calls++; return nil }
		again, err := r.Send(f)
		if err != nil {
			t.Fatalf("the same flush, sent again: %v", err)
		}
		Counts(t, again, 1, 1, 1, 1)
		if len(again.Refused) != 1 || len(first.Refused) != 1 {
			t.Errorf("refused first %v, then %v", first.Refused, again.Refused)
		}
		if calls != 0 {
			t.Error("BeforeCommit was called for a flush that had happened")
		}
		Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|y", "3|x", "4|z")
		Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "8", "9")
		Expect(t, db, "SELECT seq FROM weir_jobs", "2")
		r.Flush(`{"id":9,"a":"on"}`) // and it goes on
	}},
	{"QuietRunWithoutAJobIsRemembered", func(t *testing.T, db Database) {
		quiet := BeginJob(t, db, "")
		quiet.Flush(`{"id":1,"a":"x"}`)
		ended := func(days int) { // how long ago all flushes were
			db.Exec(t, "UPDATE weir_jobs SET updated = '"+time.Now().UTC().AddDate(0, 0, -days).Format("2006-01-02T15:04:05.000Z")+"'")
		}
		ended(29)
		BeginJob(t, db, "").Flush(`{"id":2,"a":"x"}`)
		quiet.Flush(`{"id":3,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_jobs", "2")
		ended(31)
		BeginJob(t, db, "").Flush(`{"id":4,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_jobs", "1")
	}},
	{"SameFlushTwiceOverAForeignWrite", func(t *testing.T, db Database) {
		// Sent again, it must not undo what another program wrote since.
		r := Begin(t, db)
		r.Fold(`{"id":1,"a":"ours"}`)
		f := r.Seal()
		if _, err := r.Sink.Flush(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		db.Exec(t, "UPDATE t SET a = 'theirs'")
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		Expect(t, db, "SELECT id, a FROM t", "1|theirs")
	}},
	{"FirstFlushWithoutAJobTwice", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.job = ""
		r.Fold(`bad`, `{"id":1,"a":"x"}`)
		f := r.Seal()
		for range 2 {
			if _, err := r.Sink.Flush(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		r.batch.Reset()
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "1")
	}},
	{"StaleRunIsFenced", func(t *testing.T, db Database) {
		// The old run was stopped (a laptop's lid) and its claim got lost; the
		// new one has written meanwhile.
		old := Begin(t, db)
		old.Flush(`{"id":1,"a":"old"}`)
		newer := &Run{t: t, Sink: db.Open(t), id: "newer", job: job, table: table, cp: old.cp}
		defer newer.End()
		if err := newer.read(); err != nil {
			t.Fatal(err)
		}
		newer.Flush(`{"id":1,"a":"newer"}`)
		if _, err := old.TryFlush(`{"id":1,"a":"stale"}`, `bad`); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("the stale flush ended with %v, want %v", err, sink.ErrFenced)
		}
		Expect(t, db, "SELECT a FROM t", "newer")
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
		newer.Flush(`{"id":1,"a":"newest"}`)
		if _, err := old.TryFlush(`{"id":1,"a":"stale"}`); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("the next stale flush ended with %v, want %v", err, sink.ErrFenced)
		}
	}},
	{"TwoFirstFlushes", func(t *testing.T, db Database) {
		first, second := Begin(t, db), &Run{t: t, Sink: db.Open(t), id: "second", job: job, table: table}
		defer second.End()
		if err := second.read(); err != nil {
			t.Fatal(err)
		}
		first.Flush(`{"id":1,"a":"first"}`)
		if _, err := second.TryFlush(`{"id":1,"a":"second"}`); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("the other run's first flush ended with %v, want %v", err, sink.ErrFenced)
		}
		Expect(t, db, "SELECT a FROM t", "first")
	}},
	{"DatabaseWentBack", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":1,"a":"y"}`)
		r.Flush(`{"id":1,"a":"z"}`)
		// As a restored backup would have it.
		db.Exec(t, "UPDATE weir_jobs SET seq = 1")
		db.Exec(t, "UPDATE t SET a = 'x'")
		_, err := r.TryFlush(`{"id":1,"b":"w"}`)
		var behind sink.ErrBehind
		if !errors.As(err, &behind) || behind.Found != 1 || behind.Want != 3 {
			t.Errorf("the flush ended with %v; want that 1 was found and 3 wanted", err)
		}
		Expect(t, db, "SELECT a FROM t", "x")
		Expect(t, db, "SELECT seq FROM weir_jobs", "1")
	}},
	{"DatabaseWentBackToNothing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":1,"a":"y"}`)
		db.Exec(t, "DELETE FROM weir_jobs")
		db.Exec(t, "DELETE FROM weir_checkpoints")
		_, err := r.TryFlush(`{"id":1,"a":"w"}`)
		if behind := (sink.ErrBehind{}); !errors.As(err, &behind) || behind.Found != 0 || behind.Want != 2 {
			t.Errorf("the flush ended with %v; want that 0 was found and 2 wanted", err)
		}
		Expect(t, db, "SELECT a FROM t", "y")
	}},
}

// claimTests: one run at a time has a job.
var claimTests = []test{
	{"SecondRunOfAJobIsTurnedAway", func(t *testing.T, db Database) {
		first, second := db.Open(t), db.Open(t)
		defer first.Close()
		defer second.Close()
		claim := func(s sink.Sink, job string) error { _, err := s.Claim(t.Context(), job, from); return err }
		want := func(err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("the claim ended with %v, want %v", err, want)
			}
		}
		want(claim(first, "a"), nil)
		want(claim(second, "a"), sink.ErrBusy)
		want(claim(first, "a"), nil)  // its own
		want(claim(second, "b"), nil) // another job
		want(claim(first, "b"), sink.ErrBusy)
		want(claim(second, "c"), nil) // instead of b
		want(claim(first, "b"), nil)
		want(claim(second, "a"), nil) // which first had let go for b
		want(claim(first, ""), nil)
		want(claim(second, ""), nil) // no job, no claim
		want(claim(first, "a"), nil)
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		want(claim(second, "a"), nil)
		if err := first.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
		third := db.Open(t)
		defer third.Close()
		want(claim(third, "a"), sink.ErrBusy) // the second close took nothing from the second
	}},
	{"ClaimWritesNothing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1}`)
		r.End()
		s := db.Open(t)
		defer s.Close()
		db.Logged(t)
		if _, err := s.Claim(t.Context(), job, from); err != nil {
			t.Fatal(err)
		}
		if n := db.Logged(t); n != 0 {
			t.Errorf("a claim wrote %d bytes", n)
		}
	}},
}

// unchangedTests: a message that changes nothing writes nothing.
var unchangedTests = []test{
	{"RowsThatStayAreNotWritten", func(t *testing.T, db Database) {
		r := Begin(t, db)
		const rows = 5000
		line := func(id int, last string) string {
			return fmt.Sprintf(`{"id":%d,"s":"%0200d","n":%d,"r":%d.5,"b":true,"j":{"a":[1,2]},"z":null,"big":12345678901234567890,"last":%q}`, id, id, id, id, last)
		}
		feed := make([]string, rows)
		for i := range feed {
			feed[i] = line(i, "x")
		}
		db.Logged(t)
		Counts(t, r.Flush(feed...), rows, 0, 0, 0)
		if all := db.Logged(t); all < rows*200 {
			t.Fatalf("%d new rows were %d bytes of log: the harness does not measure", rows, all)
		}
		for range 3 {
			Counts(t, r.Flush(feed...), 0, 0, rows, 0)
			// The checkpoint takes some pages, whatever the rows.
			if n := db.Logged(t); n > 128<<10 {
				t.Errorf("%d rows that stay as they are were %d bytes of log", rows, n)
			}
		}
		for i := range feed {
			feed[i] = fmt.Sprintf(`{"last":"x","id":"%d"}`, i) // sparse, in another order and spelling
		}
		Counts(t, r.Flush(feed...), 0, 0, rows, 0)
		if n := db.Logged(t); n > 128<<10 {
			t.Errorf("%d rows that stay as they are were %d bytes of log", rows, n)
		}
		feed[17] = line(17, "y")
		Counts(t, r.Flush(feed...), 0, 1, rows-1, 0)
		Expect(t, db, "SELECT id FROM t WHERE last = 'y'", "17")
	}},
	{"AParentStaysWhereAChildIsNew", func(t *testing.T, db Database) {
		db.Exec(t, "CREATE TABLE t (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES t, a TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`, `{"id":3,"a":"x"}`)
		Counts(t, r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"parent":1}`, `{"id":3,"a":"y"}`), 1, 1, 1, 0)
	}},
	{"ValuesOfEveryKindAreKnownAgain", func(t *testing.T, db Database) {
		for _, v := range []string{`0`, `-1`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `1.5`, `-0.25`, `1e300`, `5e-324`, `0.1`,
			`1.0`, `1e2`, `123456789012345678`, `9007199254740993`, `0.1234567890123456789`, `1e400`, `-0`, `-0.0`, `true`, `false`, `null`,
			`""`, `"a"`, `"007"`, `"1.50"`, `"日本"`, `"\u0041"`, `{}`, `[1, 2]`, `{"a": null}`} {
			r := Begin(t, db)
			line := `{"id":1,"v":` + v + `}`
			r.Flush(line)
			Counts(t, r.Flush(line), 0, 0, 1, 0)
			r.End()
			r = Begin(t, db)
			if res := r.Flush(line); res.Unchanged != 1 {
				t.Errorf("%s is not known again: %+v", v, res)
			}
			r.End()
			db.Exec(t, "DROP TABLE t")
		}
	}},
	{"DeletedRowThatComesBackAsItWas", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x","b":null}`)
		Counts(t, r.Flush(`{"id":1,"op":"delete"}`, `{"id":1,"a":"x"}`), 0, 0, 1, 0)
		Counts(t, r.Flush(`{"id":1,"op":"delete"}`, `{"id":1,"b":"y"}`), 0, 1, 0, 0)
		Expect(t, db, "SELECT id, a, b FROM t", "1|NULL|y")
	}},
}
