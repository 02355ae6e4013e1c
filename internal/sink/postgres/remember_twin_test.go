package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// TestFlush_RowsAreAsThoseLookedFor has two databases get the same flushes, of which the one does not look for all rows:
// what it remembers of columns' versions, the other is behind a pooler for; and it compares rows' versions in its MERGE,
// where the other has them in a numeric. Others do the same to both meanwhile. Rows and states are the same after each flush.
func TestFlush_RowsAreAsThoseLookedFor(t *testing.T) {
	for name, made := range map[string]string{
		"plain":       "",
		"partitioned": "PARTITION BY HASH (id); CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
		"trigger": "; CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = 3 THEN RETURN NULL; END IF; NEW.c = coalesce(NEW.c, '') || 'x'; RETURN NEW; END $$;" +
			" CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
		"trigger of versions": "; CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v = NEW.v + 1; RETURN NEW; END $$;" +
			" CREATE TRIGGER f BEFORE UPDATE ON t FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION f()",
	} {
		for _, scope := range []fold.Scope{fold.ColumnScope, fold.RowScope} {
			t.Run(fmt.Sprint(name, ", ", scope), func(t *testing.T) {
				if name != "plain" {
					testcheck.Only(t)
				}
				t.Parallel()
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				rnd := rand.New(rand.NewPCG(seed, 0))
				server := testpg.Start(t)
				var dbs [2]*database
				for i := range dbs {
					dbs[i] = connect(t, server.Database(t))
				}
				types := []string{"integer", "integer"}
				if scope == fold.RowScope {
					types[1] = "numeric"
				} else {
					dbs[1].weir, dbs[1].pooled = testpg.Pool(t, dbs[1].url, "transaction"), true
				}
				for range 8 {
					r := &twins{t: t, rnd: rnd, dbs: dbs, scope: scope}
					r.exec("DROP SCHEMA public CASCADE")
					r.exec("CREATE SCHEMA public")
					for i, db := range dbs {
						db.Exec(t, fmt.Sprintf("CREATE TABLE t (id integer PRIMARY KEY, v %s, a integer CHECK (a >= 0), b text, c text DEFAULT 'dflt', seen timestamptz) %s", types[i], made))
					}
					r.run()
				}
			})
		}
	}
}

// twins are two databases to which the same is done.
type twins struct {
	t     *testing.T
	rnd   *rand.Rand
	dbs   [2]*database
	scope fold.Scope
	runs  [2][2]*sinktest.Run // by database
	did   []string
}

func (r *twins) exec(sql string) {
	for _, db := range r.dbs {
		db.Exec(r.t, sql)
	}
	r.did = append(r.did, sql)
}

func (r *twins) run() {
	for i, db := range r.dbs {
		for n := range r.runs[i] {
			w := sinktest.BeginJob(r.t, db, fmt.Sprint("job ", n), versionedBy(r.scope), func(o *fold.Options) { o.Columns = fold.AddColumns })
			w.Sink = sink.Retry(w.Sink, time.Minute, func(*sink.Error) {})
			r.runs[i][n] = w
		}
	}
	r.flush(0)
	for range 15 {
		if r.rnd.IntN(6) == 0 {
			r.byHand()
		}
		r.flush(min(r.rnd.IntN(4), 1))
	}
	for i := range r.dbs {
		for _, w := range r.runs[i] {
			w.End()
		}
	}
}

// flush has one of the runs flush some lines.
func (r *twins) flush(n int) {
	var lines []string
	for range 1 + r.rnd.IntN(4) {
		lines = append(lines, r.line())
	}
	r.did = append(r.did, fmt.Sprintf("run %d: %s", n, strings.Join(lines, " ")))
	var res [2]sink.Result
	for i := range r.dbs {
		res[i] = r.runs[i][n].Flush(lines...)
	}
	if one, other := res[0].Total(), res[1].Total(); one != other {
		r.t.Errorf("%+v, and where all are looked for %+v", one, other)
	}
	same := []string{"SELECT to_jsonb(t)::text FROM t ORDER BY id", "SELECT count(*) FROM weir_rejects"}
	if r.scope == fold.ColumnScope {
		same = append(same, "SELECT encode(key, 'escape'), encode(state, 'hex'), gone IS NULL FROM weir_versions ORDER BY key",
			"SELECT name, value FROM weir_meta WHERE name LIKE '%versions%' ORDER BY name")
	}
	for _, q := range same {
		if one, other := sinktest.Rows(r.t, r.dbs[0], q), sinktest.Rows(r.t, r.dbs[1], q); !slices.Equal(one, other) {
			r.t.Errorf("%s: %q, and where all are looked for %q", q, one, other)
		}
	}
	if r.t.Failed() {
		r.t.Fatalf("\n%s", strings.Join(r.did, "\n"))
	}
}

// line is a message, mostly newer than those before it.
func (r *twins) line() string {
	id, v := r.rnd.IntN(6), len(r.did)+r.rnd.IntN(3)
	switch r.rnd.IntN(24) {
	case 0:
		v = r.rnd.IntN(v + 1)
	case 1:
		return fmt.Sprintf(`{"id":%d,"v":%d,"op":"delete"}`, id, v)
	case 2:
		return fmt.Sprintf(`{"id":%d,"v":%d,"a":-1,"b":"is rejected"}`, id, v)
	case 3:
		return fmt.Sprintf(`{"id":%d,"v":%d,"new%d":%[2]d}`, id, v, r.rnd.IntN(3))
	case 4:
		return fmt.Sprintf(`{"id":%d,"v":%d,"b":null}`, id, v)
	case 5:
		return fmt.Sprintf(`{"id":%d,"v":%d}`, id, v)
	}
	return fmt.Sprintf(`{"id":%d,"v":%d,"%c":"%[2]d"}`, id, v, "abc"[r.rnd.IntN(3)])
}

// byHand does what somebody may do who knows nothing of weir's states, or wants to be rid of them.
func (r *twins) byHand() {
	id, ways := r.rnd.IntN(6), 7
	if r.scope == fold.ColumnScope {
		ways = 11
	}
	switch r.rnd.IntN(ways) {
	case 0:
		r.exec(fmt.Sprintf("DELETE FROM t WHERE id = %d", id))
	case 1:
		r.exec("TRUNCATE t")
	case 2:
		r.exec(fmt.Sprintf("DELETE FROM t WHERE id = %d", id))
		r.exec(fmt.Sprintf("INSERT INTO t (id, b) VALUES (%d, 'by hand')", id))
	case 3:
		r.exec(fmt.Sprintf("UPDATE t SET id = %d WHERE id = %d AND NOT EXISTS (SELECT FROM t WHERE id = %[1]d)", id, r.rnd.IntN(6)))
	case 4:
		r.exec("UPDATE t SET b = 'by hand'")
	case 5:
		r.exec("SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		r.flush(0)
		r.flush(1)
	case 6:
		r.exec(fmt.Sprintf("UPDATE t SET seen = CASE WHEN id = %d THEN '2000-01-01' ELSE '2100-01-01' END::timestamptz", id))
		for i := range r.dbs {
			r.runs[i][0].Expire(&sink.Expiry{Table: "t", Key: []string{"id"}, Of: []string{"seen"}, Before: time.Now().Add(-time.Hour)})
		}
	case 7:
		r.exec("DELETE FROM weir_versions WHERE key IN (SELECT key FROM weir_versions ORDER BY key LIMIT 2)")
	case 8:
		r.exec("TRUNCATE weir_versions, t")
	case 9:
		r.exec("VACUUM FULL weir_versions")
	case 10:
		r.exec([]string{"VACUUM FREEZE weir_versions", "DROP TABLE weir_versions"}[r.rnd.IntN(2)])
		r.flush(r.rnd.IntN(2))
	}
}
