package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// versionedBy returns the options of a run whose messages have versions.
func versionedBy(scope fold.Scope) func(*fold.Options) {
	return func(o *fold.Options) { o.Version, o.Scope = "v", scope }
}

// heldWriters are two runs of one table with versions. The first can be blocked within its transaction.
type heldWriters struct {
	db, holder    *database
	first, second *sinktest.Run
	lines         []string // written before
}

func holdWriters(t *testing.T, url string, scope fold.Scope, before ...string) *heldWriters {
	w := &heldWriters{db: connectEmpty(t, url), holder: connect(t, url)}
	w.lines = append([]string{`{"id":0,"v":1,"a":"x","b":"x","c":"x"}`}, before...)
	begin := func(job string) *sinktest.Run { return sinktest.BeginJob(t, w.db, job, versionedBy(scope)) }
	made := begin("made")
	made.Flush(w.lines...)
	made.End()
	w.first, w.second = begin("first"), begin("second")
	for i, r := range []*sinktest.Run{w.first, w.second} { // each has written, and knows the table
		line := fmt.Sprintf(`{"id":%d,"v":1,"a":"x"}`, 900+i)
		for range 3 { // repeated, so it does not take what follows for new rows
			r.Flush(line)
		}
		w.lines = append(w.lines, line)
	}
	return w
}

// hold makes the first writer wait for a lock that a statement holds while it writes lines, and the second one write
// others meanwhile. It reports whether the second one finished first.
func (w *heldWriters) hold(t *testing.T, lock string, first, second []string) (overtook bool) {
	t.Helper()
	w.holder.Exec(t, "BEGIN")
	w.holder.Exec(t, lock)
	flush := func(r *sinktest.Run, lines []string) chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := r.TryFlush(lines...); err != nil {
				t.Error(err)
			}
		}()
		return done
	}
	waiting := func(n int, or chan struct{}) bool {
		const query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
		for end := time.Now().Add(2 * time.Minute); w.db.one(t, query) != fmt.Sprint(n); {
			select {
			case <-or:
				return false
			case <-time.After(time.Millisecond):
			}
			if time.Now().After(end) {
				t.Errorf("after two minutes not %d sessions wait", n)
				return false
			}
		}
		return true
	}
	firstDone := flush(w.first, first)
	if !waiting(1, firstDone) {
		t.Error("did not exercise: the first writer was not held")
	}
	secondDone := flush(w.second, second)
	overtook = !waiting(2, secondDone)
	w.holder.Exec(t, "ROLLBACK")
	<-firstDone
	<-secondDone
	w.first.End()
	w.second.End()
	return overtook
}

// TestWriters_OneRowWithVersions: two runs write one row, in each order of their operations and of their versions. The
// second one writes between the first's read of the database and its write, or between its write and its commit. The
// row is the fold of both by their versions; with row versions, which do not remember deletes, it is as if they had
// come in one of the two orders.
func TestWriters_OneRowWithVersions(t *testing.T) {
	const old = `{"id":5,"v":3,"a":"old","b":"old","c":"old"}`
	upsert := func(v int, column string) string {
		return fmt.Sprintf(`{"id":5,"v":%d,"a":"%[1]d","%[2]s":"%[1]d"}`, v, column)
	}
	remove := func(v int, _ string) string { return fmt.Sprintf(`{"id":5,"v":%d,"op":"delete"}`, v) }
	// With equal versions, the later message wins: the stored state does not change.
	again := func(int, string) string { return `{"id":5,"v":3,"a":"again"}` }
	pairs := map[string][2]func(v int, column string) string{"upsert, upsert": {upsert, upsert}, "upsert, delete": {upsert, remove},
		"delete, upsert": {remove, upsert}, "delete, delete": {remove, remove}, "again, upsert": {again, upsert}}
	for _, scope := range []fold.Scope{fold.ColumnScope, fold.RowScope} {
		written := "SELECT FROM weir_versions ORDER BY key LIMIT 1 FOR UPDATE" // row 0's
		if scope == fold.RowScope {
			written = "INSERT INTO t (id) VALUES (1)"
		}
		for at, lock := range map[string]string{"before it writes": written, "before it commits": "LOCK TABLE weir_rejects"} {
			t.Run(fmt.Sprintf("%s, %s", scope, at), func(t *testing.T) {
				t.Parallel()
				url := testpg.New(t)
				for name, pair := range pairs {
					for _, before := range [][]string{nil, {old}} {
						for _, versions := range [][2]int{{6, 4}, {4, 6}}[:testcheck.Rounds(1, 2)] {
							t.Run(fmt.Sprintf("%s, rows=%d, %v", name, len(before), versions), func(t *testing.T) {
								w := holdWriters(t, url, scope, before...)
								first := []string{`{"id":0,"v":2,"a":"y","b":"y"}`, `{"id":1,"v":2,"a":"y"}`, pair[0](versions[0], "b")}
								second := []string{pair[1](versions[1], "c"), `{"id":7,"v":2,"a":"y"}`}
								w.hold(t, lock, append(first, "bad"), second)
								w.expectOneOf(t, scope, slices.Concat(w.lines, first, second), slices.Concat(w.lines, second, first))
							})
						}
					}
				}
			})
		}
	}
}

// expectOneOf expects the fold of the messages in one of two orders; with column versions both give the same result.
func (w *heldWriters) expectOneOf(t *testing.T, scope fold.Scope, one, other []string) {
	t.Helper()
	got := sinktest.Rows(t, w.db, "SELECT id, CAST(v AS REAL), a, b, c FROM t ORDER BY id")
	wants := [2][]string{sinktest.PlainFold(t, one, scope == fold.RowScope), sinktest.PlainFold(t, other, scope == fold.RowScope)}
	if scope == fold.ColumnScope && !slices.Equal(wants[0], wants[1]) {
		t.Errorf("the fold depends on the order: %q", wants)
	}
	if !slices.Equal(got, wants[0]) && !slices.Equal(got, wants[1]) {
		t.Errorf("got  %q\nwant %q\nor   %q", got, wants[0], wants[1])
	}
}

// TestWriters_TurnsWithVersions: a run waits for another one that writes the table's versions, even of other rows.
func TestWriters_TurnsWithVersions(t *testing.T) {
	for _, scope := range []fold.Scope{fold.ColumnScope, fold.RowScope} {
		t.Run(string(scope), func(t *testing.T) {
			w := holdWriters(t, testpg.New(t), scope, `{"id":5,"v":1,"a":"x"}`, `{"id":6,"v":1,"a":"x"}`, `{"id":7,"v":1,"a":"x"}`)
			if w.hold(t, "LOCK TABLE weir_rejects", []string{`{"id":5,"v":2,"a":"y"}`, `{"id":10,"v":2,"a":"y"}`, `{"id":6,"v":2,"op":"delete"}`, "bad"},
				[]string{`{"id":0,"v":2,"a":"z"}`, `{"id":11,"v":2,"a":"z"}`, `{"id":7,"v":2,"op":"delete"}`}) {
				t.Error("the second writer did not wait for the first")
			}
			sinktest.Expect(t, w.db, "SELECT id, a FROM t WHERE id < 100 ORDER BY id", "0|z", "5|y", "10|y", "11|z")
		})
	}
}

// TestFlush_RowVersionsAreTextsMeanwhile: another run has converted the versions to text; they were numbers when the
// rows came.
func TestFlush_RowVersionsAreTextsMeanwhile(t *testing.T) {
	for _, first := range []string{"5", "5.5"} {
		db := connectEmpty(t, testpg.New(t))
		one, other := sinktest.BeginJob(t, db, "one", versionedBy(fold.RowScope)), sinktest.BeginJob(t, db, "other", versionedBy(fold.RowScope))
		for _, r := range []*sinktest.Run{one, other} {
			r.Flush(fmt.Sprintf(`{"id":1,"v":%s,"a":"x","b":"x"}`, first), fmt.Sprintf(`{"id":2,"v":%s,"a":"x","b":"x"}`, first))
		}
		other.Fold(`{"id":1,"v":7,"b":"7"}`, `{"id":2,"v":7,"b":"7"}`)
		one.Flush(`{"id":1,"v":"text","a":"y"}`)
		sinktest.Counts(t, other.Flush(), 0, 1, 1, 0)
		sinktest.Expect(t, db, "SELECT id, v, a, b FROM t ORDER BY id", "1|text|y|x", "2|7|x|7")
		sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
		one.End()
		other.End()
	}
}

// TestWriters_FirstFlushWithVersions: a run's first flush does not wait for others that write versions of other tables.
func TestWriters_FirstFlushWithVersions(t *testing.T) {
	db := connectEmpty(t, testpg.New(t))
	made := sinktest.BeginJob(t, db, "made", versionedBy(fold.ColumnScope))
	made.Flush(`{"id":1,"v":1,"a":"x"}`)
	made.End()
	db.set(t, "lock_timeout = '1s'")
	db.Exec(t, "BEGIN")
	db.Exec(t, "INSERT INTO weir_versions (tbl, key, state) VALUES ('other', '', '')")
	r := sinktest.BeginJob(t, db, "first", versionedBy(fold.ColumnScope))
	if _, err := r.TryFlush(`{"id":1,"v":2,"a":"y"}`, `{"id":2,"v":1,"a":"x"}`); err != nil {
		t.Error(err)
	}
	db.Exec(t, "ROLLBACK")
	sinktest.Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|y", "2|x")
}

// TestWriters_RejectsWithVersions: runs write the same rows at the same time, and the database rejects some.
func TestWriters_RejectsWithVersions(t *testing.T) {
	const writers, flushes = 3, 8
	for _, scope := range []fold.Scope{fold.ColumnScope, fold.RowScope} {
		t.Run(string(scope), func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, v integer, a text, b text, c integer CHECK (c >= 0))")
			lines := make([][]string, writers)
			begin := func(job string) *sinktest.Run { return sinktest.BeginJob(t, db, job, versionedBy(scope)) }
			again := atOnce(writers, begin, flushes, func(r *sinktest.Run, rnd *rand.Rand, w, n int) {
				var batch []string
				for range 20 {
					batch = append(batch, fmt.Sprintf(`{"id":%d,"v":%d,"a":"%[2]d","b":"%[2]d"}`, rnd.IntN(30), rnd.IntN(100)*writers+w))
				}
				lines[w] = append(lines[w], batch...)
				if n%2 == w%2 {
					batch = append(batch, fmt.Sprintf(`{"id":%d,"v":1,"c":-1}`, 1000+w))
				}
				r.Flush(batch...)
			})
			sinktest.Expect(t, db, "SELECT id, CAST(v AS REAL), a, b, c FROM t ORDER BY id", sinktest.PlainFold(t, slices.Concat(lines...), scope == fold.RowScope)...)
			sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", fmt.Sprint(writers*flushes/2))
			expectNoDeadlock(t, db, again)
		})
	}
}

// TestVersions_TablesLost: after a crash the database has nothing of what the run has committed, and it reads again.
func TestVersions_TablesLost(t *testing.T) {
	db := connectEmpty(t, testpg.New(t))
	r := sinktest.Begin(t, db, versionedBy(fold.ColumnScope))
	start := r.Checkpoint()
	r.Flush(`{"id":1,"v":1,"a":"x"}`)
	db.Exec(t, "DROP TABLE t, weir_meta, weir_jobs, weir_checkpoints, weir_rejects, weir_versions")
	db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'weir/%' AND datname = current_database()")
	r.Fold(`{"id":1,"v":2,"b":"y"}`)
	_, err := sinktest.Retry(r.Sink, 10*time.Second, func(*sink.Error) {}).Flush(t.Context(), r.Seal())
	if !errors.As(err, new(sink.BehindError)) {
		t.Fatalf("the next flush ended with %v", err)
	}
	r.Reread(start)
	r.Flush(`{"id":1,"v":1,"a":"x"}`, `{"id":1,"v":2,"b":"y"}`)
	sinktest.Expect(t, db, "SELECT a, b FROM t", "x|y")
}
