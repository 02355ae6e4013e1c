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
	{"ErrorBeforeCommitLeavesNothing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Fold(`{"id":1,"a":"y"}`, `{"id":2,"a":"z","new":1}`, `bad`)
		f := r.Seal()
		f.BeforeCommit = func([]fold.Reject) error { return errStop }
		if _, err := r.Sink.Flush(t.Context(), f); !errors.Is(err, errStop) {
			t.Fatalf("the flush ended with %v", err)
		}
		Expect(t, db, "SELECT * FROM t", "1|x")
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
		Expect(t, db, "SELECT seq FROM weir_checkpoints", "1")
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
		f.BeforeCommit = func([]fold.Reject) error { return errStop }
		if _, err := r.Sink.Flush(t.Context(), f); !errors.Is(err, errStop) {
			t.Fatalf("the flush ended with %v", err)
		}
		if got, err := sink.Table(t.Context(), r.Sink.Tables, table, []string{"id"}); err != nil || got.Exists {
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
		f.BeforeCommit = func([]fold.Reject) error { return errStop }
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
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0))")
		r := Begin(t, db)
		r.Fold(`{"id":1,"n":-1}`, `bad`, `{"id":2,"n":"x"}`, `{"id":3,"n":3}`)
		f := r.Seal()
		var seen []int64
		f.BeforeCommit = func(rejects []fold.Reject) error {
			seen = seen[:0]
			for _, r := range rejects {
				seen = append(seen, r.Line)
			}
			f.Lanes[0].Checkpoint.Settings = "set"
			f.RejectFile = &sink.RejectFile{Path: "rejects", Size: int64(len(rejects)), ID: "x"}
			return nil
		}
		if _, err := r.Send(f); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(seen); !slices.Equal(seen, []int64{1, 2, 3}) {
			t.Errorf("BeforeCommit was told of the rejected lines %v, want 1, 2 and 3", seen)
		}
		r.End()
		if r = Begin(t, db); r.cp().Settings != "set" {
			t.Errorf("the checkpoint is %+v", r.cp())
		}
		Expect(t, db, "SELECT job, path, size, id FROM weir_reject_files", job+"|rejects|3|x")
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
		need(t, db, Alone)
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
		r.cp().Line, r.cp().Offset = 5, 50 // blank lines
		r.Flush()
		r.End()
		if r = Begin(t, db); r.cp().Line != 5 || r.cp().Offset != 50 || r.cp().Seq != 1 {
			t.Errorf("the next run gets %+v", r.cp())
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
	{"UnnamedLaneIsNotResumed", func(t *testing.T, db Database) {
		r := BeginUnnamed(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":2,"a":"x"}`)
		r.End()
		r = BeginUnnamed(t, db)
		r.Flush(`{"id":3,"a":"x"}`, `bad`)
		Expect(t, db, "SELECT count(*) FROM t", "3")
		Expect(t, db, "SELECT source FROM weir_rejects", from)
		Expect(t, db, "SELECT count(*) FROM weir_checkpoints WHERE source = '"+from+"'", "0")
		r.End()
		if r = Begin(t, db); *r.cp() != (sink.Checkpoint{}) {
			t.Errorf("a run resumes at %+v", r.cp())
		}
	}},
}

// fenceTests: each flush demands its predecessor.
var fenceTests = []test{
	{"SameFlushTwiceHappensOnce", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0), a TEXT)")
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
		f.BeforeCommit = func([]fold.Reject) error { calls++; return nil }
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
		Expect(t, db, "SELECT seq FROM weir_checkpoints", "2")
		r.Flush(`{"id":9,"a":"on"}`) // and it continues
	}},
	{"QuietUnnamedLaneIsRemembered", func(t *testing.T, db Database) {
		quiet := BeginUnnamed(t, db)
		quiet.Flush(`{"id":1,"a":"x"}`)
		named := BeginJob(t, db, "named")
		named.Flush(`{"id":9,"a":"x"}`)
		ended := func(days int) { // how long ago all flushes were
			db.Exec(t, "UPDATE weir_checkpoints SET updated = '"+time.Now().UTC().AddDate(0, 0, -days).Format("2006-01-02T15:04:05.000Z")+"'")
		}
		ended(29)
		BeginUnnamed(t, db).Flush(`{"id":2,"a":"x"}`)
		quiet.Flush(`{"id":3,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_checkpoints", "3")
		ended(31)
		BeginUnnamed(t, db).Flush(`{"id":4,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_checkpoints", "2")
		named.Flush(`{"id":9,"a":"y"}`)
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
	{"FirstFlushOfAnUnnamedLaneTwice", func(t *testing.T, db Database) {
		r := BeginUnnamed(t, db)
		r.Fold(`bad`, `{"id":1,"a":"x"}`)
		f := r.Seal()
		for range 2 {
			if _, err := r.Sink.Flush(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		r.Reset()
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "1")
	}},
	{"StaleRunIsFenced", func(t *testing.T, db Database) {
		// The old run was stopped (a laptop's lid) and its claim got lost; the
		// new one has written meanwhile.
		old := Begin(t, db)
		old.Flush(`{"id":1,"a":"old"}`)
		newer := rival(t, db, old)
		newer.Flush(`{"id":1,"a":"newer"}`)
		if _, err := old.TryFlush(`{"id":1,"a":"stale"}`, `bad`); !isFenced(err, from) {
			t.Errorf("the stale flush ended with %v", err)
		}
		Expect(t, db, "SELECT a FROM t", "newer")
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
		newer.Flush(`{"id":1,"a":"newest"}`)
		if _, err := old.TryFlush(`{"id":1,"a":"stale"}`); !isFenced(err, from) {
			t.Errorf("the next stale flush ended with %v", err)
		}
	}},
	{"TwoFirstFlushes", func(t *testing.T, db Database) {
		first := Begin(t, db)
		second := rival(t, db, first)
		first.Flush(`{"id":1,"a":"first"}`)
		if _, err := second.TryFlush(`{"id":1,"a":"second"}`); !isFenced(err, from) {
			t.Errorf("the other run's first flush ended with %v", err)
		}
		Expect(t, db, "SELECT a FROM t", "first")
	}},
	{"DatabaseRestoredToAnEarlierState", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":1,"a":"y"}`)
		r.Flush(`{"id":1,"a":"z"}`)
		// As a restored backup would have it.
		db.Exec(t, "UPDATE weir_checkpoints SET seq = 1")
		db.Exec(t, "UPDATE t SET a = 'x'")
		_, err := r.TryFlush(`{"id":1,"b":"w"}`)
		var behind sink.BehindError
		if !errors.As(err, &behind) || behind != (sink.BehindError{Lane: from, Found: 1, Want: 3}) {
			t.Errorf("the flush ended with %v; want that 1 was found and 3 wanted", err)
		}
		Expect(t, db, "SELECT a FROM t", "x")
		Expect(t, db, "SELECT seq FROM weir_checkpoints", "1")
	}},
	{"DatabaseRestoredToNothing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":1,"a":"y"}`)
		db.Exec(t, "DELETE FROM weir_jobs")
		db.Exec(t, "DELETE FROM weir_checkpoints")
		_, err := r.TryFlush(`{"id":1,"a":"w"}`)
		if behind := (sink.BehindError{}); !errors.As(err, &behind) || behind != (sink.BehindError{Lane: from, Found: 0, Want: 2}) {
			t.Errorf("the flush ended with %v; want that 0 was found and 2 wanted", err)
		}
		Expect(t, db, "SELECT a FROM t", "y")
	}},
}

// rival is a run that has the lanes of another without a claim, as after a claim got lost.
func rival(t *testing.T, db Database, of *Run) *Run {
	t.Helper()
	r := open(t, db, of.job, of.table)
	r.lanes = slices.Clone(of.lanes)
	return r.unclaimed()
}

// isFenced reports whether an error says that other runs have taken over these lanes, and
// no others.
func isFenced(err error, lanes ...string) bool {
	var fenced sink.FencedError
	return errors.As(err, &fenced) && slices.Equal(fenced.Lanes, lanes)
}

// unchangedTests: a message that changes nothing writes nothing.
var unchangedTests = []test{
	{"RowsThatStayAreNotWritten", func(t *testing.T, db Database) {
		need(t, db, Measurable)
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
	{"RowsWithVersionsThatStayAreNotWritten", func(t *testing.T, db Database) {
		need(t, db, Measurable)
		for _, scope := range []func(*fold.Options){byColumn, byRow} {
			r := Begin(t, db, scope)
			const rows = 5000
			feed := func(v int) (lines []string) {
				for id := range rows {
					lines = append(lines, fmt.Sprintf(`{"id":%d,"v":%d,"s":"%0200[1]d"}`, id, v))
				}
				return lines
			}
			Counts(t, r.Flush(feed(5)...), rows, 0, 0, 0)
			db.Logged(t)
			for _, v := range []int{5, 4, 5} {
				Counts(t, r.Flush(feed(v)...), 0, 0, rows, 0)
				if n := db.Logged(t); n > 128<<10 {
					t.Errorf("%d rows that stay as they are, by version %d, were %d bytes of log", rows, v, n)
				}
			}
			r.End()
			db.Exec(t, "DROP TABLE t")
			db.Logged(t)
		}
	}},
	{"AParentStaysWhereAChildIsNew", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES t, a TEXT)")
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
			if res := r.Flush(line); res.Total().Unchanged != 1 {
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
