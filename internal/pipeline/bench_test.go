package pipeline_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/bench"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/pipeline"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

const benchRows = 50_000

// BenchmarkFlush writes batches of 50,000 rows of 38 text columns.
func BenchmarkFlush(b *testing.B) {
	batch := func(seed uint64) *fold.Batch {
		var feed bytes.Buffer
		if err := bench.Distinct(&feed, benchRows, seed); err != nil {
			b.Fatal(err)
		}
		f := fold.NewFolder(schema.Table{Name: "t", FoldCase: true, Untyped: true}, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 100, Warn: b.Logf})
		batch := &fold.Batch{}
		for line := range bytes.Lines(feed.Bytes()) {
			if err := f.Fold(batch, line, fold.Place{}); err != nil {
				b.Fatal(err)
			}
		}
		f.Seal(batch)
		return batch
	}
	batches := [2]*fold.Batch{batch(1), batch(2)}
	for _, kind := range []string{"insert", "update", "unchanged"} {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				b.StopTimer()
				db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "t.db"), sqlite.Options{Synchronous: sqlite.Normal, Warn: b.Logf})
				if err != nil {
					b.Fatal(err)
				}
				flush := func(f *fold.Batch, seq int64) sink.Result {
					res, err := db.Flush(b.Context(), &sink.Flush{Batch: f, Job: "j", Run: "r", Checkpoint: sink.Checkpoint{Seq: seq}})
					if err != nil {
						b.Fatal(err)
					}
					return res
				}
				if _, err := db.Table(b.Context(), "t", []string{"id"}); err != nil {
					b.Fatal(err)
				}
				next, seq := batches[0], int64(1)
				if kind != "insert" {
					flush(batches[0], 1)
					seq = 2
				}
				if kind == "update" {
					next = batches[1]
				}
				b.StartTimer()
				res := flush(next, seq)
				b.StopTimer()
				if got := map[string]int64{"insert": res.Inserted, "update": res.Updated, "unchanged": res.Unchanged}[kind]; got != benchRows {
					b.Fatalf("%+v", res)
				}
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
				n += benchRows
				b.StartTimer()
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkSync is the whole way of a file into a new database.
func BenchmarkSync(b *testing.B) {
	const messages = 200_000
	for name, write := range map[string]func(io.Writer) error{
		"hot":      func(w io.Writer) error { return bench.Hot(w, messages, messages/20, 1) },
		"distinct": func(w io.Writer) error { return bench.Distinct(w, messages, 1) },
	} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "feed.jsonl")
			f, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			if err := write(f); err != nil {
				b.Fatal(err)
			}
			size, _ := f.Seek(0, io.SeekCurrent)
			f.Close()
			b.SetBytes(size)
			i := 0
			for b.Loop() {
				i++
				db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), fmt.Sprint(i, ".db")), sqlite.Options{Synchronous: sqlite.Normal, Warn: b.Logf})
				if err != nil {
					b.Fatal(err)
				}
				rejects, _ := pipeline.ParseRejects("fail")
				err = pipeline.Run(b.Context(), pipeline.Config{Sources: []string{path}, Table: "t", BatchRows: 100_000, Buffer: 256 << 20, Rejects: rejects,
					Fold: fold.Options{Key: []string{"id"}, MaxColumns: 100}, Warn: b.Logf, Info: func(string, ...any) {}}, db, pipeline.NewProgress())
				if err != nil {
					b.Fatal(err)
				}
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(i)*messages/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
