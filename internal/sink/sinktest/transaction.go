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
	"github.com/weirsync/weir/internal/test/testcheck"
)

var errStop = errors.New("stop here")

// transactionTests: rows, rejects and checkpoint are committed together or not at all.
var transactionTests = []test{
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
			return nil
		}
		r.again(f)
		if slices.Sort(seen); !slices.Equal(seen, []int64{1, 2, 3}) {
			t.Errorf("BeforeCommit was told of the rejected lines %v, want 1, 2 and 3", seen)
		}
		r.End()
		if r = Begin(t, db); r.cp().Settings != "set" {
			t.Errorf("the checkpoint is %+v", r.cp())
		}
	}},
	{"RejectsAreKeptOnlyIfAsked", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.keep = false
		r.Flush(`bad`, `{"id":1}`)
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
		r.keep = true
		r.Flush("\xff\xfe not text", `{"id":2,`)
		Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "3", "4")
	}},
	{"RejectsReadBackUnchanged", func(t *testing.T, db Database) {
		r := Begin(t, db)
		bad := []string{`\.`, `\N`, "a\ttab", `it's a \ and a "`, `\x41`, "%s %d", "\r"}
		r.Flush(bad...)
		Expect(t, db, "SELECT raw FROM weir_rejects ORDER BY line", bad...)
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
		r.again(f)
		Expect(t, db, "SELECT id, a FROM t", "1|y")
	}},
}

// fenceTests: each flush requires its predecessor.
var fenceTests = []test{
	{"SameFlushTwiceIsAppliedOnce", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0), a TEXT)")
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"a":"x"}`, `{"id":3,"a":"x"}`)
		r.Fold(`{"id":1,"a":"y"}`, `{"id":2,"op":"delete"}`, `{"id":3,"a":"x"}`, `{"id":4,"a":"z"}`, `bad`, `{"id":5,"n":-1}`)
		f := r.Seal()
		first, err := r.Sink.Flush(t.Context(), f)
		testcheck.NoError(t, err)
		Counts(t, first, 1, 1, 1, 1)
		db.Exec(t, "UPDATE t SET a = 'theirs' WHERE id = 3") // it is not undone
		calls := 0
		f.BeforeCommit = func([]fold.Reject) error { calls++; return nil }
		again := r.again(f)
		Counts(t, again, 1, 1, 1, 1)
		if len(again.Refused) != 1 || len(first.Refused) != 1 {
			t.Errorf("refused first %v, then %v", first.Refused, again.Refused)
		}
		if calls != 0 {
			t.Error("BeforeCommit was called for a flush that had happened")
		}
		Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|y", "3|theirs", "4|z")
		Expect(t, db, "SELECT line FROM weir_rejects ORDER BY line", "8", "9")
		Expect(t, db, "SELECT seq FROM weir_checkpoints", "2")
		r.Flush(`{"id":9,"a":"on"}`) // and it continues
	}},
	{"AnotherFlushOfTheSameNumberIsApplied", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		before := r.Checkpoint()
		r.Flush(`{"id":1,"a":"y"}`)
		db.Exec(t, "UPDATE weir_checkpoints SET seq = 1") // a backup is restored
		db.Exec(t, "UPDATE t SET a = 'x'")
		r.Reread(before)
		Counts(t, r.Flush(`{"id":1,"a":"z"}`, `{"id":2,"a":"z"}`), 1, 1, 0, 0)
		Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|z", "2|z")
		Expect(t, db, "SELECT seq FROM weir_checkpoints", "2")
	}},
	{"UnnamedLanesAreRememberedForAMonth", func(t *testing.T, db Database) {
		quiet := unnamed(t, db)
		quiet.Flush(`{"id":1,"a":"x"}`)
		named := BeginJob(t, db, "named")
		named.Flush(`{"id":9,"a":"x"}`)
		ended := func(days int) { // how long ago all flushes were
			db.Exec(t, "UPDATE weir_checkpoints SET updated = '"+time.Now().UTC().AddDate(0, 0, -days).Format("2006-01-02T15:04:05.000Z")+"'")
		}
		ended(29)
		unnamed(t, db).Flush(`{"id":2,"a":"x"}`)
		quiet.Flush(`{"id":3,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_checkpoints", "3")
		ended(31)
		unnamed(t, db).Flush(`{"id":4,"a":"x"}`)
		Expect(t, db, "SELECT count(*) FROM weir_checkpoints", "2")
		named.Flush(`{"id":9,"a":"y"}`)
	}},
}

// unnamed returns a run that no other resumes.
func unnamed(t *testing.T, db Database) *Run {
	t.Helper()
	return Setup{Unnamed: true}.unclaimed(t, db)
}

// isFenced reports whether an error says that other runs have taken over exactly these lanes.
func isFenced(err error, lanes ...string) bool {
	var fenced sink.FencedError
	return errors.As(err, &fenced) && slices.Equal(fenced.Lanes, lanes)
}

// memoryTests: no text is copied often.
var memoryTests = []test{
	{"LargeRejectsAreNotCopied", func(t *testing.T, db Database) {
		const lines, size = 200, 60_000
		r := Begin(t, db)
		bad := strings.Repeat("\xff'\\", size/3) // the longest text as SQL
		for range lines {
			r.Fold(bad)
		}
		f := r.Seal()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.again(f)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 6*lines*size {
			t.Errorf("a flush of %d bytes of rejects allocates %d bytes", lines*size, took)
		}
		Expect(t, db, "SELECT count(*) FROM weir_rejects", strconv.Itoa(lines))
	}},
}

// logTests: what changes nothing writes nothing.
var logTests = []test{
	{"UnchangedRowsAreNotWritten", func(t *testing.T, db Database) {
		for _, by := range []options{nil, {byColumn}, {byRow}} {
			r := Begin(t, db, by...)
			const rows = 5000
			line := func(id, v int, last string) string {
				return fmt.Sprintf(`{"id":%d,"v":%d,"s":"%0200d","r":%d.5,"b":true,"j":{"a":[1,2]},"z":null,"big":12345678901234567890,"last":%q}`, id, v, id, id, last)
			}
			var feeds [4][]string // the same; with older versions; the same again; and sparse, with differently spelled keys
			for i := range rows {
				feeds[0] = append(feeds[0], line(i, 5, "x"))
				feeds[1] = append(feeds[1], line(i, 4, "x"))
				feeds[3] = append(feeds[3], fmt.Sprintf(`{"last":"x","v":5,"id":"%d"}`, i))
			}
			feeds[2] = feeds[0]
			if by == nil {
				feeds[1] = feeds[0]
			}
			db.Logged(t)
			Counts(t, r.Flush(feeds[0]...), rows, 0, 0, 0)
			if all := db.Logged(t); all < rows*200 {
				t.Fatalf("%d new rows were %d bytes of log: the harness does not measure", rows, all)
			}
			for i, lines := range feeds {
				Counts(t, r.Flush(lines...), 0, 0, rows, 0)
				if n := db.Logged(t); n > 128<<10+rows*64 { // the checkpoint takes some pages, and a lock of a row some bytes
					t.Errorf("feed %d: %d unchanged rows were %d bytes of log", i, rows, n)
				}
			}
			feeds[0][17] = line(17, 6, "y")
			Counts(t, r.Flush(feeds[0]...), 0, 1, rows-1, 0)
			Expect(t, db, "SELECT id FROM t WHERE last = 'y'", "17")
			r.End()
			db.Exec(t, "DROP TABLE t")
		}
	}},
	{"ReadingWritesNothing", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`, `bad`)
		r.End()
		logsNothing(t, db, func() {
			i := inspect(t, db)
			_, err := i.Status(t.Context())
			_, _, err2 := i.Sample(t.Context(), table, 1)
			testcheck.NoError(t, errors.Join(err, err2))
			rejects(t, i, "")
			differences(t, i, 10, nil, `{"id":1,"a":"y"}`, `{"id":2,"new":1}`)
			testcheck.NoError(t, i.Close())
		})
	}},
	{"ClaimsWriteNothing", func(t *testing.T, db Database) {
		need(t, db, Claimable)
		r := Begin(t, db)
		r.Flush(`{"id":1}`)
		r.End()
		db.Open(t)
		logsNothing(t, db, func() {
			c := claims(t, db, job)
			_, err := c.Take(t.Context(), from, "another")
			testcheck.NoError(t, errors.Join(err, c.Drop(t.Context(), from), c.TakeJob(t.Context()), c.Close()))
		})
	}},
}

// logsNothing checks that the database's log does not grow. A server logs something itself every few seconds, so one
// success in three tries is enough.
func logsNothing(t *testing.T, db Database, do func()) {
	t.Helper()
	var n int64
	for range 3 {
		db.Logged(t)
		do()
		if n = db.Logged(t); n == 0 {
			return
		}
	}
	t.Errorf("it wrote %d bytes", n)
}

// unchangedTests: a value that is written again is the same.
var unchangedTests = []test{
	{"ValuesOfEveryKindAreUnchanged", func(t *testing.T, db Database) {
		line := `{"id":1`
		for i, v := range []string{`0`, `-1`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `1.5`, `-0.25`, `1e300`, `5e-324`, `0.1`,
			`1.0`, `1e2`, `123456789012345678`, `9007199254740993`, `0.1234567890123456789`, `1e400`, `-0`, `-0.0`, `true`, `false`, `null`,
			`""`, `"a"`, `"007"`, `"1.50"`, `"日本"`, `"\u0041"`, `{}`, `[1, 2]`, `{"a": null}`} {
			line += fmt.Sprintf(`,"v%d":%s`, i, v)
		}
		for run := range int64(2) {
			r := Begin(t, db)
			Counts(t, r.Flush(line+"}"), 1-run, 0, run, 0)
			Counts(t, r.Flush(line+"}"), 0, 0, 1, 0)
			r.End()
		}
	}},
}
