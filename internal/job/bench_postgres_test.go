package job_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// used is what a statement or a flush took of a server.
type used struct {
	wall, cpu time.Duration // the latter of its backend
	log       int64         // bytes
}

// BenchmarkFlush_OfCopy holds flushes into Postgres against a bare COPY of the rows into an empty table with the
// key, in turns: of-copy is the ratio of the rates. All figures are medians.
func BenchmarkFlush_OfCopy(b *testing.B) {
	first, second, third := folded(b, distinct(b, 1)), folded(b, distinct(b, 2)), folded(b, distinct(b, 3))
	lines := copyLines(first)
	for _, c := range []struct {
		name string
		want sink.Counts
		all  []*fold.Batch // the last one is measured
	}{
		{"insert", sink.Counts{Inserted: benchRows}, []*fold.Batch{first}},
		{"update", sink.Counts{Updated: benchRows}, []*fold.Batch{first, second, third}},
		// By a MERGE, then without one.
		{"unchanged", sink.Counts{Unchanged: benchRows}, []*fold.Batch{first, second, second}},
		{"repeated", sink.Counts{Unchanged: benchRows}, []*fold.Batch{first, first, first}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkOfCopy(b, lines, c.want, c.all) })
	}
}

func benchmarkOfCopy(b *testing.B, lines []byte, want sink.Counts, batches []*fold.Batch) {
	server := testpg.Start(b, "fsync=on", "shared_buffers=256MB", "max_wal_size=8GB", "checkpoint_timeout=1h", "autovacuum=off")
	conn, err := pgx.Connect(b.Context(), server.Database(b))
	testcheck.NoError(b, err)
	defer conn.Close(context.Background())
	exec := func(sql string) {
		if _, err := conn.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	var flushed, copied []used
	var ratios []float64
	for b.Loop() {
		exec("DROP TABLE IF EXISTS t")
		exec(postgres.Create(&batches[0].Table))
		c := measure(b, conn, conn.PgConn().PID(), func() {
			if _, err := conn.PgConn().CopyFrom(b.Context(), bytes.NewReader(lines), "COPY t FROM STDIN"); err != nil {
				b.Fatal(err)
			}
		})
		f := measureFlush(b, conn, server.Database(b), want, batches)
		copied, flushed, ratios = append(copied, c), append(flushed, f), append(ratios, float64(c.wall)/float64(f.wall))
	}
	b.ReportMetric(median(ratios), "of-copy")
	for name, all := range map[string][]used{"": flushed, "copy-": copied} {
		report := func(unit string, of func(used) float64) {
			values := make([]float64, len(all))
			for i, u := range all {
				values[i] = of(u) / benchRows
			}
			b.ReportMetric(median(values), name+unit)
		}
		report("wall-µs/row", func(u used) float64 { return float64(u.wall) / 1e3 })
		report("backend-µs/row", func(u used) float64 { return float64(u.cpu) / 1e3 })
		report("WAL-B/row", func(u used) float64 { return float64(u.log) })
	}
}

// measureFlush measures the last of some flushes into a new database.
func measureFlush(b *testing.B, conn *pgx.Conn, url string, want sink.Counts, batches []*fold.Batch) (last used) {
	db, err := postgres.Open(b.Context(), url, sink.Options{Level: sink.Full, Log: logtest.New(b)})
	testcheck.NoError(b, err)
	defer db.Close()
	var pid uint32
	testcheck.NoError(b, conn.QueryRow(b.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'weir%' ORDER BY backend_start DESC LIMIT 1").Scan(&pid))
	if _, err := sink.Table(b.Context(), db.Tables, "t", []string{"id"}); err != nil {
		b.Fatal(err)
	}
	var res sink.Result
	for i, batch := range batches {
		last = measure(b, conn, pid, func() {
			res, err = db.Flush(b.Context(), &sink.Flush{Batches: []*fold.Batch{batch}, Job: "j", Run: "r", Lanes: []sink.Lane{{Source: "s", Checkpoint: sink.Checkpoint{Seq: int64(i + 1)}}}})
		})
		testcheck.NoError(b, err)
	}
	if got := res.Total(); got != want {
		b.Fatalf("%+v", got)
	}
	return last
}

// measure runs what a backend has to do.
func measure(b *testing.B, conn *pgx.Conn, pid uint32, do func()) used {
	log := func() (n int64) {
		testcheck.NoError(b, conn.QueryRow(b.Context(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n))
		return n
	}
	cpu := func() (ns time.Duration) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)) // 0 where the system has none
		_, _ = fmt.Sscan(string(stat), &ns)
		return ns
	}
	was, used, start := log(), used{cpu: -cpu()}, time.Now()
	do()
	used.wall = time.Since(start)
	used.cpu += cpu()
	used.log = log() - was
	return used
}

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// copyLines are the rows of a batch of a feed without escapes, as a COPY takes them.
func copyLines(batch *fold.Batch) []byte {
	var lines bytes.Buffer
	for _, r := range batch.Sorted() {
		values := make([]string, len(batch.Table.Columns))
		for i := range values {
			values[i] = `\N`
			if v := batch.Value(r, i); v != nil {
				values[i] = string(bytes.Trim(v, `"`))
			}
		}
		lines.WriteString(strings.Join(values, "\t") + "\n")
	}
	return lines.Bytes()
}
