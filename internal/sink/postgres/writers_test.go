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
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// TestFlush_WaitsForNoLongReader: a change of the table that waits for a long reader would block everybody else.
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
		// and another reader waits behind it, but is answered while the long one still reads.
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

// TestWriters: runs write the same keys at the same time, in different orders, with inserts and deletes.
func TestWriters(t *testing.T) {
	const writers = 4
	flushes := testcheck.Rounds(6, 15)
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
			sinktest.Expect(t, db, "SELECT count(*) FROM weir_checkpoints WHERE job LIKE 'job %' AND seq = "+fmt.Sprint(flushes), "4")
		})
	}
}

// atOnce makes several runs, each with its own job, write at the same time. It returns why flushes were retried.
func atOnce(writers int, begin func(job string) *sinktest.Run, turns int, write func(r *sinktest.Run, rnd *rand.Rand, writer, turn int)) []string {
	var again retries
	var wg sync.WaitGroup
	for w := range writers {
		r := begin(fmt.Sprint("job ", w))
		r.Sink = sinktest.Retry(r.Sink, time.Minute, again.add)
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

// expectNoDeadlock checks that there was no deadlock, and that no flush was retried.
func expectNoDeadlock(t *testing.T, db *database, again []string) {
	t.Helper()
	if n := db.one(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != "0" || len(again) > 0 {
		t.Errorf("%s deadlocks; retried for %v", n, again)
	}
}

// TestWriters_Sets: runs write the sets of the same rows at the same time. Each set is as one of them wrote it, and
// there is no deadlock.
func TestWriters_Sets(t *testing.T) {
	for name, id := range map[string]string{"keys of the feed": "", "generated keys": "oid"} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, testpg.New(t))
			m := sinktest.Generated(t, id, "")
			n := sinktest.BeginNested(t, db, m)
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

// nested returns a function that begins runs of a mapping.
func nested(t *testing.T, db *database, m *mapping.Mapping) func(job string) *sinktest.Run {
	return func(job string) *sinktest.Run { return sinktest.Setup{Job: job, Mapping: m}.Begin(t, db) }
}

// TestWriters_TablesInAnotherOrder: two runs write the sets of two tables, which their mappings list in opposite
// orders. There is no deadlock.
func TestWriters_TablesInAnotherOrder(t *testing.T) {
	const flushes = 300
	db := connect(t, testpg.New(t))
	first := sinktest.BeginNested(t, db, sinktest.Baskets(t, "a", "b"))
	first.Flush(`{"id":1,"a":[{"sku":"x"}],"b":[{"sku":"x"}]}`)
	first.End()
	orders := map[string][]string{"job 0": {"a", "b"}, "job 1": {"b", "a"}}
	again := atOnce(2, func(job string) *sinktest.Run { return nested(t, db, sinktest.Baskets(t, orders[job]...))(job) }, flushes, func(n *sinktest.Run, _ *rand.Rand, w, turn int) {
		n.Flush(fmt.Sprintf(`{"id":1,"a":[{"sku":"%d"}],"b":[{"sku":"%[1]d"}]}`, w*flushes+turn))
	})
	expectNoDeadlock(t, db, again)
	sinktest.Expect(t, db, "SELECT count(DISTINCT s.sku) FROM (SELECT sku FROM a UNION ALL SELECT sku FROM b) s", "1")
}

// TestWriters_OneSet: of two runs that write one set at the same time, one sees what the other wrote.
func TestWriters_OneSet(t *testing.T) {
	db := connect(t, testpg.New(t))
	n := sinktest.BeginNested(t, db, sinktest.Shop(t))
	n.Flush(`{"id":1,"items":[{"sku":"old"}]}`)
	n.End()
	db.Exec(t, "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock_shared(42); RETURN NULL; END $$")
	db.Exec(t, "CREATE TRIGGER waits AFTER DELETE ON items EXECUTE FUNCTION waits()")
	db.Exec(t, "SELECT pg_advisory_lock(42)") // the first to sweep the set waits before its commit
	var wg sync.WaitGroup
	one, other := sinktest.Setup{Job: "one", Mapping: sinktest.Shop(t)}.Begin(t, db), sinktest.Setup{Job: "other", Mapping: sinktest.Shop(t)}.Begin(t, db)
	wg.Go(func() { one.Flush(`{"id":1,"items":[{"sku":"one"}]}`) })
	wg.Go(func() { other.Flush(`{"id":1,"items":[{"sku":"other"}]}`) })
	waitForLocks(t, db, 2)
	db.Exec(t, "SELECT pg_advisory_unlock(42)")
	wg.Wait()
	sinktest.Expect(t, db, "SELECT count(*), bool_or(sku = 'old') FROM items", "1|false")
}

// TestWriters_Piecewise: runs write the same rows of two tables at the same time, each flush with a message that the
// database rejects. Flushes that are written piecewise, in feed order, do not wait for each other's rows.
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
	// A row that another run commits between the statements may be changed without having been locked: the flush is
	// then retried. There is no deadlock.
	if deadlocks := db.one(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); deadlocks != "0" || slices.Contains(again, "deadlock") {
		t.Errorf("%s deadlocks; retried for %v", deadlocks, again)
	}
}

// TestWriters_PiecewiseTakesTurns: while one run writes piecewise, another piecewise flush waits, even for other rows.
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

// TestFlush_Deadlock: another program locks the rows in another order.
func TestFlush_Deadlock(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.set(t, "deadlock_timeout = '50ms'")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":2,"a":"x"}`)
	r.Flush(`{"id":2,"a":"z"}`)
	slow(t, db, "0.5")
	db.Exec(t, "SET deadlock_timeout = '1min'") // so weir, which waits last, detects it
	db.Exec(t, "BEGIN")
	db.Exec(t, "SELECT FROM t WHERE id = 2 FOR UPDATE")
	done := whenAsleep(t, db, func() {
		db.Exec(t, "UPDATE weir_checkpoints SET updated = NULL") // weir's flush holds it
		db.Exec(t, "COMMIT")
	})
	r.Fold(`{"id":2,"a":"y"}`, `{"id":1,"a":"y"}`, "bad") // the new row, which has the first key, takes a while
	r.Flush()
	<-done
	if dead := db.one(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); dead == "0" {
		t.Error("did not exercise: no deadlock")
	}
	sinktest.Expect(t, db, "SELECT id, a FROM t ORDER BY id", "1|y", "2|y")
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "1")
}

// TestFlush_FourMakeOneTable: runs that begin at the same time create and widen one table.
func TestFlush_FourMakeOneTable(t *testing.T) {
	for range testcheck.Rounds(2, 5) { // repeated, because they do not always collide
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

// TestWriters_FirstFlushNextToRejects: two runs have begun before weir's tables existed. One run's first flush, which
// would create them, comes when the other has created them, and is about to store a reject.
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
		r.Sink = sinktest.Retry(r.Sink, time.Minute, again.add)
		flushes.Go(func() {
			if _, err := r.TryFlush(lines...); err != nil {
				t.Error(err)
			}
		})
		waitForLocks(t, db, waiting)
	}
	flush(a, 1, `{"id":2,"c":-1}`, `{"id":5}`)
	flush(b, 2, `{"id":3,"c":-1}`, `{"id":6}`)
	time.Sleep(100 * time.Millisecond) // whoever waits from now on detects the deadlock
	holder.Exec(t, "ROLLBACK")
	flushes.Wait()
	if len(again.reasons) > 0 {
		t.Errorf("tried again for %v", again.reasons)
	}
	sinktest.Expect(t, db, "SELECT count(*) FROM weir_rejects", "2")
	sinktest.Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "5", "6")
}
