package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// TestCountIO_SeesSyncsAndBytes compares the counts with what each level promises.
func TestCountIO_SeesSyncsAndBytes(t *testing.T) {
	const commits = 10
	cost := func(level sink.Level) sqlite.IO {
		sqlite.CountIO()
		db := open(t, filepath.Join(t.TempDir(), "t.db"), sqlite.Options{Options: sink.Options{Level: level}, VFS: sqlite.CountingVFS})
		s := mustSteps(t, db, 1)
		before := sqlite.CountIO()
		s.mustNext(t, commits)
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
