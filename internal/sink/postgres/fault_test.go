package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// retries records why calls were retried.
type retries struct {
	mu      sync.Mutex
	reasons []string
}

func (r *retries) add(e *sink.Error) {
	if e == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = append(r.reasons, e.Reason)
}

// patient flushes what was folded, with retries, and calls failed with each reason.
func patient(t *testing.T, r *sinktest.Run, failed ...func(reason string)) (sink.Result, []string) {
	t.Helper()
	var again retries
	onRetry := func(e *sink.Error) {
		if e == nil {
			return
		}
		again.add(e)
		for _, f := range failed {
			f(e.Reason)
		}
	}
	res, err := sinktest.Retry(r.Sink, 2*time.Minute, onRetry).Flush(t.Context(), r.Seal())
	testcheck.NoError(t, err)
	r.Reset()
	return res, again.reasons
}

// slow makes writing a row to table t slow.
func slow(t *testing.T, db *database, seconds string) {
	t.Helper()
	db.Exec(t, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep("+seconds+"); RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION slow()")
}

// whenAsleep calls do once weir's session sleeps in a trigger.
func whenAsleep(t *testing.T, db *database, do func()) (done chan struct{}) {
	t.Helper()
	return when(t, db, "wait_event = 'PgSleep'", do)
}

// when calls do once a session waits like this.
func when(t *testing.T, db *database, waits string, do func()) (done chan struct{}) {
	t.Helper()
	other := connect(t, db.url) // a transaction of db's would see only one state of it
	done = make(chan struct{})
	go func() {
		defer close(done)
		other.until(t, "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND "+waits)
		do()
	}()
	return done
}

// until waits until a query returns true.
func (d *database) until(t *testing.T, query string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); d.one(t, query) != "true"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not true after two minutes: %s", query)
			return // not Fatal: a goroutine may call it
		}
	}
}

// waitForLocks waits until this many sessions of a database wait for a lock.
func waitForLocks(t *testing.T, db *database, sessions int) {
	t.Helper()
	db.until(t, fmt.Sprintf("SELECT count(*) = %d FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'", sessions))
}

// throughProxy returns a database that weir reaches through a proxy; the test does not.
func throughProxy(t *testing.T, url string) (*database, *testpg.Proxy) {
	t.Helper()
	p := testpg.NewProxy(t, url)
	db := connect(t, url)
	db.weir = p.URL()
	return db, p
}

// kinds are flushes that take different paths through the driver. Each has a row that exists, a new one and a bad line;
// some have more rejects.
var kinds = map[string]struct {
	table   string // exists before
	change  []func(*fold.Options)
	more    string // fields of each message, with its number
	refused string // a message that the database refuses, with its number
	breaks  bool   // the connection breaks before each flush, so another one is made
}{
	"plain":              {},
	"refused":            {table: "CREATE TABLE t (id integer PRIMARY KEY, a text CHECK (a <> 'no'))", refused: `{"id":%d,"a":"no"}`},
	"versions":           {change: []func(*fold.Options){func(o *fold.Options) { o.Version, o.Scope = "v", fold.ColumnScope }}, more: `,"v":%d`},
	"columns":            {more: `,"c%d":1`},
	"another connection": {breaks: true},
}

// A cut breaks a connection before a message from one side. half: the server does not notice. fatal: the client gets an
// error that the server ended it.
type cut struct{ fromClient, half, fatal bool }

// connect is throughProxy, to a new database.
func (c cut) connect(t *testing.T) (*database, *testpg.Proxy) {
	t.Helper()
	db, p := throughProxy(t, testpg.New(t))
	p.Half(c.half)
	p.Fatal(c.fatal)
	return db, p
}

// before cuts the connection before its nth message from now on.
func (c cut) before(p *testpg.Proxy, n int) {
	p.Cut(func(m testpg.Message) bool { return m.FromClient == c.fromClient && m.Number == n })
}

var cuts = map[string]cut{
	"to the server":                 {fromClient: true},
	"to the server, unheard":        {fromClient: true, half: true},
	"to the client":                 {},
	"to the client, unheard":        {half: true},
	"to the client, by an operator": {fatal: true},
}

// TestFlush_CutAnywhere cuts the connection before each message of a flush, and of connecting before it.
func TestFlush_CutAnywhere(t *testing.T) {
	for name, kind := range kinds {
		for how, cut := range cuts {
			t.Run(name+", "+how, func(t *testing.T) {
				if name != "plain" && how != "to the client" || kind.breaks && how != "to the client" {
					testcheck.Only(t)
				}
				t.Parallel()
				db, p := cut.connect(t)
				if kind.table != "" {
					db.Exec(t, kind.table)
				}
				r := sinktest.Begin(t, db, kind.change...)
				with := func(n int) string {
					if kind.more == "" {
						return "}"
					}
					return fmt.Sprintf(kind.more, n) + "}"
				}
				r.Flush(`{"id":1,"a":"x"` + with(0))
				r.Flush(`{"id":1,"a":"y"` + with(1))
				flushes, committed, rejects := 2, 0, 0
				for n := 0; ; n++ {
					r.Fold(fmt.Sprintf(`{"id":1,"a":"%d"`, n)+with(n+2), fmt.Sprintf(`{"id":%d,"a":"new"`, 1000+n)+with(n+2), fmt.Sprintf("bad %d", n))
					rejects++
					if kind.refused != "" {
						r.Fold(fmt.Sprintf(kind.refused, 2000+n))
						rejects++
					}
					if kind.breaks {
						p.Break()
					}
					before := p.Cuts()
					cut.before(p, n)
					refuse := time.AfterFunc(0, func() {})
					if n%2 == 1 { // and no connection succeeds for a while
						p.Refuse(true)
						refuse = time.AfterFunc(20*time.Millisecond, func() { p.Refuse(false) })
					}
					res, _ := patient(t, r)
					refuse.Stop()
					p.Refuse(false)
					p.Cut(nil)
					flushes++
					if n := res.Total(); n.Inserted+n.Updated == 0 {
						committed++ // before the reply was lost
					}
					sinktest.Expect(t, db, "SELECT count(*), max(a) FILTER (WHERE id = 1), (SELECT count(*) FROM weir_rejects), (SELECT seq FROM weir_checkpoints) FROM t",
						fmt.Sprintf("%d|%d|%d|%d", 2+n, n, rejects, flushes))
					if p.Cuts() == before { // there are no more messages
						if n < 3 {
							t.Fatalf("only %d cuts", n)
						}
						if kind.change != nil {
							sinktest.Expect(t, db, "SELECT count(*) FROM weir_versions", fmt.Sprint(2+n))
						}
						t.Logf("%d cuts; %d flushes had been committed before", n, committed)
						return
					}
				}
			})
		}
	}
}

// TestFirstFlush_CutAnywhere cuts the connection before every third message of a flush that creates weir's tables and
// the user's.
func TestFirstFlush_CutAnywhere(t *testing.T) {
	testcheck.Only(t)
	for how, cut := range cuts {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for n, more := 0, true; more; n += 3 {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					db, p := cut.connect(t)
					r := sinktest.Begin(t, db, kinds["versions"].change...)
					cut.before(p, n)
					r.Fold(`{"id":1,"v":1,"a":"x"}`, `{"id":2,"v":1,"a":"x"}`, "bad")
					patient(t, r)
					p.Cut(nil)
					r.Flush(`{"id":1,"v":2,"a":"y"}`, `{"id":3,"v":2,"b":"new"}`)
					sinktest.Expect(t, db, "SELECT id, v, a, b FROM t ORDER BY id", "1|2|y|NULL", "2|1|x|NULL", "3|2|NULL|new")
					sinktest.Expect(t, db, "SELECT (SELECT count(*) FROM weir_rejects), (SELECT seq FROM weir_checkpoints)", "1|2")
					more = p.Cuts() > 0
				})
			}
		})
	}
}

// loseAnswer sends a flush repeatedly, and cuts the connection one message later each time, until the reply to its
// COMMIT is lost.
func loseAnswer(t *testing.T, p *testpg.Proxy, r *sinktest.Run, f *sink.Flush, isCommitted func() bool) {
	t.Helper()
	for n := 0; !isCommitted(); n++ {
		answers := 0
		p.Cut(func(m testpg.Message) bool {
			if !m.FromClient && m.Type == 'Z' {
				answers++
			}
			return answers > n
		})
		if res, err := r.Sink.Flush(t.Context(), f); err == nil {
			t.Fatalf("did not exercise: %+v", res)
		}
	}
	p.Cut(nil)
}

// TestFlush_AnswerLostTwice: if the reply to a flush is lost, its result is still known after failed retries, and the
// committed rejects are those last passed to BeforeCommit.
func TestFlush_AnswerLostTwice(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	db.Exec(t, kinds["refused"].table)
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	r.Fold(`{"id":1,"a":"y"}`, `{"id":2,"a":"z"}`, `{"id":3,"a":"no"}`, "bad")
	f := r.Seal()
	rejected := 0
	f.BeforeCommit = func(rejects []fold.Reject) error { rejected = len(rejects); return nil }
	loseAnswer(t, p, r, f, func() bool { return db.one(t, "SELECT seq FROM weir_checkpoints") == "2" })
	for n := 0; ; n++ {
		queries := 0
		p.Cut(func(m testpg.Message) bool {
			if m.FromClient && m.Type == 'Q' {
				queries++
			}
			return queries > n
		})
		res, err := r.Sink.Flush(t.Context(), f)
		if err != nil {
			continue
		}
		if n < 2 {
			t.Errorf("did not exercise: sent again %d times in vain", n)
		}
		sinktest.Counts(t, res, 1, 1, 0, 0)
		if len(res.Refused) != 1 || rejected != 2 {
			t.Errorf("%d messages were refused, want 1; BeforeCommit was last given %d rejects, want 2", len(res.Refused), rejected)
		}
		return
	}
}

// TestRebuild_AnswerLost: a flush that creates its tables with constraints could not empty them if it had not created
// them.
func TestRebuild_AnswerLost(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	r := sinktest.Setup{Fit: func(_ *schema.Limits, t *schema.Table) error {
		t.OnCreate = []string{"ALTER TABLE t ADD CHECK (id > 0)"}
		return nil
	}}.Begin(t, db)
	r.Fold(`{"id":1,"a":"y"}`, `{"id":2,"a":"z"}`)
	f := r.Seal()
	f.Rebuild = true
	loseAnswer(t, p, r, f, func() bool { return db.one(t, "SELECT to_regclass('t') IS NOT NULL") == "true" })
	if _, err := r.Send(f); err != nil {
		t.Error(err)
	}
	r.Flush(`{"id":3,"a":"x"}`)
	sinktest.Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "2", "3")
	f = r.Seal()
	f.Rebuild = true
	if _, err := r.Send(f); err == nil {
		t.Error("a table with a constraint is emptied")
	}
}

// TestFlush_LateCommit: the connection breaks, the transaction continues, and the flush is resent meanwhile.
func TestFlush_LateCommit(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	db.as(t, "app")
	db.Exec(t, "REVOKE EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) FROM PUBLIC") // otherwise the first try would be ended
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text, n integer DEFAULT 0)")
	db.Exec(t, "GRANT ALL ON t TO app")
	db.Exec(t, "CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); NEW.n = OLD.n + 1; RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER counts BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION counts()")
	var said []string
	db.opt.Log = logtest.To(func(text string) { said = append(said, text) })
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	p.Half(true)
	r.Fold(`{"id":1,"a":"y"}`, "bad")
	broken := whenAsleep(t, db, p.Break)
	_, again := patient(t, r)
	if <-broken; p.Cuts() != 1 || !slices.Contains(again, "connection") {
		t.Fatalf("did not exercise: %d cuts, tried again for %v", p.Cuts(), again)
	}
	if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "had been committed") }) {
		t.Errorf("the first try is not what was committed: %q", said)
	}
	sinktest.Expect(t, db, "SELECT a, n FROM t", "y|1") // not 2
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "1")
}

// TestFlush_NextConnectionAlsoBreaks: the server does not notice that a connection broke in the middle of a flush, and
// the next one breaks before it has ended the old session, which holds the locks.
func TestFlush_NextConnectionAlsoBreaks(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	p.Half(true)
	r.Fold(`{"id":1,"a":"y"}`)
	p.Cut(func(m testpg.Message) bool { return m.FromClient && m.Type == 'd' })
	queries := 0
	patient(t, r, func(string) {
		if p.Cuts() == 1 { // the next one inspects the server, and then ends the old session
			p.Cut(func(m testpg.Message) bool {
				if m.FromClient && m.Type == 'Q' {
					queries++
				}
				return queries == 2
			})
		}
	})
	if p.Cuts() != 2 {
		t.Fatalf("did not exercise: %d cuts", p.Cuts())
	}
	sinktest.Expect(t, db, "SELECT id, a FROM t", "1|y")
}

// TestServer_Restored: what was committed without waiting for the disk is lost in a crash, and the next flush reports
// it.
func TestServer_Restored(t *testing.T) {
	s := testpg.Start(t, "fsync=on")
	db := connect(t, s.Database(t))
	db.opt.Level = sink.Off
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	db.Exec(t, "SET synchronous_commit = on")
	db.Exec(t, "CREATE TABLE theirs ()") // what was committed so far is on disk
	s.Freeze(t, "walwriter")
	r.Flush(`{"id":1,"a":"y"}`)
	r.Flush(`{"id":1,"a":"z"}`)
	s.Kill()
	s.Restart(t)
	r.Fold(`{"id":1,"b":"w"}`)
	f := r.Seal()
	_, err := sinktest.Retry(r.Sink, 10*time.Second, func(*sink.Error) {}).Flush(t.Context(), f)
	var behind sink.BehindError
	if !errors.As(err, &behind) || behind.Want != 3 || behind.Found >= 3 {
		t.Fatalf("the flush after the crash ended with %v", err)
	}
	sinktest.Expect(t, connect(t, db.url), "SELECT a FROM t", map[int64]string{1: "x", 2: "y"}[behind.Found])
}

func TestServer_StartsLater(t *testing.T) {
	s := testpg.Start(t)
	db := connect(t, s.Database(t))
	s.Kill()
	err := db.tryOpen(t)
	if e, ok := errors.AsType[*sink.Error](err); !ok || e.Class != sink.Transient || e.Reason != "connection" {
		t.Fatalf("without a server opening ended with %v", err)
	}
	var restart sync.Once
	again := func(*sink.Error) { restart.Do(func() { s.Restart(t) }) }
	if err := (sink.Retry{Patience: 2 * time.Minute, OnRetry: again}).Do(t.Context(), func() error { return db.tryOpen(t) }); err != nil {
		t.Error(err)
	}
}

// TestFlush_RetriedErrors: temporary errors of the server.
func TestFlush_RetriedErrors(t *testing.T) {
	const ends = "; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'weir/%' AND datname = current_database()"
	for reason, c := range map[string]struct{ fault, undo string }{
		"connections": {"ALTER ROLE app CONNECTION LIMIT 0" + ends, "ALTER ROLE app CONNECTION LIMIT -1"},
		"locked":      {"ALTER ROLE app SET lock_timeout = '50ms'" + ends + "; BEGIN; LOCK TABLE t", "COMMIT; ALTER ROLE app RESET lock_timeout"},
	} {
		t.Run(reason, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.as(t, "app") // superusers have no limit
			r := sinktest.Begin(t, db)
			r.Flush(`{"id":1,"a":"x"}`)
			exec := func(statements string) {
				for _, s := range strings.Split(statements, "; ") {
					db.Exec(t, s)
				}
			}
			exec(c.fault)
			r.Fold(`{"id":1,"a":"y"}`, "bad")
			undone := false
			_, again := patient(t, r, func(why string) {
				if why == reason && !undone {
					undone = true
					exec(c.undo)
				}
			})
			if !undone {
				t.Errorf("tried again for %v", again)
			}
			sinktest.Expect(t, db, "SELECT a, (SELECT count(*) FROM weir_rejects) FROM t", "y|1")
		})
	}
}

// TestFlush_StatementTimeout: a batch that takes too long at once is written in pieces.
func TestFlush_StatementTimeout(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	slow(t, db, "0.002")
	db.set(t, "statement_timeout = '400ms'")
	r := sinktest.Begin(t, db)
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"a":"x"}`, i))
	}
	sinktest.Counts(t, r.Flush(lines...), 300, 0, 0, 0)
	sinktest.Expect(t, db, "SELECT count(*), (SELECT seq FROM weir_checkpoints) FROM t", "300|1")
}

// TestFlush_StatementTimeoutOfOneMessage: a message that takes too long alone is rejected, also as the only one of a
// flush.
func TestFlush_StatementTimeoutOfOneMessage(t *testing.T) {
	t.Parallel()
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.Exec(t, "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a = 'slow' THEN PERFORM pg_sleep(600); END IF; RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER wait BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION wait()")
	db.set(t, "statement_timeout = '2s'")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"a":"slow"}`)
	r.Flush(`{"id":3,"a":"slow"}`)
	r.Flush(`{"id":4,"a":"x"}`)
	sinktest.Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "4")
	sinktest.Expect(t, db, "SELECT line, reason LIKE '%(SQLSTATE 57014)' FROM weir_rejects ORDER BY line", "2|true", "3|true")
}

// TestFlush_StatementTimeoutBehindALock: a message, also one for several tables, waits in vain for a lock. It is
// retried and not rejected.
func TestFlush_StatementTimeoutBehindALock(t *testing.T) {
	for _, line := range []string{`{"id":1,"a.x":2}`, `{"id":1,"a.x":2,"b.x":2}`} {
		t.Run(line, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.Exec(t, "CREATE TABLE a (id integer PRIMARY KEY, x integer CHECK (x > 0))")
			db.Exec(t, "CREATE TABLE b (id integer PRIMARY KEY, x integer CHECK (x > 0))")
			db.set(t, "statement_timeout = '200ms'")
			r := sinktest.BeginTables(t, db, []string{"a", "b"})
			r.Flush(`{"id":1,"a.x":1,"b.x":1}`)
			db.Exec(t, "BEGIN")
			db.Exec(t, "SELECT FROM a FOR UPDATE")
			r.Fold(line, `{"id":2,"b.x":-1}`)
			failed := 0
			res, _ := patient(t, r, func(reason string) {
				if failed++; reason == "locked" && failed == 1 {
					db.Exec(t, "COMMIT")
				}
			})
			if failed == 0 || len(res.Refused) != 1 {
				t.Errorf("the flush was retried %d times; %d messages were rejected", failed, len(res.Refused))
			}
			sinktest.Expect(t, db, "SELECT x FROM a", "2")
			sinktest.Expect(t, db, "SELECT line FROM weir_rejects", "3")
		})
	}
}

// TestFlush_StatementTimeoutOfSeveralTables: a batch without kept messages takes too long. If no row of its tables
// needs one of another, it is written in pieces. Otherwise the source is reread; nothing else helps.
func TestFlush_StatementTimeoutOfSeveralTables(t *testing.T) {
	begin := func(t *testing.T) *database {
		db := connect(t, testpg.New(t))
		db.set(t, "statement_timeout = '200ms'")
		return db
	}
	t.Run("pieces", func(t *testing.T) {
		db := begin(t)
		r := sinktest.BeginTables(t, db, []string{"a", "b"})
		for id := range 200 {
			r.Fold(fmt.Sprintf(`{"id":%d,"a.x":"1","b.x":"1"}`, id))
		}
		r.Flush()
		db.Exec(t, "BEGIN")
		db.Exec(t, "SELECT FROM b WHERE id = '150' FOR UPDATE")
		for id := range 200 {
			r.Fold(fmt.Sprintf(`{"id":%d,"a.x":"2","b.x":"2"}`, id))
		}
		_, again := patient(t, r, func(string) { db.Exec(t, "COMMIT") })
		if !slices.Contains(again, "locked") {
			t.Errorf("retried for %v", again)
		}
		sinktest.Expect(t, db, "SELECT count(*) FROM a JOIN b USING (id) WHERE a.x = '2' AND b.x = '2'", "200")
	})
	t.Run("children", func(t *testing.T) {
		db := begin(t)
		m := sinktest.MergedShop(t)
		for i := range m.Tables {
			m.Tables[i].DeleteWhen = nil // otherwise the tables keep their messages
		}
		r := sinktest.BeginNested(t, db, m)
		r.Flush(`{"id":1,"items":[{"sku":"x","qty":1}]}`)
		db.Exec(t, "BEGIN")
		db.Exec(t, "SELECT FROM items FOR UPDATE")
		if _, err := r.TryFlush(`{"id":1,"items":[{"sku":"x","qty":2}]}`); !errors.As(err, new(sink.UnloggedError)) || errors.As(err, new(*sink.Error)) {
			t.Errorf("the flush ended with %v", err)
		}
	})
}

// TestFlush_StoppedRunReleasesItsLocks: if weir is stopped in the middle of a flush, it does not block others for long:
// the server ends its session, after weir's limit or, as here, its own, which is shorter.
func TestFlush_StoppedRunReleasesItsLocks(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text CHECK (a <> 'no'))")
	db.set(t, "idle_in_transaction_session_timeout = '200ms'")
	r := sinktest.Begin(t, db)
	db.set(t, "idle_in_transaction_session_timeout = DEFAULT")
	r.Fold(`{"id":1,"a":"x"}`, `{"id":2,"a":"no"}`)
	f := r.Seal()
	f.BeforeCommit = func([]fold.Reject) error {
		if db.one(t, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND datname = current_database()") == "0" {
			return nil // the transaction has not begun
		}
		f.BeforeCommit = nil // the next session waits for nothing
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := db.conn.Exec(ctx, "INSERT INTO t VALUES (1, 'of another')")
		return err
	}
	var again retries
	if _, err := sinktest.Retry(r.Sink, time.Minute, again.add).Flush(t.Context(), f); err != nil || len(again.reasons) == 0 {
		t.Errorf("tried again for %v, and ended with %v", again.reasons, err)
	}
	sinktest.Expect(t, db, "SELECT id, a FROM t", "1|x")
}
