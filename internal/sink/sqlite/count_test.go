package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// TestCountIO_SeesSyncsAndBytes holds the counts against what each level promises.
func TestCountIO_SeesSyncsAndBytes(t *testing.T) {
	const commits = 10
	cost := func(level sink.Level) sqlite.IO {
		sqlite.CountIO()
		db := open(t, filepath.Join(t.TempDir(), "t.db"), sqlite.Options{Synchronous: level, VFS: sqlite.CountingVFS})
		table, err := sink.Table(t.Context(), db.Tables, "t", []string{"id"})
		if err != nil {
			t.Fatal(err)
		}
		folder := fold.NewFolder(&feed.Names{}, table, fold.Options{Key: []string{"id"}, Columns: fold.AddColumns, MaxColumns: 10, Limits: db.Caps().Limits, Log: logtest.New(t)})
		before := sqlite.CountIO()
		for i := range commits {
			var b fold.Batch
			if err := folder.Fold(&b, fmt.Appendf(nil, `{"id":1,"n":%d}`, i), fold.Place{}); err != nil {
				t.Fatal(err)
			}
			folder.Seal(&b)
			if _, err := db.Flush(t.Context(), &sink.Flush{Batches: []*fold.Batch{&b}, Job: "j", Run: "r", Lanes: lanesAt("s", int64(i+1))}); err != nil {
				t.Fatal(err)
			}
		}
		after := sqlite.CountIO()
		return sqlite.IO{Syncs: after.Syncs - before.Syncs, Written: after.Written - before.Written}
	}
	full, normal, off := cost(sink.Full), cost(sink.Normal), cost(sink.Off)
	if full.Syncs < commits || normal.Syncs >= commits || off.Syncs != 0 {
		t.Errorf("%d commits took %d syncs at full, %d at normal, %d at off", commits, full.Syncs, normal.Syncs, off.Syncs)
	}
	if full.Written < commits*4096 {
		t.Errorf("%d commits wrote %d bytes", commits, full.Written)
	}
}
