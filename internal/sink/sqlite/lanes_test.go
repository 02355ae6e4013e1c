package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// BenchmarkFlush_Lanes is a flush of one row that moves lanes on.
func BenchmarkFlush_Lanes(b *testing.B) {
	for _, lanes := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(lanes), func(b *testing.B) {
			d, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "t.db"), sqlite.Options{Synchronous: sink.Off})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			t, err := sink.Table(b.Context(), d.Tables, "t", []string{"id"})
			if err != nil {
				b.Fatal(err)
			}
			folder := fold.NewFolder(&feed.Names{}, t, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 10, Limits: d.Caps().Limits})
			var batch fold.Batch
			f := &sink.Flush{Batches: []*fold.Batch{&batch}, Job: "job", Run: "run", Lanes: make([]sink.Lane, lanes)}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if err := folder.Fold(&batch, fmt.Appendf(nil, `{"id":1,"n":%d}`, n), fold.Place{}); err != nil {
					b.Fatal(err)
				}
				folder.Seal(&batch)
				for i := range f.Lanes {
					f.Lanes[i] = sink.Lane{Source: fmt.Sprint("source ", i), Checkpoint: sink.Checkpoint{Seq: int64(n), Line: int64(n), Settings: `{"key":"id"}`}}
				}
				if _, err := d.Flush(b.Context(), f); err != nil {
					b.Fatal(err)
				}
				batch.Reset()
			}
		})
	}
}

// BenchmarkClaims_Take is lanes that are taken and dropped.
func BenchmarkClaims_Take(b *testing.B) {
	for _, lanes := range []int{1, 100, 3000} {
		b.Run(fmt.Sprint(lanes), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "t.db")
			d, err := sqlite.Open(b.Context(), path, sqlite.Options{Synchronous: sink.Off})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			f := &sink.Flush{Batches: []*fold.Batch{{}}, Job: "job", Run: "run", Lanes: make([]sink.Lane, lanes)}
			names := make([]string, lanes)
			for i := range f.Lanes {
				names[i] = fmt.Sprint("source ", i)
				f.Lanes[i] = sink.Lane{Source: names[i], Checkpoint: sink.Checkpoint{Seq: 1}}
			}
			if _, err := d.Flush(b.Context(), f); err != nil {
				b.Fatal(err)
			}
			c, err := sqlite.OpenClaims(b.Context(), path, "job", sqlite.Options{Synchronous: sink.Off})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			for b.Loop() {
				if _, err := c.Take(b.Context(), names...); err != nil {
					b.Fatal(err)
				}
				if err := c.Drop(b.Context(), names...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
