package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// takeOver has a run take a lane over, patiently.
func takeOver(t *testing.T, c sink.Claims, run, lane string) sink.Checkpoint {
	t.Helper()
	var found []sink.Checkpoint
	err := sink.Patiently(t.Context(), 30*time.Second, func(e *sink.Error) { t.Log(e) }, func() (err error) {
		found, err = c.(sink.GroupClaims).TakeOver(t.Context(), run, lane)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

// TestTakeOver_Fences: who takes a lane over continues where the last one has committed, and that
// one writes no more.
func TestTakeOver_Fences(t *testing.T) {
	t.Parallel()
	db := connect(t, testpg.New(t))
	var begun sync.WaitGroup
	for i := range 4 { // weir's tables are made by one of them
		claims := db.Claims(t, "job").(sink.GroupClaims)
		begun.Go(func() {
			lanes := []sink.Lane{{Source: "a", Checkpoint: sink.Checkpoint{Offset: 7, Mark: `{}`}}, {Source: "b"}}
			err := sink.Patiently(t.Context(), time.Minute, func(e *sink.Error) { t.Log(e) }, func() error { return claims.Begin(t.Context(), fmt.Sprint(i), lanes) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	ids := map[string]bool{}
	for range 2 {
		id, err := db.Claims(t, "job").(sink.GroupClaims).Database(t.Context())
		if ids[id] = true; err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 1 || ids[""] {
		t.Errorf("the database is called %v", ids)
	}
	first, second := db.Claims(t, "job"), db.Claims(t, "job")
	if cp := takeOver(t, first, "first", "a"); cp.Seq != 2 || cp.Offset != 7 || cp.Mark != "{}" {
		t.Errorf("the checkpoint is %+v", cp)
	}
	if cp := takeOver(t, second, "second", "a"); cp.Seq != 3 || len(cp.Run) != 1 || cp.Offset != 7 {
		t.Errorf("the checkpoint is %+v", cp)
	}
	sinktest.Expect(t, db, `SELECT source, seq, run LIKE 'second _', "offset" FROM weir_checkpoints ORDER BY 1`, "a|3|true|7", "b|1|false|0")
}

// TestTakeOver_LostAnswers: whatever answer is lost, the next try has the same checkpoint, and the run
// that wrote it.
func TestTakeOver_LostAnswers(t *testing.T) {
	t.Parallel()
	url := testpg.New(t)
	p := testpg.NewProxy(t, url)
	direct, db := connect(t, url), connect(t, p.URL())
	if err := direct.Claims(t, "job").(sink.GroupClaims).Begin(t.Context(), "writer", []sink.Lane{{Source: "a"}}); err != nil {
		t.Fatal(err)
	}
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

// TestTakeOver_StoppedInTransaction: a flush whose weir is stopped in the middle holds the lane
// until its session is ended; one that the server works on is waited for.
func TestTakeOver_StoppedInTransaction(t *testing.T) {
	t.Parallel()
	url := testpg.New(t)
	db := connect(t, url)
	claims := db.Claims(t, "job")
	if err := claims.(sink.GroupClaims).Begin(t.Context(), "run", []sink.Lane{{Source: "a"}}); err != nil {
		t.Fatal(err)
	}
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
	sinktest.Expect(t, db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir/job' AND state = 'idle in transaction'", "0")
}
