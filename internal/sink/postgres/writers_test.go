package postgres_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestFlush_WaitsForNoLongReader: a change of the table behind a long reader
// would hold up everybody else.
func TestFlush_WaitsForNoLongReader(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	long, other := connect(t, db.url), connect(t, db.url)
	long.Exec(t, "BEGIN")
	long.Exec(t, "SELECT * FROM t")
	r.Fold(`{"id":1,"b":"new"}`)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		waitForLocks(t, db, 1) // weir's ALTER TABLE waits for the long reader,
		// and another reader behind it, which is answered while the long one still reads.
		if _, err := other.conn.Exec(t.Context(), "SET statement_timeout = '1min'; SELECT * FROM t", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Errorf("a reader waits behind weir: %v", err)
		}
		long.Exec(t, "COMMIT")
	}()
	_, again := patient(t, r)
	<-ended
	if !slices.Contains(again, "locked") {
		t.Errorf("did not exercise: retried for %v", again)
	}
	sinktest.Expect(t, db, "SELECT b FROM t", "new")
}

// TestWriters has runs write the same keys at once, in their own orders,
// with rows that come and go.
func TestWriters(t *testing.T) {
	const writers, flushes = 4, 15
	for _, c := range []struct {
		level         string
		keys, deletes int // one in this many messages deletes
	}{{"read committed", 6000, 1 << 30}, {"read committed", 3000, 50}, {"serializable", 300, 50}} {
		t.Run(fmt.Sprint(c.level, c.keys), func(t *testing.T) {
			db := connect(t, testpg.New(t))
			db.set(t, "default_transaction_isolation = '"+c.level+"'")
			first := sinktest.Begin(t, db)
			for k := range c.keys {
				first.Fold(fmt.Sprintf(`{"id":"k%d","a":"x","b":"x","c":"x","d":"x"}`, k))
			}
			first.Flush()
			first.End()
			again := atOnce(writers, func(job string) *sinktest.Run { return sinktest.BeginJob(t, db, job) }, flushes, func(r *sinktest.Run, rnd *rand.Rand, w, n int) {
				for range c.keys {
					k := rnd.IntN(c.keys)
					if rnd.IntN(c.deletes) == 1 {
						r.Fold(fmt.Sprintf(`{"id":"k%d","op":"delete"}`, k))
					} else {
						r.Fold(fmt.Sprintf(`{"id":"k%d","%c":"%d"}`, k, "abcd"[w], n))
					}
				}
				r.Flush()
			})
			expectNoDeadlock(t, db, again)
			sinktest.Expect(t, db, "SELECT count(*) FROM weir_checkpoints WHERE job LIKE 'job %' AND seq = 15", "4")
		})
	}
}

// atOnce has several runs, each of a job of its own, take turns at the same time. It returns why flushes were retried.
func atOnce(writers int, begin func(job string) *sinktest.Run, turns int, write func(r *sinktest.Run, rnd *rand.Rand, writer, turn int)) []string {
	var again retries
	var wg sync.WaitGroup
	for w := range writers {
		r := begin(fmt.Sprint("job ", w))
		r.Sink = sink.Retry(r.Sink, time.Minute, again.add)
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for n := range turns {
				write(r, rnd, w, n)
			}
		})
	}
	wg.Wait()
	return again.reasons
}

// expectNoDeadlock demands that nobody waited in a circle, and that no flush was retried.
func expectNoDeadlock(t *testing.T, db *database, again []string) {
	t.Helper()
	if n := db.one(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != "0" || len(again) > 0 {
		t.Errorf("%s deadlocks; retried for %v", n, again)
	}
}

// TestWriters_Sets has runs write the sets of the same rows at once: each set is as one of them wrote
// it, and nobody waits in a circle.
func TestWriters_Sets(t *testing.T) {
	for name, id := range map[string]string{"keys of the feed": "", "generated keys": "oid"} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			m := sinktest.Shop(t)
			m.Tables[0].ID = id
			n := sinktest.BeginNested(t, db, m, false)
			n.Flush(`{"id":0,"items":[{"sku":"x","taxes":[{"code":"a"}]}]}`)
			n.Flush(`{"id":1}`, `{"id":2}`, `{"id":3}`)
			n.End()
			again := atOnce(3, nested(t, db, m), 40, func(n *sinktest.Run, rnd *rand.Rand, w, turn int) {
				value := w*1000 + turn
				for range 3 {
					items := fmt.Sprintf(`{"sku":"%d","qty":%d,"taxes":[{"code":"a"}]}`, rnd.IntN(8), value)
					for range rnd.IntN(3) {
						items += fmt.Sprintf(`,{"sku":"%d","qty":%d}`, rnd.IntN(8), value)
					}
					n.Fold(fmt.Sprintf(`{"id":%d,"items":[%s]}`, 1+rnd.IntN(3), items))
				}
				n.Flush()
			})
			expectNoDeadlock(t, db, again)
			key := cmp.Or(id, "order_id")
			sinktest.Expect(t, db, "SELECT "+key+", min(qty), max(qty) FROM items GROUP BY 1 HAVING min(qty) <> max(qty)")
		})
	}
}

// nested begins runs of a mapping.
func nested(t *testing.T, db *database, m *mapping.Mapping) func(job string) *sinktest.Run {
	return func(job string) *sinktest.Run { return sinktest.BeginNestedJob(t, db, job, m, false) }
}

// TestWriters_TablesInAnotherOrder has two runs write the sets of two tables, which their mappings name in opposite
// orders: nobody waits in a circle.
func TestWriters_TablesInAnotherOrder(t *testing.T) {
	const flushes = 300
	db := connect(t, testpg.New(t))
	first := sinktest.BeginNested(t, db, sinktest.Baskets(t, "a", "b"), false)
	first.Flush(`{"id":1,"a":[{"sku":"x"}],"b":[{"sku":"x"}]}`)
	first.End()
	orders := map[string][]string{"job 0": {"a", "b"}, "job 1": {"b", "a"}}
	again := atOnce(2, func(job string) *sinktest.Run { return nested(t, db, sinktest.Baskets(t, orders[job]...))(job) }, flushes, func(n *sinktest.Run, _ *rand.Rand, w, turn int) {
		n.Flush(fmt.Sprintf(`{"id":1,"a":[{"sku":"%d"}],"b":[{"sku":"%[1]d"}]}`, w*flushes+turn))
	})
	expectNoDeadlock(t, db, again)
	sinktest.Expect(t, db, "SELECT count(DISTINCT s.sku) FROM (SELECT sku FROM a UNION ALL SELECT sku FROM b) s", "1")
}

// TestWriters_OneSet: of two runs that write one set at once, one finds what the other wrote.
func TestWriters_OneSet(t *testing.T) {
	db := connect(t, testpg.New(t))
	n := sinktest.BeginNested(t, db, sinktest.Shop(t), false)
	n.Flush(`{"id":1,"items":[{"sku":"old"}]}`)
	n.End()
	db.Exec(t, "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock_shared(42); RETURN NULL; END $$")
	db.Exec(t, "CREATE TRIGGER waits AFTER DELETE ON items EXECUTE FUNCTION waits()")
	db.Exec(t, "SELECT pg_advisory_lock(42)") // who has swept the set first waits before its commit
	var wg sync.WaitGroup
	one, other := sinktest.BeginNestedJob(t, db, "one", sinktest.Shop(t), false), sinktest.BeginNestedJob(t, db, "other", sinktest.Shop(t), false)
	wg.Go(func() { one.Flush(`{"id":1,"items":[{"sku":"one"}]}`) })
	wg.Go(func() { other.Flush(`{"id":1,"items":[{"sku":"other"}]}`) })
	waitForLocks(t, db, 2)
	db.Exec(t, "SELECT pg_advisory_unlock(42)")
	wg.Wait()
	sinktest.Expect(t, db, "SELECT count(*), bool_or(sku = 'old') FROM items", "1|false")
}

// TestWriters_Piecewise has runs write the same rows of two tables at once, each flush with a message
// that the database rejects: those that are written piecewise, in the order of the feed, wait for no
// row of another.
func TestWriters_Piecewise(t *testing.T) {
	const flushes = 12
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE orders (id integer PRIMARY KEY, status text)")
	db.Exec(t, "CREATE TABLE extra (id integer PRIMARY KEY, n integer CHECK (n >= 0))")
	m := sinktest.Shop(t)
	extra := m.Tables[0]
	extra.Name, extra.Columns = "extra", nil
	m.Tables = append(m.Tables[:1], extra)
	again := atOnce(3, nested(t, db, m), flushes, func(n *sinktest.Run, rnd *rand.Rand, writer, turn int) {
		for range 60 {
			n.Fold(fmt.Sprintf(`{"id":%d,"status":"%d","n":%[2]d}`, rnd.IntN(60), writer*1000+turn))
		}
		if res := n.Flush(fmt.Sprintf(`{"id":%d,"n":-1}`, 100+writer)); len(res.Refused) != 1 {
			t.Errorf("rejected: %v", res.Refused)
		}
	})
	// What another run commits between the statements may be changed without having been locked: a
	// flush is retried then. Nobody waits in a circle.
	if deadlocks := db.one(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); deadlocks != "0" || slices.Contains(again, "deadlock") {
		t.Errorf("%s deadlocks; retried for %v", deadlocks, again)
	}
}

// TestWriters_PiecewiseTakesTurns: while one run writes piecewise, another one that does waits, though its rows are others.
func TestWriters_PiecewiseTakesTurns(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, n integer CHECK (n >= 0))")
	one, other := sinktest.BeginJob(t, db, "one"), sinktest.BeginJob(t, db, "other")
	one.Flush(`{"id":1,"n":0}`)
	other.Flush(`{"id":1,"n":0}`)
	holder := connect(t, db.url)
	holder.Exec(t, "BEGIN")
	holder.Exec(t, "SELECT FROM t WHERE id = 1 FOR UPDATE")
	var wg sync.WaitGroup
	wg.Go(func() { one.Flush(`{"id":0,"n":-1}`, `{"id":1,"n":1}`) })
	waitForLocks(t, db, 1)
	wg.Go(func() { other.Flush(`{"id":0,"n":-1}`, `{"id":2,"n":1}`) })
	db.until(t, "SELECT count(*) = 2 OR EXISTS (SELECT FROM t WHERE id = 2) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	sinktest.Expect(t, db, "SELECT * FROM t", "1|0")
	holder.Exec(t, "COMMIT")
	wg.Wait()
	sinktest.Expect(t, db, "SELECT * FROM t ORDER BY id", "1|1", "2|1")
}

// TestWriters_ExpiriesLockInTheOrderOfFlushes: of a composite key that is 10 before 9, so an expiry that waits for
// 10 does not hold 9.
func TestWriters_ExpiriesLockInTheOrderOfFlushes(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (n integer, id integer, at timestamp DEFAULT '2020-05-15', PRIMARY KEY (n, id))")
	db.Exec(t, "INSERT INTO t VALUES (9, 1), (10, 1)")
	r := sinktest.BeginTable(t, db, "t", "n", "id")
	db.Exec(t, "BEGIN")
	db.Exec(t, "SELECT FROM t WHERE n = 10 FOR UPDATE")
	var wg sync.WaitGroup
	wg.Go(func() {
		if all := r.Expire(&sink.Expiry{Table: "t", Key: []string{"n", "id"}, Of: []string{"at"}, Before: time.Now()}); all.Removed != 2 {
			t.Errorf("%+v", all)
		}
	})
	waitForLocks(t, db, 1)
	if free := db.one(t, "SELECT count(*) FROM (SELECT FROM t WHERE n = 9 FOR UPDATE SKIP LOCKED) x"); free != "1" {
		t.Error("it holds 9")
	}
	db.Exec(t, "COMMIT")
	wg.Wait()
}

// TestFlush_Deadlock: another program takes the rows in its own order.
func TestFlush_Deadlock(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.Exec(t, "ALTER TABLE t ENABLE ROW LEVEL SECURITY") // so that there is no MERGE, after which weir would try again by itself
	db.set(t, "deadlock_timeout = '50ms'")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":2,"a":"x"}`)
	r.Flush(`{"id":2,"a":"z"}`)
	slow(t, db, "0.5")
	db.Exec(t, "SET deadlock_timeout = '1min'") // so that weir, which waits last, is who sees it
	db.Exec(t, "BEGIN")
	db.Exec(t, "SELECT FROM t WHERE id = 2 FOR UPDATE")
	done := whenAsleep(t, db, func() {
		db.Exec(t, "UPDATE weir_checkpoints SET updated = NULL") // which weir's flush holds by now
		db.Exec(t, "COMMIT")
	})
	r.Fold(`{"id":2,"a":"y"}`, `{"id":1,"a":"y"}`, "bad") // the new row, which is first by its key, takes a while
	_, again := patient(t, r)
	if <-done; !slices.Contains(again, "deadlock") {
		t.Errorf("did not exercise: tried again for %v", again)
	}
	sinktest.Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|y", "2|y")
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "1")
}

// TestFlush_FourMakeOneTable: runs that begin at once make and widen one table.
func TestFlush_FourMakeOneTable(t *testing.T) {
	for range 5 { // it takes luck for them to meet
		for _, name := range []string{"plain", "versions"} {
			t.Run(name, func(t *testing.T) { fourMakeOneTable(t, kinds[name].change) })
		}
	}
}

func fourMakeOneTable(t *testing.T, change []func(*fold.Options)) {
	db := connect(t, testpg.New(t))
	again := atOnce(4, func(job string) *sinktest.Run { return sinktest.BeginJob(t, db, job, change...) }, 10, func(r *sinktest.Run, _ *rand.Rand, w, n int) {
		r.Fold(fmt.Sprintf(`{"id":%d,"all":%d,"own%[1]d":%[2]d,"new%[2]d":"x","v":%[2]d}`, w, n))
		if n == 5 {
			r.Fold(fmt.Sprintf(`{"id":%d,"all":1.5,"v":5}`, w+10))
		}
		r.Flush()
	})
	t.Logf("retried for %v", again)
	sinktest.Expect(t, db, "SELECT reason, raw FROM weir_rejects")
	sinktest.Expect(t, db, "SELECT id, \"all\", new0, new9, coalesce(own0, own1, own2, own3) FROM t ORDER BY id",
		"0|9|x|x|9", "1|9|x|x|9", "2|9|x|x|9", "3|9|x|x|9",
		"10|1.5|NULL|NULL|NULL", "11|1.5|NULL|NULL|NULL", "12|1.5|NULL|NULL|NULL", "13|1.5|NULL|NULL|NULL")
}

// TestWriters_DeletesInSeveralTables: a flush that deletes from one of several tables locks rows before it
// inserts; one that deletes from none does both in the order of the keys. One of them is sent again, and takes
// a turn of its own; the run does not notice.
func TestWriters_DeletesInSeveralTables(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE orders (id integer PRIMARY KEY, status text)")
	m := sinktest.Shop(t)
	extra := m.Tables[0]
	extra.Name, extra.Columns = "extra", nil
	m.Tables = append(m.Tables[:1], extra)
	a, b := sinktest.BeginNestedJob(t, db, "a", m, false), sinktest.BeginNestedJob(t, db, "b", m, false)
	for i := range 2 {
		a.Flush(fmt.Sprintf(`{"id":3,"status":"a%d"}`, i), fmt.Sprintf(`{"id":9,"status":"a%d"}`, i))
		b.Flush(fmt.Sprintf(`{"id":3,"status":"b%d"}`, i))
	}
	db.Exec(t, "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 1 THEN PERFORM pg_advisory_lock_shared(42); END IF; RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER waits BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION waits()")
	db.Exec(t, "SELECT pg_advisory_lock(42)")
	var again retries
	var flushes sync.WaitGroup
	flush := func(r *sinktest.Run, lines ...string) {
		r.Sink = sink.Retry(r.Sink, time.Minute, again.add)
		flushes.Go(func() { r.Flush(lines...) })
	}
	flush(a, `{"id":1,"status":"a"}`, `{"id":2,"status":"a"}`, `{"id":3,"status":"a"}`, `{"id":9,"op":"delete"}`)
	waitForLocks(t, db, 1) // a holds rows 3 and 9
	flush(b, `{"id":2,"status":"b"}`, `{"id":3,"status":"b"}`)
	waitForLocks(t, db, 2) // and b the new row 2
	db.Exec(t, "SELECT pg_advisory_unlock(42)")
	flushes.Wait()
	if len(again.reasons) > 0 {
		t.Errorf("tried again for %v", again.reasons)
	}
	sinktest.Expect(t, db, "SELECT count(*), count(DISTINCT status) FROM orders WHERE id IN (2, 3)", "2|1")
}

// TestWriters_FirstFlushNextToRejects: two runs have begun before weir's tables were there. The first flush of one
// of them, which would make them, comes when the other has made them, and is about to keep a reject.
func TestWriters_FirstFlushNextToRejects(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.set(t, "deadlock_timeout = '20ms'")
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, c integer CHECK (c >= 0))")
	a, b := sinktest.BeginJob(t, db, "a"), sinktest.BeginJob(t, db, "b")
	a.Flush(`{"id":1}`)
	holder := connect(t, db.url)
	holder.Exec(t, "BEGIN")
	holder.Exec(t, "INSERT INTO t (id) VALUES (5)")
	var again retries
	var flushes sync.WaitGroup
	flush := func(r *sinktest.Run, waiting int, lines ...string) {
		r.Sink = sink.Retry(r.Sink, time.Minute, again.add)
		flushes.Go(func() {
			if _, err := r.TryFlush(lines...); err != nil {
				t.Error(err)
			}
		})
		waitForLocks(t, db, waiting)
	}
	flush(a, 1, `{"id":2,"c":-1}`, `{"id":5}`)
	flush(b, 2, `{"id":3,"c":-1}`, `{"id":6}`)
	time.Sleep(100 * time.Millisecond) // who waits from now on finds the deadlock
	holder.Exec(t, "ROLLBACK")
	flushes.Wait()
	if len(again.reasons) > 0 {
		t.Errorf("tried again for %v", again.reasons)
	}
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "2")
	sinktest.Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "5", "6")
}
