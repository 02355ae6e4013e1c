package job_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
)

// TestSync_FaultyDatabase: whichever calls fail, before they do something or after, the table
// is the fold, and each bad line is kept once.
func TestSync_FaultyDatabase(t *testing.T) {
	sinktest.Seeds(t, 5, func(t *testing.T, rnd *rand.Rand) {
		feed := randomFeed(rnd, 300)
		dir := t.TempDir()
		var sources []string
		for lines := range slices.Chunk(feed, 100) {
			path := filepath.Join(dir, fmt.Sprintf("%d.jsonl", len(sources)))
			write(t, path, lines)
			sources = append(sources, path)
		}
		want, bad := plainFold(feed)
		rejects, err := job.ParseRejects("table")
		if err != nil {
			t.Fatal(err)
		}
		seed := rnd.Uint64()
		for kind, dest := range destinations(t) {
			t.Run(kind, func(t *testing.T) {
				db := openSink(t, dest)
				defer db.Close()
				var failed atomic.Int64
				faults, onRetry := sinktest.RandomFaults(rand.New(rand.NewPCG(seed, 1))), func(*sink.Error) { failed.Add(1) }
				err := job.Run(t.Context(), job.Config{
					Sources: sources, Job: "t", BatchRows: 15, Buffer: 1 << 24, Rejects: rejects, MaxRejects: 1 << 30,
					Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 500}}},
					Log:    logtest.New(t),
				}, sink.Retry(sinktest.Faulty(db, faults), time.Minute, onRetry),
					sink.RetryClaims(sinktest.FaultyClaims(openClaims(t, dest), faults), time.Minute, onRetry), progress.New("t"))
				if err != nil {
					t.Fatal(err)
				}
				if failed.Load() == 0 {
					t.Error("did not exercise: no call failed")
				}
				compare(t, dest, want)
				if n := query(t, dest, "SELECT count(*) || ' ' || count(DISTINCT source || line) FROM weir_rejects"); n != fmt.Sprint(bad, " ", bad) {
					t.Errorf("rejected lines, and different ones: %s, want %d", n, bad)
				}
			})
		}
	})
}
