package postgres_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// BenchmarkWriters: runs write rows of one table with versions at the same time, each its own rows. In an operation
// each writes newer versions of 5,000 rows. If they took turns, four would write at the rate of one.
func BenchmarkWriters(b *testing.B) {
	for _, writers := range []int{1, 4} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			const rows = 5000
			url := testpg.New(b)
			runs := make([]*benchRun, writers)
			write := func(w, version int) {
				runs[w].flush(b, rows, version, func(n int) []byte {
					return fmt.Appendf(nil, `{"id":%d,"v":%d,"a":"value %[2]d","b":"another %[2]d"}`, w*rows+n, version)
				})
			}
			for w := range runs {
				runs[w] = newBenchRun(b, url, fmt.Sprint("job ", w), versionedBy(fold.ColumnScope))
				write(w, 0)
				write(w, 1)
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for w := range runs {
				wg.Go(func() {
					for n := range b.N {
						write(w, n+2)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*writers*rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkVersions: flushes change 20,000 rows of 20 text columns in turn without versions, with row versions, and
// with column versions. Figures are medians of the server process's CPU time, and of the ratio to no versions.
func BenchmarkVersions(b *testing.B) {
	const rows = 20_000
	server := testpg.Start(b, "fsync=on", "shared_buffers=256MB", "max_wal_size=8GB", "checkpoint_timeout=1h", "autovacuum=off")
	names := []string{"none", "rows", "columns"}
	runs := map[string]*benchRun{}
	for name, change := range map[string][]func(*fold.Options){"none": nil, "rows": {versionedBy(fold.RowScope)}, "columns": {versionedBy(fold.ColumnScope)}} {
		runs[name] = newBenchRun(b, server.Database(b), "job", change...)
	}
	used, ratios := map[string][]float64{}, map[string][]float64{}
	version := 0
	flush := func(name string) float64 {
		return runs[name].flush(b, rows, version, func(n int) []byte {
			line := fmt.Appendf(nil, `{"id":"row %d","v":%d`, n, version)
			for c := range 20 {
				line = fmt.Appendf(line, `,"c%d":"value %d"`, c, version*c)
			}
			return append(line, '}')
		}) / rows
	}
	for ; version < 3; version++ { // the first of each kind is not measured
		for _, name := range names {
			flush(name)
		}
	}
	for b.Loop() {
		for _, name := range names {
			used[name] = append(used[name], flush(name))
			ratios[name] = append(ratios[name], used[name][len(used[name])-1]/used["none"][len(used["none"])-1])
		}
		version++
	}
	for _, name := range names {
		b.ReportMetric(median(used[name]), name+"-µs/row")
		b.ReportMetric(median(ratios[name]), name+"-ratio")
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// A benchRun writes newer versions of the same rows repeatedly.
type benchRun struct {
	db     *postgres.DB
	pid    int // the server process's
	folder *sinktest.Folder
	f      *sink.Flush
}

func newBenchRun(b *testing.B, url, job string, change ...func(*fold.Options)) *benchRun {
	db, err := postgres.Open(b.Context(), url, sink.Options{Level: sink.Full, Log: logtest.New(b)})
	testcheck.NoError(b, err)
	b.Cleanup(func() { db.Close() })
	conn, err := pgx.Connect(b.Context(), url)
	testcheck.NoError(b, err)
	defer conn.Close(b.Context())
	r := &benchRun{db: db, folder: newFolder(b, db, "t", change...)}
	const last = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'weir%' AND datname = current_database() ORDER BY backend_start DESC LIMIT 1"
	testcheck.NoError(b, conn.QueryRow(b.Context(), last).Scan(&r.pid))
	r.f = &sink.Flush{Batches: []*fold.Batch{{}}, Job: job, Run: "run", Lanes: []sink.Lane{{Source: "feed"}}}
	return r
}

// flush writes a version of some rows and returns the server process's CPU time for it, in µs.
func (r *benchRun) flush(b *testing.B, rows, version int, line func(n int) []byte) float64 {
	r.f.Batches[0].Reset()
	for n := range rows {
		if err := r.folder.Fold(r.f.Batches[0], line(n), fold.Place{Line: int64(version*rows + n)}); err != nil {
			b.Error(err)
		}
	}
	r.folder.Seal(r.f.Batches[0])
	r.f.Lanes[0].Checkpoint.Seq++
	cpu := func() (ns float64) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", r.pid)) // 0 if the system does not have it
		_, _ = fmt.Sscan(string(stat), &ns)
		return ns / 1e3
	}
	was := cpu()
	res, err := r.db.Flush(b.Context(), r.f)
	if got := res.Total(); err != nil || version > 0 && got.Updated != int64(rows) {
		b.Errorf("%+v, %v", got, err)
	}
	return cpu() - was
}
