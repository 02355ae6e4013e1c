package postgres_test

import (
	"fmt"
	"sync"
	"testing"

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
