package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// take claims lanes, and returns the lane that another run holds, or "".
func take(t *testing.T, c sink.Claims, lanes ...string) (busy string) {
	t.Helper()
	_, err := c.Take(t.Context(), lanes...)
	if e, is := errors.AsType[sink.BusyError](err); is {
		return e.Lane
	}
	testcheck.NoError(t, err)
	return ""
}

const advisoryLocks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"

// TestClaims_KilledSession: the locks of a session that the server ends are released; a live run takes them again with
// its next call.
func TestClaims_KilledSession(t *testing.T) {
	db := connect(t, testpg.New(t))
	first, second := db.Claims(t, "job"), db.Claims(t, "job")
	take(t, first, "a", "b")
	if busy := take(t, second, "c", "b"); busy != "b" {
		t.Errorf("the lane that is busy is %q", busy)
	}
	sinktest.Expect(t, db, advisoryLocks, "3") // the job's, and one for each of two lanes
	kill := func() {
		t.Helper()
		db.Exec(t, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'weir/job' AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')")
	}
	kill()
	sinktest.Expect(t, db, advisoryLocks, "0")
	var e *sink.Error
	if _, err := first.Checkpoints(t.Context(), "a"); !errors.As(err, &e) || e.Class != sink.Transient || e.Reason != "connection" {
		t.Errorf("over a connection that broke: %v", err)
	}
	if _, err := first.Checkpoints(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	sinktest.Expect(t, db, advisoryLocks, "3")
	if busy := take(t, second, "a"); busy != "a" {
		t.Errorf("the lane that was held again is taken by another run: %q", busy)
	}
	// Another run may come between.
	kill()
	take(t, second, "b")
	_, _ = first.Tables(t.Context())
	if _, err := first.Tables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if busy := take(t, second, "a"); busy != "a" {
		t.Errorf("the lane that was held again is taken by another run: %q", busy)
	}
	// It does not release the other run's lock.
	if err := first.Drop(t.Context(), "a", "b"); err != nil {
		t.Error(err)
	}
	if busy := take(t, first, "a", "b"); busy != "b" {
		t.Errorf("the lane that is busy is %q", busy)
	}
	take(t, second, "a")
	// A whole job is held again, too.
	third := db.Claims(t, "whole")
	testcheck.NoError(t, third.TakeJob(t.Context()))
	db.Exec(t, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'weir/whole'")
	_, _ = third.Tables(t.Context())
	if _, err := third.Tables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Claims(t, "whole").Take(t.Context(), "a"); !errors.As(err, new(sink.BusyError)) {
		t.Errorf("a lane of the job that is held: %v", err)
	}
}

// TestClaims_UnnoticedDisconnect: a connection breaks without the server noticing. The same run gets its
// session's locks at once.
func TestClaims_UnnoticedDisconnect(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	p.Half(true)
	c := db.Claims(t, "job")
	take(t, c, "a", "b")
	p.Break()
	err := sink.Retry{Patience: time.Minute, OnRetry: func(*sink.Error) {}}.Do(t.Context(), func() error {
		_, err := c.Take(t.Context(), "c")
		return err
	})
	testcheck.NoError(t, err)
	sinktest.Expect(t, db, "SELECT count(*), count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())", "4|1")
}

// TestClaims_WaitForAKilledRun: the server may notice late that a run was killed.
func TestClaims_WaitForAKilledRun(t *testing.T) {
	db := connect(t, testpg.New(t))
	first, second := db.Claims(t, "job"), db.Claims(t, "job")
	take(t, first, "a")
	closed := make(chan error, 1)
	time.AfterFunc(150*time.Millisecond, func() { closed <- first.Close() })
	if busy := take(t, second, "a"); busy != "" {
		t.Errorf("the lane that is busy is %q", busy)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	// A stopped run does not wait for it.
	third := db.Claims(t, "job")
	take(t, third, "b")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := third.Take(ctx, "a"); err == nil {
		t.Error("a run that is stopped has waited for the lane")
	}
}

// TestClaims_OneRoundTrip: lanes are claimed, with their checkpoints, and dropped in one round trip each.
func TestClaims_OneRoundTrip(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	r := sinktest.BeginJob(t, db, "job")
	r.Flush(`{"id":1}`)
	r.End()
	c := db.Claims(t, "job")
	take(t, c, "x") // it connects
	var lanes []string
	for i := range 100 {
		lanes = append(lanes, fmt.Sprint("lane ", i))
	}
	for name, call := range map[string]func() error{
		"Take":    func() error { _, err := c.Take(t.Context(), lanes...); return err },
		"Drop":    func() error { return c.Drop(t.Context(), "x") },
		"TakeJob": func() error { return c.TakeJob(t.Context()) },
	} {
		p.Cut(nil)
		testcheck.NoError(t, call())
		if n := p.Count().Answers; n != 1 {
			t.Errorf("%s was answered %d times", name, n)
		}
	}
}

// TestClaims_IdleSession: the server ends no session that only holds locks.
func TestClaims_IdleSession(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.set(t, "idle_session_timeout = '100ms'")
	c := db.Claims(t, "job")
	take(t, c, "a")
	db.Exec(t, "SELECT pg_sleep(0.3)")
	sinktest.Expect(t, db, advisoryLocks, "2")
	if _, err := c.Tables(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestClaims_TooManyLocks: the server has a limited number of locks. The error says how to raise it, and no lock is
// held.
func TestClaims_TooManyLocks(t *testing.T) {
	testcheck.Only(t)
	s := testpg.Start(t, "max_locks_per_transaction=10")
	db := connect(t, s.Database(t))
	c := db.Claims(t, "job")
	take(t, c, "a")
	lanes := make([]string, 20_000)
	for i := range lanes {
		lanes[i] = fmt.Sprint("lane ", i)
	}
	_, err := c.Take(t.Context(), lanes...)
	var e *sink.Error
	if !errors.As(err, &e) || e.Reason != "resources" || !strings.Contains(err.Error(), "raise max_locks_per_transaction") {
		t.Errorf("too many lanes: %v", err)
	}
	// They are released once the server has ended that session.
	err = sink.Retry{Patience: time.Minute, OnRetry: func(*sink.Error) {}}.Do(t.Context(), func() error {
		_, err := c.Take(t.Context(), "b")
		return err
	})
	testcheck.NoError(t, err)
	sinktest.Expect(t, db, advisoryLocks, "3")
	if busy := take(t, db.Claims(t, "job"), "a"); busy != "a" {
		t.Errorf("the lane that is busy is %q", busy)
	}
}

// TestClaims_Pooler: behind a pooler nothing is locked; only the fence separates runs.
func TestClaims_Pooler(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.weir = testpg.Pool(t, db.url, "transaction")
	first, second := sinktest.Begin(t, db), sinktest.Begin(t, db)
	if err := errors.Join(first.Claims.TakeJob(t.Context()), second.Claims.TakeJob(t.Context())); err != nil {
		t.Error(err)
	}
	sinktest.Expect(t, db, advisoryLocks, "0")
	first.Flush(`{"id":1,"a":"first"}`)
	if _, err := second.TryFlush(`{"id":1,"a":"second"}`); !errors.As(err, new(sink.FencedError)) {
		t.Errorf("the flush of the second run: %v", err)
	}
	sinktest.Expect(t, db, "SELECT a FROM t", "first")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := first.Claims.Take(t.Context(), "x", "y"); err != nil {
				t.Error(err)
			}
			if err := first.Claims.Drop(t.Context(), "x", "y"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// takeOver makes a run take over a lane, with retries.
func takeOver(t *testing.T, c sink.Claims, run, lane string) sink.Checkpoint {
	t.Helper()
	var found []sink.Checkpoint
	err := sink.Retry{Patience: 30 * time.Second, OnRetry: func(e *sink.Error) { t.Log(e) }}.Do(t.Context(), func() (err error) {
		found, err = c.(sink.GroupClaims).TakeOver(t.Context(), run, lane)
		return err
	})
	testcheck.NoError(t, err)
	return found[0]
}

// TestTakeOver_LostAnswers: whichever reply is lost, the next try returns the same checkpoint, and the run that wrote
// it.
func TestTakeOver_LostAnswers(t *testing.T) {
	t.Parallel()
	url := testpg.New(t)
	p := testpg.NewProxy(t, url)
	direct, db := connect(t, url), connect(t, p.URL())
	testcheck.NoError(t, direct.Claims(t, "job").(sink.GroupClaims).Begin(t.Context(), "writer", []sink.Lane{{Source: "a"}}))
	claims := db.Claims(t, "job")
	last := takeOver(t, claims, "begun", "a").Seq
	for n, cut := 0, true; cut; n++ {
		p.Cut(func(m testpg.Message) bool { return !m.FromClient && m.Number == n })
		cuts := p.Cuts()
		cp := takeOver(t, claims, fmt.Sprint("member", n), "a")
		if last++; cp.Seq != last || cp.Run != "writer" {
			t.Errorf("without the server's message %d the checkpoint is %+v, want Seq %d", n, cp, last)
		}
		cut = p.Cuts() > cuts
	}
}

// TestTakeOver_StoppedInTransaction: if weir is stopped in the middle of a flush, the flush holds the lane until its
// session is ended. A flush that the server is working on is waited for.
func TestTakeOver_StoppedInTransaction(t *testing.T) {
	t.Parallel()
	url := testpg.New(t)
	db := connect(t, url)
	claims := db.Claims(t, "job")
	testcheck.NoError(t, claims.(sink.GroupClaims).Begin(t.Context(), "run", []sink.Lane{{Source: "a"}}))
	flush := func(then string) chan error {
		t.Helper()
		conn := connect(t, url).conn
		for _, q := range []string{"SET application_name = 'weir/job'", "BEGIN", `UPDATE weir_checkpoints SET seq = seq + 1, "offset" = "offset" + 5 WHERE source = 'a'`} {
			if _, err := conn.Exec(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		if then != "" {
			go func() {
				_, err := conn.Exec(context.Background(), then+"; COMMIT", pgx.QueryExecModeSimpleProtocol)
				done <- err
			}()
		}
		return done
	}
	busy := flush("SELECT pg_sleep(6)")
	if cp := takeOver(t, claims, "next", "a"); cp.Offset != 5 || cp.Seq != 3 {
		t.Errorf("the flush that the server works on is not waited for: %+v", cp)
	}
	if err := <-busy; err != nil {
		t.Error(err)
	}
	flush("")
	if cp := takeOver(t, claims, "last", "a"); cp.Offset != 5 || cp.Seq != 4 || cp.Run != "run" {
		t.Errorf("the flush of a weir that is stopped: %+v", cp)
	}
	sinktest.Expect(t, db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir/job' AND state = 'idle in transaction' AND datname = current_database()", "0")
}

// TestClaims_WaitForTheLastFlush: the last flush of a run that was killed may still be in progress.
func TestClaims_WaitForTheLastFlush(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	slow(t, db, "0.5")
	r := sinktest.BeginJob(t, db, "job")
	c := db.Claims(t, "job")
	done := whenAsleep(t, db, func() {
		if _, err := c.Take(t.Context(), "other"); err != nil {
			t.Error(err)
		}
		sinktest.Expect(t, db, "SELECT count(*) FROM t", "1")
	})
	r.Flush(`{"id":1,"a":"x"}`)
	<-done
}
