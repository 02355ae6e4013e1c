package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/ladder"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// TestOverwrite_WritesTheSameRowsAtEachSize whatever they cost.
func TestOverwrite_WritesTheSameRowsAtEachSize(t *testing.T) {
	testcheck.Only(t)
	const memory, rows = 512 << 10, 100
	f := func(driver string, runs int, db ladder.Database) {
		t.Helper()
		r, err := Overwrite(t.Context(), OverwriteConfig{Memory: memory, Rows: rows, Runs: runs, Log: discard}, db)
		if err != nil {
			t.Fatalf("%s: %v", driver, err)
		}
		d := &r.Databases[0]
		if len(d.Sizes) != len(sizes) || d.Held || d.Memory != memory {
			t.Fatalf("%s: %+v", driver, d)
		}
		had := 0
		for i := range d.Sizes {
			s := &d.Sizes[i]
			if s.Bytes < int64(sizes[i]*memory) || s.Rows < had || s.Written != rows {
				t.Errorf("%s: %+v", driver, s)
			}
			had = s.Rows + 2*runs*rows // those of its runs
			for _, c := range []ladder.Cost{s.Insert, s.Scattered, s.Overwrite, s.Auto, s.Prefetched} {
				if c.Rate.Median <= 0 || driver == sqlite.Driver.Name && (c.Syncs < 1 || c.Written < rows*overwriteColumns*32) {
					t.Errorf("%s: %+v", driver, c)
				}
			}
		}
		if len(d.Flushes) != 2 || d.Flushes[0].Rows != rows || d.Flushes[1].Rows != largerFlush*rows {
			t.Errorf("%s: %+v", driver, d.Flushes)
		}
		for i := range d.Flushes {
			if f := &d.Flushes[i]; f.Insert.Rate.Median <= 0 || f.Ratio.Median <= 0 || f.PrefetchedRatio.Median <= 0 {
				t.Errorf("%s: %+v", driver, f)
			}
		}
	}
	dir, err := os.MkdirTemp("/tmp", "weir-overwrite-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // the server may be another user's
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := ladder.Open(sqlite.Driver.Name, filepath.Join(dir, "t.db"))
	if err != nil {
		t.Fatal(err)
	}
	f(sqlite.Driver.Name, 2, db)
	testpg.New(t) // or the test is skipped
	if db, err = private(dir, "fsync=off"); err != nil {
		t.Fatal(err)
	}
	f(postgres.Driver.Name, 1, db)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestOverwrite_ComparesWithSharedBuffers where a server runs already.
func TestOverwrite_ComparesWithSharedBuffers(t *testing.T) {
	testcheck.Only(t)
	db, err := ladder.Open(postgres.Driver.Name, testpg.Start(t, "shared_buffers=1200MB").URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Overwrite(t.Context(), OverwriteConfig{Rows: 1, Runs: 1, Log: discard}, db)
	if err == nil || err.Error() != "shared_buffers is 1.3 GB, and the table would grow to 7.5 GB: name less with -memory" {
		t.Error(err)
	}
}
