package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// TestLanes_OverlappingWritersDoNotDeadlock: runs advance some of the same lanes, each in its own order, and every step
// counts once.
func TestLanes_OverlappingWritersDoNotDeadlock(t *testing.T) {
	const writers, lanes, each, flushes = 4, 50, 8, 30
	db := connect(t, testpg.New(t))
	sinktest.Begin(t, db).Flush(`{"id":1}`)
	// In a large table each lane is looked up, in the order that the flush has them.
	db.Exec(t, `INSERT INTO weir_checkpoints (job, source, seq, run, line, "offset", rejected) SELECT 'job', 'other ' || n, 1, 'run', 1, 1, 0 FROM generate_series(1, 20000) n`)
	db.Exec(t, "ANALYZE weir_checkpoints")
	db.Exec(t, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER slow BEFORE UPDATE ON weir_checkpoints FOR EACH ROW EXECUTE FUNCTION slow()")
	var mu sync.Mutex
	moved := map[string]int64{} // by committed flushes
	fenced := 0
	var again retries
	var wg sync.WaitGroup
	for w := range writers {
		s, c := sinktest.Retry(db.Open(t), time.Minute, again.add), db.Claims(t, "job")
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 2))
			folder := newFolder(t, s, "t")
			for n := range flushes {
				f := &sink.Flush{Batches: []*fold.Batch{{}}, Job: "job", Run: fmt.Sprintf("run %d, flush %d", w, n)}
				var names []string
				for _, i := range rnd.Perm(lanes)[:each] {
					names = append(names, fmt.Sprintf("lane %02d", i))
				}
				at, err := c.Checkpoints(t.Context(), names...)
				if err != nil {
					t.Error(err)
					return
				}
				for i, cp := range at {
					f.Lanes = append(f.Lanes, sink.Lane{Source: names[i], Checkpoint: sink.Checkpoint{Seq: cp.Seq + 1, Line: cp.Line + 1}})
				}
				folder.Seal(f.Batches[0])
				switch _, err := s.Flush(t.Context(), f); {
				case errors.As(err, new(sink.FencedError)):
					mu.Lock()
					fenced++
					mu.Unlock()
				case err != nil:
					t.Error(err)
					return
				default:
					mu.Lock()
					for _, name := range names {
						moved[name]++
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if fenced == 0 {
		t.Error("did not exercise: no two flushes met")
	}
	t.Logf("%d of %d flushes were fenced", fenced, writers*flushes)
	if slices.Contains(again.reasons, "deadlock") {
		t.Errorf("tried again for %v", again.reasons)
	}
	sinktest.Expect(t, db, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()", "0")
	var want []string
	for name, n := range moved {
		want = append(want, fmt.Sprintf("%s|%d|%d", name, n, n))
	}
	slices.Sort(want)
	sinktest.Expect(t, db, "SELECT source, seq, line FROM weir_checkpoints WHERE source LIKE 'lane%' ORDER BY source", want...)
}

// newFolder returns a fold for a table.
func newFolder(t testing.TB, s sink.Sink, table string, change ...func(*fold.Options)) *sinktest.Folder {
	t.Helper()
	known, err := sink.Table(t.Context(), s.Tables, table, []string{"id"})
	testcheck.NoError(t, err)
	o := fold.Options{Key: []string{"id"}, Rules: fold.Rules{MaxColumns: 500, UnknownFields: fold.AddUnknown}, Limits: s.Caps().Limits, Log: logtest.New(t)}
	for _, c := range change {
		c(&o)
	}
	return sinktest.NewFolder(known, o, "")
}

// TestLanes_FlushWritesOneRowOfWeirs: a flush of a known source writes only its checkpoint in weir's tables, so it
// waits for no flush of another lane.
func TestLanes_FlushWritesOneRowOfWeirs(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	writers := func() (last []string) {
		for _, table := range []string{"weir_checkpoints", "weir_meta", "weir_jobs", "weir_rejects"} {
			last = append(last, db.one(t, "SELECT coalesce(max(xmin::text::bigint), 0) FROM "+table))
		}
		return last
	}
	before := writers()
	r.Flush(`{"id":1,"a":"y"}`)
	if after := writers(); after[0] == before[0] || !slices.Equal(after[1:], before[1:]) {
		t.Errorf("the last transactions of weir's tables were %s and are %s", before, after)
	}
}

// TestLanes_TablesThatTakeTurns: a flush takes one round trip even if the tables alternate.
func TestLanes_TablesThatTakeTurns(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	s := db.Open(t)
	folders := map[string]*sinktest.Folder{"t": newFolder(t, s, "t"), "u": newFolder(t, s, "u")}
	for n := range 6 {
		for table, folder := range folders {
			f := &sink.Flush{Batches: []*fold.Batch{{}}, Job: "job", Run: "run",
				Lanes: []sink.Lane{{Source: table + ".jsonl", Checkpoint: sink.Checkpoint{Seq: int64(n + 1)}}}}
			testcheck.NoError(t, folder.Fold(f.Batches[0], fmt.Appendf(nil, `{"id":%d,"%s":%d,"n":%[3]d}`, n%2, table, n), fold.Place{Line: int64(n)}))
			folder.Seal(f.Batches[0])
			p.Cut(nil)
			if _, err := s.Flush(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			if c := p.Count(); n > 2 && c.Answers != 1 { // the staging tables exist
				t.Errorf("flush %d of table %s was answered %d times", n, table, c.Answers)
			}
		}
	}
	for table := range folders {
		sinktest.Expect(t, db, "SELECT id, "+table+", n FROM "+table+" ORDER BY id", "0|4|4", "1|5|5")
	}
}
