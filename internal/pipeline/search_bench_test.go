package pipeline_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// BenchmarkSearch reads a file into a table with a CHECK. all: it rejects 12,000 of 12,000 messages. few: it rejects
// 100 of 20 batches of the other benchmarks, and of-none is the time divided by that of a file without them. The two
// alternate, and the figure is the median.
func BenchmarkSearch(b *testing.B) {
	for driver := range emptyOf {
		b.Run(driver+"/all", func(b *testing.B) {
			path := checkedFeed(b, 12_000, 1)
			for b.Loop() {
				syncChecked(b, driver, path, 12_000)
			}
		})
		b.Run(driver+"/few", func(b *testing.B) {
			n := 20 * benchRows
			some, none := checkedFeed(b, n, n/100), checkedFeed(b, n, n+1)
			var ratios []float64
			for b.Loop() {
				searched := syncChecked(b, driver, some, 100)
				ratios = append(ratios, searched.Seconds()/syncChecked(b, driver, none, 0).Seconds())
			}
			b.ReportMetric(median(ratios), "of-none")
		})
	}
}

// checkedFeed writes messages of which the CHECK rejects one at the end of each interval.
func checkedFeed(b *testing.B, messages, interval int) (path string) {
	var lines bytes.Buffer
	for i := range messages {
		bad := 0
		if (i+1)%interval == 0 {
			bad = 1
		}
		fmt.Fprintf(&lines, `{"id":%d,"bad":%d,"a":"%[1]d","b":"some text"}`+"\n", i, bad)
	}
	path = filepath.Join(b.TempDir(), "feed.jsonl")
	testcheck.NoError(b, os.WriteFile(path, lines.Bytes(), 0o600))
	return path
}

// syncChecked reads a file into a new database, and returns the time that it takes.
func syncChecked(b *testing.B, driver, path string, rejects int64) time.Duration {
	b.StopTimer()
	defer b.StartTimer()
	dest, level := emptyOf[driver](b)
	execSQL(b, dest, "CREATE TABLE t (id INTEGER PRIMARY KEY, bad INTEGER CHECK (bad = 0), a TEXT, b TEXT)")
	db, p := openSink(b, dest, level), status.New("t")
	b.StartTimer()
	start := time.Now()
	c := pipeline.Config{Kind: kindOf(path), Sources: []string{path}, Job: "t", Limits: pipeline.Limits{Buffer: 1 << 30}, Rejects: pipeline.RejectRules{To: pipeline.KeepRejects, Max: 20_000}, Log: logtest.New(b)}
	plainTable(b, &c, mapping.Table{Rules: fold.Rules{MaxColumns: 100}})
	err := pipeline.Run(b.Context(), c, db, nil, p)
	took := time.Since(start)
	b.StopTimer()
	testcheck.NoError(b, err)
	testcheck.NoError(b, db.Close())
	if p.Rejected() != rejects {
		b.Fatalf("%d messages were rejected, want %d", p.Rejected(), rejects)
	}
	return took
}
