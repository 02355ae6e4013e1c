package ladder

import (
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestSQLiteUsage_SeesSyncsAndBytes compares the counts with what each level promises.
func TestSQLiteUsage_SeesSyncsAndBytes(t *testing.T) {
	const commits = 10
	cost := func(level sink.Level) Usage {
		db, err := OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "t.db"), level)
		testcheck.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "CREATE TABLE t (id integer)")
		testcheck.NoError(t, err)
		before := SQLiteUsage()
		for range commits {
			_, err = db.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
			testcheck.NoError(t, err)
		}
		after := SQLiteUsage()
		testcheck.NoError(t, db.Close())
		return Usage{Syncs: after.Syncs - before.Syncs, Written: after.Written - before.Written}
	}
	full, normal, off := cost(sink.Full), cost(sink.Normal), cost(sink.Off)
	if full.Syncs < commits || normal.Syncs >= commits || off.Syncs != 0 {
		t.Errorf("%d commits took %d syncs at full, %d at normal, %d at off", commits, full.Syncs, normal.Syncs, off.Syncs)
	}
	if full.Written < commits*4096 {
		t.Errorf("%d commits wrote %d bytes", commits, full.Written)
	}
}
