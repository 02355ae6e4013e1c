package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testweir"
)

// hold takes a lock on a file as another program does, and returns what lets it
// go.
func (f *file) hold(t *testing.T, begin string) (release func()) {
	t.Helper()
	c, err := f.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	held := true
	release = func() {
		if held {
			held = false
			_, err := c.ExecContext(context.Background(), "ROLLBACK")
			if err = errors.Join(err, c.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(release)
	return release
}

// TestFlush_LockedForLong waits as long as --retry-for says, and then says what
// is the matter.
func TestFlush_LockedForLong(t *testing.T) {
	f := tempFile(t)
	retries := 0
	s := mustSteps(t, sink.Retry(open(t, f.path, sqlite.Options{}), 2500*time.Millisecond, func(*sink.Error) { retries++ }), 10)
	s.mustNext(t, 7) // the table has all columns
	release := f.hold(t, "BEGIN IMMEDIATE")
	_, err := s.next(t.Context())
	var e *sink.Error
	if !errors.As(err, &e) || e.Class != sink.Transient || e.Reason != "locked" {
		t.Fatalf("the flush ended with %v", err)
	}
	for _, words := range []string{f.path, "locked", "--retry-for"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error does not say %q: %v", words, err)
		}
	}
	if retries == 0 {
		t.Error("it gave up at once")
	}
	release()
	s.cp.Seq-- // it was not written
	s.cp.Line -= int64(s.rows) + 1
	s.mustNext(t, 1)
	if n := checkSteps(t, f); n != 8 {
		t.Errorf("%d flushes are in the file, want 8", n)
	}
}

// TestFlush_LockedForAWhile survives a lock that goes.
func TestFlush_LockedForAWhile(t *testing.T) {
	for _, begin := range []string{"BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"} {
		for _, mode := range []string{"wal", "delete"} {
			f := tempFile(t, "PRAGMA journal_mode="+mode, "CREATE TABLE theirs (a)")
			var release func()
			retried := false
			s := mustSteps(t, sink.Retry(open(t, f.path, sqlite.Options{}), time.Minute, func(*sink.Error) { retried = true; release() }), 10)
			s.mustNext(t, 1)
			release = f.hold(t, begin)
			s.mustNext(t, 1)
			if !retried {
				t.Errorf("%s, %s: did not exercise: the lock was in nobody's way", mode, begin)
			}
			checkSteps(t, f)
		}
	}
}

// TestFlush_ReaderHoldsUpCommit: without a WAL a reader keeps a COMMIT from
// ending; the flush is tried again.
func TestFlush_ReaderHoldsUpCommit(t *testing.T) {
	f := tempFile(t, "CREATE TABLE theirs (a)")
	var release func()
	s := mustSteps(t, sink.Retry(open(t, f.path, sqlite.Options{}), time.Minute, func(*sink.Error) { release() }), 10)
	s.mustNext(t, 1)
	release = f.hold(t, "BEGIN; SELECT * FROM t")
	s.mustNext(t, 2)
	if n := checkSteps(t, f); n != 3 {
		t.Errorf("%d flushes are in the file, want 3", n)
	}
}

// TestSync_LockedFile is the same by the command line, from the start of a run
// on: the run waits for --retry-for, and then exits with 1 and names the file.
func TestSync_LockedFile(t *testing.T) {
	testcheck.Only(t)
	for _, test := range []struct{ mode, begin string }{{"wal", "BEGIN IMMEDIATE"}, {"delete", "BEGIN IMMEDIATE"}, {"delete", "BEGIN EXCLUSIVE"}} {
		w := testweir.New(t, "t.db")
		w.Write("t.jsonl", `{"id":1}`+"\n")
		w.Exec("PRAGMA journal_mode="+test.mode, "CREATE TABLE theirs (a)")
		newFile(t, w.Path("t.db")).hold(t, test.begin)
		w.Start("sync", "t.jsonl", "--to", w.Path("t.db"), "--retry-for", "100ms").Exit(1, w.Path("t.db"), "locked")
	}
}

// TestFlush_OtherWritersGetOn: a backfill without a pause and another writer without one both
// finish. That the backfill lets others in regularly is TestTurn_PausesForOthers.
func TestFlush_OtherWritersGetOn(t *testing.T) {
	const want, limit = 25, 120 * time.Second
	rows := testcheck.Rounds(500, 5000)
	type writer struct {
		name  string
		write func(ctx context.Context) error
	}
	plain := func(t *testing.T, f *file) writer {
		// What a program with the customary timeout does.
		db, err := sql.Open("sqlite", dsn(f.path)+"?_pragma=busy_timeout(30000)")
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		if _, err := db.Exec("CREATE TABLE IF NOT EXISTS theirs (a)"); err != nil {
			t.Fatal(err)
		}
		return writer{"plain", func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, "BEGIN IMMEDIATE; INSERT INTO theirs VALUES (1); COMMIT")
			return err
		}}
	}
	weir := func(t *testing.T, f *file, job string) writer {
		s := sink.Retry(open(t, f.path, sqlite.Options{Yield: true}), limit, func(*sink.Error) {})
		seq := int64(0)
		// Two batches that were folded before and undo each other: nothing is done between two flushes.
		var batches [2]fold.Batch
		table, err := sink.Table(t.Context(), s.Tables, "t", []string{"id"})
		testcheck.NoError(t, err)
		folder := fold.NewFolder(&feed.Names{}, table, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 10, Limits: s.Caps().Limits, Log: logtest.New(t)})
		for i := range batches {
			for id := range rows {
				testcheck.NoError(t, folder.Fold(&batches[i], fmt.Appendf(nil, `{"id":%d,"n":%d,"fill":"%050d"}`, id, i, i), fold.Place{}))
			}
			folder.Seal(&batches[i])
		}
		return writer{"weir " + job, func(ctx context.Context) error {
			seq++
			_, err := s.Flush(ctx, &sink.Flush{Batches: []*fold.Batch{&batches[(seq-1)%2]}, Job: job, Run: job, Lanes: lanesAt("t.jsonl", seq)})
			return err
		}}
	}
	race := func(t *testing.T, f *file, writers ...writer) {
		// The first is at it when the second comes; both write without a pause until both have written enough.
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		var written [2]atomic.Int64
		enough := func() bool { return written[0].Load() >= want && written[1].Load() >= want }
		atIt := make(chan struct{})
		var both sync.WaitGroup
		for i, w := range writers {
			both.Go(func() {
				if i == 1 {
					<-atIt
				}
				for err := error(nil); !enough() && err == nil; {
					if err = w.write(ctx); err != nil {
						t.Errorf("%s: %d transactions, want %d: %v", w.name, written[i].Load(), want, err)
						cancel()
					}
					if n := written[i].Add(1); i == 0 && (n == 3 || n < 3 && err != nil) {
						close(atIt)
					}
				}
			})
		}
		both.Wait()
		sinktest.Expect(t, f, "PRAGMA integrity_check", "ok")
	}
	t.Run("a backfill and a plain writer", func(t *testing.T) {
		f := tempFile(t)
		race(t, f, weir(t, f, "a"), plain(t, f))
	})
	t.Run("two backfills", func(t *testing.T) {
		f := tempFile(t)
		w := weir(t, f, "a")
		if err := w.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		race(t, f, w, weir(t, f, "b"))
	})
}

// TestFlush_ReadersSeeWholeBatches reads without a pause while batches are
// written: rows, rejects and checkpoint are always of one batch.
func TestFlush_ReadersSeeWholeBatches(t *testing.T) {
	f := tempFile(t)
	s := mustSteps(t, open(t, f.path, sqlite.Options{Synchronous: sink.Off}), 300)
	s.mustNext(t, 1)
	seen := make(chan int64) // each state that is new to the reader
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	go func() {
		defer close(seen)
		for last := int64(0); ctx.Err() == nil; {
			if n := checkSteps(t, f); n != last {
				if n < last {
					t.Errorf("batch %d was seen after %d", n, last)
				}
				last = n
				select {
				case seen <- n:
				case <-ctx.Done():
				}
			}
		}
	}()
	for states := 0; states < 30 && ctx.Err() == nil; {
		s.mustNext(t, 1)
		select {
		case <-seen:
			states++
		default:
		}
	}
	if ctx.Err() != nil {
		t.Error("did not exercise: the reader saw fewer than 30 states")
	}
	cancel()
	for range seen { // until the reader has ended
	}
}

// TestFlush_ContextEndsTheWait: nobody waits for a lock after the run was given
// up.
func TestFlush_ContextEndsTheWait(t *testing.T) {
	f := tempFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := mustSteps(t, sink.Retry(open(t, f.path, sqlite.Options{}), time.Hour, func(*sink.Error) { cancel() }), 10)
	s.mustNext(t, 1)
	f.hold(t, "BEGIN IMMEDIATE")
	if _, err := s.next(ctx); err == nil {
		t.Error("the flush succeeded")
	}
}
