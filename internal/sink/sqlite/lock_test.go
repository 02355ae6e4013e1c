package sqlite_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// hold locks a file as another program does, and returns a function that releases the lock.
func (f *file) hold(t *testing.T, begin string) (release func()) {
	t.Helper()
	c, err := f.db.Conn(t.Context())
	testcheck.NoError(t, err)
	_, err = c.ExecContext(t.Context(), begin)
	testcheck.NoError(t, err)
	release = sync.OnceFunc(func() {
		_, err := c.ExecContext(context.Background(), "ROLLBACK")
		testcheck.NoError(t, errors.Join(err, c.Close()))
	})
	t.Cleanup(release)
	return release
}

// TestFlush_LockedForLong: weir waits for --retry-for, and then reports the reason.
func TestFlush_LockedForLong(t *testing.T) {
	f := tempFile(t)
	retries := 0
	s := mustSteps(t, sinktest.Retry(open(t, f.path, sqlite.Options{}), 2500*time.Millisecond, func(*sink.Error) { retries++ }), 10)
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
	if n := checkSteps(t, f); n != 7 {
		t.Errorf("%d flushes are in the file, want 7", n)
	}
}

// TestFlush_LockedForAWhile: weir survives a temporary lock, such as a reader's, which blocks a COMMIT without a WAL.
func TestFlush_LockedForAWhile(t *testing.T) {
	for _, begin := range []string{"BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN; SELECT * FROM t"} {
		for _, mode := range []string{"wal", "delete"} {
			f := tempFile(t, "PRAGMA journal_mode="+mode, "CREATE TABLE theirs (a)")
			var release func()
			retried := false
			s := mustSteps(t, sinktest.Retry(open(t, f.path, sqlite.Options{}), time.Minute, func(*sink.Error) { retried = true; release() }), 10)
			s.mustNext(t, 1)
			release = f.hold(t, begin)
			s.mustNext(t, 1)
			if !retried && !(mode == "wal" && strings.Contains(begin, "SELECT")) {
				t.Errorf("%s, %s: did not exercise: the lock was in nobody's way", mode, begin)
			}
			checkSteps(t, f)
		}
	}
}

// TestFlush_OtherWritersGetOn: a backfill without pauses and another writer without pauses both finish.
// TestTurn_PausesForOthers checks that the backfill lets others in regularly.
func TestFlush_OtherWritersGetOn(t *testing.T) {
	const want, limit = 25, 120 * time.Second
	rows := testcheck.Rounds(500, 5000)
	plain := func(t *testing.T, f *file) func(context.Context) error {
		f.db.SetMaxOpenConns(1)
		f.Exec(t, "PRAGMA busy_timeout = 30000") // the customary value
		f.Exec(t, "CREATE TABLE theirs (a)")
		return func(ctx context.Context) error {
			_, err := f.db.ExecContext(ctx, "BEGIN IMMEDIATE; INSERT INTO theirs VALUES (1); COMMIT")
			return err
		}
	}
	weir := func(t *testing.T, f *file, job string) func(context.Context) error {
		s := mustSteps(t, sinktest.Retry(open(t, f.path, sqlite.Options{}), limit, func(*sink.Error) {}), rows)
		s.job = job
		return func(ctx context.Context) error { _, err := s.next(ctx); return err }
	}
	for name, second := range map[string]func(*testing.T, *file) func(context.Context) error{
		"a plain writer":   plain,
		"another backfill": func(t *testing.T, f *file) func(context.Context) error { return weir(t, f, "b") },
	} {
		t.Run(name, func(t *testing.T) {
			f := tempFile(t)
			first := weir(t, f, "a")
			testcheck.NoError(t, first(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			// Both write without a pause until both have written enough.
			var written [2]atomic.Int64
			var both sync.WaitGroup
			for i, write := range []func(context.Context) error{first, second(t, f)} {
				both.Go(func() {
					for written[0].Load() < want || written[1].Load() < want {
						if err := write(ctx); err != nil {
							t.Errorf("writer %d: %d transactions, want %d: %v", i, written[i].Load(), want, err)
							cancel()
							return
						}
						written[i].Add(1)
					}
				})
			}
			both.Wait()
			sinktest.Expect(t, f, "PRAGMA integrity_check", "ok")
		})
	}
}

// TestFlush_ReadersSeeWholeBatches reads without a pause while batches are written: rows, rejects and checkpoint always
// belong to the same batch.
func TestFlush_ReadersSeeWholeBatches(t *testing.T) {
	f := tempFile(t)
	s := mustSteps(t, open(t, f.path, sqlite.Options{Options: sink.Options{Level: sink.Off}}), 300)
	s.mustNext(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	writer.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.next(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
				cancel()
			}
		}
	})
	for last, states := int64(0), 0; states < 30; {
		n := checkSteps(t, f)
		if n < last {
			t.Errorf("batch %d was seen after %d", n, last)
		}
		if n > last {
			states, last = states+1, n
		}
		if ctx.Err() != nil {
			t.Fatal("did not exercise: the reader saw fewer than 30 states")
		}
	}
}

// TestFlush_ContextEndsTheWait: a cancelled run does not wait for a lock.
func TestFlush_ContextEndsTheWait(t *testing.T) {
	f := tempFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := mustSteps(t, sinktest.Retry(open(t, f.path, sqlite.Options{}), time.Hour, func(*sink.Error) { cancel() }), 10)
	s.mustNext(t, 1)
	f.hold(t, "BEGIN IMMEDIATE")
	if _, err := s.next(ctx); err == nil {
		t.Error("the flush succeeded")
	}
}
