package postgres_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/testpg"
)

// BenchmarkWriters has runs write rows of one table with versions, each its own, at once: in an operation
// each writes newer versions of 5,000 rows. If they took turns, four would write at the rate of one.
func BenchmarkWriters(b *testing.B) {
	for _, writers := range []int{1, 4} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			const rows = 5000
			url := testpg.New(b)
			flush := make([]func(version int) error, writers)
			for w := range flush {
				flush[w] = newWriter(b, url, w, rows)
				for version := range 2 {
					if err := flush[w](version); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, flush := range flush {
				wg.Go(func() {
					for n := range b.N {
						if err := flush(n + 2); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*writers*rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// newWriter opens a database as a run does, and returns what writes a version of all rows of a writer.
func newWriter(b *testing.B, url string, writer, rows int) func(version int) error {
	db, err := postgres.Open(b.Context(), url, sink.Options{Level: sink.Full, Log: logtest.New(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	folder := newFolder(b, db, "t", versionedBy(fold.ColumnScope))
	f := &sink.Flush{Batches: []*fold.Batch{{}}, Job: fmt.Sprint("job ", writer), Run: "run", Lanes: []sink.Lane{{Source: "feed"}}}
	return func(version int) error {
		f.Batches[0].Reset()
		for n := range rows {
			line := fmt.Appendf(nil, `{"id":%d,"v":%d,"a":"value %[2]d","b":"another %[2]d"}`, writer*rows+n, version)
			if err := folder.Fold(f.Batches[0], line, fold.Place{Line: int64(version*rows + n)}); err != nil {
				return err
			}
		}
		folder.Seal(f.Batches[0])
		f.Lanes[0].Checkpoint.Seq++
		_, err := db.Flush(b.Context(), f)
		return err
	}
}

// BenchmarkVersions has flushes change 20,000 rows of 20 text columns without versions, with those of rows, and with
// those of columns, in turn. Figures are medians of the CPU of the server's process, and of its ratio to that without.
func BenchmarkVersions(b *testing.B) {
	const rows = 20_000
	server := testpg.Start(b, "fsync=on", "shared_buffers=256MB", "max_wal_size=8GB", "checkpoint_timeout=1h", "autovacuum=off")
	names := []string{"none", "rows", "columns"}
	runs := map[string]*versionsRun{}
	for name, change := range map[string][]func(*fold.Options){"none": nil, "rows": {versionedBy(fold.RowScope)}, "columns": {versionedBy(fold.ColumnScope)}} {
		runs[name] = newVersionsRun(b, server.Database(b), change...)
	}
	used, ratios := map[string][]float64{}, map[string][]float64{}
	n := 0
	flush := func(name string) float64 {
		return runs[name].flush(b, rows, n)
	}
	for ; n < 3; n++ { // what is measured is not the first of its kind
		for _, name := range names {
			flush(name)
		}
	}
	for b.Loop() {
		for _, name := range names {
			used[name] = append(used[name], flush(name)/rows)
			ratios[name] = append(ratios[name], used[name][len(used[name])-1]/used["none"][len(used["none"])-1])
		}
		n++
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

// A versionsRun writes newer versions of the same rows again and again.
type versionsRun struct {
	db     *postgres.DB
	pid    int
	folder *fold.Folder
	f      *sink.Flush
}

func newVersionsRun(b *testing.B, url string, change ...func(*fold.Options)) *versionsRun {
	db, err := postgres.Open(b.Context(), url, sink.Options{Level: sink.Full, Log: logtest.New(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	r := &versionsRun{db: db, folder: newFolder(b, db, "t", change...)}
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	if err := conn.QueryRow(b.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'weir%' AND datname = current_database()").Scan(&r.pid); err != nil {
		b.Fatal(err)
	}
	r.f = &sink.Flush{Batches: []*fold.Batch{{}}, Job: "job", Run: "run", Lanes: []sink.Lane{{Source: "feed"}}}
	return r
}

// flush writes a version of some rows and returns the CPU that the server's process took for it, in µs.
func (r *versionsRun) flush(b *testing.B, rows, version int) float64 {
	r.f.Batches[0].Reset()
	for n := range rows {
		line := fmt.Appendf(nil, `{"id":"row %d","v":%d`, n, version)
		for c := range 20 {
			line = fmt.Appendf(line, `,"c%d":"value %d"`, c, version*c)
		}
		if err := r.folder.Fold(r.f.Batches[0], append(line, '}'), fold.Place{Line: int64(version*rows + n)}); err != nil {
			b.Fatal(err)
		}
	}
	r.folder.Seal(r.f.Batches[0])
	r.f.Lanes[0].Checkpoint.Seq++
	cpu := func() (ns float64) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", r.pid)) // 0 where the system has none
		_, _ = fmt.Sscan(string(stat), &ns)
		return ns / 1e3
	}
	was := cpu()
	res, err := r.db.Flush(b.Context(), r.f)
	if err != nil {
		b.Fatal(err)
	}
	if got := res.Total(); version > 0 && got.Updated != int64(rows) {
		b.Fatalf("%+v", got)
	}
	return cpu() - was
}
